"""Hostile cases under engines: each ends in one of four ways, and a limit stops nothing but the case."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from typing import Any

import pytest

from constrained.cli import main
from constrained.evaluate.hostile import Limits, Rows, measure, measure_all, table, tally
from constrained.evaluate.hostile.cases import CASES
from constrained.evaluate.hostile.measure import OK, RAISED, REFUSED, STOPPED, Measured
from constrained.evaluate.masks import workload
from constrained.evaluate.masks.engines import load_engine
from constrained.vocabulary import Vocabulary

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")

TOKENS = [*(bytes([i]) for i in range(256)), b"", b"true", b'": ']
BYTES = Vocabulary.from_bytes(TOKENS, [256])
DATA = workload.VocabularyData(TOKENS, (256,))
WALKED = "minProperties 2"
LIMITS = Limits(seconds=20, memory=1 << 30, steps=5)


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


def outcome(name: str, engine: Any, limits: Limits = LIMITS) -> Measured:
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
    hung = outcome(WALKED, Faulty(commit=hang), Limits(seconds=1))
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
        [WALKED, "false"], ["constrained", "no.such:Engine"], DATA, LIMITS, on_rows=told.append
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
