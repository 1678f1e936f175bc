"""Terminals of a Lark grammar: which texts they match, and which of them a lexer prefers.

As in Lark, a terminal that is put together of others is one regular expression, put together as text; so look-behind
in one piece sees the piece before it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from grammars import ir
from grammars.errors import ConstrainedError, ConstraintTooLarge, InvalidConstraint, UnsupportedConstraint
from grammars.notation.lark import source as src
from grammars.notation.reader import Reader
from grammars.regex import analysis
from grammars.regex import ast as rx
from grammars.regex.lookaround import lower_to_regex
from grammars.regex.syntax import RegexParser
from grammars.visit import fold

_LONGEST = 200_000
"""Characters of the regular expression that a terminal may come to."""
_TRIED = 20_000
_TRIED_LENGTH = 9
"""Texts on which a lazy regular expression is tried, and their length."""
_LAZY = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|([*+?}]\?)", re.DOTALL)
_SPELLED = re.compile(r"\\(.)|([^\\()\[\]{}?*+|.^$])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A regular expression as Lark would write it.

    Attributes:
        value: without the flags that hold for all of it.
        literal: whether it is a plain string.
        flags: that hold for all of it.
    """

    value: str
    literal: bool = False
    flags: str = ""

    @property
    def pattern(self) -> str:
        text = re.escape(self.value) if self.literal else self.value
        for flag in self.flags:
            text = f"(?{flag}:{text}\n)" if flag == "x" else f"(?{flag}:{text})"
        return text


@dataclass(frozen=True, slots=True, eq=False)
class Terminal:
    """A terminal that rules use, or that is ignored.

    Attributes:
        name: its own, or the literal as it would be written.
        regex: its texts; an object that no other terminal has.
        priority: of the lexer.
        literal: its text if it is a string.
        flags: those that hold for all of it.
        order: ascending by how much it can match, the length of its pattern, and its name; the most comes first.
        at: its place.
    """

    name: str
    regex: ir.Regex
    priority: int
    literal: str | None
    flags: str
    order: tuple[float, int, str]
    at: int


