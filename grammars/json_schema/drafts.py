"""Each draft of JSON Schema as a table: keyword -> the function that lowers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grammars.errors import InvalidConstraint, Problem
from grammars.json_schema import facts as f
from grammars.json_schema import keywords as k
from grammars.json_schema.keywords import Keyword, annotation, unsupported


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
    """

    name: str
    uri: str
    table: Mapping[str, Keyword]
    id_keyword: str = "$id"
    ref_alone: bool = False
    has_anchors: bool = True
    whole_floats: bool = True

    @cached_property
    def limiting(self) -> Mapping[str, Keyword]:
        """The keywords that may limit something."""
        return {name: function for name, function in self.table.items() if function is not annotation}


def _none(value: Any) -> bool:
    return value is True or value == {}


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
    "not": unsupported("not"),
}
_6: dict[str, Keyword] = {
    **{keyword: function for keyword, function in _4.items() if keyword != "id"},
    **dict.fromkeys(("$id", "examples"), annotation),
    "const": k.const,
    "exclusiveMinimum": k.exclusive_minimum,
    "exclusiveMaximum": k.exclusive_maximum,
    "contains": unsupported("contains", f.ARRAY),
    "propertyNames": k.property_names,
}
_7: dict[str, Keyword] = {
    **_6,
    **dict.fromkeys(
        ("$comment", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "then", "else"),
        annotation,
    ),
    "if": k.if_,
}
_2019: dict[str, Keyword] = {
    **{keyword: function for keyword, function in _7.items() if keyword != "dependencies"},
    **dict.fromkeys(
        ("$defs", "$anchor", "$recursiveAnchor", "$vocabulary", "deprecated", "contentSchema"), annotation
    ),
    **dict.fromkeys(("minContains", "maxContains"), annotation),  # limits on `contains`, which is refused
    "dependentRequired": k.dependent_required,
    "dependentSchemas": k.dependent_schemas,
    "unevaluatedItems": unsupported("unevaluatedItems", f.ARRAY, _none),
    "unevaluatedProperties": unsupported("unevaluatedProperties", f.OBJECT, _none),
    "$recursiveRef": unsupported("$recursiveRef"),
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
    "$dynamicRef": unsupported("$dynamicRef"),
}

_OLD: dict[str, Any] = {"ref_alone": True, "has_anchors": False}
DRAFTS: dict[str, Draft] = {
    draft.name: draft
    for draft in (
        Draft("4", "http://json-schema.org/draft-04/schema", _4, id_keyword="id", whole_floats=False, **_OLD),
        Draft("6", "http://json-schema.org/draft-06/schema", _6, **_OLD),
        Draft("7", "http://json-schema.org/draft-07/schema", _7, **_OLD),
        Draft("2019-09", "https://json-schema.org/draft/2019-09/schema", _2019),
        Draft("2020-12", "https://json-schema.org/draft/2020-12/schema", _2020),
    )
}
"""The drafts by name."""
DEFAULT = DRAFTS["2020-12"]
_BY_URI = {draft.uri: draft for draft in DRAFTS.values()}


def draft_of(schema: Any, name: str | None = None) -> Draft:
    """The draft asked for by name, or else the one that ``$schema`` names, or else the newest.

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
    return _BY_URI.get(uri.rstrip("#"), DEFAULT) if isinstance(uri, str) else DEFAULT
