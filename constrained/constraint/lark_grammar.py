"""Constraints from Lark grammars and `lark.Lark` parsers; the value is the text, Lark's tree, or what is made of it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from constrained.constraint.base import Constraint, digest, shorten
from constrained.errors import InvalidConstraint, RejectedValue, UnsupportedConstraint
from constrained.grammars.errors import Problem

if TYPE_CHECKING:
    from lark import Lark

    from constrained.grammars.ir import Grammar
    from constrained.grammars.notation.lark import LarkSettings, Lexer, OverlapReport, TerminalPreference
    from constrained.grammars.notation.lark.captures import CaptureGrammar


@dataclass(frozen=True, eq=False, repr=False)
class _LarkConstraint(Constraint):
    """Text that the rules of a Lark grammar derive, behind Lark's lexer."""

    source: str | Lark
    start: str | None
    lexer: Lexer | None
    prefer: TerminalPreference
    embed: tuple[tuple[str, Constraint], ...]
    import_paths: tuple[Any, ...]
    wants_tree: bool
    transformer: Any
    around: tuple[str, ...] = ()
    """Special tokens of the text that this one is a part of."""
    _ambiguous = True

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        return tuple(constraint for _, constraint in self.embed)

    @cached_property
    def key(self) -> str:
        from constrained.grammars.notation.lark import fingerprint

        embedded = (part for name, constraint in self.embed for part in (name, constraint.key))
        settings = (self.start or "", self.lexer or "", self.prefer)
        around = ("around", *self.around) if self.around else ()
        return digest("lark", fingerprint(self.source, self.import_paths), *settings, *embedded, *around)

    @cached_property
    def special_tokens(self) -> tuple[str, ...]:
        from constrained.grammars.notation.lark import special_tokens

        inside = (name for _, constraint in self.embed for name in constraint.special_tokens)
        return tuple(dict.fromkeys((*self.around, *special_tokens(self.source), *inside)))

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for _, constraint in self.embed for text in constraint.fixed_texts))

    def among_special_tokens(self, names: Sequence[str]) -> Constraint:
        return replace(self, around=tuple(names)) if self.special_tokens else self

    def _embedded(self) -> dict[str, Grammar]:
        names = self.special_tokens
        return {name: constraint.among_special_tokens(names).grammar for name, constraint in self.embed}

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars.notation.lark import parse

        grammar = parse(self.source, self._settings())
        if self.wants_tree:
            _ = self._parser
        return grammar

    @cached_property
    def capture_grammar(self) -> CaptureGrammar | None:
        from constrained.grammars.notation.lark import capture_grammar

        return capture_grammar(self.source, self._settings())

    def _settings(self) -> LarkSettings:
        from constrained.grammars.notation.lark import LarkSettings
        from constrained.vocabulary.special_tokens import free_letters, letters  # loads numpy

        return LarkSettings(
            start=self.start,
            lexer=self.lexer,
            prefer=self.prefer,
            embedded=self._embedded(),
            import_paths=self.import_paths,
            tokens=letters(self.special_tokens),
            letters=free_letters(self.special_tokens),
        )

    def terminal_overlaps(self) -> OverlapReport:
        """Which terminals match the same text; see `constrained.grammars.notation.lark.terminal_overlaps`."""
        from constrained.grammars.notation.lark import terminal_overlaps

        return terminal_overlaps(self.source, self._settings())

    @cached_property
    def _parser(self) -> Lark:
        """What makes the tree.

        Raises:
            UnsupportedConstraint: Lark's LALR parser cannot parse the grammar.
        """
        import lark

        if not isinstance(self.source, str):
            return self.source
        dynamic = self.lexer == "dynamic"
        try:
            return lark.Lark(
                self.source,
                start=self.start or "start",
                parser="earley" if dynamic else "lalr",
                lexer="dynamic_complete" if dynamic else self.lexer or "contextual",
                import_paths=list(self.import_paths),
                _plugins={one: partial(_unchecked_lexer, one) for one in ("ContextualLexer", "BasicLexer")},
            )
        except lark.exceptions.LarkError as error:
            reason = (str(error).splitlines() or [""])[0]
            raise UnsupportedConstraint(
                "the Lark grammar has no tree",
                Problem("value", f"Lark cannot parse with this grammar: {shorten(reason)}"),
                action='leave out value= and transformer=, or pass lark.Lark(grammar, parser="earley", lexer="basic")',
            ) from None

    def parse(self, text: str) -> Any:
        if not self.wants_tree:
            return text
        from lark.exceptions import UnexpectedInput, VisitError

        try:
            tree = self._parser.parse(text, start=self.start)
            return tree if self.transformer is None else self.transformer.transform(tree)
        except UnexpectedInput as error:
            reason = (str(error).splitlines() or [""])[0]
            raise RejectedValue(f"Lark does not parse the text: {reason}", text=text) from error
        except VisitError as error:
            cause = error.orig_exc
            raise RejectedValue(f"the transformer refuses the tree: {cause}", text=text) from cause

    def render(self) -> str:
        return f"text of the Lark grammar {shorten(self._shown)}"

    @property
    def _shown(self) -> str:
        return self.source if isinstance(self.source, str) else getattr(self.source, "source_grammar", "...")

    @property
    def _meaning(self) -> Any:
        return self.wants_tree, self.transformer

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_parser", None)
        if not isinstance(self.source, str):
            state["source"] = _Packed.of(self.source)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        source = state["source"]
        self.__dict__.update(state, source=source.parser() if isinstance(source, _Packed) else source)

    def __repr__(self) -> str:
        settings = [f", {name}={value!r}" for name in ("start", "lexer") if (value := getattr(self, name))]
        return f"lark({shorten(repr(self._shown))}{''.join(settings)})"