class Terminals:
    """The terminals of a grammar, made when they are first asked for."""

    def __init__(self, source: src.Source, reader: Reader) -> None:
        self.source = source
        self.reader = reader
        self.made: dict[tuple[str, bool, str], Terminal] = {}
        self.known: dict[src.Node, _Piece] = {}
        self.named: dict[str, _Piece] = {}
        self.by_piece: dict[_Piece, str] | None = None

    def terminal(self, node: src.Node) -> Terminal:
        """The terminal of a name, a literal, or whatever stands after ``%ignore``.

        Raises:
            InvalidConstraint: undefined, circular, or malformed.
            UnsupportedConstraint: a regular expression that cannot be enforced.
        """
        piece = self.piece(node)
        if isinstance(node, src.Name):
            return self.finished(node.name, piece, self.source.terminals[node.name].at)
        if self.by_piece is None:
            self.by_piece = {
                self.piece(src.Name(made.at, name)): name
                for name, made in self.source.terminals.items()
                if not name.startswith("common.")
            }
        name = self.by_piece.get(piece, "")
        return self.finished(name, piece, node.at)

    def finished(self, name: str, piece: _Piece, at: int) -> Terminal:
        """The terminal of a piece; literals that are written alike are one."""
        shown = name or (
            f'"{piece.value}"{piece.flags}' if piece.literal else f"/{piece.value}/{piece.flags}"
        )
        key = (name or piece.value, bool(name) or piece.literal, "" if name else piece.flags)
        if key not in self.made:
            regex = self.regex(piece, shown, at)
            width = analysis.widths(regex)[1]
            order = (float("-inf") if width is None else -width, -len(piece.value), shown)
            if _lazy(piece.pattern):
                regex = self.shortest(regex, piece, shown, at)
            priority = self.source.terminals[name].priority if name else 0
            literal = piece.value if piece.literal else None
            self.made[key] = Terminal(shown, ir.Concat((regex,)), priority, literal, piece.flags, order, at)
        return self.made[key]

    # ------------------------------------------------------------ texts

    def piece(self, node: src.Node) -> _Piece:
        """The regular expression that a node comes to; the terminals that it names first."""
        open_names: list[str] = []
        while True:
            missing = self.missing(node if not open_names else self.defined(open_names[-1], node.at).body)
            if missing is None:
                if not open_names:
                    return fold(node, src.parts_of, self.joined, self.known)
                name = open_names.pop()
                self.named[name] = fold(
                    self.source.terminals[name].body, src.parts_of, self.joined, self.known
                )
            elif missing.name in open_names:
                self.reader.fail(f"the terminal {missing.name} is made of itself", missing.at)
            else:
                self.defined(missing.name, missing.at)
                open_names.append(missing.name)

    def defined(self, name: str, at: int) -> src.Definition:
        """The definition of a terminal that is named somewhere."""
        if name not in self.source.terminals:
            self.reader.fail(f"there is no terminal {name}", at)
        return self.source.terminals[name]

    def missing(self, root: src.Node) -> src.Name | None:
        """A terminal inside a node whose piece is not known yet."""
        stack = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, src.Name) and node.terminal and node.name not in self.named:
                return node
            stack.extend(reversed(src.parts_of(node)))
        return None

    def joined(self, node: src.Node, known: dict[src.Node, _Piece]) -> _Piece:
        """The piece of a node, after those of its parts."""
        if isinstance(node, src.Text):
            return _Piece(node.text, literal=True, flags=node.flags)
        if isinstance(node, src.Pattern):
            if "l" in node.flags:
                self.reader.refuse("the flag l depends on the locale of a machine", node.at)
            return _Piece(node.pattern, flags="".join(sorted(set(node.flags) - {"u"})))
        if isinstance(node, src.Range):
            return _Piece(f"[{_in_class(node.low)}-{_in_class(node.high)}]")
        if isinstance(node, src.Name):
            if not node.terminal:
                self.reader.fail(f"a terminal cannot be made of the rule {node.name}", node.at)
            return self.named[node.name]
        parts = [known[part] for part in src.parts_of(node)]
        if isinstance(node, src.Sequence):
            if len(parts) == 1:
                return parts[0]
            made = _Piece("".join(part.pattern for part in parts))
        elif isinstance(node, src.Choice):
            made = _Piece(f"(?:{'|'.join(part.pattern for part in parts)})")
        elif isinstance(node, src.Loop):
            count = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((node.low, node.high))
            made = _Piece(f"(?:{parts[0].pattern}){count or f'{{{node.low},{node.high}}}'}")
        else:
            self.reader.fail(
                "terminals are made of literals, regular expressions and terminals only", node.at
            )
        if len(made.value) > _LONGEST:
            raise ConstraintTooLarge(
                "a terminal of the Lark grammar is too large",
                self.reader.problem(f"comes to more than {_LONGEST} characters", node.at),
            )
        return made

    # ------------------------------------------------------------ languages

    def regex(self, piece: _Piece, name: str, at: int) -> ir.Regex:
        """The texts that a piece matches."""
        if piece.literal and not piece.flags:
            return ir.literal(piece.value)
        try:
            node = RegexParser(piece.pattern, "python", "").parse()
            if _looks_out(node, last=True) or _looks_out(node, last=False):
                self.reader.refuse(
                    f"the terminal {name} looks at what stands before or after it",
                    at,
                    action="let terminals match what they are, and rules say what follows what",
                )
            return lower_to_regex(node, piece.pattern, search=False)
        except ConstrainedError as error:
            if isinstance(error, UnsupportedConstraint) and "Lark" in error.summary:
                raise
            place = self.reader.problem(f"the terminal {name} has a bad regular expression", at)
            raise type(error)(error.summary, (place, *error.problems), action=error.action) from None

    def shortest(self, regex: ir.Regex, piece: _Piece, name: str, at: int) -> ir.Regex:
        """The texts of a lazy regular expression: those that do not begin with another one.

        That is what a lazy loop up to an end marker means. Whether it is what the order of matching gives for this
        expression is tried out.
        """
        compiled = re.compile(piece.pattern)
        spelled = dict.fromkeys(found[1] or found[2] for found in _SPELLED.finditer(piece.value))
        letters = [*list(spelled)[:5], "a"]
        tried = 0
        for length in range(1, _TRIED_LENGTH):
            tried += len(letters) ** length
            if tried > _TRIED:
                break
            for text in map("".join, itertools.product(letters, repeat=length)):
                found = compiled.match(text)
                if found and any(compiled.fullmatch(text, 0, end) for end in range(found.end())):
                    self.reader.refuse(
                        f"the terminal {name} is lazy and yet does not match as little as it can: {text!r}",
                        at,
                        action=r'say what may stand inside, as in /"([^"\\]|\\.)*"/',
                    )
        return ir.difference(regex, ir.concat(regex, ir.repeat(ir.ANY_CHAR, 1)))

    def check_not_empty(self, terminal: Terminal) -> None:
        """Refuses a terminal that a lexer cannot use."""
        if analysis.nullable(terminal.regex):
            raise InvalidConstraint(
                "the Lark grammar is malformed",
                self.reader.problem(f"the terminal {terminal.name} matches the empty text", terminal.at),
                action="let it match something, and make it optional where rules use it",
            )


def _lazy(pattern: str) -> bool:
    return any(found[1] for found in _LAZY.finditer(pattern))


def _in_class(letter: str) -> str:
    return "\\" + letter if letter in "\\]^-[" else letter


def _looks_out(node: rx.RegexNode, *, last: bool) -> bool:
    """Whether an assertion at the end (or the beginning) looks beyond the text. Trees of assertions are shallow."""
    if isinstance(node, ir.Regex):
        return False
    if isinstance(node, rx.Lookaround):
        return node.ahead == last
    if isinstance(node, rx.AlternationNode):
        return any(_looks_out(part, last=last) for part in node.parts)
    if isinstance(node, rx.RepeatNode):
        return _looks_out(node.part, last=last)
    if isinstance(node, rx.ConcatNode):
        for part in reversed(node.parts) if last else node.parts:
            if _looks_out(part, last=last):
                return True
            if isinstance(part, ir.Regex) and not analysis.nullable(part):
                return False
            if not isinstance(part, (ir.Regex, rx.Lookaround, rx.StartAnchor, rx.EndAnchor, rx.WordBoundary)):
                return False
        return False
    return isinstance(node, rx.WordBoundary) or isinstance(node, rx.EndAnchor) == last
