"""Each draft of JSON Schema as a table: keyword -> the function that lowers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from grammars._core import Keywords
from grammars.errors import InvalidConstraint, Problem
from grammars.json_schema.source import keywords as k
from grammars.json_schema.source.checks import value_checks
from grammars.json_schema.source.keywords import Keyword, annotation
from grammars.json_schema.text.formats import BEFORE_7, FORMATS, Format

if TYPE_CHECKING:
    from grammars.json_schema.source.registry import Registry


@dataclass(frozen=True, eq=False)
class Draft:
    """One version of the specification.

    Attributes:
        name: as it is called: ``"7"``, ``"2020-12"``.
        uri: its meta-schema's identifier.
        table: the keywords it knows; any other is an annotation.
        id_keyword: names a schema.
        ref_alone: other keywords next to ``$ref`` are ignored.
        has_anchors: ``$anchor`` names places.
        whole_floats: 1.0 is an integer.
        contains_evaluates: items that satisfy ``contains`` count as evaluated.
        formats: the formats that are enforced, by name.
    """

    name: str
    uri: str
    table: Mapping[str, Keyword]
    id_keyword: str = "$id"
    ref_alone: bool = False
    has_anchors: bool = True
    whole_floats: bool = True
    contains_evaluates: bool = False
    formats: Mapping[str, Format] = field(default_factory=lambda: FORMATS)

    def dialect(self, schema: Any) -> Draft:
        """The draft that a schema follows that stands within one of this draft or is referred to by it."""
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        found = _BY_URI.get(uri.rstrip("#"), self) if isinstance(uri, str) else self
        if found.uri == self.uri:
            return self
        return found if self.formats else replace(found, formats={})

    @cached_property
    def limiting(self) -> Mapping[str, Keyword]:
        """The keywords that may limit something."""
        return {name: function for name, function in self.table.items() if function is not annotation}

    @cached_property
    def read_natively(self) -> Keywords:
        """What a native reader must know of the keywords."""
        checks = value_checks(self.name, self.table)
        return Keywords(
            checks, frozenset(self.limiting), self.id_keyword, self.ref_alone, frozenset(self.formats)
        )


_ANNOTATIONS = dict.fromkeys(("title", "description", "default", "$schema", "definitions"), annotation)

_4: dict[str, Keyword] = {
    **_ANNOTATIONS,
    "id": annotation,
    "type": k.type_,
    "enum": k.enum,
    "minimum": k.minimum,
    "maximum": k.maximum,
    "exclusiveMinimum": k.exclusive_minimum_4,
    "exclusiveMaximum": k.exclusive_maximum_4,
    "multipleOf": k.multiple_of,
    "minLength": k.min_length,
    "maxLength": k.max_length,
    "pattern": k.pattern_,
    "format": k.format_,
    "items": k.items_before_2020,
    "additionalItems": k.additional_items,
    "minItems": k.min_items,
    "maxItems": k.max_items,
    "uniqueItems": k.unique_items,
    "properties": k.properties,
    "patternProperties": k.pattern_properties,
    "additionalProperties": k.additional_properties,
    "required": k.required,
    "minProperties": k.min_properties,
    "maxProperties": k.max_properties,
    "dependencies": k.dependencies,
    "$ref": k.ref,
    "allOf": k.all_of,
    "anyOf": k.any_of,
    "oneOf": k.one_of,
    "not": k.not_,
}
_6: dict[str, Keyword] = {
    **{keyword: function for keyword, function in _4.items() if keyword != "id"},
    **dict.fromkeys(("$id", "examples"), annotation),
    "const": k.const,
    "exclusiveMinimum": k.exclusive_minimum,
    "exclusiveMaximum": k.exclusive_maximum,
    "contains": k.contains,
    "propertyNames": k.property_names,
}
_7: dict[str, Keyword] = {
    **_6,
    **dict.fromkeys(("$comment", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"), annotation),
    "if": k.if_,
    "then": k.then,
    "else": k.then,
}
_2019: dict[str, Keyword] = {
    **{keyword: function for keyword, function in _7.items() if keyword != "dependencies"},
    **dict.fromkeys(
        ("$defs", "$anchor", "$recursiveAnchor", "$vocabulary", "deprecated", "contentSchema"), annotation
    ),
    **dict.fromkeys(("minContains", "maxContains"), k.count_of_contains),
    "dependentRequired": k.dependent_required,
    "dependentSchemas": k.dependent_schemas,
    "unevaluatedItems": k.unevaluated,
    "unevaluatedProperties": k.unevaluated,
    "$recursiveRef": k.recursive_ref,
}
_2020: dict[str, Keyword] = {
    **{
        keyword: function
        for keyword, function in _2019.items()
        if keyword not in ("additionalItems", "$recursiveRef", "$recursiveAnchor")
    },
    "$dynamicAnchor": annotation,
    "prefixItems": k.prefix_items,
    "items": k.items,
    "$dynamicRef": k.dynamic_ref,
}

_OLD: dict[str, Any] = {"ref_alone": True, "has_anchors": False}
DRAFTS: dict[str, Draft] = {
    draft.name: draft
    for draft in (
        Draft(
            "4",
            "http://json-schema.org/draft-04/schema",
            _4,
            id_keyword="id",
            whole_floats=False,
            formats=BEFORE_7,
            **_OLD,
        ),
        Draft("6", "http://json-schema.org/draft-06/schema", _6, formats=BEFORE_7, **_OLD),
        Draft("7", "http://json-schema.org/draft-07/schema", _7, **_OLD),
        Draft("2019-09", "https://json-schema.org/draft/2019-09/schema", _2019),
        Draft("2020-12", "https://json-schema.org/draft/2020-12/schema", _2020, contains_evaluates=True),
    )
}
"""The drafts by name."""
DEFAULT = DRAFTS["2020-12"]
_BY_URI = {draft.uri: draft for draft in DRAFTS.values()}


_VALIDATION = "/vocab/validation"
_LIMITS = frozenset(
    {
        "type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
        "minProperties", "maxProperties", "required", "dependentRequired",
    }
)  # fmt: skip
"""Keywords of the validation vocabulary."""


def draft_of(schema: Any, name: str | None = None, registry: Registry | None = None) -> Draft:
    """The draft asked for by name, or else the one that ``$schema`` names, or else the newest.

    A meta-schema in the registry may leave out the vocabulary of validation; its keywords are unknown then.

    Raises:
        InvalidConstraint: there is no draft of that name.
    """
    if name is not None:
        if name not in DRAFTS:
            raise InvalidConstraint(
                "unknown draft", Problem("draft", f"known drafts: {', '.join(DRAFTS)}", name)
            )
        return DRAFTS[name]
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(uri, str) and uri.rstrip("#") not in _BY_URI and registry is not None:
        meta = registry.get(uri.rstrip("#"))
        vocabularies = meta.get("$vocabulary") if isinstance(meta, dict) else None
        draft = DEFAULT.dialect(meta)
        if isinstance(vocabularies, dict) and not any(item.endswith(_VALIDATION) for item in vocabularies):
            table = {keyword: lower for keyword, lower in draft.table.items() if keyword not in _LIMITS}
            return replace(draft, table=table)
        return draft
    return DEFAULT.dialect(schema)
