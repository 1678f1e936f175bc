"""What a request to vLLM says about its constraint. Does not import vLLM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constrained.errors import Problem, UnsupportedConstraint
from constrained.integrations.engines.request_constraint import FLAGS, KINDS


def request_fields(params: Any, config: Any = None) -> dict[str, Any]:
    """The fields of `StructuredOutputsParams` that determine a constraint, for `request_constraint`.

    Args:
        params: of the request.
        config: vLLM's `StructuredOutputsConfig`, whose flags hold for all requests.
    """
    given = {name: value for name in KINDS if (value := getattr(params, name, None)) is not None}
    for name in FLAGS:
        if value := getattr(params, name, None) or getattr(config, name, None):
            given[name] = value
    return given


def check_extra_args(extra: Mapping[str, Any] | None) -> None:
    """Refuses what the plug-in cannot do, by name: samplers other than local masking, and predicates.

    Args:
        extra: vLLM's ``extra_args`` of a request (``vllm_xargs`` over HTTP).

    Raises:
        UnsupportedConstraint: a sampler or predicate is named.
    """
    for name in ("sampler", "predicate"):
        value = (extra or {}).get(name)
        if value is None or (name == "sampler" and str(value).lower() == "local"):
            continue
        what = {
            "sampler": f"the sampler {value!r} does not run inside vLLM, which masks logits and draws tokens itself",
            "predicate": "a predicate is Python code, which a server does not take from its clients",
        }
        raise UnsupportedConstraint(
            what[name],
            Problem(name, "is not supported"),
            action="use constrained.Generator, or constrained serve",
        )
