"""Schemas that cannot be enforced are refused before a model runs; the error names each keyword and its place."""

import constrained

SCHEMAS = (
    {"properties": {"twice": {"type": "string", "pattern": r"^(.)\1$"}, "odd": {"not": {"multipleOf": 2}}}},
    {"type": "integer", "exclusiveMinimum": 3, "maximum": 3},
    {"type": "strin"},
)

for schema in SCHEMAS:
    try:
        constrained.json_schema(schema).grammar  # noqa: B018  (generation starts with the grammar)
    except constrained.ConstraintError as error:
        print(f"{type(error).__name__}: {error}\n")
