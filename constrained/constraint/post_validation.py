"""Values judged by their schema after generation: for keywords that no grammar can enforce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constrained.errors import Problem

_MAX_PROBLEMS = 5


def validation_errors(
    schema: Any, draft: str, registry: Mapping[str, Any] | None, value: Any
) -> list[Problem]:
    """What `jsonschema` finds wrong with a value, the most telling first; empty if it is valid.

    Args:
        schema: the whole schema, as it was given.
        draft: name of the draft that it follows.
        registry: other schemas by URI.
        value: a JSON value.
    """
    import jsonschema.validators
    from referencing import Registry
    from referencing.jsonschema import specification_with

    from constrained.grammars.json_schema import SCHEMA_DIALECTS

    uri = SCHEMA_DIALECTS[draft].uri
    # Up to draft 7 the identifier of a meta-schema ends in an empty fragment.
    kind = jsonschema.validators.validator_for(
        {"$schema": uri}, default=None
    ) or jsonschema.validators.validator_for({"$schema": f"{uri}#"})
    specification = specification_with(uri)
    resources = [
        (name, specification.create_resource(contents)) for name, contents in (registry or {}).items()
    ]
    validator = kind(schema, registry=Registry().with_resources(resources))
    errors = sorted(validator.iter_errors(value), key=jsonschema.exceptions.relevance, reverse=True)
    return [
        Problem(
            "/".join(("#", *map(str, error.absolute_path))), error.message[:200], keyword=str(error.validator)
        )
        for error in errors[:_MAX_PROBLEMS]
    ]
