"""Reads Lark grammars with Lark's own loader (`lark.load_grammar`), and tells where in the text its errors are.

Lark's loader parses the text, imports files, merges ``%extend`` and ``%override`` and renames what is imported. Rules are
taken as it leaves them, before brackets and counts become more rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from lark import Token
from lark.exceptions import GrammarError, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.grammar import NonTerminal, Symbol, Terminal
from lark.lexer import TerminalDef
from lark.load_grammar import Definition, GrammarBuilder, PrepareAnonTerminals
from lark.load_grammar import _get_parser as lark_parser
from lark.tree import SlottedTree
from lark.visitors import Transformer_InPlace

from constrained.grammars.errors import ConstrainedError
from constrained.grammars.notation.lark.additions import without_additions
from constrained.grammars.notation.lark.definitions import LarkDefinitions, Node, RuleDefinition, subtrees
from constrained.grammars.notation.lark.patterns import TerminalPatterns, literal_pattern, range_pattern
from constrained.grammars.notation.source import MAX_NESTING

MAX_PRIORITY = 1_000_000_000
"""Greatest absolute priority of a terminal."""

_ITEM = {"RULE", "TERMINAL", "STRING", "REGEXP", "_LPAR", "_LBRA"}
_SHOWN = {
    "item": "a name, a literal or an opening bracket",
    "_LPAR": "(",
    "_RPAR": ")",
    "_LBRA": "[",
    "_RBRA": "]",
    "_LBRACE": "{",
    "_RBRACE": "}",
    "OP": "? * +",
    "TILDE": "~",
    "_COLON": ":",
    "_COMMA": ",",
    "_OR": "|",
    "_NL_OR": "|",
    "_DOT": ".",
    "_DOTDOT": "..",
    "_TO": "->",
    "RULE": "the name of a rule",
    "TERMINAL": "the name of a terminal",
    "STRING": "a string",
    "REGEXP": "a regular expression",
    "NUMBER": "a number",
    "_NL": "the end of the line",
    "$END": "the end of the text",
    **dict.fromkeys(("_IGNORE", "_IMPORT", "_DECLARE", "_OVERRIDE", "_EXTEND"), "a statement"),
}
"""What is expected where Lark's parser can take a token."""
_BRACKETS = {"_LPAR": "parenthesis", "_LBRA": "bracket", "_LBRACE": "brace"}
_NESTED = re.compile(
    r"""
    " (?: \\. | [^"\\\n] )* "
  | / (?!/) (?: \\. | [^/\\] )* /
  | (?: // | \# ) [^\n]*
  | (?P<open> [(\[{] )
  | (?P<closed> [)\]}] )
    """,
    re.VERBOSE | re.DOTALL,
)
_STATEMENT = re.compile(r"%\w*")
_ATTRIBUTES = re.compile(r"\[[^\]\n]*\]\s*:")
_WORD = re.compile(r"\w+\Z")


def load(text: str, import_paths: Sequence[Any] = ()) -> LarkDefinitions:
    """Reads a grammar.

    Args:
        text: the grammar.
        import_paths: folders, or loaders as `lark.Lark` takes them, that ``%import`` searches before Lark's library.

    Raises:
        InvalidConstraint: malformed, or something is undefined or defined twice; with line, column and a caret.
        UnsupportedConstraint: a construct that cannot be enforced.
        ConstraintTooLarge: the text or a terminal is too large.
    """
    return _Builder(LarkDefinitions(without_additions(text)), import_paths).definitions()


def imported_files(text: str, import_paths: Sequence[Any]) -> list[str]:
    """Hashes of the files that a grammar imports; none if it cannot be read."""
    try:
        builder = _Builder(LarkDefinitions(without_additions(text)), import_paths)
        builder.definitions()
    except ConstrainedError:
        return []
    return sorted(builder.used_files.values())


