"""`constrained bench fidelity`: exact distributions by enumeration, and sets of samples against them."""

from __future__ import annotations

import itertools
import json
import math
import sys

import numpy as np
import pytest

import constrained
from constrained import InvalidArgument, Vocabulary, gbnf, regex
from constrained.automaton import DEAD
from constrained.bench.fidelity import (
    competitors,
    predicate_cost,
    predicates,
    ranking,
    rows,
)
from constrained.bench.fidelity.exact_distribution import (
    TooManySequences,
    exact_distributions,
    kl_divergence,
    total_variation,
)
from constrained.bench.fidelity.measure import TaskMeasurement
from constrained.bench.fidelity.ngrams import NGramModel
from constrained.bench.fidelity.report import FidelityData, sections
from constrained.bench.fidelity.run import run
from constrained.bench.fidelity.samplers import SAMPLER_ENTRIES
from constrained.bench.fidelity.settings import FidelitySettings
from constrained.bench.fidelity.tasks import MOLECULES, TASKS, select_tasks
from constrained.cli import main
from constrained.testing import ScriptedModel
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import FiniteAutomaton

TREES, BIT_VECTORS = (
    next(task for task in TASKS if task.name == name) for name in ("trees/small", "bit-vectors/small")
)
BITS = next(task for task in TASKS if task.name == "bit-vectors/small")


# ---------------------------------------------------------------- exact distributions


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_distributions_are_those_of_the_definitions(seed):
    """Against `EnumerableModel.distributions`, which lists the texts without an automaton."""
    model = EnumerableModel(seed=seed)
    language = {b"ab", b"abca", b"b", b"ca", b"cab", b""}
    defined = model.distributions(language)
    found = exact_distributions(model, FiniteAutomaton(language, model.vocabulary), model.depth)
    assert found.mass == pytest.approx(defined.mass, abs=1e-12)
    for text in language:
        assert found.conditional[text.decode()] == pytest.approx(defined.conditional[text], abs=1e-12)
        assert found.local[text.decode()] == pytest.approx(defined.local[text], abs=1e-12)
    assert found.distance == pytest.approx(total_variation(defined.local, defined.conditional), abs=1e-12)


def test_a_language_that_is_too_large_is_an_error():
    model = EnumerableModel()
    automaton = constrained.compile(regex("[abc]*"), model.vocabulary)
    with pytest.raises(TooManySequences, match="more than 10 prefixes"):
        exact_distributions(model, automaton, 4, budget=10)


def test_distances():
    one, other = {"a": 0.5, "b": 0.5}, {"a": 0.25, "c": 0.75}
    assert total_variation(one, one) == 0
    assert total_variation(one, other) == 0.75
    assert kl_divergence(one, one) == 0
    assert kl_divergence(one, other) == math.inf
    assert kl_divergence({"a": 1.0}, other) == pytest.approx(math.log(4))


def test_an_ngram_model_counts():
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b""], [2])
    model = NGramModel(vocabulary, [[0, 1], [0, 0]], order=2, smoothing=0.3)
    after = {tokens: np.exp(model.logits([], list(tokens))) for tokens in ((), (0,), (1,), (1, 0))}
    assert after[()].tolist() == pytest.approx([2.1 / 2.3, 0.1 / 2.3, 0.1 / 2.3])
    assert after[0,].tolist() == pytest.approx([1.1 / 3.3, 1.1 / 3.3, 1.1 / 3.3])
    assert after[1, 0].tolist() == pytest.approx(after[0,].tolist()), "it remembers one token"
    assert after[1,].tolist() == pytest.approx([0.1 / 1.3, 0.1 / 1.3, 1.1 / 1.3])


# ---------------------------------------------------------------- the tasks


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_task_is_one_that_masking_distorts(task):
    measured = TaskMeasurement(task, None, 50_000)
    assert measured.exact.distance > 0.3
    assert set(task.examples) <= set(measured.exact.conditional), "the examples are texts of the language"
    assert 0 < measured.exact.mass < 1
    assert math.fsum(measured.exact.local.values()) == pytest.approx(1)
    assert all(example in task.prompt for example in task.examples)


def test_tasks_go_by_name_or_family():
    assert [task.name for task in select_tasks(("trees", "bit-vectors/small"))] == [
        "trees/small",
        "trees/large",
        "bit-vectors/small",
    ]
    assert select_tasks(()) == TASKS
    with pytest.raises(InvalidArgument, match="no task 'tree'"):
        select_tasks(("tree",))


