"""The dialects of JSON Schema (drafts 4 to 2020-12), each as a table from keyword to handler."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from constrained.grammars._core import Keywords
from constrained.grammars.content import CHECKED_KEYWORD, CONTENT_KEYWORD
from constrained.grammars.errors import InvalidConstraint, Problem
from constrained.grammars.json_schema.source import keywords as k
from constrained.grammars.json_schema.source.contents import checked, content
from constrained.grammars.json_schema.source.document import (
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
)
from constrained.grammars.json_schema.source.keywords import KeywordHandler, annotation
from constrained.grammars.json_schema.text.patterns import FORMATS, FORMATS_BEFORE_7, Format

if TYPE_CHECKING:
    from referencing import Specification

    from constrained.grammars.json_schema.source.registry import SchemaRegistry

_KINDS: dict[str, str] = {
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
"""The kind of value that the meta-schemas require of each keyword, by the names of `constrained.grammars._core.Keywords`."""
_KINDS_OF_DRAFT_4 = {
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), "flag"),
    "required": "filled names",
    "enum": "filled list",
}


@dataclass(frozen=True, eq=False)
class SchemaDialect:
    """One version of the specification.

    Attributes:
        name: for example ``"7"`` or ``"2020-12"``.
        uri: identifier of its meta-schema.
        handlers: the keywords that it defines; any other keyword is an annotation.
        id_keyword: the keyword that identifies a schema resource.
        ref_overrides_siblings: other keywords next to ``$ref`` are ignored.
        integral_floats: whether 1.0 is an integer.
        contains_evaluates: items that satisfy ``contains`` count as evaluated.
        formats: the formats that are enforced, by name.
    """

    name: str
    uri: str
    handlers: Mapping[str, KeywordHandler]
    id_keyword: str = "$id"
    ref_overrides_siblings: bool = False
    integral_floats: bool = True
    contains_evaluates: bool = False
    formats: Mapping[str, Format] = field(default_factory=lambda: FORMATS)

    @property
    def meta_schema(self) -> str:
        """How ``$schema`` names it."""
        return self.uri + "#" * self.ref_overrides_siblings

    def dialect_of(self, schema: Any) -> SchemaDialect:
        """The dialect of a schema that is contained in, or referenced by, one of this dialect."""
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        dialect = _BY_URI.get(uri.rstrip("#"), self) if isinstance(uri, str) else self
        if dialect.uri == self.uri:
            return self
        return dialect if self.formats else dialect.without_formats

    @cached_property
    def without_formats(self) -> SchemaDialect:
        """The same dialect with ``format`` as an annotation."""
        return replace(self, formats={})

    @cached_property
    def specification(self) -> Specification[Any]:
        """Where `referencing` finds identifiers and anchors in schemas of this dialect."""
        from referencing.jsonschema import specification_with

        return specification_with(self.uri)

    def declares_schema(self, way: Sequence[str | int]) -> bool:
        """Whether keywords declare that there is a schema at the end of a way down from a schema."""
        kinds, at = self._kinds, 0
        while at < len(way):
            kind = kinds.get(str(way[at]), "any")
            if kind == "schema or list":
                at += 2 if at + 1 < len(way) and isinstance(way[at + 1], int) else 1
            elif kind == "schema":
                at += 1
            elif kind in ("schema list", "schemas by name", "dependencies"):
                at += 2
            else:
                return False
        return at == len(way)

    def identifier_of(self, schema: Mapping[str, Any]) -> str | None:
        """The URI reference by which a schema object is a resource of its own; None for all other objects.

        As `specification` has it: most documents have an identifier and no other need of that library, which takes long to import.
        """
        identifier = schema.get(self.id_keyword)
        if not isinstance(identifier, str) or identifier.startswith("#"):
            return None
        return None if self.ref_overrides_siblings and "$ref" in schema else identifier

    def anchors_of(self, schema: Mapping[str, Any]) -> list[str]:
        """The plain-name anchors that a schema object declares."""
        names = {keyword: schema[keyword] for keyword in (self.id_keyword, *_ANCHORS) if keyword in schema}
        ignored = self.ref_overrides_siblings and "$ref" in schema
        if ignored or not names or not all(isinstance(name, str) for name in names.values()):
            return []
        return [anchor.name for anchor in self.specification.anchors_in(schema)]

    @cached_property
    def assertion_keywords(self) -> Mapping[str, KeywordHandler]:
        """The keywords that may constrain values."""
        return {name: function for name, function in self.handlers.items() if function is not annotation}

    @cached_property
    def _kinds(self) -> dict[str, str]:
        kinds = {**_KINDS, **_KINDS_OF_DRAFT_4} if self.name == "4" else dict(_KINDS)
        if "prefixItems" not in self.handlers:
            kinds["items"] = "schema or list"
        return {keyword: kinds.get(keyword, "any") for keyword in self.handlers}

    @cached_property
    def native_keywords(self) -> Keywords:
        """The table of keywords for the native code."""
        # Other libraries may keep this module alive beyond the end of the interpreter; native objects must be gone by then.
        atexit.register(self.__dict__.pop, "native_keywords", None)
        return Keywords(
            self._kinds,
            frozenset(self.assertion_keywords),
            k.SCALAR_KEYWORDS,
            self.id_keyword,
            self.ref_overrides_siblings,
        )


_ANCHORS = ("$anchor", "$dynamicAnchor")
_ANNOTATIONS = dict.fromkeys(("title", "description", "default", "$schema", "definitions"), annotation)

_4: dict[str, KeywordHandler] = {
    **_ANNOTATIONS,
    "id": annotation,
    "type": k.type_,
    "enum": k.enum,
    "minimum": k.bound("low"),
    "maximum": k.bound("high"),
    "exclusiveMinimum": k.bound("low", exclusive=True, switch_of="minimum"),
    "exclusiveMaximum": k.bound("high", exclusive=True, switch_of="maximum"),
    "multipleOf": k.multiple_of,
    "minLength": k.count("min_length"),
    "maxLength": k.count("max_length"),
    "pattern": k.pattern_,
    "format": k.format_,
    "x-span": k.x_span,
    "items": k.items_before_2020,
    "additionalItems": k.additional_items,
    "minItems": k.count("min_items"),
    "maxItems": k.count("max_items"),
    "uniqueItems": k.unique_items,
    "properties": k.properties,
    "patternProperties": k.pattern_properties,
    "additionalProperties": k.additional_properties,
    "required": k.required,
    "minProperties": k.count("min_properties"),
    "maxProperties": k.count("max_properties"),
    "dependencies": k.dependencies,
    "$ref": k.ref,
    "allOf": k.all_of,
    "anyOf": k.any_of,
    "oneOf": k.one_of,
    "not": k.not_,
    CONTENT_KEYWORD: content,
    CHECKED_KEYWORD: checked,
}
_6: dict[str, KeywordHandler] = {
    **{keyword: function for keyword, function in _4.items() if keyword != "id"},
    **dict.fromkeys(("$id", "examples"), annotation),
    "const": k.const,
    "exclusiveMinimum": k.bound("low", exclusive=True),
    "exclusiveMaximum": k.bound("high", exclusive=True),
    "contains": k.contains,
    "propertyNames": k.property_names,
}
_7: dict[str, KeywordHandler] = {
    **_6,
    **dict.fromkeys(("$comment", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"), annotation),
    "if": k.if_,
    "then": k.then,
    "else": k.then,
}
_2019: dict[str, KeywordHandler] = {
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
_2020: dict[str, KeywordHandler] = {
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

SCHEMA_DIALECTS: dict[str, SchemaDialect] = {
    dialect.name: dialect
    for dialect in (
        SchemaDialect(
            "4",
            "http://json-schema.org/draft-04/schema",
            _4,
            id_keyword="id",
            integral_floats=False,
            formats=FORMATS_BEFORE_7,
            ref_overrides_siblings=True,
        ),
        SchemaDialect(
            "6",
            "http://json-schema.org/draft-06/schema",
            _6,
            formats=FORMATS_BEFORE_7,
            ref_overrides_siblings=True,
        ),
        SchemaDialect("7", "http://json-schema.org/draft-07/schema", _7, ref_overrides_siblings=True),
        SchemaDialect("2019-09", "https://json-schema.org/draft/2019-09/schema", _2019),
        SchemaDialect(
            "2020-12", "https://json-schema.org/draft/2020-12/schema", _2020, contains_evaluates=True
        ),
    )
}
"""The dialects by name."""
DEFAULT_DIALECT = SCHEMA_DIALECTS["2020-12"]
_BY_URI = {dialect.uri: dialect for dialect in SCHEMA_DIALECTS.values()}


_VALIDATION = "/vocab/validation"
_LIMITS = frozenset(
    {
        "type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
        "minProperties", "maxProperties", "required", "dependentRequired",
    }
)  # fmt: skip
"""Keywords of the validation vocabulary."""


def select_dialect(
    schema: Any, name: str | None = None, registry: SchemaRegistry | None = None
) -> SchemaDialect:
    """The dialect of this name, or else the one that ``$schema`` names, or else the newest.

    A meta-schema in the registry may omit the validation vocabulary, whose keywords are then unknown.

    Raises:
        InvalidConstraint: unknown dialect.
    """
    if name is not None:
        if name not in SCHEMA_DIALECTS:
            raise InvalidConstraint(
                "unknown draft", Problem("draft", f"known drafts: {', '.join(SCHEMA_DIALECTS)}", name)
            )
        return SCHEMA_DIALECTS[name]
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(uri, str) and uri.rstrip("#") not in _BY_URI and registry is not None:
        meta = registry.get(uri.rstrip("#"))
        vocabularies = meta.get("$vocabulary") if isinstance(meta, dict) else None
        dialect = DEFAULT_DIALECT.dialect_of(meta)
        if isinstance(vocabularies, dict) and not any(item.endswith(_VALIDATION) for item in vocabularies):
            table = {keyword: lower for keyword, lower in dialect.handlers.items() if keyword not in _LIMITS}
            return replace(dialect, handlers=table)
        return dialect
    return DEFAULT_DIALECT.dialect_of(schema)


def is_keyword(name: str) -> bool:
    """Whether every dialect knows a keyword of this name."""
    return all(name in dialect.handlers for dialect in SCHEMA_DIALECTS.values())


def constrains(name: str) -> bool:
    """Whether a keyword of this name constrains values, in one dialect at least."""
    return _all_keywords().get(name, annotation) is not annotation


@lru_cache(4096)
def misspelt_keyword(name: str) -> str | None:
    """The keyword that is meant by a name one edit away from it, if it constrains values; None for other names.

    A name with a sign before it, such as ``_format``, is no mistake: so people turn keywords off.
    """
    known = _all_keywords()
    if name in known or not name[:1].isalnum():
        return None
    near = (word for word, handler in known.items() if handler is not annotation and _one_edit(name, word))
    return min(near, default=None)


@cache
def _all_keywords() -> dict[str, KeywordHandler]:
    """The keywords of all dialects."""
    return {
        word: handler for dialect in SCHEMA_DIALECTS.values() for word, handler in dialect.handlers.items()
    }


def _one_edit(one: str, other: str) -> bool:
    """Whether a character was changed, added, left out, or exchanged with the next (Damerau 1964)."""
    if abs(len(one) - len(other)) > 1:
        return False
    short, long = sorted((one, other), key=len)
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return len(long) - len(short) == 1 and short[at:] == long[at + 1 :]
    rest = slice(at + 2, None)
    swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[rest] == long[rest]
    return short[at + 1 :] == long[at + 1 :] or swapped
