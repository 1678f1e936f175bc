"""Validation of schemas against the meta-schema: a fast native check, and `jsonschema` for the error messages."""

from __future__ import annotations

from typing import Any

from constrained.grammars.errors import MISSING, InvalidConstraint, Problem
from constrained.grammars.json_schema.source.dialects import SchemaDialect
from constrained.grammars.json_schema.source.document import child_pointer

_MAX_PROBLEMS = 10


def require_valid_schema(schema: Any, dialect: SchemaDialect) -> int:
    """Checks that a value is a schema of a dialect; returns the approximate number of its subschemas.

    Raises:
        InvalidConstraint: lists the malformed places.
    """
    count = dialect.native_keywords.count_subschemas(schema)
    if not count:
        raise InvalidConstraint(
            "the schema is malformed", _problems(schema, dialect), action=f"correct it (draft {dialect.name})"
        )
    return count


def _problems(schema: Any, dialect: SchemaDialect) -> list[Problem]:
    """The errors that `jsonschema` reports, by place."""
    import jsonschema.validators

    validator = jsonschema.validators.validator_for(
        {"$schema": dialect.uri + "#" * (dialect.ref_overrides_siblings)}
    )
    try:
        errors = list(validator(validator.META_SCHEMA).iter_errors(schema))
    except RecursionError:
        return [Problem("#", "is not a schema, and is nested too deeply to say where")]
    problems: dict[str, Problem] = {}
    for error in errors[:_MAX_PROBLEMS]:
        best = jsonschema.exceptions.best_match([error])
        place = child_pointer("#", *(best.absolute_path))
        value = best.instance if not isinstance(best.instance, dict) else MISSING
        reason = best.message if len(best.message) < 200 else "is malformed"
        problems.setdefault(place, Problem(place, reason, value))
    return list(problems.values()) or [Problem("#", "contains a number or a key that JSON cannot represent")]
