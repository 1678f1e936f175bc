"""The kind of value that the meta-schemas require of each keyword, by the names of `constrained.grammars._core.Keywords`."""

from __future__ import annotations

from collections.abc import Iterable

from constrained.grammars.json_schema.source.document import (
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
)

_CHECKS: dict[str, str] = {
    **dict.fromkeys(
        ("$id", "$ref", "$schema", "$comment", "$anchor", "title", "description", "pattern", "format"), "text"
    ),
    **dict.fromkeys(("$dynamicRef", "$dynamicAnchor", "$recursiveRef"), "text"),
    **dict.fromkeys(("contentMediaType", "contentEncoding"), "text"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), "number"),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), "count"
    ),
    **dict.fromkeys(("minContains", "maxContains"), "count"),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated", "$recursiveAnchor"), "flag"),
    "multipleOf": "positive",
    "type": "types",
    "enum": "list",
    "examples": "list",
    "required": "names",
    "dependentRequired": "name lists",
    "dependencies": "dependencies",
    **dict.fromkeys(SCHEMA_KEYWORDS, "schema"),
    **dict.fromkeys(SCHEMA_LIST_KEYWORDS, "schema list"),
    **dict.fromkeys(SCHEMA_MAP_KEYWORDS, "schemas by name"),
}
_OF_DRAFT_4 = {
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), "flag"),
    "required": "filled names",
    "enum": "filled list",
}


def keyword_value_kinds(dialect: str, keywords: Iterable[str]) -> dict[str, str]:
    """Kind of value by keyword of a dialect."""
    keywords = list(keywords)
    checks = {**_CHECKS, **_OF_DRAFT_4} if dialect == "4" else dict(_CHECKS)
    if "prefixItems" not in keywords:
        checks["items"] = "schema or list"
    return {keyword: checks.get(keyword, "any") for keyword in keywords}
