"""Constraints of free text with structured sections (`tag`, `tags`), or followed by structured text (`after`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from constrained.constraint.base import Constraint, shorten
from constrained.constraint.coerce import as_constraint
from constrained.constraint.structural import formats as f
from constrained.constraint.structural.constraint import FormatConstraint, Section
from constrained.errors import (
    InvalidConstraint,
    Problem,
    RejectedValue,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)

__all__ = ["Section", "ThinkingResult", "after", "marker_and_content", "tag", "tags"]

_NUMBER_CHARACTERS = frozenset("0123456789.eE+-")  # after a number they may continue it


class ThinkingResult(NamedTuple):
    """The parsed completion of `after`.

    Attributes:
        thinking: the free text before the marker.
        value: the part after the marker, parsed by its constraint.
    """

    thinking: str
    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class _TaggedTextConstraint(FormatConstraint):
    """Free text with sections."""

    form: f.TriggeredTags

    def render(self) -> str:
        kinds = ", ".join(f"{tag.begin}...{tag.ends[0]}" for tag in self.form.tags)
        return f"text with sections {shorten(kinds)}"

    def __repr__(self) -> str:
        tags = zip(self.form.tags, self._inside, strict=True)
        return " or ".join(f"tag({tag.begin!r}, {content!r}, {tag.ends[0]!r})" for tag, content in tags)


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
    section = f.Tag(begin, begin, f.Content(begin, inner), (end,), first_end=True)
    return _tagged((section,), at_least, at_most)


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
        tuple(one for kind in kinds if isinstance(kind, _TaggedTextConstraint) for one in kind.form.tags),
        at_least,
        at_most,
    )


def _tagged(kinds: tuple[f.Tag, ...], at_least: int, at_most: int | None) -> Constraint:
    if not kinds:
        raise UnsatisfiableConstraint(
            "tags() needs at least one section", action="pass at least one tag(...)"
        )
    if at_least < 0 or (at_most is not None and at_most < at_least):
        raise InvalidConstraint(
            f"at_least={at_least}, at_most={at_most} are not a range of counts",
            action="pass 0 <= at_least <= at_most",
        )
    begins = tuple(str(kind.begin) for kind in kinds)
    for index, begin in enumerate(begins):
        for other in begins[:index]:
            if begin in other or other in begin:
                raise InvalidConstraint(
                    "the opening markers of two sections overlap",
                    Problem(f"markers {other!r} and {begin!r}", "one contains the other"),
                    action="end all markers with the same character: <a>, <ab>",
                )
    return _TaggedTextConstraint(f.TriggeredTags("sections", begins, kinds, low=at_least, high=at_most))


def _check_marker(marker: str) -> None:
    if not isinstance(marker, str) or not marker:
        raise InvalidConstraint(f"{marker!r} is not a marker", action="use a non-empty str")
    try:
        marker.encode()
    except UnicodeEncodeError as error:
        raise InvalidConstraint(f"the marker {marker!r} is not valid Unicode: {error.reason}") from None


@dataclass(frozen=True, eq=False, repr=False)
class _AfterMarkerConstraint(FormatConstraint):
    """Free text up to a marker, then a constraint."""

    marker: str = ""

    @property
    def reasoning_end(self) -> str:  # type: ignore[override]
        return self.marker

    @property
    def content(self) -> Constraint:
        """The constraint behind the marker."""
        return self._inside[0]

    @property
    def schema(self) -> Any:
        return self.content.schema

    @property
    def local_schema(self) -> Any:
        return self.content.local_schema

    def parse(self, text: str) -> ThinkingResult:
        thinking, marker, rest = text.partition(self.marker)
        if not marker:
            raise RejectedValue(f"the completion does not contain {self.marker!r}", text=text)
        return ThinkingResult(thinking, self.content.parse(rest))

    def render(self) -> str:
        return f"text up to {self.marker!r}, then {self.content.render()}"

    def __repr__(self) -> str:
        return f"after({self.marker!r}, {self.content!r})"


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
    inner = f.Content("content", as_constraint(content))
    thinking = f.AnyText("thinking", (marker,), until=marker)
    return _AfterMarkerConstraint(f.SequenceFormat("after", (thinking, inner)), marker=marker)
