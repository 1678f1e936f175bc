"""Constraints of free text with structured sections (`tag`, `tags`), or followed by structured text (`after`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.constraint.base import Constraint, digest, shorten
from constrained.constraint.coerce import as_constraint
from constrained.constraint.json_text import is_json
from constrained.errors import (
    InvalidConstraint,
    Problem,
    RejectedValue,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)

if TYPE_CHECKING:
    from constrained.grammars.ir import Grammar

_NUMBER_CHARACTERS = frozenset("0123456789.eE+-")  # after a number they may continue it


class Section(NamedTuple):
    """A structured section of a completion.

    Attributes:
        begin: the marker that opened the section.
        value: the content, parsed by its constraint.
        text: the content between the markers.
    """

    begin: str
    value: Any
    text: str


class ThinkingResult(NamedTuple):
    """The parsed completion of `after`.

    Attributes:
        thinking: the free text before the marker.
        value: the part after the marker, parsed by its constraint.
    """

    thinking: str
    value: Any


class _Tag(NamedTuple):
    begin: str
    content: Constraint
    end: str

    def body(self) -> Grammar:
        """The content and the closing marker."""
        from constrained.grammars import ir
        from constrained.grammars.lexer import reject_lexer_grammar
        from constrained.grammars.text.free_text import text_up_to

        grammar = self.content.grammar
        reject_lexer_grammar(grammar, "in a section")
        if self.content.is_json:
            whole = ir.sequence(ir.call(grammar.start), ir.terminal(self.end))
            name = "section"
            while name in grammar.rules:
                name += "'"
            return ir.Grammar({**grammar.rules, name: whole}, name)
        body = grammar.rules[grammar.start]
        if not isinstance(body, ir.Terminal):
            raise UnsupportedConstraint(
                "the end of a section is ambiguous",
                Problem(self.content.render(), f"can itself contain {self.end!r}"),
                action="use JSON, a regex or a choice as the content",
            )
        closed = ir.concat(body.regex, ir.literal(self.end))
        return ir.Grammar.of(ir.intersection(closed, text_up_to(self.end, [self.end])))

    def parse_section(self, text: str, start: int) -> tuple[Section, int]:
        """Parses the section whose opening marker ends at `start`; returns it with its end position."""
        stop = text.find(self.end, start)
        while stop >= 0:
            inner = text[start:stop]
            if not self.content.is_json or is_json(inner):
                return Section(self.begin, self.content.parse(inner), inner), stop + len(self.end)
            stop = text.find(self.end, stop + 1)  # the end marker occurred inside a JSON string
        raise RejectedValue(f"the section opened by {self.begin!r} is not closed", text=text)


@dataclass(frozen=True, eq=False, repr=False)
class _TaggedTextConstraint(Constraint):
    """Free text with sections."""

    tags: tuple[_Tag, ...]
    at_least: int
    at_most: int | None

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        return tuple(tag.content for tag in self.tags)

    @property
    def needs_document(self) -> bool:
        return any(tag.content.needs_document for tag in self.tags)

    def bind(self, document: str, *, require_grounding: bool = False) -> Constraint:
        return self._with_contents(lambda one: one.bind(document, require_grounding=require_grounding))

    def without_document(self) -> Constraint:
        return self._with_contents(lambda one: one.without_document())

    def _with_contents(self, change: Callable[[Constraint], Constraint]) -> Constraint:
        return replace(self, tags=tuple(tag._replace(content=change(tag.content)) for tag in self.tags))

    @cached_property
    def key(self) -> str:
        parts = [part for tag in self.tags for part in (tag.begin, tag.content.key, tag.end)]
        return digest("tags", str(self.at_least), str(self.at_most), *parts)

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars.text.free_text import SectionGrammar as Part
        from constrained.grammars.text.free_text import free_text_with_sections

        parts = [Part(tag.begin, tag.body()) for tag in self.tags]
        return free_text_with_sections(parts, low=self.at_least, high=self.at_most)

    def parse(self, text: str) -> list[str | Section]:
        parts: list[str | Section] = []
        by_marker = {tag.begin: tag for tag in self.tags}
        marker = re.compile("|".join(map(re.escape, by_marker)))
        at = 0
        while (match := marker.search(text, at)) is not None:
            if match.start() > at:
                parts.append(text[at : match.start()])
            section, at = by_marker[match.group()].parse_section(text, match.end())
            parts.append(section)
        return [*parts, text[at:]] if at < len(text) else parts

    def render(self) -> str:
        kinds = ", ".join(f"{tag.begin}...{tag.end}" for tag in self.tags)
        return f"text with sections {shorten(kinds)}"

    def __repr__(self) -> str:
        return " or ".join(f"tag({tag.begin!r}, {tag.content!r}, {tag.end!r})" for tag in self.tags)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TaggedTextConstraint) and super().__eq__(other) and self.tags == other.tags

    __hash__ = Constraint.__hash__


def tag(begin: str, content: Any, end: str, *, at_least: int = 0, at_most: int | None = None) -> Constraint:
    """Free text in which every `begin` is followed by the content and `end`, such as tool calls in prose.

    The value is a list, in order of occurrence: a non-empty `str` for free text, a `Section` for each section. Free text
    cannot contain `begin`; it can contain `end`.

    Args:
        begin: the marker that opens a section.
        content: the constraint between the markers: a `Constraint`, a type or a JSON Schema. Strings of JSON may
            contain `end`; a regex or choice ends at the first `end`, so strings that contain `end` are excluded.
        end: the marker that closes a section.
        at_least: minimum number of sections.
        at_most: maximum number of sections; None: unlimited.

    Raises:
        InvalidConstraint: a marker is empty, `at_most` is less than `at_least`, or the content is JSON and `end`
            starts with a character that could continue a number.
        UnsupportedConstraint: the content has special tokens.
        ConstraintError: the content is invalid; see `as_constraint`.
    """
    inner = as_constraint(content)
    if inner.special_tokens:
        raise UnsupportedConstraint(
            f"the content of a section cannot have special tokens: {', '.join(inner.special_tokens)}",
            action="write the sections as formats of the structural tag, too",
        )
    for marker in (begin, end):
        _check_marker(marker)
    if inner.is_json and end[0] in _NUMBER_CHARACTERS:
        raise InvalidConstraint(
            f"the end marker {end!r} could continue a number", action="start it with another character"
        )
    return _tagged((_Tag(begin, inner, end),), at_least, at_most)


def tags(*kinds: Constraint, at_least: int = 0, at_most: int | None = None) -> Constraint:
    """Free text with sections of several kinds, in any order; the value is a list as for `tag`.

    Args:
        kinds: results of `tag`, one for each kind of section; their own counts are ignored.
        at_least: minimum number of sections, all kinds together.
        at_most: maximum number of sections; None: unlimited.

    Raises:
        InvalidConstraint: an argument is not a result of `tag`, or one opening marker contains another.
    """
    for kind in kinds:
        if not isinstance(kind, _TaggedTextConstraint):
            raise InvalidConstraint(f"{kind!r} is not a section", action="pass what tag(...) returns")
    return _tagged(
        tuple(one for kind in kinds if isinstance(kind, _TaggedTextConstraint) for one in kind.tags),
        at_least,
        at_most,
    )


def _tagged(kinds: tuple[_Tag, ...], at_least: int, at_most: int | None) -> Constraint:
    if not kinds:
        raise UnsatisfiableConstraint(
            "tags() needs at least one section", action="pass at least one tag(...)"
        )
    if at_least < 0 or (at_most is not None and at_most < at_least):
        raise InvalidConstraint(
            f"at_least={at_least}, at_most={at_most} are not a range of counts",
            action="pass 0 <= at_least <= at_most",
        )
    for index, kind in enumerate(kinds):
        for other in kinds[:index]:
            if kind.begin in other.begin or other.begin in kind.begin:
                raise InvalidConstraint(
                    "the opening markers of two sections overlap",
                    Problem(f"markers {other.begin!r} and {kind.begin!r}", "one contains the other"),
                    action="end all markers with the same character: <a>, <ab>",
                )
    return _TaggedTextConstraint(kinds, at_least, at_most)


def _check_marker(marker: str) -> None:
    if not isinstance(marker, str) or not marker:
        raise InvalidConstraint(f"{marker!r} is not a marker", action="use a non-empty str")
    try:
        marker.encode()
    except UnicodeEncodeError as error:
        raise InvalidConstraint(f"the marker {marker!r} is not valid Unicode: {error.reason}") from None


@dataclass(frozen=True, eq=False, repr=False)
class _AfterMarkerConstraint(Constraint):
    """Free text up to a marker, then a constraint."""

    marker: str
    content: Constraint

    @property
    def reasoning_end(self) -> str:  # type: ignore[override]
        return self.marker

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        return (self.content,)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return self.content.special_tokens

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        return self.content.fixed_texts

    @property
    def needs_document(self) -> bool:
        return self.content.needs_document

    def bind(self, document: str, *, require_grounding: bool = False) -> Constraint:
        return replace(self, content=self.content.bind(document, require_grounding=require_grounding))

    def without_document(self) -> Constraint:
        return replace(self, content=self.content.without_document())

    @cached_property
    def key(self) -> str:
        return digest("after", self.marker, self.content.key)

    @property
    def schema(self) -> Any:
        return self.content.schema

    @property
    def local_schema(self) -> Any:
        return self.content.local_schema

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars.text.free_text import after_free_text

        return after_free_text(self.marker, self.content.grammar)

    def parse(self, text: str) -> ThinkingResult:
        thinking, marker, rest = text.partition(self.marker)
        if not marker:
            raise RejectedValue(f"the completion does not contain {self.marker!r}", text=text)
        return ThinkingResult(thinking, self.content.parse(rest))

    def render(self) -> str:
        return f"text up to {self.marker!r}, then {self.content.render()}"

    def __repr__(self) -> str:
        return f"after({self.marker!r}, {self.content!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _AfterMarkerConstraint)
            and super().__eq__(other)
            and self.content == other.content
        )

    __hash__ = Constraint.__hash__


def marker_and_content(constraint: Any) -> tuple[str, Constraint] | None:
    """The marker and the content of what `after` made, predicates left out; None for other constraints."""
    constraint = getattr(constraint, "inner", constraint)
    if isinstance(constraint, _AfterMarkerConstraint):
        return constraint.marker, constraint.content
    return None


def after(marker: str, content: Any) -> Constraint:
    """Free text up to a marker, as reasoning models write it, then the content; the value is a `ThinkingResult`.

    Args:
        marker: ends the free text, such as ``"</think>"``. It always occurs; the text before it may be empty. All text
            after it belongs to the content, including a newline.
        content: a constraint, a type or a JSON Schema.

    Raises:
        InvalidConstraint: the marker is empty.
        ConstraintError: the content is invalid; see `as_constraint`.
    """
    _check_marker(marker)
    return _AfterMarkerConstraint(marker, as_constraint(content))
