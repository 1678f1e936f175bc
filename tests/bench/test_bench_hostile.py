"""Hostile cases under engines: each ends in one of four ways, and a limit stops nothing but the case."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from constrained.bench.hostile import run
from constrained.bench.hostile.case import Case, schema_case
from constrained.bench.hostile.cases import CASES
from constrained.bench.hostile.measure import OK, RAISED, REFUSED, STOPPED, Measured, measure
from constrained.bench.hostile.run import Rows, exceeds, measure_all, quantiles, table, tally
from constrained.bench.hostile.settings import HostileSettings
from constrained.bench.masks import workload
from constrained.bench.masks.engines import load_engine
from constrained.cli import main
from constrained.vocabulary import Vocabulary

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")

TOKENS = [*(bytes([i]) for i in range(256)), b"", b"true", b'": ']
BYTES = Vocabulary.from_bytes(TOKENS, [256])
DATA = workload.VocabularyData(TOKENS, (256,))
WALKED = "minProperties 2"
LIMITS = HostileSettings(
    engines=("constrained", "no.such:Engine"), time_limit=20, memory_limit=1 << 30, steps=5
)


def ours() -> Any:
    return load_engine("constrained")(DATA, 1)


class Faulty:
    """This library, but a phase goes wrong."""

    def __init__(self, **faults: Any) -> None:
        self.faults = faults

    def compile(self, schema: Any, text: str) -> Any:
        if "compile" in self.faults:
            self.faults["compile"]()
        return replace(ours().compile(schema, text), **self.faults)


def outcome(name: str, engine: Any, limits: HostileSettings = LIMITS) -> Measured:
    return measure(CASES[name], engine, TOKENS, limits)


def hang(*arguments: Any) -> Any:
    while True:
        pass


def raise_later(*arguments: Any) -> Any:
    raise RuntimeError("it is too late")


def test_a_case_is_followed_to_its_end_or_for_some_tokens() -> None:
    found = outcome(WALKED, ours())
    assert (found.outcome, found.detail) == (OK, "")
    assert found.compile is not None
    assert found.mask is not None
    assert found.within is not None
    assert min(found.compile, found.mask, found.within) > 0


def test_an_error_before_the_first_token_is_a_refusal_and_one_after_it_is_not() -> None:
    assert outcome("counts in the wrong order", ours()).detail.startswith("UnsatisfiableConstraint")
    assert outcome("counts in the wrong order", ours()).outcome == REFUSED
    later = outcome(WALKED, Faulty(commit=raise_later))
    assert (later.outcome, later.detail) == (RAISED, "RuntimeError: it is too late")


def test_what_takes_too_long_or_crashes_is_stopped_with_what_was_known() -> None:
    hung = outcome(WALKED, Faulty(commit=hang), HostileSettings(time_limit=1))
    assert (hung.outcome, hung.detail) == (STOPPED, "after 1 tokens")
    assert hung.mask is not None
    crashed = outcome(WALKED, Faulty(commit=lambda *_: os.kill(os.getpid(), signal.SIGKILL)))
    assert (crashed.outcome, crashed.detail) == (STOPPED, "after 1 tokens, SIGKILL")


def test_memory_is_limited() -> None:
    hoard: list[bytes] = []
    greedy = outcome(WALKED, Faulty(commit=lambda *_: hoard.append(bytes(2 << 30))))
    assert (greedy.outcome, greedy.detail.partition(":")[0]) == (RAISED, "MemoryError")
    assert not hoard


def test_every_engine_has_its_column_and_a_missing_one_is_named() -> None:
    told: list[Rows] = []
    rows, skipped = measure_all(
        {name: CASES[name] for name in (WALKED, "false")},
        LIMITS,
        DATA,
        on_rows=told.append,
    )
    assert [list(one) for one in told] == [[WALKED], ["false"]]
    assert list(skipped) == ["no.such:Engine"]
    drawn = table(rows)
    assert drawn.columns == ["constrained"]
    assert drawn.lines[1] == ("`false`", ["refused: UnsatisfiableConstraint"])
    assert tally(rows) == "| together | 1 ok, 1 refused |"


def bench(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "hostile", "--quiet", *arguments])
    return ended.value.code


def test_the_command_prints_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workload, "load_bench_vocabulary", lambda name: (BYTES, DATA))
    assert not bench("--case", WALKED, "--engines", "constrained", "--steps", "3")
    assert f"| `{WALKED}` |" in capsys.readouterr().out
    assert bench("--case", "nothing") == 2
    assert "there is no case 'nothing'" in capsys.readouterr().err


def test_real_schemas_have_quantiles_and_lines_only_for_what_exceeds_the_goals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(workload, "load_bench_vocabulary", lambda name: (BYTES, DATA))
    schemas = {"small": {"type": "integer"}, "nothing": False, "slow": {"type": "string"}}
    rows = [{"id": name, "schema": schema, "tests": []} for name, schema in schemas.items()]
    rows.append({"id": "tag", "schema": {"type": "structural_tag", "format": {}}, "tests": []})
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    slow = schema_case(schemas["slow"]).source()
    measured = measure

    def as_told(case: Case, *arguments: Any) -> Measured:
        found = measured(case, *arguments)
        return replace(found, within=0.06) if case.source() == slow else found

    monkeypatch.setattr(run, "measure", as_told)
    options = ("--data", str(data), "--engines", "constrained", "--steps", "3")
    assert not bench("--schemas", "0", *options)
    lines = capsys.readouterr().out.split("\n")
    labels = [line.split(" | ")[0] for line in lines if line.startswith("| ") and "ms" not in line]
    assert [label for label in labels if label != "|"] == [
        *("| `slow`", "| p50", "| p99", "| p99.9", "| max", "| together")
    ]
    assert "2 ok, 1 refused" in lines[-2]


def test_quantiles_are_of_the_cases_that_ended_well() -> None:
    def found(i: int) -> Measured:
        return Measured(OK, "", i / 1000, i / 500, None, i << 20)

    rows = {str(i): {"one": found(i)} for i in range(100)} | {"bad": {"one": Measured()}}
    assert quantiles(rows)[0] == "| p50 | 50.0 / 100 / - / 50 |"
    assert quantiles(rows)[-1] == "| max | 99.0 / 198 / - / 99 |"
    assert quantiles({"bad": {"one": Measured()}})[0] == "| p50 | - / - / - / - |"
    assert not exceeds(found(5))
    assert exceeds(found(99))
    assert exceeds(Measured(memory=1))
    assert not exceeds(Measured(REFUSED, "TooLarge"))