# ---------------------------------------------------------------- the measurement

EXACT = ("rejection", "cars")
WEIGHTED = [name for name, entry in SAMPLER_ENTRIES.items() if entry.weighted]


@pytest.fixture(scope="module")
def bits() -> TaskMeasurement:
    return TaskMeasurement(BITS, None, 50_000)


@pytest.mark.parametrize("sampler", EXACT)
def test_exact_samplers_are_as_far_off_as_chance_has_it(bits, sampler):
    row = bits.draw_set(sampler, 200, 0, 1)
    assert row.drawn == 200
    assert row.fit > 1e-5
    assert row.distance < 2 * bits.floor(200)
    assert row.evidence == pytest.approx(1, abs=5 * row.evidence_error)


def test_masking_differs_from_the_exact_distribution(bits):
    row = bits.draw_set("local", 200, 0, 1)
    assert row.fit < 1e-10
    assert row.distance == pytest.approx(bits.exact.distance, abs=0.1)


@pytest.mark.parametrize("sampler", WEIGHTED)
def test_weights_make_up_for_it(bits, sampler):
    row = bits.draw_set(sampler, 200, 0, 1)
    assert row.fit is None
    assert row.distance < bits.exact.distance / 2
    assert row.evidence == pytest.approx(1, abs=0.5)
    assert row.effective < 200


def test_a_set_that_is_too_dear_is_the_last(bits):
    found = list(bits.sets("local", (5, 10, 20), 2, 0, time_limit=1e-9))
    assert [(row.texts, row.repeat, row.outcome) for row in found] == [
        (5, 0, rows.COMPLETED),
        (5, 1, rows.COMPLETED),
        (10, 0, rows.TOO_SLOW),
    ]


def test_a_spent_budget_is_a_row_of_its_own(monkeypatch):
    monkeypatch.setitem(
        SAMPLER_ENTRIES, "hasty", type(SAMPLER_ENTRIES["cars"])(lambda: constrained.CARS(attempts=1))
    )
    row = TaskMeasurement(TREES, None, 50_000).draw_set("hasty", 5, 0, 0)
    assert (row.outcome, row.drawn) == (rows.EXHAUSTED, 0)
    assert row.message
    assert row.attempts >= 5


def test_cars_learns_and_rejection_does_not():
    measured = TaskMeasurement(TREES, None, 50_000)
    blocks = list(measured.learning("cars", 40, 10, 0))
    assert [(block.first, block.last) for block in blocks] == [(1, 10), (11, 20), (21, 30), (31, 40)]
    assert blocks[-1].per_text < blocks[0].per_text
    frequent = TaskMeasurement(BIT_VECTORS, None, 50_000)  # one text of eight is valid
    assert len(list(frequent.learning("rejection", 40, 1, 0, time_limit=1e-9))) == 1


def test_a_series_ends_where_its_budget_does():
    hopeless = TaskMeasurement(TREES, None, 50_000)  # one text of 5,000 is valid
    assert list(hopeless.learning("rejection", 20, 10, 0)) == []


# ---------------------------------------------------------------- prices


def test_awrs_asks_a_dear_predicate_less_than_masks_do():
    model = ScriptedModel(
        Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b""], [256]), "plain text", margin=6.0
    )
    found = predicate_cost.measure_predicate_cost(model, 0.01, 0)
    assert found.masked_calls > 50 > 20 > found.checked_calls >= 1
    assert found.tokens >= 1


# ---------------------------------------------------------------- the command


def bench(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "fidelity", "--quiet", *arguments])
    return int(ended.value.code or 0)


