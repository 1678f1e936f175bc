"""Whether a value is a schema of its draft: a quick check of our own (`grammars/_core/metaschema.cpp`), and `jsonschema` to name what is wrong."""

from __future__ import annotations

from typing import Any

from grammars.errors import MISSING, InvalidConstraint, Problem
from grammars.json_schema.source.dialects import SchemaDialect
from grammars.json_schema.source.document import child_pointer

_MAX_PROBLEMS = 10


def require_valid_schema(schema: Any, dialect: SchemaDialect) -> int:
    """Refuses what is not a schema; about how many schemas it is made of otherwise.

    Raises:
        InvalidConstraint: names the places.
    """
    count = dialect.native_keywords.count_subschemas(schema)
    if not count:
        raise InvalidConstraint(
            "the schema is malformed", _problems(schema, dialect), action=f"correct it (draft {dialect.name})"
        )
    return count


def _problems(schema: Any, dialect: SchemaDialect) -> list[Problem]:
    """What `jsonschema` finds wrong, place by place."""
    import jsonschema.validators

    validator = jsonschema.validators.validator_for(
        {"$schema": dialect.uri + "#" * (dialect.ref_overrides_siblings)}
    )
    try:
        errors = list(validator(validator.META_SCHEMA).iter_errors(schema))
    except RecursionError:
        return [Problem("#", "is not a schema, and too deep to say where")]
    problems: dict[str, Problem] = {}
    for error in errors[:_MAX_PROBLEMS]:
        best = jsonschema.exceptions.best_match([error])
        place = child_pointer("#", *(best.absolute_path))
        value = best.instance if not isinstance(best.instance, dict) else MISSING
        reason = best.message if len(best.message) < 200 else "is malformed"
        problems.setdefault(place, Problem(place, reason, value))
    return list(problems.values()) or [Problem("#", "holds a number or a key that JSON cannot write")]
