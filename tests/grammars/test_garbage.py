"""Collections are rare while a grammar is made, and as frequent as before afterwards, whatever happens in between."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from constrained.automaton import compile as compile_automaton
from constrained.errors import InvalidConstraint
from constrained.grammars.garbage import rare_collections
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from tests.support.finite import byte_vocabulary

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual_threshold() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_nested_uses_end_with_the_outermost() -> None:
    with rare_collections():
        raised = gc.get_threshold()
        assert raised[0] > USUAL[0]
        with rare_collections():
            assert gc.get_threshold() == raised
        assert gc.get_threshold() == raised
    assert gc.get_threshold() == USUAL
    assert gc.isenabled()


def test_an_error_ends_it() -> None:
    with pytest.raises(InvalidConstraint):
        lower_schema({"type": "nothing"})
    assert gc.get_threshold() == USUAL


def test_threads_share_it_until_the_last_one_ends() -> None:
    inside, leave = threading.Barrier(9), threading.Event()

    def work() -> None:
        for _ in range(200):
            with rare_collections():
                pass
        with rare_collections():
            inside.wait(10)
            leave.wait(10)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    inside.wait(10)
    assert gc.get_threshold() != USUAL
    leave.set()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("mine", [(0, 10, 10), (1_000_000, 5, 5)], ids=["off", "higher"])
def test_what_the_user_set_stays(mine: tuple[int, int, int]) -> None:
    gc.set_threshold(*mine)
    with rare_collections():
        assert gc.get_threshold() == mine
    assert gc.get_threshold() == mine
    gc.set_threshold(*USUAL)
    with rare_collections():
        gc.set_threshold(*mine)
    assert gc.get_threshold() == mine


def test_the_collector_still_runs() -> None:
    """Cycles of other threads are found while a compile lasts."""
    with rare_collections():
        before = gc.get_stats()[0]["collections"]
        for _ in range(200_000):
            cycle: list[object] = []
            cycle.append(cycle)
        assert gc.get_stats()[0]["collections"] > before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_as_if_nobody_had_asked() -> None:
    with rare_collections():
        child = os.fork()
        if child == 0:
            usual = gc.get_threshold() == USUAL
            with rare_collections():
                raised = gc.get_threshold() != USUAL
            os._exit(0 if usual and raised and gc.get_threshold() == USUAL else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert gc.get_threshold() != USUAL


_TREE = {
    "$id": "https://example.org/tree",
    "type": "object",
    "properties": {"below": {"type": "array", "items": {"$ref": "#"}}},
}
_CONJOINED = {
    "oneOf": [
        {"properties": {"a": _TREE}, "required": ["a"]},
        {"properties": {"b": {"type": "string"}}, "required": ["b"]},
    ],
    "properties": {"c": {"not": _TREE}},
}
_LARGE = {
    "type": "object",
    "properties": {
        "items": {"uniqueItems": True},  # compared, so the native walk leaves it alone
        "first": {"allOf": [{"minProperties": 1}, {"not": {"required": ["x"]}}]},
        **{f"{i}": {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"minimum": i}}} for i in range(80)},
    },
}  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ({"properties": {"a": {"enum": [1, "x"]}, "b": {"type": "number", "multipleOf": 0.5}}}, {}),
        (_CONJOINED, {}),
        (_CONJOINED, {"property_order": "any"}),
        (_CONJOINED, {"strict": True}),
        ({"uniqueItems": True, "items": {"properties": {"a": {"type": "integer"}}}}, {}),
        (_LARGE, {}),
    ],
    ids=["plain", "conjoined", "any order", "strict", "distinct names", "large"],
)
def test_lowering_leaves_nothing_to_the_collector(schema: dict[str, Any], options: dict[str, Any]) -> None:
    """Objects that die by their reference counts need no collection, which would be part of the next mask."""
    list(
        lower_schema(schema, SchemaOptions(**options)).grammar.rules.items()
    )  # imports, and fills caches that stay
    gc.collect()
    gc.freeze()  # what is there stays: collections then go through the new objects only
    gc.disable()
    try:
        lowered = lower_schema(schema, SchemaOptions(**options))
        assert gc.collect() == 0
        entries = lowered.report.entries
        gc.collect()
        assert entries == lowered.report.entries
        gc.collect()
        assert len(lowered.grammar.rules) > 0
        del lowered
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.ci
def test_compiling_a_large_schema_collects_no_more_than_once() -> None:
    schema = {
        "type": "object",
        "properties": {
            f"member {i}": {"type": "object", "properties": {"a": {"enum": [i, "x"]}}} for i in range(120)
        },
        "additionalProperties": False,
    }
    vocabulary = byte_vocabulary()
    compile_automaton({"type": "object"}, vocabulary)
    gc.collect()
    gc.freeze()
    before = gc.get_stats()[0]["collections"]
    automaton = compile_automaton(schema, vocabulary)
    assert gc.get_stats()[0]["collections"] - before <= 1
    assert automaton.start
