"""Arrays with ``contains`` whose counts can be reached in many ways: the work of a count is near the limit of the trial, or they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from constrained import json_schema
from constrained.automaton import TokenAutomaton, compile_grammar
from constrained.automaton.trial import START_LIMIT
from constrained.errors import ConstraintTooLarge
from tests.support.finite import byte_vocabulary


def contained(*least: int, **more: Any) -> dict[str, Any]:
    parts = [{"contains": {"required": [f"m{i}"]}, "minContains": count} for i, count in enumerate(least)]
    return {"type": "array", "items": {"type": "object"}, "allOf": parts, **more}


@pytest.mark.parametrize("least", [(222,), (28, 28), (10, 10, 10), (3, 40)])
def test_a_count_where_matches_may_go_uncounted_is_within_the_limit_of_the_trial(
    least: tuple[int, ...],
) -> None:
    automaton = compile_grammar(json_schema(contained(*least)).grammar, byte_vocabulary())
    assert isinstance(automaton, TokenAutomaton)
    automaton.shortest_completion(automaton.start)
    assert automaton.last_work < 2 * START_LIMIT
    assert automaton.last_work > START_LIMIT / 10  # no lower limit would do


@pytest.mark.ci
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (contained(400), "can be reached in too many ways: 400"),
        (contained(100, 100), "can be reached in too many ways: 100, 100"),
        (contained(*[1] * 14), "can be reached in too many ways"),
        (contained(*[1] * 11), "more than 60000 kinds of items"),
        (
            {"type": "array", "contains": {"type": "null"}, "maxContains": 30_000},
            "more than 20000 combinations",
        ),
    ],
    ids=["one", "two", "fourteen", "kinds of items", "states"],
)
def test_counts_that_would_take_more_are_refused_by_name(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConstraintTooLarge, match=reason) as refused:
        _ = json_schema(schema).grammar
    assert "contains" in str(refused.value)


def test_a_maximum_counts_every_match_in_one_way() -> None:
    schema = {"type": "array", "contains": {"type": "null"}, "minContains": 400, "maxContains": 500}
    automaton = compile_grammar(json_schema(schema).grammar, byte_vocabulary())
    assert automaton.shortest_completion(automaton.start) == len("[" + ",".join(["null"] * 400) + "]")
    assert automaton.last_work < START_LIMIT / 10
