"""Validation of schemas against the meta-schema: a fast native check, and `jsonschema` for the error messages."""

from __future__ import annotations

from typing import Any

from constrained.grammars.errors import MISSING, InvalidConstraint, Problem
from constrained.grammars.json_schema.source.dialects import SCHEMA_DIALECTS, SchemaDialect
from constrained.grammars.json_schema.source.document import child_pointer

_MAX_PROBLEMS = 10


def require_valid_schema(schema: Any, dialect: SchemaDialect) -> int:
    """Checks that a value is a schema of a dialect; returns the approximate number of its subschemas.

    Raises:
        InvalidConstraint: lists the malformed places.
    """
    count = dialect.native_keywords.count_subschemas(schema)
    if not count:
        action = f"correct it (draft {dialect.name})"
        if (other := _valid_in(schema)) is not None:
            action += f'; or name the draft in which it is valid: "$schema": "{other.meta_schema}"'
        raise InvalidConstraint("the schema is malformed", _problems(schema, dialect), action=action)
    return count


def _valid_in(schema: Any) -> SchemaDialect | None:
    """The newest draft in which a schema is valid, if there is one: clients often send older ones without saying so."""
    newest_first = reversed(SCHEMA_DIALECTS.values())
    return next((one for one in newest_first if one.native_keywords.count_subschemas(schema)), None)


def _problems(schema: Any, dialect: SchemaDialect) -> list[Problem]:
    """The errors that `jsonschema` reports, by place."""
    import jsonschema.validators

    validator = jsonschema.validators.validator_for({"$schema": dialect.meta_schema})
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
