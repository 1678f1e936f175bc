"""The measurement of masks: what is timed, that one engine's faults stay its own, and that the counts are right."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constrained.automaton.bitmask import unpack_ids
from constrained.bench.masks import agreement, workload
from constrained.bench.masks.engines import ENGINES, check_engine, load_engine
from constrained.bench.masks.engines.base import EngineFault
from constrained.bench.masks.replay import Replayer
from constrained.bench.masks.rows import InstanceReplay, MaskBenchRow, ReplayPass
from constrained.bench.masks.run import MaskBenchResults, run
from constrained.bench.masks.settings import MaskBenchSettings
from constrained.bench.masks.summary import COMMIT, FIRST, MASK, STEP, TimeSummary, ran_ids, summarise, times
from constrained.cli import main
from constrained.errors import InvalidArgument
from constrained.vocabulary import Vocabulary
from tests.support.paths import CASES, ROOT

DATA = CASES / "bench" / "masks.jsonl"
TOKENS = [*(bytes([i]) for i in range(256)), b"", b"true", b'"x"', b"12", b"false", b'": ']
BYTES = Vocabulary.from_bytes(TOKENS, [256])
"""A token a byte, an end, and a few longer tokens."""
WORDS = (BYTES.size + 31) // 32

TROUBLED, PERMISSIVE = "tests.support.bench_engines:Troubled", "tests.support.bench_engines:Permissive"
ALL = len(DATA.read_text().splitlines())


def byte_vocabulary(name: str) -> tuple[Vocabulary, workload.VocabularyData]:
    return BYTES, workload.VocabularyData(list(BYTES.tokens), BYTES.eos_ids)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the faulty engines, and every vocabulary is the small one."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setattr(workload, "load_bench_vocabulary", byte_vocabulary)


def cases(*ids: str) -> list[workload.SchemaCase]:
    rows = {row["id"]: row for row in workload.sample(DATA, 0, 0)}
    return [workload.prepare(rows[id], BYTES) for id in ids]


def ours() -> Any:
    return load_engine("constrained")(byte_vocabulary("")[1], 1)


# ---------------------------------------------------------------- a whole run


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[MaskBenchResults, Path]:
    """Four engines over all cases: ours, one with every fault there is, one that is too kind, one that never starts."""
    out = tmp_path_factory.mktemp("bench") / "results"
    settings = MaskBenchSettings(
        DATA,
        sample=0,
        engines=("constrained", TROUBLED, PERMISSIVE, "tests.support.bench_engines:Impossible"),
        time_limit=4,
        memory_limit=0.25,
        warm=True,
        batch=4,
        compare=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.setattr(workload, "load_bench_vocabulary", byte_vocabulary)
        return run(settings, out), out


def rows_of(out: Path, engine: str) -> dict[str, MaskBenchRow]:
    rows = [
        MaskBenchRow.from_json(json.loads(line)) for line in (out / "rows.jsonl").read_text().splitlines()
    ]
    return {row.id: row for row in rows if row.engine == engine}


def test_an_engine_that_dies_loses_only_the_schema_it_died_of(
    measured: tuple[MaskBenchResults, Path],
) -> None:
    rows = rows_of(measured[1], TROUBLED)
    assert len(rows) == ALL
    ended = {id: (row.outcome, row.phase) for id, row in rows.items() if row.outcome != "ran"}
    assert ended == {
        "crash": ("crashed", "compile"),
        "hang": ("timeout", "compile"),
        "hang-later": ("timeout", "cold"),
        "eat": ("memory", "compile"),
        "panic": ("crashed", "compile"),
        "refuse": ("refused", "compile"),
        "fail-later": ("failed", "cold"),
    }
    assert rows["crash"].message == "SIGSEGV"
    assert (rows["panic"].kind, rows["panic"].message) == ("Panic", "index out of bounds")
    assert (rows["refuse"].kind, rows["refuse"].message) == ("ValueError", "not in the mood")
    assert rows["fail-later"].message == "lost my way"
    assert (rows["eat"].peak_bytes or 0) > 2**28


def test_engines_are_judged_by_the_data(measured: tuple[MaskBenchResults, Path]) -> None:
    own, troubled, permissive, impossible = measured[0].engines
    assert own.outcomes == {"ran": ALL}
    assert (own.false_positives, own.false_negatives) == (["mislabelled"], ["mislabelled"])
    assert sorted(permissive.false_positives) == ["list", "mislabelled", "point"]
    assert permissive.false_negatives == []
    assert own.instances == 4 + 3 + 2 + 1 + 8
    assert troubled.kinds == {
        "refused: ValueError": 1,
        "failed: RuntimeError": 1,
        "crashed: Panic": 1,
    }
    assert impossible.unavailable == "OSError: no licence"
    assert impossible.schemas == 0


def test_every_token_and_the_end_have_their_times(measured: tuple[MaskBenchResults, Path]) -> None:
    row = rows_of(measured[1], "constrained")["point"]
    assert list(row.passes) == ["cold", "again", "kept"]
    (case,) = cases("point")
    for one in row.passes.values():
        assert one.first_mask_ns > 0
        for replay, instance in zip(one.replays, case.instances, strict=True):
            assert replay.accepted == instance.valid
            allowed = len(instance.tokens) if replay.accepted else replay.stopped_at
            assert (len(replay.mask_ns), len(replay.commit_ns)) == (allowed + 1, allowed)
        assert [replay.mask_ns[0] is None for replay in one.replays] == [True, False, False, False]
    assert row.batch is not None
    assert row.batch.states == 4
    assert len(row.batch.single_ns) == len(row.batch.many_ns) == len(row.batch.fork_ns) > 0
    assert 0 < row.batch.forks <= 4
    assert min(row.batch.fork_ns) > 0


def test_results_are_written_for_people_and_for_programs(measured: tuple[MaskBenchResults, Path]) -> None:
    results, out = measured
    summary = json.loads((out / "summary.json").read_text())
    assert summary["cases"] == ALL
    assert summary["unencodable"] == 1
    assert [one["engine"] for one in summary["engines"]] == [one.engine for one in results.engines]
    assert summary["engines"][0]["times"]["cold"]["mask"]["count"] > 0
    assert summary["machine"]["cores"]
    page = (out / "summary.md").read_text()
    assert "| timeouts | 0 | 2 (" in page
    assert "tests.support.bench_engines:Impossible: OSError: no licence" in page
    assert "Kept: the 6 schemas that all engines ran" in page
    assert "an engine that prints" in (out / "tests.support.bench_engines.Troubled.log").read_text()


def test_a_plot_is_drawn_where_it_can_be(measured: tuple[MaskBenchResults, Path]) -> None:
    pytest.importorskip("matplotlib")
    assert measured[0].plotted
    assert (measured[1] / "plot.png").stat().st_size > 10_000


def test_masks_are_compared_with_those_of_the_first_engine(measured: tuple[MaskBenchResults, Path]) -> None:
    results, out = measured
    assert results.differences[TROUBLED].startswith("100.00 % equal")
    assert list(results.differences) == [TROUBLED, PERMISSIVE]
    assert not results.differences[PERMISSIVE].startswith("100.00 % equal")
    found = [json.loads(line) for line in (out / "differences.jsonl").read_text().splitlines()]
    first = next(one for one in found if one["id"] == "list")
    assert (first["text"], first["verdict"], first["missing"]) == ("", "more", 0)
    assert first["extra"] == len(TOKENS) - 2  # all but the end and the bracket that opens a list


# ---------------------------------------------------------------- what is timed


def test_a_replay_stops_at_the_first_token_that_is_not_allowed() -> None:
    replayer = Replayer(WORDS, BYTES.eos_ids)
    text = '{"x": "three"}'
    wrong = workload.Instance(False, BYTES.encode(text))
    engine = ours()
    schema = json.loads(cases("point")[0].schema)
    compiled, state, took = replayer.first(lambda: engine.compile(schema, ""))
    (replay,) = replayer.replay(compiled, state, took, [wrong]).replays
    assert not replay.accepted
    assert replay.stopped_at is not None
    assert BYTES.decode(wrong.tokens[: replay.stopped_at]) == b'{"x": '


def test_a_text_that_ends_too_early_is_not_accepted() -> None:
    replayer = Replayer(WORDS, BYTES.eos_ids)
    early = workload.Instance(False, BYTES.encode("[true"))
    engine = ours()
    compiled, state, took = replayer.first(lambda: engine.compile({"type": "array"}, ""))
    (replay,) = replayer.replay(compiled, state, took, [early]).replays
    assert (replay.accepted, replay.stopped_at) == (False, len(early.tokens))
    assert len(replay.mask_ns) == len(early.tokens) + 1


def test_an_engine_that_contradicts_itself_is_found_out() -> None:
    replayer = Replayer(WORDS, BYTES.eos_ids)
    engine = ours()
    (case,) = cases("list")

    def refusing() -> Any:
        return replace(engine.compile({"type": "array"}, ""), commit=lambda state, token: 0)

    with pytest.raises(EngineFault, match="refused by the commit"):
        replayer.replay(*replayer.first(refusing), case.instances)

    compiled, state, took = replayer.first(lambda: engine.compile(json.loads(case.schema), ""))
    replayed = replayer.replay(compiled, state, took, case.instances)
    forgetful = replace(compiled, fill_many=lambda states, rows: None)
    with pytest.raises(EngineFault, match="differ from those of single calls"):
        replayer.batch(forgetful, case.instances, replayed, 3)


def test_a_complaint_counts_as_an_error() -> None:
    replayer = Replayer(WORDS, BYTES.eos_ids)
    engine = ours()
    with pytest.raises(EngineFault, match="too complex"):
        replayer.first(lambda: replace(engine.compile(True, ""), error_message=lambda state: "too complex"))


# ---------------------------------------------------------------- the figures


def replay_of(masks: list[int | None], commits: list[int], *, valid: bool = True) -> InstanceReplay:
    return InstanceReplay(valid, valid, None, masks, commits)


def test_a_step_is_a_mask_and_the_commit_after_it() -> None:
    found = times([ReplayPass(1000, [replay_of([None, 5, 7], [1, 2]), replay_of([3, 4], [1])])])
    assert found == {FIRST: [1000], MASK: [5, 7, 3, 4], COMMIT: [1, 2, 1], STEP: [7, 4]}


def test_percentiles_are_those_of_numpy() -> None:
    values = list(np.random.default_rng(0).exponential(size=2000))
    spread = TimeSummary.of(values)
    assert spread is not None
    assert spread.quantiles["p99.9"] == pytest.approx(np.quantile(values, 0.999))
    assert (spread.count, spread.avg, spread.quantiles["max"]) == (
        2000,
        pytest.approx(np.mean(values)),
        max(values),
    )
    assert TimeSummary.of([]) is None


def test_what_killed_an_engine_does_not_make_it_look_fast() -> None:
    """The shared figures hold only schemas that every engine ran."""
    quick, slow = (
        MaskBenchRow("a", name, passes={"cold": ReplayPass(time)})
        for name, time in (("easy", 10), ("hard", 900))
    )
    other, dead = (
        MaskBenchRow("b", "easy", passes={"cold": ReplayPass(20)}),
        MaskBenchRow("b", "hard", "timeout"),
    )
    rows = [quick, slow, other, dead]
    both = ran_ids("a", rows) & ran_ids("b", rows)
    assert both == {"easy"}
    shared = summarise("a", rows, both).times["cold"][FIRST]
    assert shared is not None
    assert shared.quantiles["max"] == 10
    assert summarise("b", rows).outcomes == {"ran": 1, "timeout": 1}


def test_a_row_survives_being_written() -> None:
    row = MaskBenchRow("a", "x", passes={"cold": ReplayPass(7, [replay_of([None, 5], [1])])}, peak_bytes=3)
    assert MaskBenchRow.from_json(json.loads(json.dumps(row.to_json()))) == row


# ---------------------------------------------------------------- the data


def test_the_seed_decides_the_sample(tmp_path: Path) -> None:
    packed = tmp_path / "masks.jsonl.gz"
    packed.write_bytes(gzip.compress(DATA.read_bytes()))
    drawn = [[row["id"] for row in workload.sample(packed, 5, seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] == [row["id"] for row in workload.sample(DATA, 5, 1)]
    assert drawn[0] != drawn[2]
    assert len(workload.sample(DATA, 0, 3)) == ALL


def test_every_engine_gets_the_tokens_of_the_same_text() -> None:
    (case,) = cases("point")
    assert BYTES.decode(case.instances[0].tokens) == b'{"x": 12, "y": "up"}'
    (odd,) = cases("unspeakable")
    assert (len(odd.instances), odd.unencodable) == (1, 1)


@pytest.mark.parametrize("text", ["{", '{"id": 1}', "[]", '{"id": 1, "schema": {}, "tests": 5}'])
def test_other_data_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(text + "\n")
    with pytest.raises(InvalidArgument, match="is not MaskBench data"):
        workload.sample(file, 0, 0)


# ---------------------------------------------------------------- adapters


def test_an_engine_is_a_name_or_a_class() -> None:
    assert load_engine(TROUBLED).__name__ == "Troubled"
    for name in ENGINES:
        assert check_engine(name) == name
    with pytest.raises(InvalidArgument, match="no engine 'fast'"):
        check_engine("fast")


def test_the_baseline_allows_every_token_and_no_other_bit() -> None:
    engine = load_engine("unconstrained")(byte_vocabulary("")[1], 1)
    row = np.zeros((1, WORDS), np.int32)
    compiled = engine.compile(False, "false")
    compiled.fill(compiled.start(), *compiled.targets(row)[0])
    assert unpack_ids(row[0]).tolist() == list(range(BYTES.size))


def test_every_engine_but_the_baseline_is_tried_below() -> None:
    assert {*PACKAGES, "unconstrained"} == {*ENGINES}


PACKAGES = {
    "constrained": "constrained",
    "constrained-any": "constrained",
    "constrained-any-order": "constrained",
    "llguidance": "llguidance",
    "llguidance-unforced": "llguidance",
    "glrmask": "glrmask",
    "xgrammar": "xgrammar",
    "outlines": "outlines_core",
}


@pytest.mark.parametrize("name", PACKAGES)
def test_every_adapter_tells_valid_from_invalid(name: str) -> None:
    """With whatever engines are installed."""
    pytest.importorskip(PACKAGES[name])
    engine = load_engine(name)(byte_vocabulary("")[1], 1)
    replayer = Replayer(WORDS, BYTES.eos_ids)
    for case in cases("point", "list"):
        compile = partial(engine.compile, json.loads(case.schema), case.schema)
        compiled, state, took = replayer.first(compile)
        done = replayer.replay(compiled, state, took, case.instances)
        assert [replay.accepted for replay in done.replays] == [one.valid for one in case.instances]
        if compiled.fill_many is not None:
            assert replayer.batch(compiled, case.instances, done, 8) is not None


TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<",
        "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
        "end": ">",
    },
}


@pytest.mark.parametrize("name", PACKAGES)
def test_structural_tags_with_texts_of_their_own(name: str) -> None:
    pytest.importorskip(PACKAGES[name])
    tests = [{"valid": True, "text": "<12>"}, {"valid": False, "text": "<x>"}]
    case = workload.prepare({"id": "tag", "schema": TAG, "tests": tests}, byte_vocabulary("")[0])
    engine = load_engine(name)(byte_vocabulary("")[1], 1)
    assert getattr(engine, "structural_tags", False) == (PACKAGES[name] in ("constrained", "xgrammar"))
    if PACKAGES[name] not in ("constrained", "xgrammar"):
        return
    replayer = Replayer(WORDS, BYTES.eos_ids)
    compiled, state, took = replayer.first(partial(engine.compile, TAG, case.schema))
    done = replayer.replay(compiled, state, took, case.instances)
    assert [replay.accepted for replay in done.replays] == [True, False]


def test_masks_of_an_independent_engine_are_ours(tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    tokens = byte_vocabulary("")[1]
    chosen = cases("point", "list", "untested")
    for name in ("constrained-any", "llguidance-unforced"):
        engine, replayer = load_engine(name)(tokens, 1), Replayer(WORDS, BYTES.eos_ids)
        for number, case in enumerate(chosen):
            masks: list[Any] = []
            places: list[tuple[int, int]] = []

            def keep(
                instance: int, position: int, row: Any, masks: Any = masks, places: Any = places
            ) -> None:
                places.append((instance, position))
                masks.append(row[0].copy())

            compile = partial(engine.compile, json.loads(case.schema), case.schema)
            compiled, state, took = replayer.first(compile)
            replayer.replay(compiled, state, took, case.instances, keep)
            if masks:
                file = agreement.mask_file(tmp_path, name, number)
                np.savez_compressed(file, places=np.array(places), masks=np.stack(masks))
    found = list(agreement.compare(tmp_path, chosen, tokens, "constrained-any", "llguidance-unforced"))
    assert Counter(verdict for verdict, _ in found) == {"equal": len(found)}
    assert len(found) > 40


# ---------------------------------------------------------------- the command


def bench(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "masks", "--quiet", *arguments])
    return int(ended.value.code or 0)


def test_the_command_prints_a_table_and_fills_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "results")
    given = ("--data", str(DATA), "--sample", "3", "--engines", "constrained", "--out", out)
    assert bench(*given) == 0
    printed = capsys.readouterr()
    for part in ("refused", "timeouts", "with a false positive", "mask + commit, us: avg", "p99.9"):
        assert part in printed.out
    assert f"written to {out}" in printed.err
    assert bench(*given) == 2
    assert "already holds results" in capsys.readouterr().err


def test_a_run_that_was_ended_goes_on_with_the_rows_that_are_missing(tmp_path: Path) -> None:
    settings = MaskBenchSettings(
        DATA, sample=6, engines=("constrained", "constrained-any-order"), time_limit=4
    )
    out = tmp_path / "results"
    whole = run(settings, out)
    written = (out / "rows.jsonl").read_text().splitlines()
    kept = written[:4]
    (out / "rows.jsonl").write_text("\n".join(kept) + "\n" + written[4][:50])  # ended in the middle of a line
    with pytest.raises(InvalidArgument, match="already holds results"):
        run(settings, out)
    with pytest.raises(InvalidArgument, match=r"other settings \(time_limit\)"):
        run(replace(settings, time_limit=5), out, resume=True)
    again = run(settings, out, resume=True)
    lines = (out / "rows.jsonl").read_text().splitlines()
    assert lines[:4] == kept, "they were not measured again"
    assert len(lines) == len(written) + 1, "the line that was cut off stands there, too"
    assert [one.outcomes for one in again.engines] == [one.outcomes for one in whole.engines]
    assert [one.version for one in again.engines] == [one.version for one in whole.engines]
    more = run(replace(settings, sample=7), out, resume=True)
    assert [one.schemas for one in more.engines] == [7, 7]
    assert (out / "rows.jsonl").read_text().splitlines()[: len(lines)] == lines


def test_engines_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["constrained.bench.masks.run"], "TURN", 2)
    settings = MaskBenchSettings(DATA, sample=3, engines=("constrained", "constrained-any"), time_limit=4)
    run(settings, tmp_path / "results")
    order = [
        json.loads(line)["engine"] for line in (tmp_path / "results" / "rows.jsonl").read_text().splitlines()
    ]
    assert order == ["constrained"] * 2 + ["constrained-any"] * 2 + ["constrained", "constrained-any"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compare", "--resume"), "cannot be compared"),
        (("--engines", "fast"), "there is no engine 'fast'"),
        (("--engines", "constrained,constrained"), "one is named twice"),
        (("--time-limit", "0"), "time_limit is 0"),
        (("--data", "nowhere.jsonl"), "cannot be read"),
        ((), "no data is named"),
    ],
)
def test_mistakes_end_it_before_anything_runs(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONSTRAINED_DATA", raising=False)
    data = () if "--data" in arguments or not arguments else ("--data", str(DATA))
    assert bench(*data, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_unknown_engine_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "results")
    assert bench("--data", str(DATA), "--engines", "no_such_package:Engine", "--out", out) == 2
    assert "No module named 'no_such_package'" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_ctrl_c_ends_the_engine_too_and_keeps_the_rows(tmp_path: Path) -> None:
    hanging, out = tmp_path / "pid", tmp_path / "results"
    data = tmp_path / "data.jsonl"
    kept = [line for line in DATA.read_text().splitlines() if '"hang"' in line]
    data.write_text("\n".join(kept) + "\n")
    code = (
        "from tests.bench import test_bench_masks as t\n"
        "t.workload.load_bench_vocabulary = t.byte_vocabulary\n"
        f"t.main(['bench', 'masks', '--data', {str(data)!r}, '--engines', 'constrained,{TROUBLED}',"
        f" '--out', {str(out)!r}])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "BENCH_HANGING": str(hanging)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not (hanging.exists() and hanging.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    worker = int(hanging.read_text())
    process.send_signal(signal.SIGINT)
    printed, complained = process.communicate(timeout=60)
    assert (process.returncode, printed, complained) == (130, b"", b"interrupted\n")
    assert not Path(f"/proc/{worker}").exists()
    assert len((out / "rows.jsonl").read_text().splitlines()) == 1
