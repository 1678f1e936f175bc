"""The grammar of the substrings of a document.

A suffix automaton (Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text") has at most two
states per character and determines which characters may follow a prefix. Its states become rules; a state
that is entered once is inlined into the rule that leads to it.
"""

from __future__ import annotations

from grammars import ir
from grammars.errors import ConstraintTooLarge, InvalidConstraint, Problem, UnsatisfiableConstraint

MAX_DOCUMENT_LENGTH = 50_000
"""Characters: a document is compiled in well under 100 microseconds per character."""

_DEPTH = 500  # nesting of the expression of one rule
_SHORT = 4 * MAX_DOCUMENT_LENGTH  # states that are distinguished by the length read so far


def substring_grammar(text: str, *, min_length: int = 1) -> ir.Grammar:
    """The grammar of the substrings of a document; they start and end at any character.

    Args:
        text: the document, up to `MAX_DOCUMENT_LENGTH` characters.
        min_length: characters of the shortest substring; 0 allows the empty string.

    Raises:
        InvalidConstraint: the document is not valid Unicode, or the length is negative.
        UnsatisfiableConstraint: the document is shorter than `min_length`.
        ConstraintTooLarge: the document is too long, or `min_length` is too large for its length.
    """
    if len(text) > MAX_DOCUMENT_LENGTH:
        raise ConstraintTooLarge(
            "the document is too long for a substring grammar",
            Problem("document", f"has {len(text)} characters; at most {MAX_DOCUMENT_LENGTH} can be compiled"),
            action="pass the passages that matter",
        )
    if min_length < 0:
        raise InvalidConstraint(f"min_length is {min_length}", action="use min_length=0 or more")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidConstraint(
            "the document is not valid Unicode text", Problem(f"character {error.start}", error.reason)
        ) from None
    if len(text) < min_length:
        raise UnsatisfiableConstraint(
            "the document has no substring of min_length characters",
            Problem("document", f"has {len(text)} characters; min_length is {min_length}"),
        )
    return _SuffixAutomatonRules(*_suffix_automaton(text)).grammar(min_length)


def _suffix_automaton(text: str) -> tuple[list[dict[str, int]], list[int]]:
    """By state: the next states by character, and the length of its longest string."""
    edges: list[dict[str, int]] = [{}]
    link, longest, last = [-1], [0], 0
    for character in text:
        state = len(edges)
        edges.append({})
        link.append(0)
        longest.append(longest[last] + 1)
        at = last
        while at >= 0 and character not in edges[at]:
            edges[at][character] = state
            at = link[at]
        if at >= 0:
            target = edges[at][character]
            if longest[at] + 1 != longest[target]:  # some of its strings occur in more places than others
                copy = len(edges)
                edges.append(dict(edges[target]))
                link.append(link[target])
                longest.append(longest[at] + 1)
                link[target] = copy
                while at >= 0 and edges[at].get(character) == target:
                    edges[at][character] = copy
                    at = link[at]
                target = copy
            link[state] = target
        last = state
    return edges, longest


class _SuffixAutomatonRules:
    """Rules for the states of a suffix automaton."""

    def __init__(self, edges: list[dict[str, int]], longest: list[int]) -> None:
        self.edges = edges
        self.order = sorted(range(len(edges)), key=longest.__getitem__)
        self.terminals = {character: ir.terminal(character) for one in edges for character in one}
        self.rules: dict[str, ir.Expr] = {}
        self.after: list[ir.Expr] = [ir.EPSILON] * len(edges)  # by state: what may follow, or epsilon

    def grammar(self, least: int) -> ir.Grammar:
        self.write()
        if least > 0:
            self.write_short(least)
        rules = dict(
            reversed(self.rules.items())
        )  # callers before callees: the core settles lengths backwards
        return ir.Grammar(rules, "0" if least == 0 else "0, 0")

    def write(self) -> None:
        """States of strings that are long enough: all states, with a rule for each that is entered often."""
        entered = [0] * len(self.edges)
        for one in self.edges:
            for target in one.values():
                entered[target] += 1
        depth = [0] * len(self.edges)
        for state in reversed(self.order):
            edges = self.edges[state]
            steps = [self.step(character, target) for character, target in edges.items()]
            body = ir.loop(ir.choice(*steps), 0, 1)
            depth[state] = 1 + max((depth[target] for target in edges.values()), default=0)
            if state == 0 or (edges and (entered[state] > 1 or depth[state] > _DEPTH)):
                self.rules[str(state)] = body
                body = ir.Call(str(state))
                depth[state] = 0
            self.after[state] = body

    def step(self, character: str, target: int) -> ir.Expr:
        terminal, after = self.terminals[character], self.after[target]
        return terminal if after is ir.EPSILON else ir.Sequence((terminal, after))

    def write_short(self, least: int) -> None:
        """States of strings that are too short to end, distinguished by the length read so far."""
        states = {(0, 0): None}
        bodies: dict[str, ir.Expr] = {}
        for state, length in (queue := [(0, 0)]):
            steps: list[ir.Expr] = []
            for character, target in self.edges[state].items():
                read, at = [character], target
                while length + len(read) < least and len(self.edges[at]) == 1:  # no choice: read on
                    ((following, at),) = self.edges[at].items()
                    read.append(following)
                if length + len(read) >= least:
                    terminal = self.terminals[character] if len(read) == 1 else ir.terminal("".join(read))
                    steps.append(ir.sequence(terminal, self.after[at]))
                elif self.edges[at]:
                    key = (at, length + len(read))
                    if key not in states:
                        states[key] = None
                        queue.append(key)
                    steps.append(ir.Sequence((ir.terminal("".join(read)), ir.Call(f"{key[0]}, {key[1]}"))))
            bodies[f"{state}, {length}"] = ir.choice(*steps)
            if len(queue) > _SHORT:
                raise ConstraintTooLarge(
                    "the document has too many substrings to count their characters",
                    Problem("min_length", f"{least}, for a document of this size"),
                    action="lower min_length, or shorten the document",
                )
        self.rules.update(reversed(bodies.items()))