class _NamesWithPlaces(Transformer_InPlace[Any, Any]):
    """Turns names into symbols, as Lark does, and keeps their tokens."""

    def terminal(self, parts: list[Token]) -> Terminal:
        return Terminal(parts[0], filter_out=parts[0].startswith("_"))

    def nonterminal(self, parts: list[Token]) -> NonTerminal:
        return NonTerminal(parts[0])


class _Builder(GrammarBuilder):
    """Lark's builder, which raises errors with places and leaves terminals as they are written."""

    def __init__(self, definitions: LarkDefinitions, import_paths: Sequence[Any]) -> None:
        super().__init__(False, list(import_paths))
        self.result = definitions

    def definitions(self) -> LarkDefinitions:
        """Reads the text, and checks what it defines."""
        definitions = self.result
        self._read()
        trees: dict[str, Node] = {}
        priorities: dict[str, int] = {}
        for name, definition in self._definitions.items():
            if not definition.is_term:
                definitions.rules[str(name)] = RuleDefinition(definition.tree, definition.params)
            elif definition.tree is None:
                definitions.declared.add(str(name))
            else:
                trees[str(name)], priorities[str(name)] = definition.tree, definition.options
        for name, definition in self._definitions.items():
            if definition.tree is not None:
                self._check(str(name), definition)
        definitions.ignored = [str(name) for name in self._ignore_names]
        for name in definitions.ignored:
            if name in definitions.declared:
                definitions.refuse(
                    f"the terminal {name} is declared without a pattern", definitions.place(name)
                )
            if name not in trees:
                definitions.fail(f"terminal {name} is undefined", definitions.place(name))
        for name, lazy in definitions.plain.lazy.items():
            definitions.literals[name] = lazy.rule
            if lazy.ending is not None:
                definitions.literals[lazy.ending] = f"the ending of {lazy.rule}"
            definitions.places[name] = definitions.place(lazy.rule)
        for name, structured in definitions.plain.structured.items():
            definitions.literals[name] = "%regex"
            definitions.places[name] = structured.at
        patterns = TerminalPatterns(definitions, trees)
        definitions.terminals = [
            TerminalDef(name, patterns.pattern(name), priorities[name]) for name in trees
        ]
        anonymous = PrepareAnonTerminals(definitions.terminals)
        for templates in (False, True):  # in Lark's order, which decides the names
            for name, rule in definitions.rules.items():
                if rule.tree is not None and bool(rule.parameters) is templates:
                    _name_literals(definitions, name, rule.tree, anonymous)
        return definitions

    def _read(self) -> None:
        """What `GrammarBuilder.load_grammar` does with a text."""
        tree: Node = _NamesWithPlaces().transform(self._parsed())
        self._import([statement for statement in tree.children if statement.data == "import"])
        for statement in tree.children:
            with _located(self.result, statement):
                self._execute(statement)

    def _execute(self, statement: Node) -> None:
        kind = statement.data
        if kind in ("rule", "term"):
            self._note(statement, first=True)
            self._define(*self._unpack_definition(statement, None))
        elif kind in ("override", "extend"):
            (changed,) = statement.children
            self._note(changed, first=False)
            if kind == "override":
                self._define(*self._unpack_definition(changed, None), override=True)
            else:
                self._extend(*self._unpack_definition(changed, None))
        elif kind == "ignore":
            self._ignore(*statement.children)
            self.result.places.setdefault(str(self._ignore_names[-1]), _start(self.result, statement))
        elif kind == "declare":
            for symbol in statement.children:
                self._define(symbol.name, isinstance(symbol, Terminal), None)
                self.result.places[str(symbol.name)] = self._place(symbol.name)

    def _note(self, statement: Node, *, first: bool) -> None:
        """Notes the place of a definition; refuses a second one."""
        name = statement.children[1 if statement.data == "rule" else 0]
        if first and name in self._definitions:
            before = self.result.plain.source.problem("", self.result.place(name)).place
            self.result.fail(f"{name} is defined before, at {before}", self._place(name))
        priorities = [
            part for node in subtrees(statement) if node.data == "priority" for part in node.children
        ]
        priorities += [part for part in statement.children[1:2] if statement.data == "term"]
        for number in priorities:
            if isinstance(number, Token) and abs(int(number[:20])) > MAX_PRIORITY:
                self.result.fail(f"a priority is at most {MAX_PRIORITY}", self._place(number))
        self.result.places[str(name)] = self._place(name)

    def _place(self, token: Token) -> int:
        return self.result.plain.original(token.start_pos or 0)

    # ------------------------------------------------------------ imports

    def _import(self, statements: list[Node]) -> None:
        """Imports each file once, with all names that are imported from it."""
        files: dict[tuple[str, ...], tuple[dict[str, str], list[Node]]] = {}
        for statement in statements:
            with _located(self.result, statement):
                path, _, names = self._unpack_import(statement, "")
                imported, places = files.setdefault(tuple(map(str, path)), ({}, []))
                imported.update(names)
                places.append(statement)
        for path, (names, places) in files.items():
            with _located(self.result, places[0], f"{'/'.join(path)}.lark: "):
                # Relative paths are searched in import_paths as well: a text has no folder.
                self.do_import(path, None, names)
            for name in self._definitions:
                self.result.places.setdefault(str(name), _start(self.result, places[0]))
            for name, target in names.items():
                if target not in self._definitions:
                    tokens = (token for statement in places for token in _tokens(statement))
                    token = next(token for token in tokens if token == name)
                    self.result.fail(f"{'.'.join(path)} has no {name}", self._place(token))

    # ------------------------------------------------------------ names

    def _check(self, name: str, definition: Definition) -> None:
        """Refuses names that are not defined, and a wrong number of arguments."""
        definitions = self.result
        for index, parameter in enumerate(definition.params):
            if parameter in self._definitions or parameter in definition.params[:index]:
                definitions.fail(
                    f"the parameter {parameter} of {name} is the name of something else",
                    definitions.place(name),
                )
        nodes = subtrees(definition.tree)
        arguments = {
            id(part) for node in nodes if node.data == "template_usage" for part in node.children[1:]
        }
        for node in nodes:
            if node.data == "template_usage" or (node.data == "value" and id(node) not in arguments):
                self._check_arguments(name, definition, node)
            for symbol in node.children[: 1 if node.data == "alias" else None]:
                if not isinstance(symbol, Symbol) or symbol.name in self._definitions:
                    continue
                if symbol.name not in definition.params:
                    kind = "terminal" if isinstance(symbol, Terminal) else "rule"
                    definitions.fail(f"{kind} {symbol.name} is undefined", definitions.place_of(symbol, name))

    def _check_arguments(self, name: str, definition: Definition, node: Node) -> None:
        used, *arguments = node.children
        if not isinstance(used, NonTerminal) or used.name in definition.params:
            return
        at = self.result.place_of(used, name)
        if used.name not in self.result.rules:
            kind = "template" if arguments else "rule"
            self.result.fail(f"{kind} {used.name} is undefined", at)
        parameters = self.result.rules[used.name].parameters
        if len(parameters) != len(arguments):
            self.result.fail(f"{used.name} takes other arguments: {', '.join(parameters) or 'none'}", at)

    # ------------------------------------------------------------ syntax

    def _parsed(self) -> Node:
        text = self.result.plain.text + "\n"
        self._check_nesting(text)
        try:
            tree: Node = lark_parser().parse(text, "start")
        except UnexpectedInput as error:
            self._explain(error, text)
        return tree

    def _check_nesting(self, text: str) -> None:
        depth = 0
        for found in _NESTED.finditer(text):
            if found["open"]:
                depth += 1
                if depth > MAX_NESTING:
                    self.result.plain.source.too_deep(self.result.plain.original(found.start()))
            elif found["closed"]:
                depth -= 1

    def _explain(self, error: UnexpectedInput, text: str) -> NoReturn:
        """Raises the error of a text that Lark cannot parse, with what was expected."""
        definitions = self.result
        position = len(text) if error.pos_in_stream is None else error.pos_in_stream
        at = definitions.plain.original(position)
        if isinstance(error, UnexpectedCharacters):
            statement = _STATEMENT.match(text, position)
            definitions.fail(
                f"unknown statement {statement.group()}" if statement else "unexpected character", at
            )
        if not isinstance(error, UnexpectedToken):
            definitions.fail("unexpected end of the text", at)
        token, parser = error.token, error.interactive_parser
        if token.type in ("RULE", "TERMINAL") and (word := _WORD.search(text, 0, position)):
            definitions.fail(
                "names are all in small letters (rules) or all in capitals (terminals)",
                definitions.plain.original(word.start()),
            )
        if token.type == "_LBRA" and _ATTRIBUTES.match(text, position):
            definitions.fail("attributes of a rule stand before its colon, at the start of a line", at)
        values = parser.parser_state.value_stack
        opened = next(
            (part for part in reversed(values) if isinstance(part, Token) and part.type in _BRACKETS), None
        )
        if token.type in ("_RPAR", "_RBRA", "_RBRACE"):
            definitions.fail(
                f"unmatched {token}" if opened is None else f"unmatched {token}: {opened} is open", at
            )
        accepted = parser.accepts()
        if opened is not None and token.type in ("_NL", "$END"):
            definitions.fail(f"the {_BRACKETS[opened.type]} is never closed", self._place(opened))
        if token.type in ("OP", "TILDE") and "STRING" in accepted:
            definitions.fail("nothing stands before this that could be repeated", at)
        if accepted >= _ITEM:
            accepted = {"item", *accepted} - _ITEM
        expected = ", ".join(dict.fromkeys(shown for name, shown in _SHOWN.items() if name in accepted))
        token_text = _SHOWN[token.type] if token.type in ("_NL", "$END") else str(token).strip()
        definitions.fail(f"unexpected {token_text}; expected: {expected}", at)


