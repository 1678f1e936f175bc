"""The formats of a structural tag: what each matches. `reader` checks them, so they are consistent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from constrained.constraint.base import Constraint

FormatT = TypeVar("FormatT", bound="StructuralFormat")


@dataclass(frozen=True, slots=True, eq=False)
class StructuralFormat:
    """A part of the output.

    Attributes:
        place: JSON Pointer of its definition.
    """

    place: str


@dataclass(frozen=True, slots=True, eq=False)
class ConstString(StructuralFormat):
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token by its name, or by its number as ``<[5]>``: the token itself, never other tokens that spell it."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class OneToken(StructuralFormat):
    """Exactly this token."""

    token: Token


@dataclass(frozen=True, slots=True, eq=False)
class AnyTokens(StructuralFormat):
    """Text without special tokens and without these tokens; the end of the nearest tag around it is excluded, too.

    Attributes:
        excludes: these tokens.
        max_tokens: maximum number of tokens; None: no limit.
    """

    excludes: tuple[Token, ...]
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AnyToken(StructuralFormat):
    """One token of whole characters, none of these; the end of the nearest tag around it does not stand in it.

    Attributes:
        excludes: these tokens.
    """

    excludes: tuple[Token, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Content(StructuralFormat):
    """Text of a constraint: a schema, a pattern or a grammar.

    Attributes:
        constraint: of the text.
        source: JSON Pointer of what the constraint was made of; places in its errors are below this one. "": they stay.
        excludes: texts that do not occur in it (patterns only).
        texts: the pattern or grammar, or the markup of a schema's style: texts that may occur in it as they are.
    """

    constraint: Constraint
    source: str = ""
    excludes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AnyText(StructuralFormat):
    """Text that contains neither the excluded texts nor the end of the nearest tag around it.

    Attributes:
        excludes: these texts.
        max_chars: maximum number of code points; None: no limit.
        max_tokens: maximum number of tokens; None: no limit.
        until: the last characters of the text, where the first of the excluded texts ends; None: the text has none.
    """

    excludes: tuple[str, ...] = ()
    max_chars: int | None = None
    max_tokens: int | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SequenceFormat(StructuralFormat):
    """One format after the other."""

    elements: tuple[StructuralFormat, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OrFormat(StructuralFormat):
    """One of the formats."""

    elements: tuple[StructuralFormat, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RepeatFormat(StructuralFormat):
    """A format from `low` to `high` times (None: no bound): ``optional``, ``plus``, ``star`` and ``repeat``."""

    content: StructuralFormat
    low: int
    high: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Tag(StructuralFormat):
    """A content between `begin` and one of the `ends`.

    Attributes:
        begin: what opens it.
        content: what stands in it.
        ends: what closes it.
        first_end: the tag ends where its only end, a text, first ends; JSON may contain it.
    """

    begin: str | Token
    content: StructuralFormat
    ends: tuple[str | Token, ...]
    first_end: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TagsWithSeparator(StructuralFormat):
    """Tags, with a separator between two of them.

    Attributes:
        tags: each any number of times.
        separator: between two tags.
        at_least_one: the empty text is not allowed.
        stop_after_first: at most one tag.
    """

    tags: tuple[Tag, ...]
    separator: str
    at_least_one: bool
    stop_after_first: bool


@dataclass(frozen=True, slots=True, eq=False)
class TriggeredTags(StructuralFormat):
    """Free text in which each trigger begins a tag.

    Attributes:
        triggers: texts, of which each is a prefix of the ``begin`` of some tag, and each tag begins with exactly one; or
            tokens, each the ``begin`` of some tag.
        tags: what may begin.
        excludes: texts or tokens that do not occur in the free text; nor does the end of the nearest tag around.
        at_least_one: the text begins with a tag.
        stop_after_first: the text ends with the first tag.
        low: minimum number of tags, behind a first one with which the text begins.
        high: maximum number of these; None: no limit.
    """

    triggers: tuple[str | Token, ...]
    tags: tuple[Tag, ...]
    excludes: tuple[str | Token, ...] = ()
    at_least_one: bool = False
    stop_after_first: bool = False
    low: int = 0
    high: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Dispatch(StructuralFormat):
    """Free text in which each pattern is followed by its format.

    Attributes:
        rules: patterns, texts or tokens, and formats.
        loop: free text follows again; otherwise the text ends with the first format.
        excludes: texts or tokens that do not occur in the free text.
    """

    rules: tuple[tuple[str | Token, StructuralFormat], ...]
    loop: bool
    excludes: tuple[str | Token, ...]


def contents(form: Any) -> Iterator[Content]:
    """The constraints inside a format."""
    if isinstance(form, Content):
        yield form
    else:
        for part in _parts(form):
            yield from contents(part)


def named(form: Any) -> Iterator[str | Token]:
    """The texts and tokens that a format names: constants, begins and ends, separators, patterns, markup, excluded tokens."""
    if isinstance(form, str | Token):
        yield form
    else:
        for part in _parts(form, but=("place", "source", "triggers", "excludes")):
            yield from named(part)
        yield from (one for one in getattr(form, "excludes", ()) if isinstance(one, Token))


def with_contents(form: FormatT, change: Callable[[Constraint], Constraint]) -> FormatT:
    """The format with each constraint in it changed."""

    def changed(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(changed, part))
        if not isinstance(part, StructuralFormat):
            return change(part) if isinstance(part, Constraint) else part
        return replace(part, **{one.name: changed(getattr(part, one.name)) for one in fields(part)})

    result: FormatT = changed(form)
    return result


def identity(form: Any) -> Any:
    """What tells formats of different languages apart, as JSON."""
    if isinstance(form, Constraint | Token):
        return [form.key if isinstance(form, Constraint) else form.name]
    if not isinstance(form, StructuralFormat | tuple):
        return form
    return [type(form).__name__, *map(identity, _parts(form, but=("place", "source", "texts")))]


def _parts(form: Any, but: Sequence[str] = ()) -> Sequence[Any]:
    """The fields of a format, or the items of a tuple."""
    if isinstance(form, StructuralFormat):
        return [getattr(form, one.name) for one in fields(form) if one.name not in but]
    return form if isinstance(form, tuple) else ()
