"""Python that compiles, checked line by line: a prefix is accepted while `codeop` could still complete it."""

import ast
import codeop

import constrained
from constrained.grammars.notation import library


def could_go_on(code: str) -> bool:
    """Whether the finished lines are valid so far; the grammar checks the last one."""
    lines, _, _ = code.rpartition("\n")
    try:
        codeop.compile_command(lines, symbol="exec")
    except (SyntaxError, ValueError, OverflowError):
        return False
    return True


def compiles(code: str) -> bool:
    """Whether Python compiles it: `return` stands in a function, and no target is a constant."""
    try:
        compile(code, "<generated>", "exec")
    except (SyntaxError, ValueError, OverflowError):
        return False
    return True


lines = constrained.ebnf(library.text("python"))
checked = lines & constrained.predicate(prefix_ok=could_go_on, complete_ok=compiles)
generator = constrained.Generator(constrained.load(), checked)
for seed in range(4):
    output = generator("Some lines of Python:\n", temperature=1.5, seed=seed, max_tokens=24)
    print(repr(output.text), len(ast.parse(output.text).body), "statements")