def _name_literals(
    definitions: LarkDefinitions, name: str, tree: Node, anonymous: PrepareAnonTerminals
) -> None:
    """Replaces the literals in a rule by terminals, under the names that Lark gives them."""
    for node in subtrees(tree):
        part = node.children[0] if node.data == "value" else None
        kind = getattr(part, "data", None)
        if part is None or kind not in ("literal", "range"):
            continue
        if definitions.plain.llguidance and part.children == ['""']:
            node.data, node.children = "expansion", []  # as llguidance writes an empty alternative
            continue
        at = definitions.place_of(part.children[0], name)
        pattern = (
            literal_pattern(definitions, part.children[0], name)
            if kind == "literal"
            else range_pattern(definitions, part, name)
        )
        terminal = anonymous.transform(SlottedTree("pattern", [pattern]))
        if terminal.name not in definitions.places:
            definitions.places[terminal.name] = at
            definitions.literals[terminal.name] = pattern.raw or pattern.value
        node.children = [terminal]


def _tokens(statement: Node) -> Iterator[Token]:
    for node in subtrees(statement):
        for part in node.children:
            name = part.name if isinstance(part, Symbol) else part
            if isinstance(name, Token):
                yield name


def _start(definitions: LarkDefinitions, statement: Node) -> int:
    starts = [token.start_pos for token in _tokens(statement) if token.start_pos is not None]
    return definitions.plain.original(min(starts)) if starts else 0


@contextmanager
def _located(definitions: LarkDefinitions, statement: Node, file: str = "") -> Iterator[None]:
    """Gives the errors of Lark's loader the place of a statement, and the name of the file that it imports."""
    try:
        yield
    except FileNotFoundError as error:
        definitions.fail(
            f"grammar {error.filename} was not found",
            _start(definitions, statement),
            "name its folder in import_paths",
        )
    except (GrammarError, UnexpectedInput) as error:
        reason = (str(error).splitlines() or ["malformed"])[0]
        definitions.fail(file + reason[0].lower() + reason[1:].rstrip(": "), _start(definitions, statement))
    except RecursionError:
        definitions.fail(f"{file}nested too deeply", _start(definitions, statement))
