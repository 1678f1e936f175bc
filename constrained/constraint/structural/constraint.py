"""The constraint of a structural tag, and the value of a text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from constrained.constraint.base import Constraint, digest, shorten
from constrained.constraint.free_text import Section
from constrained.constraint.json_text import copy_schema, is_json
from constrained.constraint.structural import formats as f
from constrained.constraint.structural.reader import read_definition
from constrained.errors import RejectedValue

if TYPE_CHECKING:
    from constrained.grammars.ir import Grammar


@dataclass(frozen=True, eq=False, repr=False)
class _StructuralTagConstraint(Constraint):
    """Text of a structural tag.

    `document` is the text that strings with ``x-span`` are spans of; None where there is none yet. `around` are the special
    tokens of the text that this one is a part of.
    """

    _text: str
    document: str | None = None
    around: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        document = [] if self.document is None else [self.document]
        return digest(
            "structural_tag", self._text, *document, *(["around", *self.around] if self.around else [])
        )

    @cached_property
    def _read(self) -> f.StructuralFormat:
        return read_definition(json.loads(self._text))

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        parts = (one.constraint for one in f.contents(self._read))
        if self.document is None:
            return tuple(parts)
        return tuple(one.bind(self.document) if self.document else one.without_document() for one in parts)

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.constraint.structural.rules import grammar_of

        return grammar_of(self._read, self.document, self.special_tokens)

    @cached_property
    def fixed_texts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for one in f.named(self._read) if isinstance(one, str)))

    @cached_property
    def special_tokens(self) -> tuple[str, ...]:
        named = (one.name for one in f.named(self._read) if isinstance(one, f.Token))
        return tuple(dict.fromkeys((*self.around, *named)))

    def among_special_tokens(self, names: Sequence[str]) -> Constraint:
        return replace(self, around=tuple(names)) if self.special_tokens else self

    @property
    def needs_document(self) -> bool:
        return '"x-span"' in self._text and self.document is None

    def bind(self, document: str, *, require_grounding: bool = False) -> Constraint:
        if require_grounding:
            return super().bind(document, require_grounding=True)
        return replace(self, document=document) if '"x-span"' in self._text else self

    def without_document(self) -> Constraint:
        return replace(self, document="") if self.needs_document else self

    def parse(self, text: str) -> Any:
        form = self._read
        if isinstance(form, f.Content):
            return form.constraint.parse(text)
        # Tokens that begin sections look like text that spells their names, so only texts tell where sections begin.
        if isinstance(form, f.TriggeredTags) and not self.special_tokens:
            return _parts(form, text)
        return text

    def render(self) -> str:
        return f"text of the structural tag {shorten(self._text)}"

    def __repr__(self) -> str:
        return f"structural_tag({shorten(self._text)})"


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
    constraint = _StructuralTagConstraint(text)
    constraint.__dict__["_read"] = read_definition(read)
    return constraint


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
