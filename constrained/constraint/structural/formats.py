"""The formats of a structural tag: what each matches. `reader` checks them, so they are consistent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from constrained.constraint.base import Constraint


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
        source: JSON Pointer of what the constraint was made of; places in its errors are below this one.
        excludes: texts that do not occur in it (patterns only).
        texts: the pattern or grammar, or the markup of a schema's style: texts that may occur in it as they are.
    """

    constraint: Constraint
    source: str
    excludes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AnyText(StructuralFormat):
    """Text that contains neither the excluded texts nor the end of the nearest tag around it.

    Attributes:
        excludes: these texts.
        max_chars: maximum number of code points; None: no limit.
        max_tokens: maximum number of tokens; None: no limit.
    """

    excludes: tuple[str, ...] = ()
    max_chars: int | None = None
    max_tokens: int | None = None


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
    """A content between `begin` and one of the `ends`."""

    begin: str | Token
    content: StructuralFormat
    ends: tuple[str | Token, ...]


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
    """

    triggers: tuple[str | Token, ...]
    tags: tuple[Tag, ...]
    excludes: tuple[str | Token, ...]
    at_least_one: bool
    stop_after_first: bool


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


def named(form: StructuralFormat) -> Iterator[str | Token]:
    """The texts and tokens that a format names: constants, begins and ends, separators, patterns, markup, excluded tokens."""
    match form:
        case ConstString(text=text):
            yield text
        case OneToken(token=token):
            yield token
        case AnyTokens(excludes=excludes) | AnyToken(excludes=excludes):
            yield from excludes
        case Content(texts=texts):
            yield from texts
        case SequenceFormat(elements=elements) | OrFormat(elements=elements):
            for element in elements:
                yield from named(element)
        case RepeatFormat(content=content):
            yield from named(content)
        case Tag(begin=begin, content=content, ends=ends):
            yield from (begin, *ends)
            yield from named(content)
        case TagsWithSeparator(tags=tags, separator=separator):
            yield separator
            for tag in tags:
                yield from named(tag)
        case TriggeredTags(tags=tags, excludes=excludes):
            yield from (one for one in excludes if isinstance(one, Token))
            for tag in tags:
                yield from named(tag)
        case Dispatch(rules=rules, excludes=excludes):
            yield from (one for one in excludes if isinstance(one, Token))
            for pattern, content in rules:
                yield pattern
                yield from named(content)


def contents(form: StructuralFormat) -> Iterator[Content]:
    """The constraints inside a format."""
    match form:
        case Content():
            yield form
        case RepeatFormat(content=content) | Tag(content=content):
            yield from contents(content)
        case SequenceFormat(elements=parts) | OrFormat(elements=parts):
            for part in parts:
                yield from contents(part)
        case TagsWithSeparator(tags=tags) | TriggeredTags(tags=tags):
            for tag in tags:
                yield from contents(tag)
        case Dispatch(rules=rules):
            for _, content in rules:
                yield from contents(content)
