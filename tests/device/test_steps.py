"""Every decoding loop on a pretended device: its texts are those of the CPU, and a step asks of the device what `steps.md` says.

`python -m tests.device.test_steps` writes that table again. A figure may only change in a commit that says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from constrained import Speculation, load
from constrained.models.hugging_face import HuggingFaceModel
from constrained.models.logits import DeviceLogits
from tests.device.loops import DRAFTS, LOOPS, assert_same_texts
from tests.device.placed import placed
from tests.device.pretended import PretendedDevice, pretended_device
from tests.support.tiny_models import llama, random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

TABLE = Path(__file__).with_name("steps.md")
COLUMNS = ("launches", "of row_stats", "copies up", "copies down", "waits", "hidden waits")
HEAD = f"""# What a step of each decoding loop asks of a device

Counted on the pretended device (`tests/device/pretended.py`), an average of the passes of a short text, the first ones
too; a model of 2 layers with random weights. A copy to the host is a wait; a wait is hidden where work is queued and no contents are
asked for. `static`: the engine of fixed steps, whose first passes take their memory. Rows of this vocabulary are small; of 131,072
tokens in 16 bits the first copy has four rows of draft trees, and others come one by one.

| loop | {" | ".join(COLUMNS)} |
|---|{"---:|" * len(COLUMNS)}
"""
CASES = [
    (name, drafts, engine) for engine in ("eager", "static") for name in LOOPS for drafts in (None, DRAFTS)
]
MAIN = (
    "generator", "generator, drafts", "unweighted, drafts", "serving", "serving, drafts", "set, cars, drafts",
    "unweighted, drafts, static", "serving, drafts, static",
)  # fmt: skip
"""What the default suite runs."""


def label(name: str, drafts: Speculation | None, engine: str) -> str:
    return name + (", drafts" if drafts else "") + (", static" if engine == "static" else "")


def measured(device: PretendedDevice, name: str, drafts: Speculation | None, engine: str) -> list[str]:
    """Runs a loop on the CPU and on the device; the entries of its row in the table."""
    model = load(random_llama(), small_bpe_tokenizer())  # a vocabulary without masks of earlier rows
    if engine != "eager":
        model = HuggingFaceModel(model.model, model.tokenizer, engine=engine)
    expected = LOOPS[name](model, drafts)
    there = placed(device, model, engine=engine)
    with device.counted() as record:
        found = LOOPS[name](there, drafts)
    # The engine of fixed steps has another attention in every pass.
    assert_same_texts(found, expected, 5e-3 if engine == "static" else 1.5e-3)
    counts = (
        record.launches.total(), record.launches["split_stats"], len(record.uploads), len(record.downloads),
        len(record.waits), len(record.hidden),
    )  # fmt: skip
    return [f"{count / there.passes:.1f}" for count in counts]


def table() -> dict[str, list[str]]:
    rows = [line.strip("| ").split(" | ") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) == 1 + len(COLUMNS)}


@pytest.mark.parametrize(
    ("name", "drafts", "engine"),
    [
        pytest.param(*case, id=label(*case), marks=() if label(*case) in MAIN else pytest.mark.ci)
        for case in CASES
    ],
)
def test_texts_are_those_of_the_cpu_and_steps_those_of_the_table(device, name, drafts, engine):
    assert dict(zip(COLUMNS, measured(device, name, drafts, engine), strict=True)) == dict(
        zip(COLUMNS, table()[label(name, drafts, engine)], strict=True)
    )


def test_a_step_is_one_copy_each_way_and_one_wait():
    """The goal for every loop; eagerly, columns of the cache that a finished text or a draft leaves are dropped, which copies their numbers.

    These copies are some for each text, and the better the drafts, the fewer passes a text has: 5 for 9 passes of three texts.
    """
    for loop, entries in table().items():
        if loop == "loop":
            continue
        counts = dict(zip(COLUMNS, map(float, entries), strict=True))
        assert counts["copies up"] <= (1.1 if loop.endswith("static") else 1.6), loop
        assert max(counts["copies down"], counts["waits"]) <= 1.1, loop
        assert counts["hidden waits"] == 0, loop


@pytest.mark.ci
def test_a_fixed_step_is_one_copy_up_and_the_same_launches_at_every_length(device):
    """Between the copy of its inputs and its logits the host neither waits nor copies: it can be captured."""
    model = placed(device, llama(), engine="static")
    seen = {}
    for length in (3, 40, 200):
        cache = model.cache(2)
        model.forward_logits([[5] * length, [6] * (length // 2 + 1)], None, cache)
        for tree in ([-1], [-1, 0, 0, 1, 1], [-1, *[0] * 20]):
            tokens, trees = [[7] * len(tree)] * 2, [tree] * 2
            for _ in range(2):  # the second time what was kept is moved first
                with device.counted() as record:
                    model.forward_logits(tokens, (trees, [0, 0]), cache)
                assert (len(record.uploads), record.downloads, record.waits) == (1, [], [])
                moved = record.launches.pop("compact_kv", 0)
                assert moved <= 1
                assert seen.setdefault(len(tree), record.launches) == record.launches
                cache.keep_paths([0, 1], [[0, len(tree) - 1] if len(tree) > 1 else [0]] * 2)
    assert len(seen) == 3


@pytest.mark.parametrize(
    "name", ["serving", *(pytest.param(name, marks=pytest.mark.ci) for name in ("unweighted", "greedy"))]
)
def test_draws_without_weights_copy_no_whole_row(device, name, monkeypatch):
    """Forced tokens are seldom among the likeliest of this model: then the logits of what is allowed are copied."""

    def refused(self: DeviceLogits, index: int) -> None:
        raise AssertionError("a whole row was copied")

    there = placed(device, llama())
    monkeypatch.setattr(DeviceLogits, "row", refused)
    assert_same_texts(LOOPS[name](there, DRAFTS), LOOPS[name](llama(), DRAFTS))


def main() -> None:
    rows = []
    with pytest.MonkeyPatch.context() as patch, pretended_device(patch) as device:
        rows = [f"| {' | '.join((label(*case), *measured(device, *case)))} |" for case in CASES]
    TABLE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
