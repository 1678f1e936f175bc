"""JSON Schema (drafts 4, 6, 7, 2019-09, 2020-12) to the grammar of the JSON texts of its instances.

    text       regular languages of JSON text: strings, numbers, formats, enumerated values, whitespace and indentation
    source     documents, ``$ref``, dialects, one handler per keyword, the parsed form of a schema
    resolve    ``allOf``, ``anyOf``, ``oneOf``, ``not``, ``if``, ``unevaluated*``: from schemas to disjuncts
    parameters objects as the parameters of a tool call, in the markup of model families
    emit       rules and terminals: scalars, objects, arrays, ``contains``, ``uniqueItems``, negated objects

Every text of the grammar is the JSON of a valid instance, and every valid instance has a text, with members in the
order of the schema: see `lower_schema`. Nothing here depends on tokenizers or models.
"""

from constrained.grammars.json_schema.lower import LoweredSchema, lower_schema
from constrained.grammars.json_schema.options import PropertyOrder, SchemaOptions
from constrained.grammars.json_schema.parameters.punctuation import ESCAPES as LITERAL_ESCAPES
from constrained.grammars.json_schema.parameters.styles import (
    LITERAL_NAME,
    PARAMETER_STYLES,
    ParameterStyle,
    parameter_style,
)
from constrained.grammars.json_schema.source.dialects import SCHEMA_DIALECTS
from constrained.grammars.json_schema.source.registry import SchemaRegistry
from constrained.grammars.json_schema.source.report import KeywordEntry, KeywordReport
from constrained.grammars.json_schema.text.punctuation import Whitespace

__all__ = [
    "LITERAL_ESCAPES",
    "LITERAL_NAME",
    "PARAMETER_STYLES",
    "SCHEMA_DIALECTS",
    "KeywordEntry",
    "KeywordReport",
    "LoweredSchema",
    "ParameterStyle",
    "PropertyOrder",
    "SchemaOptions",
    "SchemaRegistry",
    "Whitespace",
    "lower_schema",
    "parameter_style",
]
