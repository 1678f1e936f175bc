"""Reads GBNF and EBNF texts into rules: the notations are the Lark grammars beside this file.

Nothing here recurses over nested parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.notation.source import (
    MAX_DIGITS,
    MAX_NESTING,
    GrammarSource,
    read_token,
    token_parts,
)

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

_COUNT = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(?:-1|(\d*))\s*)?\}")
_TOKENS = re.compile(
    r'"(?:\\.|[^"\\\r\n])*"|\[(?:\\.|[^\]\\\r\n])*\]|#[^\r\n]*|(<(?:\[[^\]\r\n]*\]|[^\[>\r\n][^>\r\n]*)>)'
)
"""Tokens in GBNF, and what they do not stand in."""
_WORD = re.compile(r"[A-Za-z_]+\Z")
SOME_TEXT = ir.repeat(ir.ANY_CHAR, 1)
_EBNF_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)\s*")
_CODE_POINT = re.compile(r"#x([0-9A-Fa-f]+)(?![0-9A-Za-z_])")
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_GBNF = {"t": "\t", "r": "\r", "n": "\n"} | {letter: letter for letter in '\\"[]-'}
_EBNF = dict(zip("nrtbfav0e", "\n\r\t\b\f\a\v\0\x1b", strict=True)) | {c: c for c in "\"\\/'?"}
_EBNF_CLASS = _EBNF | {letter: letter for letter in "^$\\.*+?()[]{}|/-"}
_UNSUPPORTED = {
    "UNSUPPORTED_MACRO": ("is a macro of XGrammar", "use tag() for free text with structured parts"),
    "UNSUPPORTED_LOOK_AHEAD": ("looks ahead; that is a hint to another engine, not a language", "remove it"),
}


@dataclass(slots=True)
class Definitions:
    """Rules as they were written.

    Attributes:
        rules: by name. A rule in `differences` is a choice of two parts: ``A`` and ``B`` of ``A - B``.
        defined: the offset of each rule's name in the text.
        called: the first offset where each rule is called.
        differences: names of rules created for ``A - B``, with the offset of the ``-``.
        other_tokens: the offset of the first ``!<...>`` that is counted as one token.
    """

    rules: dict[str, ir.Expr] = field(default_factory=dict)
    defined: dict[str, int] = field(default_factory=dict)
    called: dict[str, int] = field(default_factory=dict)
    differences: dict[str, int] = field(default_factory=dict)
    other_tokens: int | None = None


class _RefusedToken(Exception):
    """A token that ends the parse: of what is not supported, or a parenthesis inside of too many others."""

    def __init__(self, token: Token) -> None:
        super().__init__(token)
        self.token = token


def _unsupported(token: Token) -> NoReturn:
    raise _RefusedToken(token)


class _Parentheses:
    """Counts parentheses in parentheses, and drops the newlines in them.

    Args:
        always_accept: tokens that the parser may not expect; those of newlines, where there are any.
    """

    def __init__(self, *always_accept: str) -> None:
        self.always_accept = always_accept

    def process(self, tokens: Iterator[Token]) -> Iterator[Token]:
        depth = 0
        for token in tokens:
            if token.type == "LPAR":
                depth += 1
                if depth > MAX_NESTING:
                    raise _RefusedToken(token)
            elif token.type == "RPAR":
                depth -= 1
            elif token.type == "_NL" and depth > 0:
                continue
            yield token


def _offset(token: Token) -> int:
    return token.start_pos or 0


@cache
def _parser(notation: str) -> Lark:
    from lark import Lark

    return Lark(
        Path(__file__).with_name(f"{notation}.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer_callbacks=dict.fromkeys(_UNSUPPORTED, _unsupported),
        postlex=_Parentheses("_NL") if notation == "gbnf" else _Parentheses(),
    )


def named_tokens(source: GrammarSource) -> dict[str, tuple[str, ...]]:
    """The tokens that a GBNF text names, as they are written, with the names of what each is made of (see `token_parts`).

    Raises:
        InvalidConstraint, UnsupportedConstraint, ConstraintTooLarge: as `read_token` and `token_parts`.
    """
    found = {match[1]: match.start(1) for match in _TOKENS.finditer(source.text) if match[1]}
    parts = token_parts(source, [read_token(source, at, written) for written, at in found.items()])
    return {one.written: names for one, names in parts.items()}


class Reader(GrammarSource):
    """The rules of one text, as they are written."""

    def __init__(
        self,
        text: str,
        notation: str,
        one_token: ir.Regex = SOME_TEXT,
        marks: Mapping[str, bytes] | None = None,
    ) -> None:
        """Reads no rule yet.

        Args:
            text: the grammar.
            notation: ``"gbnf"`` or ``"ebnf"``.
            one_token: what stands for a token that ``!<...>`` allows and the grammar does not name.
            marks: what stands for each token that it names: bytes of no other text; None: one byte stands for all.
        """
        super().__init__(text, notation.upper())
        self.one_token = ir.Terminal(one_token)
        self.parts = {} if notation == "ebnf" else named_tokens(self)
        self.marks = marks or dict.fromkeys(
            (name for names in self.parts.values() for name in names), b"\xff"
        )
        self.ebnf = notation == "ebnf"
        self.escapes = _EBNF if self.ebnf else _GBNF
        self.class_escapes = _EBNF_CLASS if self.ebnf else _GBNF
        self.definitions = Definitions()
        self.words: dict[str, int] = {}  # classes that could be names of rules, with their offsets

    def run(self) -> Definitions:
        """Parses the text and builds its rules.

        Raises:
            InvalidConstraint: malformed; line, column and a caret are in the message.
            UnsupportedConstraint: it uses what is not a language: options, look-ahead, macros.
            ConstraintTooLarge: there are more tokens than `marks`.
        """
        from lark.exceptions import UnexpectedInput

        try:
            tree = _parser(self.notation.lower()).parse(self.text)
        except _RefusedToken as error:
            at = _offset(error.token)
            if error.token.type not in _UNSUPPORTED:
                self.too_deep(at)
            reason, action = _UNSUPPORTED[error.token.type]
            self.refuse(reason, at, action=action)
        except UnexpectedInput as error:
            self._syntax_error(error)
        for rule in tree.children:
            assert not isinstance(rule, str)
            head, body = rule.children[0], rule.children[-1]
            self._define(cast("Token", head), self._expression(cast("Tree[Token]", body)))
        for name, at in self.words.items():
            if name in self.definitions.rules:
                action = f"write {name}? for the rule or nothing; write the letters in another order for one of them"
                self.fail(f"[{name}] is one letter of {name}, and there is a rule {name}", at, action)
        return self.definitions

    def _expression(self, tree: Tree[Token]) -> ir.Expr:
        """The expression of a tree, built bottom-up with a stack of its own."""
        nodes: list[Tree[Token]] = []
        stack = [tree]
        while stack:
            nodes.append(stack.pop())
            stack += [child for child in nodes[-1].children if not isinstance(child, str)]
        exprs: dict[int, ir.Expr] = {}
        for node in reversed(nodes):
            parts = [c if isinstance(c, str) else exprs.pop(id(c)) for c in node.children]
            exprs[id(node)] = getattr(self, f"_{node.data}")(parts)
        return exprs[id(tree)]

    def _define(self, head: Token, body: ir.Expr) -> None:
        """Adds a rule, refusing a second definition."""
        at = _offset(head)
        name = str(head)
        if self.ebnf:
            match = _EBNF_NAME.match(head)
            assert match is not None
            name = match[1]
            if head[len(name)] == "[":
                self.refuse("sets an option of another engine", at + len(name), action="remove it")
        if name in self.definitions.rules:
            first = self.problem("", self.definitions.defined[name]).place
            self.fail(f"the rule {name} is defined before, at {first}", at)
        self.definitions.rules[name] = body
        self.definitions.defined[name] = at

    # ------------------------------------------------------------ one method for each rule of the .lark files, given its parts

    def _item(self, part: Any) -> ir.Expr:
        if isinstance(part, ir.Expr):
            return part
        return cast("ir.Expr", getattr(self, f"_{part.type.lower()}")(part))

    def _alternatives(self, parts: list[Any]) -> ir.Expr:
        return ir.choice(*parts)

    def _sequence(self, parts: list[Any]) -> ir.Expr:
        return ir.sequence(*map(self._item, parts))

    def _group(self, parts: list[Any]) -> ir.Expr:
        return cast("ir.Expr", parts[1])

    def _repetition(self, parts: list[Any]) -> ir.Expr:
        item, quantifier = parts
        if not isinstance(item, ir.Expr) and item.startswith("!") and quantifier in ("*", "+"):
            return ir.Terminal(
                ir.repeat(ir.union(ir.ANY_CHAR, *self._other_marks(item)), int(quantifier == "+"))
            )
        if quantifier in _QUANTIFIERS:
            low, high = _QUANTIFIERS[quantifier]
        else:
            match = _COUNT.match(quantifier)
            assert match
            low = int(match[1][:MAX_DIGITS])
            high = low if match[2] is None else int(match[3][:MAX_DIGITS]) if match[3] else None
            if high is not None and high < low:
                self.fail("the greater count comes first", _offset(quantifier))
        return ir.loop(self._item(item), low, high)

    def _difference(self, parts: list[Any]) -> ir.Expr:
        whole, minus, without = parts
        name = f"{len(self.definitions.differences)} - "
        self.definitions.rules[name] = ir.Choice((self._item(whole), self._item(without)))
        self.definitions.differences[name] = _offset(minus)
        return ir.call(name)

    # ------------------------------------------------------------ one method for each terminal

    def _name(self, token: Token) -> ir.Expr:
        at = _offset(token)
        self.definitions.called[str(token)] = min(at, self.definitions.called.get(str(token), at))
        return ir.call(str(token))

    def _token(self, token: Token) -> ir.Expr:
        if not token.startswith("!"):
            return ir.Terminal(ir.union(*self._token_marks(token, self.parts[token])))
        if self.definitions.other_tokens is None:
            self.definitions.other_tokens = _offset(token)
        return ir.choice(self.one_token, ir.Terminal(ir.union(*self._other_marks(token))))

    def _token_marks(self, token: Token, names: Iterable[str]) -> list[ir.Regex]:
        """What stands for tokens in texts."""
        try:
            return [ir.literal(self.marks[name]) for name in names]
        except KeyError:
            reason = f"at most {len(self.marks)} tokens, or sets of tokens without overlap, can be named"
            problem = self.problem(reason, _offset(token))
            raise ConstraintTooLarge(f"the {self.notation} grammar is too large", problem) from None

    def _other_marks(self, token: Token) -> list[ir.Regex]:
        """What stands for the tokens that the grammar names, without one of them."""
        excluded = self.parts[token[1:]]
        named = dict.fromkeys(name for names in self.parts.values() for name in names)
        return self._token_marks(token, [name for name in named if name not in excluded])

    def _any(self, token: Token) -> ir.Expr:
        return ir.Terminal(ir.ANY_CHAR)

    def _code_point(self, token: Token) -> ir.Expr:
        return ir.terminal(self.code_point(token[2:], _offset(token)))

    def _literal(self, token: Token) -> ir.Expr:
        start = _offset(token)
        stop = start + len(token) - 1
        if "\\" not in token:
            text = str(token[1:-1])
        else:
            out, at = [], start + 1
            while at < stop:
                if self.text[at] == "\\":
                    char, at = self._escaped(at, self.escapes)
                else:
                    char, at = self.text[at], at + 1
                out.append(char)
            text = "".join(out)
        try:
            return ir.terminal(text) if text else ir.EPSILON
        except UnicodeEncodeError:
            self.fail("half of a surrogate pair is not a character", start)

    def _class(self, token: Token) -> ir.Expr:
        start = _offset(token)
        stop = start + len(token) - 1
        if stop - start > 2 and _WORD.match(self.text, start + 1, stop):
            self.words.setdefault(self.text[start + 1 : stop], start)
        at = start + 1
        negated = self.text[at] == "^"
        at += negated
        ranges = []
        while at < stop:
            first = at
            low, at = self._class_character(at)
            high = low
            if self.text[at] == "-" and at + 1 < stop:
                high, at = self._class_character(at + 1)
                if high < low:
                    self.fail("the range ends before it begins", first)
            ranges.append((ord(low), ord(high)))
        regex = ir.chars(list(ir.invert_ranges(ranges)) if negated else ranges)
        if isinstance(regex, ir.EmptySet):
            self.fail("no character is in this class", start)
        return ir.Terminal(regex)

    def _class_character(self, at: int) -> tuple[str, int]:
        if self.ebnf and (coded := _CODE_POINT.match(self.text, at)):
            return self.code_point(coded[1], at), coded.end()
        if self.text[at] == "\\":
            return self._escaped(at, self.class_escapes)
        return self.text[at], at + 1

    def _escaped(self, at: int, escapes: dict[str, str]) -> tuple[str, int]:
        letter = self.text[at + 1]
        if letter in "xuU":
            least = {"x": 1 if self.ebnf else 2, "u": 4, "U": 8}[letter]
            count = "+" if letter == "x" and self.ebnf else f"{{{least}}}"
            match = re.compile(f"[0-9A-Fa-f]{count}").match(self.text, at + 2)
            if match is None:
                self.fail(f"{least} hexadecimal digits expected", at)
            return self.code_point(match.group(), at), match.end()
        if letter not in escapes:
            self.fail(f"unknown escape \\{letter}", at)
        return escapes[letter], at + 2

    # ------------------------------------------------------------ errors

    def _syntax_error(self, error: Any) -> NoReturn:
        """Says what is wrong where Lark's parser stopped, from what it expected there and what is still open."""
        from lark import Token

        token = getattr(error, "token", None)
        kind = token.type if token is not None else ""
        at = len(self.text) if kind == "$END" else error.pos_in_stream
        next_two = self.text[at : at + 2]
        expected = set(getattr(error, "allowed", None) or error.expected)
        open_tokens = [value for value in error.state.value_stack if isinstance(value, Token)]
        parentheses = [value for value in open_tokens if value.type == "LPAR"]
        last = error.state.value_stack[-1] if error.state.value_stack else None
        if "DEFINES" in expected:
            self.fail(f"::= expected after the rule name {last}", at)
        if kind == "RPAR" and last is not None:
            self.fail("nothing is open that could be closed here", at)
        if "LITERAL" not in expected:
            name = _EBNF_NAME.match(self.text, at) if self.ebnf else None
            if name is not None:
                self.fail(f"::= expected after the rule name {name[1]}", name.end())
            if expected & {"NAME", "DEFINITION"}:
                self.fail("the name of a rule expected", at)
        if kind == "MINUS":
            self.fail("nothing stands before the -", at)
        if next_two[:1] and next_two[:1] in ("\"'" if self.ebnf else '"'):
            self.fail("the quote is never closed", at)
        if next_two[:1] and next_two[:1] in "<!" and not self.ebnf:
            self.fail("the token is never closed", at)
        if next_two[:1] == "[" and kind != "CLASS":
            self.fail("the bracket is never closed", at)
        if next_two == "/*" and self.ebnf:
            self.fail("the comment is never closed", at)
        if isinstance(last, Token) and last.type == "MINUS":
            self.fail("nothing stands after the -", _offset(last))
        if next_two[:1] == "{" and kind != "QUANTIFIER":
            self.fail("a count is {m}, {m,} or {m,n}", at)
        if kind == "QUANTIFIER":
            self.fail("nothing stands before this that could be repeated", at)
        if parentheses and kind == "$END":
            self.fail("the parenthesis is never closed", _offset(parentheses[-1]))
        self.fail("unexpected character", at)
