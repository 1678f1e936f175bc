"""What cannot be enforced is refused before a model runs, by name and place; nothing is weakened in silence."""

import constrained

SCHEMAS = (
    {"properties": {"twice": {"type": "string", "pattern": r"^(.)\1$"}, "odd": {"not": {"multipleOf": 2}}}},
    {"type": "integer", "exclusiveMinimum": 3, "maximum": 3},
    {"type": "strin"},
)

for schema in SCHEMAS:
    try:
        constrained.json_schema(schema).grammar  # noqa: B018  (what generation would ask for first)
    except constrained.ConstraintError as error:
        print(f"{type(error).__name__}: {error}\n")