def _unchecked_lexer(name: str, settings: Any, *arguments: Any, **named: Any) -> Any:
    """Lark's lexer without its own comparison of terminals, which takes exponential time for some patterns.

    The other checks that are left out were made when the grammar was compiled.
    """
    from lark import lexer

    settings.skip_validation = True
    return getattr(lexer, name)(settings, *arguments, **named)


@dataclass(frozen=True, slots=True)
class _Packed:
    """A parser to be pickled: a LALR parser as Lark saves it, another one as its grammar and options."""

    saved: bytes | None
    grammar: str
    options: dict[str, Any]

    @classmethod
    def of(cls, parser: Lark) -> _Packed:
        if parser.options.parser != "lalr":
            return cls(None, parser.source_grammar, dict(parser.options.options))
        file = io.BytesIO()
        parser.save(file)
        return cls(file.getvalue(), getattr(parser, "source_grammar", ""), {})

    def parser(self) -> Lark:
        from lark import Lark

        if self.saved is None:
            return Lark(self.grammar, **self.options)
        parser: Lark = Lark.load(io.BytesIO(self.saved))
        parser.source_grammar = self.grammar
        return parser


def terminal_overlaps(constraint: Constraint) -> OverlapReport | None:
    """Which terminals of a Lark grammar match the same text; None for other constraints.

    Raises:
        ConstraintError: the grammar cannot be enforced.
    """
    return constraint.terminal_overlaps() if isinstance(constraint, _LarkConstraint) else None


def lark(
    grammar: str | Lark,
    *,
    start: str | None = None,
    lexer: Lexer | None = None,
    prefer: TerminalPreference | None = None,
    embed: Mapping[str, Any] | None = None,
    import_paths: Sequence[Any] = (),
    value: Literal["text", "tree"] = "text",
    transformer: Any = None,
) -> Constraint:
    """Text that a Lark grammar derives, cut into terminals as Lark's lexer cuts it.

    Where a terminal begins, the candidates compete: of those that match at all, the highest priority wins, then the
    longest match, then a string over a regular expression, then as Lark orders them. What ``%ignore`` names may stand
    between any two terminals, before the first and after the last. Every allowed text is one that is cut so.

    Beyond Lark: ``%json {...}`` in a rule is JSON of that schema, and ``@name`` is the constraint of that name in
    `embed`. Both are read byte by byte in every possible way, and no terminal's match reaches into them. What llguidance
    adds to the notation is read too: ``name[lazy]``, ``[suffix=...]``, ``[stop=...]``, ``&`` and ``~`` of terminals,
    parametric rules, counts in braces, tokens as ``<|call|>`` and ``<[128-140]>``, ``%regex {...}``,
    ``name[capture]`` (see `constrained.captures`).

    Args:
        grammar: the text of a grammar (not the name of a file), or a parser that `lark.Lark` made. Of a parser the
            compiled rules and terminals count, with its start rule, its lexer and its priorities.
        start: the rule that a whole text follows; ``"start"``, or the start rule of the parser.
        lexer: which terminals are candidates: ``"contextual"``, those that the parser can take at this place, and the
            ignored ones; ``"basic"``, all. ``"dynamic"`` means no lexer: every way to cut the text counts. By default
            ``"contextual"``, or the lexer of the parser. For Earley's own ``lexer="dynamic"``, which no automaton
            follows exactly, the default is ``"contextual"``: the parser parses all of these texts, and some more.
        prefer: ``"longest"``, or ``"lark"`` to decide between terminals as python-lark does: they are tried in a fixed
            order, the greatest possible width first, and the first that matches is taken, be it the longest match or
            not. By default ``"longest"``; ``"lark"`` where a parser is passed or a tree is wanted.
        embed: constraints, types or schemas by the name that rules call them with.
        import_paths: folders, or loaders as `lark.Lark` takes them, that ``%import`` searches before Lark's library.
        value: what the value of a text is: the text, or ``"tree"`` for its `lark.Tree`. A grammar is then parsed by
            Lark's LALR parser, with ``lexer="dynamic"`` by its Earley parser; a parser parses for itself.
        transformer: a `lark.Transformer`: the value is what it makes of the tree.

    Raises:
        InvalidConstraint: not a grammar. Mistakes inside are found when the grammar is compiled, with line and column.
        UnsupportedConstraint: a tree is wanted of a grammar with ``%json`` or ``@name``.
        ConstraintError: as `as_constraint`, for what is embedded.
    """
    from constrained.constraint import as_constraint

    if not isinstance(grammar, str):
        from lark import Lark

        if not isinstance(grammar, Lark):
            raise InvalidConstraint(
                f"a grammar is a str or a lark.Lark, not {type(grammar).__name__}",
                action="read the file: path.read_text()",
            )
    if value not in ("text", "tree"):
        raise InvalidConstraint(f"value={value!r} is not known", action="use 'text' or 'tree'")
    wants_tree = value == "tree" or transformer is not None
    if wants_tree and isinstance(grammar, str):
        from constrained.grammars.notation.lark import embedded_names

        if names := embedded_names(grammar):
            raise UnsupportedConstraint(
                "the Lark grammar has no tree",
                Problem(names[0], "is not parsed by Lark"),
                action="leave out value= and transformer=, or write the rules out",
            )
    if prefer is None:
        prefer = "lark" if wants_tree or not isinstance(grammar, str) else "longest"
    embedded = {name: as_constraint(source) for name, source in (embed or {}).items()}
    return _LarkConstraint(
        grammar,
        start,
        lexer,
        prefer,
        tuple(sorted(embedded.items())),
        tuple(import_paths),
        wants_tree,
        transformer,
    )
