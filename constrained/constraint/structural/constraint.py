"""The constraint of a format: free text with structured parts; and that of a structural tag."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.constraint.base import Constraint, digest, shorten
from constrained.constraint.json_text import copy_schema, is_json
from constrained.constraint.structural import formats as f
from constrained.constraint.structural.reader import read_definition
from constrained.errors import RejectedValue

if TYPE_CHECKING:
    from constrained.grammars.ir import Grammar


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


@dataclass(frozen=True, eq=False, repr=False)
class FormatConstraint(Constraint):
    """Text of a format. The value is a list for free text with tags, without tokens; that of a constraint; otherwise the text.

    Attributes:
        form: the format.
        around: special tokens of the text that this one is a part of.
    """

    form: f.StructuralFormat
    around: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """See `Constraint`."""
        return digest("format", json.dumps(f.identity(self.form)), *self.around)

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        return tuple(one.constraint for one in f.contents(self.form))

    @cached_property
    def grammar(self) -> Grammar:
        """See `Constraint`."""
        from constrained.constraint.structural.rules import grammar_of

        return grammar_of(self.form, self.special_tokens)

    @cached_property
    def special_tokens(self) -> tuple[str, ...]:
        """Those that the format names, and those of the constraints in it."""
        named = (one.name for one in f.named(self.form) if isinstance(one, f.Token))
        inside = (name for one in self._inside for name in one.special_tokens)
        return tuple(dict.fromkeys((*self.around, *named, *inside)))

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        """Those of the constraints in it."""
        return tuple(dict.fromkeys(text for one in self._inside for text in one.fixed_texts))

    def among_special_tokens(self, names: Sequence[str]) -> Constraint:
        """See `Constraint`."""
        return replace(self, around=tuple(names)) if self.special_tokens else self

    @property
    def needs_document(self) -> bool:
        """Whether a constraint in it needs one."""
        return any(one.needs_document for one in self._inside)

    def bind(self, document: str, *, require_grounding: bool = False) -> Constraint:
        """See `Constraint`; binds the constraints in it."""
        return self._changed(lambda one: one.bind(document, require_grounding=require_grounding))

    def without_document(self) -> Constraint:
        """See `Constraint`."""
        return self._changed(lambda one: one.without_document()) if self.needs_document else self

    def _changed(self, change: Callable[[Constraint], Constraint]) -> Constraint:
        changed = replace(self, form=f.with_contents(self.form, change))
        same = all(one is other for one, other in zip(self._inside, changed._inside, strict=True))
        return self if same else changed

    def parse(self, text: str) -> Any:
        """See `Constraint`."""
        form = self.form
        if isinstance(form, f.Content):
            return form.constraint.parse(text)
        # Tokens that begin sections look like text that spells their names, so only texts tell where sections begin.
        if isinstance(form, f.TriggeredTags) and not self.special_tokens:
            return _parts(form, text)
        return text

    @property
    def _meaning(self) -> Any:
        return self._inside


@dataclass(frozen=True, eq=False, repr=False)
class _StructuralTag(FormatConstraint):
    text: str = ""

    def bind(self, document: str, *, require_grounding: bool = False) -> Constraint:
        if require_grounding:  # free text would not be
            return Constraint.bind(self, document, require_grounding=True)
        return super().bind(document)

    @cached_property
    def fixed_texts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for one in f.named(self.form) if isinstance(one, str)))

    def render(self) -> str:
        return f"text of the structural tag {shorten(self.text)}"

    def __repr__(self) -> str:
        return f"structural_tag({shorten(self.text)})"


def structural_tag(definition: Mapping[str, Any]) -> Constraint:
    """Text that a structural tag describes, as XGrammar, vLLM and SGLang pass it: tool calls and reasoning in free text.

    The value is a list for ``triggered_tags`` without tokens, as for `tag`; for a schema alone what `json_schema` gives;
    otherwise the text.
    Objects whose schema declares members are closed unless it speaks of others, and numbers have the digits that
    arguments of tools have. With ``any_order`` every declared member still comes at most once, and required ones do come.

    Args:
        definition: ``{"type": "structural_tag", "format": {...}}``; the page on constraints lists the formats. Or the
            older form, ``{"type": "structural_tag", "triggers": [...], "structures": [{"begin", "schema", "end"}]}``.

    Raises:
        InvalidConstraint: the definition is malformed; names the JSON Pointer.
        UnsupportedConstraint: a format or a key is unknown, or cannot be enforced.
        ConstraintTooLarge: formats are nested too deeply.
    """
    if not isinstance(definition, Mapping):
        read_definition(definition)
    read, text = copy_schema(definition)
    return _StructuralTag(read_definition(read), text=text)


def _parts(form: f.TriggeredTags, text: str) -> list[str | Section]:
    """Free text and sections, in order of occurrence."""
    longest_first = sorted(form.tags, key=lambda tag: -len(_text(tag.begin)))
    marker = re.compile("|".join(re.escape(_text(trigger)) for trigger in form.triggers))
    parts: list[str | Section] = []
    at = 0
    while (found := marker.search(text, at)) is not None:
        section = next(filter(None, (_section(tag, text, found.start()) for tag in longest_first)), None)
        if section is None:
            raise RejectedValue(f"the section opened by {found.group()!r} is not closed", text=text)
        if found.start() > at:
            parts.append(text[at : found.start()])
        parts.append(section[0])
        at = section[1]
    return [*parts, text[at:]] if at < len(text) else parts


def _section(tag: f.Tag, text: str, start: int) -> tuple[Section, int] | None:
    """The section of a tag at a position, with its end; None if another tag stands there."""
    begin = _text(tag.begin)
    if not text.startswith(begin, start):
        return None
    inside = start + len(begin)
    content = tag.content
    for stop, end in _ends(tag, text, inside):
        inner = text[inside:stop]
        if not isinstance(content, f.Content):
            return Section(begin, inner, inner), end
        if not content.constraint.is_json or is_json(inner):
            return Section(begin, content.constraint.parse(inner), inner), end
    return None


def _ends(tag: f.Tag, text: str, start: int) -> list[tuple[int, int]]:
    """Where the tag may end: before and after each of its ends, the first one first."""
    pattern = re.compile("|".join(map(re.escape, sorted(map(_text, tag.ends), key=len, reverse=True))))
    return [match.span() for match in pattern.finditer(text, start)]


def _text(boundary: str | f.Token) -> str:
    """The text of a boundary of a definition without tokens."""
    assert isinstance(boundary, str)
    return boundary
