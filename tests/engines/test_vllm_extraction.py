"""Extraction by vLLM: the results are those of our own loop; on two Ray actors, one of which is killed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import constrained
from tests.engines.extraction_worker import CASES, OPTIONS, PERSON, TEXTS
from tests.engines.vllm_worker import ENVIRONMENT

COUNT = 96


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    target = tmp_path_factory.mktemp("extraction") / "found.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.extraction_worker", str(target)],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert target.exists(), done.stderr[-3000:]
    results: dict[str, Any] = json.loads(target.read_text())
    return results


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("refused")])
def test_results_are_those_of_our_own_loop(found: dict[str, Any], name: str) -> None:
    by_vllm, own = found[name]
    assert by_vllm == own
    assert by_vllm[-1].startswith("PromptError: there is nothing to extract from")


def test_a_limit_that_changes_values_is_an_error_unless_they_are_wanted(found: dict[str, Any]) -> None:
    assert any(text.startswith("Truncated") for text in found["cut"][0])
    assert all(set(json.loads(text)) == {"name", "born"} for text in found["closed"][0][:-1])


def test_samples_follow_the_seed(found: dict[str, Any]) -> None:
    first, again, other = found["sampled"]
    assert first == again != other
    assert all(set(json.loads(text)) == {"name", "born"} for text in (*first, *other))


def test_what_vllm_cannot_do_is_refused_by_name(found: dict[str, Any]) -> None:
    assert "the sampler cars does not run inside vLLM" in found["refused by a sampler"][0][0]
    assert "a predicate does not run inside vLLM" in found["refused by a predicate"][0][0]
    assert "gives no logits" in found["generator"]


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: make test-engines")
def test_two_ray_actors_with_vllm_lose_nothing_when_one_is_killed(tmp_path: Path) -> None:
    documents = [{"id": str(i), "text": f"{TEXTS[i % 4]} It was day {i}."} for i in range(COUNT)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    (tmp_path / "person.json").write_text(json.dumps(PERSON))
    results, log = tmp_path / "results.jsonl", tmp_path / "log"
    command = [
        sys.executable, "-m", "constrained.cli", "extract", str(tmp_path / "docs.jsonl"),
        "--schema", str(tmp_path / "person.json"), "--out", str(results), "--batch-size", "2",
        "--backend", "ray", "--actors", "2", "--engine", "vllm", "--engine-options", json.dumps(OPTIONS),
    ]  # fmt: skip
    environment = {**os.environ, **ENVIRONMENT, "RAY_worker_niceness": "0"}
    with log.open("w") as out:
        running = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        killed = 0
        end = time.monotonic() + 900
        while running.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
            if not killed and results.exists() and results.read_text().count("\n") >= 8:
                killed = kill_one(running.pid)
        running.kill()
    assert running.returncode == 0, log.read_text()[-3000:]
    assert killed, "all documents were read before an actor could be killed"
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert sorted(int(row["id"]) for row in rows) == list(range(COUNT))
    expected = constrained.extract_many(
        constrained.load(), [row["text"] for row in documents], PERSON, ordered=True, decisions=False
    )
    values = {row["id"]: row["value"] for row in rows}
    assert [values[row["id"]] for row in documents] == [one.value for one in expected]


def kill_one(ancestor: int) -> int:
    """Kills an extraction actor below a process; its number, or 0 if there is none."""
    parents, actors = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"ExtractionActor" in (folder / "cmdline").read_bytes():
                actors.append(int(folder.name))
        except OSError:
            continue
    for actor in sorted(actors):
        above = actor
        while above in parents and above != ancestor:
            above = parents[above]
        if above == ancestor:
            os.kill(actor, signal.SIGKILL)
            return actor
    return 0