def test_the_command_prints_tables_and_fills_a_folder(tmp_path, capsys):
    out = tmp_path / "results"
    given = (
        "--tasks", "bit-vectors/small", "--samplers", "local;cars;smc of awrs", "--sizes", "5,20",
        "--learning", "20", "--predicate", "0", "--out", str(out),
    )  # fmt: skip
    assert bench(*given) == 0
    printed = capsys.readouterr()
    for part in (
        "P(L)",
        "total variation of masking",
        "20 texts: forwards per text",
        "smc of awrs",
        "exact samples",
    ):
        assert part in printed.out
    kinds = [json.loads(line)["kind"] for line in (out / "rows.jsonl").read_text().splitlines()]
    assert kinds == ["distribution", *["set"] * 6, *["block"] * 2]
    page = (out / "summary.md").read_text()
    assert "20 texts: p-value of the G-test" in page
    assert bench(*given) == 2
    assert "already holds results" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tasks", "poems"), "no task 'poems'"),
        (("--samplers", "fast"), "'fast' is not measured here"),
        (("--sizes", "10,x"), "is not a list of numbers"),
        (("--sizes", "10,5"), "that grow"),
        (("--time-limit", "0"), "time_limit is 0"),
    ],
)
def test_mistakes_end_it_before_anything_runs(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert bench(*arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_down_is_skipped_by_name(tmp_path):
    settings = FidelitySettings(
        tasks=("bit-vectors/small",), samplers=("local",), sizes=(5,), budget=10, predicate=0
    )
    results = run(settings, tmp_path / "out")
    assert "more than 10 prefixes" in results.skipped["bit-vectors/small"]
    assert "Not measured" in (tmp_path / "out" / "summary.md").read_text()


def _means(*pairs):
    return [
        ranking.SizeMean(i, distance, forwards, forwards, 1.0, 1.0)
        for i, (forwards, distance) in enumerate(pairs)
    ]


def test_forwards_to_a_distance_are_interpolated_between_sizes():
    means = _means((10, 0.4), (100, 0.1), (1000, 0.05))
    between = ranking.forwards_to_reach(0.2, means)
    assert (between.sign, between.forwards) == ("", pytest.approx(math.sqrt(1000)))  # half way, in logarithms
    assert ranking.forwards_to_reach(0.1, means) == ranking.Cost(pytest.approx(100))
    assert ranking.forwards_to_reach(0.5, means) == ranking.Cost(10, "<=")
    assert ranking.forwards_to_reach(0.01, means) == ranking.Cost(1000, ">")
    assert ranking.forwards_to_reach(0.1, _means((10, 0.4), (20, 0.0))).sign == ""


def test_samplers_are_ranked_beside_genlm_control_and_incomplete_sizes_left_out():
    def row(sampler, texts, forwards, distance, outcome=rows.COMPLETED):
        return rows.FidelityRow(
            "t", sampler, texts, outcome=outcome, forwards=forwards, distance=distance, contexts=forwards
        )

    found = [
        row("far", 10, 5, 0.5),
        row("dear", 10, 40, 0.1),
        row("cheap", 10, 8, 0.4),
        row("cheap", 100, 32, 0.1),
        row("cheap", 300, 99, None, rows.TOO_SLOW),
        row(competitors.GENLM, 100, 64, 0.2),
    ]
    (table,) = ranking.ranking_tables(found, ["t", "no rival"])
    assert [(name, cells[-2:]) for name, cells in table.lines] == [
        ("cheap", ["16", "0.25"]),
        ("dear", ["<=40", "<=0.62"]),
        (competitors.GENLM, ["64", "1.00"]),
        ("far", [">5", ">0.08"]),
    ]


def test_rows_and_distinct_contexts_are_counted_apart(bits):
    plain, drafted = (bits.draw_set(f"smc of awrs{name}", 20, 0, 1) for name in ("", ", drafts"))
    cars = bits.draw_set("cars", 20, 0, 1)
    assert plain.distance == drafted.distance
    assert plain.forwards == plain.contexts
    assert cars.forwards == cars.contexts
    assert drafted.forwards < plain.forwards < drafted.contexts


def test_columns_exist_in_a_table():
    """Against all queries of the grammar: a query has its columns in a table, a beginning has a query that does."""
    known = {"cat": {"name", "age"}, "city": {"name", "size"}}
    names = ("name", "age", "size")
    good, bad = [], []
    for columns in [(a,) for a in names] + [(a, b) for a in names for b in names]:
        for table, where in itertools.product(known, ("", *names)):
            query = f"SELECT {','.join(columns)} FROM {table}" + (f" WHERE {where}=1" if where else "")
            fits = {*columns, *([where] if where else [])} <= known[table]
            (good if fits else bad).append(query)
    assert all(predicates.has_columns(query, True) for query in good)
    assert not any(predicates.has_columns(query, True) for query in bad)
    beginnings = {query[:n] for query in good for n in range(len(query) + 1)}
    for query in good + bad:
        for n in range(len(query) + 1):
            assert predicates.has_columns(query[:n], False) == (query[:n] in beginnings), query[:n]


@pytest.mark.parametrize(
    ("smiles", "valid"),
    [
        ("C", True), ("CC(=O)O", True), ("C=C=C", True), ("O=O", True), ("C1CC1", True), ("N(C)(C)C", True),
        ("C(C)(C)(C)C", True), ("C1CC1C1CC1", True), ("C(C)(C)(C)(C)C", False), ("O=C=C=O", True),
        ("OO=C", False), ("N(C)(C)(C)C", False), ("C1C1", False), ("C1CC", False), ("C=O=C", False), ("O1OO1", True),
        ("O1=CC1", False),
    ],
)  # fmt: skip
def test_atoms_have_at_most_their_bonds(smiles, valid):
    """Expectations are RDKit's (which also rewrites some nitrogens of five bonds as charged ones)."""
    assert predicates.has_valences(smiles, True) == valid
    if valid:
        assert all(predicates.has_valences(smiles[:n], False) for n in range(1, len(smiles)))


def test_rdkit_accepts_what_the_predicate_accepts():
    """All 1,518 texts of the grammar within the task's limit, those that no sampler draws too."""
    chem = pytest.importorskip(
        "rdkit.Chem", reason="comes with: pip install 'constrained-generation[chemistry]'"
    )
    chem.rdBase.DisableLog("rdApp.*")  # it prints why it refuses each molecule
    (task,) = select_tasks(("molecules",))
    measured = TaskMeasurement(task, None, 50_000)
    automaton = constrained.compile(gbnf(MOLECULES), measured.model.vocabulary)
    letters = [(i, piece.decode()) for i, piece in enumerate(automaton.vocabulary.tokens) if piece]
    texts, level = [], [("", automaton.start)]
    for _ in range(task.limit):
        level = [
            (text + letter, after)
            for text, state in level
            for token, letter in letters
            if (after := automaton.next(state, token)) != DEAD
        ]
        texts += [text for text, state in level if automaton.accepts(state)]
    accepted = {text for text in texts if chem.MolFromSmiles(text) is not None}
    assert len(texts) == 1518
    assert accepted == {text for text in texts if predicates.has_valences(text, True)}
    assert accepted == set(measured.exact.conditional)


def test_a_beginning_of_a_molecule_is_refused_where_its_ring_cannot_close():
    assert predicates.has_valences("C1(=O", False)
    assert not predicates.has_valences("N1=O", False)
    assert not predicates.has_valences("O=O(", False)


def test_a_competitor_that_does_not_answer_is_an_error(tmp_path, monkeypatch):
    def measure(interpreter):
        settings = FidelitySettings(
            tasks=("bit-vectors/small",),
            samplers=("local",),
            sizes=(5,),
            learning=0,
            predicate=0,
            genlm=str(interpreter),
        )
        run(settings, tmp_path / "out")

    with pytest.raises(InvalidArgument, match="No such file"):
        measure(tmp_path / "python")
    with pytest.raises(InvalidArgument, match="No module named"):
        measure(sys.executable)
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(competitors, "_IMPORT_LIMIT", 0.2)
    with pytest.raises(InvalidArgument, match=r"took longer than 0\.2 s"):
        measure(slow)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidArgument, match="n-gram models only"):
        FidelitySettings(model="bundled", genlm="python")


def test_a_competitor_gets_the_exact_distribution(bits):
    """The exact distribution follows from the table by products."""
    task = competitors._task(bits)
    place = {letter: i for i, letter in enumerate(task["letters"])}
    for text in task["texts"]:
        steps = [task["rows"][text[:n]][place[letter]] for n, letter in enumerate(text)]
        mass = math.exp(math.fsum([*steps, task["rows"][text][-1]]))
        assert mass / bits.exact.mass == pytest.approx(bits.exact.conditional[text], rel=1e-5)


def test_of_several_sets_the_middle_one_is_shown():
    distribution = rows.TaskDistribution("t", "n-gram", 2, 3, 0.5, 0.4, 0.1, {10: 0.2})
    found = FidelityData(
        [distribution],
        [rows.FidelityRow("t", "cars", 10, i, distance=d) for i, d in enumerate((0.9, 0.1, 0.3))],
    )
    table = next(section for section in sections(found) if "total variation to" in section.title)
    assert dict(table.lines) == {"cars": ["0.300"], "exact samples": ["0.200"]}
