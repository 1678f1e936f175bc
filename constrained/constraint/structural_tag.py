"""Structural tags of XGrammar and vLLM: free text in which a trigger starts one of several sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from constrained.constraint.base import Constraint, digest
from constrained.constraint.free_text import _Tag, _TaggedTextConstraint, tag, tags
from constrained.constraint.grammar import gbnf
from constrained.constraint.json import json_schema
from constrained.constraint.text import choice, regex
from constrained.errors import InvalidConstraint, Problem, UnsupportedConstraint

if TYPE_CHECKING:
    from grammars.ir import Grammar


@dataclass(frozen=True, eq=False, repr=False)
class _StructuralTagConstraint(_TaggedTextConstraint):
    """Free text with sections; the free text contains no trigger."""

    triggers: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        return digest("triggered", super().key, *self.triggers)

    @cached_property
    def grammar(self) -> Grammar:
        from grammars import ir
        from grammars.text.free_text import SectionGrammar, free_text_with_sections
        from grammars.transform.imports import fresh_name, import_rules

        sections = []
        for trigger in self.triggers:
            rules: dict[str, ir.Expr] = {}
            kinds = []
            for kind in self.tags:
                if kind.begin.startswith(trigger):
                    rest = ir.terminal(kind.begin[len(trigger) :])
                    kinds.append(ir.sequence(rest, import_rules(kind.body(), rules)))
            name = fresh_name("section", rules)
            rules[name] = ir.choice(*kinds)
            sections.append(SectionGrammar(trigger, ir.Grammar(rules, name)))
        return free_text_with_sections(sections, low=self.at_least, high=self.at_most)

    def __repr__(self) -> str:
        return f"structural_tag({super().__repr__()}, triggers={list(self.triggers)})"


_FIELDS = {"json_schema": "json_schema", "regex": "pattern", "const_string": "value", "grammar": "grammar"}


def structural_tag(definition: Mapping[str, Any]) -> Constraint:
    """Free text in which a trigger starts a section; the value is a list as for `tag`.

    Args:
        definition: ``{"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [...], "tags":
            [{"begin", "content": {"type": "json_schema", "json_schema": ...}, "end"}], "at_least_one": bool,
            "stop_after_first": bool}}``, or the older form ``{"type": "structural_tag", "triggers": [...],
            "structures": [{"begin", "schema", "end"}]}``. A content can also be a ``regex`` with its ``pattern`` or a
            ``const_string`` with its ``value``. A format can also be a content alone.

    Raises:
        InvalidConstraint: the definition is malformed, or a tag starts with none or several of the triggers.
        UnsupportedConstraint: a format or content has another type, ``stop_after_first`` is set, or a key is unknown;
            names its place.
        ConstraintError: a content is invalid or cannot be enforced.
    """
    if not isinstance(definition, Mapping) or definition.get("type") != "structural_tag":
        raise _wrong("#", "is not a structural tag", 'an object with "type": "structural_tag"')
    if "structures" in definition:
        _check_keys(definition, "#", "type", "structures", "triggers")
        kinds = [
            _tag(
                one,
                f"#/structures/{i}",
                lambda section, place: json_schema(_get(section, "schema", place)),
                ("schema",),
            )
            for i, one in enumerate(_list(definition, "structures", "#"))
        ]
        return _triggered(kinds, _list(definition, "triggers", "#"), "#", at_least=0)
    _check_keys(definition, "#", "type", "format")
    form = _get(definition, "format", "#")
    if not isinstance(form, Mapping):
        raise _wrong("#/format", "is not a format", 'an object with a "type"')
    if form.get("type") != "triggered_tags":
        return _content(form, "#/format")
    _check_keys(form, "#/format", "type", "triggers", "tags", "at_least_one", "stop_after_first")
    if form.get("stop_after_first"):
        raise UnsupportedConstraint(
            "the structural tag cannot be enforced",
            Problem("#/format/stop_after_first", "is unknown", keyword="stop_after_first"),
            action="leave it out",
        )
    kinds = [
        _tag(
            one,
            f"#/format/tags/{i}",
            lambda section, place: _content(_get(section, "content", place), f"{place}/content"),
            ("type", "content"),
        )
        for i, one in enumerate(_list(form, "tags", "#/format"))
    ]
    triggers = _list(form, "triggers", "#/format")
    return _triggered(kinds, triggers, "#/format", at_least=1 if form.get("at_least_one") else 0)


def _triggered(kinds: list[Constraint], triggers: Sequence[Any], place: str, *, at_least: int) -> Constraint:
    all_tags = tuple(one for kind in kinds if isinstance(kind, _TaggedTextConstraint) for one in kind.tags)
    tags(*kinds)  # checks the markers
    for i, trigger in enumerate(triggers):
        if not isinstance(trigger, str) or not trigger:
            raise _wrong(f"{place}/triggers/{i}", "is not a trigger", "a non-empty string")
        if any(trigger in other for j, other in enumerate(triggers) if i != j):
            raise _wrong(
                f"{place}/triggers/{i}",
                "is contained in another trigger",
                "triggers of which none contains another",
            )
        if not any(one.begin.startswith(trigger) for one in all_tags):
            raise _wrong(f"{place}/triggers/{i}", "is not a prefix of any begin", "a prefix of a tag's begin")
    for one in all_tags:
        _check_triggered(one, triggers, place)
    return _StructuralTagConstraint(all_tags, at_least, None, tuple(triggers))


def _check_triggered(one: _Tag, triggers: Sequence[str], place: str) -> None:
    if sum(one.begin.startswith(trigger) for trigger in triggers) != 1:
        raise _wrong(
            f"{place}/triggers",
            f"not exactly one trigger is a prefix of {one.begin!r}",
            "one trigger for each begin",
        )
    if any(one.begin.find(trigger, 1) >= 0 for trigger in triggers):
        raise _wrong(f"{place}/triggers", f"a trigger occurs inside {one.begin!r}", "shorter begins")


def _tag(
    definition: Any,
    place: str,
    content: Callable[[Mapping[str, Any], str], Constraint],
    names: tuple[str, ...],
) -> Constraint:
    if not isinstance(definition, Mapping):
        raise _wrong(place, "is not a tag", "an object with begin and end")
    _check_keys(definition, place, "begin", "end", *names)
    begin, end = _get(definition, "begin", place), _get(definition, "end", place)
    return tag(begin, content(definition, place), end)


def _content(definition: Any, place: str) -> Constraint:
    if not isinstance(definition, Mapping):
        raise _wrong(place, "is not a content", 'an object with a "type"')
    kind = definition.get("type")
    readers: dict[Any, Callable[[], Constraint]] = {
        "json_schema": lambda: json_schema(_get(definition, "json_schema", place)),
        "regex": lambda: regex(_get(definition, "pattern", place)),
        "const_string": lambda: choice([_get(definition, "value", place)]),
        "grammar": lambda: gbnf(_get(definition, "grammar", place)),
    }
    if kind not in readers:
        raise UnsupportedConstraint(
            "the structural tag cannot be enforced",
            Problem(f"{place}/type", "is unknown", kind, keyword="type"),
            action=f"use one of {', '.join(map(repr, readers))}",
        )
    _check_keys(definition, place, "type", _FIELDS[str(kind)])
    return readers[kind]()


def _check_keys(definition: Mapping[str, Any], place: str, *names: str) -> None:
    """Refuses keys that would be ignored: what they ask for would be dropped in silence."""
    for key in definition:
        if key not in names:
            raise UnsupportedConstraint(
                "the structural tag cannot be enforced",
                Problem(f"{place}/{key}", "is unknown", definition[key], keyword=str(key)),
                action=f"leave it out; known there: {', '.join(names)}",
            )


def _get(definition: Mapping[str, Any], name: str, place: str) -> Any:
    if name not in definition:
        raise _wrong(f"{place}/{name}", "is missing", f"{name!r} there")
    return definition[name]


def _list(definition: Mapping[str, Any], name: str, place: str) -> list[Any]:
    items = _get(definition, name, place)
    if not isinstance(items, list) or not items:
        raise _wrong(f"{place}/{name}", "is not a non-empty list", "a list with at least one item")
    return items


def _wrong(place: str, reason: str, wanted: str) -> InvalidConstraint:
    return InvalidConstraint(
        "the structural tag cannot be read", Problem(place, reason), action=f"give {wanted}"
    )
