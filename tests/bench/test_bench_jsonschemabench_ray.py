"""JSONSchemaBench runs on a Ray cluster: what goes out and comes back, and, slowly, a cluster of this machine."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constrained import InvalidArgument
from constrained.bench.harness.results import ROWS
from constrained.bench.jsonschemabench import rows as r
from constrained.bench.jsonschemabench.cluster import ACTOR_BATCH, RayActor, RayBackend, deal_batches
from constrained.bench.jsonschemabench.data import SchemaItem
from constrained.bench.jsonschemabench.run import read_rows, run
from constrained.bench.jsonschemabench.settings import SchemaBenchSettings

MODEL = "tests.support.jsonschemabench_parts:scripted"
ROUGH = "tests.support.jsonschemabench_parts:Rough"
ITEMS = [
    SchemaItem("Easy---flag", "Easy", {"type": "boolean"}, [{"valid": True, "data": True}]),
    SchemaItem("Easy---colour", "Easy", {"enum": ["red", "green"]}),
    SchemaItem("Hard---back", "Hard", {"type": "string", "pattern": r"(a)\1"}),
    SchemaItem("Hard---long", "Hard", {"type": "string", "minLength": 400}),
    SchemaItem("Rough---dies", "Rough", {"enum": ["a"], "title": "dies"}),
    SchemaItem("Rough---slow", "Rough", {"enum": ["a"], "title": "slow"}),
    SchemaItem("Rough---fine", "Rough", {"enum": ["a"], "title": "fine"}),
]
STATUSES = {
    "Easy---flag": r.OK,
    "Easy---colour": r.OK,
    "Hard---back": r.REFUSED,
    "Hard---long": r.TRUNCATED,
    "Rough---dies": r.CRASH,
    "Rough---slow": r.COMPILE_TIMEOUT,
    "Rough---fine": r.OK,
}
SLOW = pytest.mark.slow
RAY = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install 'constrained-generation[ray]'",
)


def settings(**more: Any) -> SchemaBenchSettings:
    given: dict[str, Any] = {"data": "x", "engines": (ROUGH,), "max_tokens": 20, "models": (MODEL,)}
    return SchemaBenchSettings(**given | {"compile_limit": 3} | more)


def batch(items: list[SchemaItem]) -> dict[str, Any]:
    """Columns as Ray hands them to an actor."""
    return {
        "id": np.array([item.id for item in items]),
        "item": np.array([json.dumps(asdict(item)) for item in items]),
    }


def test_an_actor_answers_every_schema_by_its_id_with_a_status() -> None:
    runner = RayActor(ROUGH, settings())
    items = [item for item in ITEMS if item.id != "Rough---slow"]
    first, second = (
        runner(batch(items[:5])),
        runner(batch(items[5:])),
    )  # the first ends with a process that dies
    assert [*first["id"], *second["id"]] == [item.id for item in items]
    rows = [r.SchemaBenchRow(**json.loads(text)) for text in (*first["row"], *second["row"])]
    assert {row.id: row.status for row in rows} == {item.id: STATUSES[item.id] for item in items}
    assert {row.engine for row in rows} == {ROUGH}
    assert set(first["unavailable"]) == {""}
    assert all(first["version"])


def test_an_engine_that_cannot_start_has_a_row_for_every_schema() -> None:
    answer = RayActor("no.such:Engine", settings(engines=("no.such:Engine",)))(batch(ITEMS[:2]))
    assert answer["id"] == [item.id for item in ITEMS[:2]]
    assert answer["row"] == ["", ""]
    assert all("No module named 'no'" in why for why in answer["unavailable"])


def test_big_schemas_are_dealt_over_all_hands() -> None:
    items = [SchemaItem(str(i), "A", {"description": "x" * (10_000 if i < 10 else i)}) for i in range(80)]
    dealt = deal_batches(items)
    assert sorted(item.id for hand in dealt for item in hand) == sorted(item.id for item in items)
    assert [len(hand) for hand in dealt] == [ACTOR_BATCH] * 20
    assert max(sum(int(item.id) < 10 for item in hand) for hand in dealt) == 1
    assert all(any(int(item.id) < 10 for item in hand) for hand in dealt[:10]), (
        "big ones are not left for the end"
    )
    assert dealt == deal_batches(items[::-1])


@pytest.mark.parametrize("count", [1, ACTOR_BATCH, ACTOR_BATCH + 1, 3 * ACTOR_BATCH - 1])
def test_hands_are_of_one_size_or_one_less(count: int) -> None:
    sizes = [len(hand) for hand in deal_batches([SchemaItem(str(i), "A", True) for i in range(count)])]
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= ACTOR_BATCH
    assert sizes == sorted(sizes, reverse=True), "as Ray cuts a list into blocks"


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="'cloud'"):
        settings(backend="cloud")
    with pytest.raises(InvalidArgument, match="address"):
        settings(address="10.0.0.1:6379")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidArgument, match=r"constrained-generation\[ray\]"):
        RayBackend(settings(backend="ray"), tmp_path)


def test_where_schemas_ran_is_no_setting_of_their_rows() -> None:
    assert settings(backend="ray").measured == settings().measured
    assert settings(backend="ray", device="cuda").gpus == 1
    assert settings(backend="ray").gpus == 0


@SLOW
@pytest.mark.filterwarnings("default")  # those of Ray are its own
@RAY
def test_a_cluster_gives_the_rows_of_this_machine(tmp_path: Path) -> None:
    import ray

    file = tmp_path / "items.jsonl"
    file.write_text("".join(json.dumps(asdict(item)) + "\n" for item in ITEMS), encoding="utf-8")
    engines = (ROUGH, "no.such:Engine")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        requested = settings(data=str(file), backend="ray", processes=2, engines=engines)
        out = tmp_path / "out"
        found = run(requested, out)
        assert {row.id: row.status for row in found.rows} == STATUSES
        assert list(found.unavailable) == ["no.such:Engine"]
        assert ROUGH in found.facts["versions"]

        kept = (out / ROWS).read_text().splitlines()
        (out / ROWS).write_text("\n".join(kept[:3]) + "\n" + kept[3][:20])  # interrupted
        again = run(requested, out, resume=True)
        assert {row.id: row.status for row in again.rows} == STATUSES
        assert [row.to_json() for row in again.rows[:3]] == [json.loads(line) for line in kept[:3]]
        assert len(read_rows(out)) == len(ITEMS)

        # The run can also go on here, and the rows are the same but for their times.
        here = run(settings(data=str(file), engines=(ROUGH,)), tmp_path / "here")
        messages = {row.id: (row.status, row.text, row.valid, row.exact) for row in here.rows}
        assert {row.id: (row.status, row.text, row.valid, row.exact) for row in again.rows} == messages
    finally:
        ray.shutdown()


@SLOW
@pytest.mark.filterwarnings("default")  # those of Ray are its own
@RAY
def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    backend = RayBackend(settings(backend="ray", address="127.0.0.1:1"), tmp_path)
    with pytest.raises(InvalidArgument, match="--address"):
        next(backend.rows(ROUGH, ITEMS[:1]))
