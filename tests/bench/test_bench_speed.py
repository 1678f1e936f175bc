"""`constrained bench speed`: a model says what was recorded whoever decodes, passes are counted as they happen."""

from __future__ import annotations

import gzip
import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

import constrained
from constrained import InvalidArgument
from constrained.bench.harness.settings import SCHEMAS_FILE, VALUES_FILE
from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.engines.base import EngineFault
from constrained.bench.masks.engines.text import MaskedSequence
from constrained.bench.masks.workload import VocabularyData
from constrained.bench.replay.measure import replay, required_draws
from constrained.bench.speed.cases import SpeedCase, cases, public_cases
from constrained.bench.speed.forward_counter import ForwardCounter
from constrained.bench.speed.recorded import ForcedOutput
from constrained.bench.speed.run import run
from constrained.bench.speed.settings import SpeedSettings
from constrained.bench.speed.shapes import SHAPES, ModelShape, random_model
from constrained.bench.speed.ways import _compiled as compiled_generate
from constrained.bench.speed.ways import decoding_methods
from constrained.cli import main
from constrained.decoding.speculation import Speculation
from constrained.models.hugging_face import HuggingFaceModel
from constrained.spec.drafts import DrafterFactory
from constrained.spec.memory import DraftMemory
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
    "additionalProperties": False,
}
TEXT = '{"a": "one two three", "b": [1, 22, 333]}'
TINY = ModelShape(32, 64, 2, 2, 2)


@cache
def tiny() -> HuggingFaceModel:
    return random_model(TINY, small_bpe_vocabulary(), device="cpu")


def case(text: str = TEXT) -> SpeedCase:
    encode = tiny().vocabulary.encode
    return SpeedCase(encode("one two three, 1 22 333"), SCHEMA, encode(text))


def test_every_way_writes_the_recorded_text() -> None:
    model, one = tiny(), case()
    assert one.recorded is not None
    tokens = VocabularyData(list(model.vocabulary.tokens), model.vocabulary.eos_ids)
    known = decoding_methods(model, model, tokens, 100, 1, exact=False)
    assert {
        "generate",
        "generate + lookup",
        "generate + constrained",
        "constrained",
        "constrained auto",
    } <= set(known)
    passes = {}
    known["generate, compiled"] = partial(compiled_generate, model, 100, {})  # on a CPU nothing is compiled
    for name, way in known.items():
        write = way(one)
        with (
            ForwardCounter(model.model) as watch,
            ForcedOutput(model.model, len(one.prompt), one.recorded, model.vocabulary.eos_ids[0]),
        ):
            written = write()
            passes[name] = watch.passes
            assert not written.is_cut()  # asks the forced model
        assert written.tokens == one.recorded, name
        assert written.forwards == passes[name], name
        assert watch.seconds > 0
    assert passes["generate"] == len(one.recorded) + 1  # one more for the end
    assert passes["constrained"] < len(
        one.recorded
    )  # nobody asks about forced text, nor about an end that must come
    assert passes["generate + lookup"] < passes["generate"]
    assert passes["constrained 64"] < passes["constrained"] / 2
    assert not model.model._forward_hooks
    assert not model.model._forward_pre_hooks


@pytest.mark.parametrize(("missing", "cut"), [(1, True), (0, False)])
def test_every_way_says_whether_the_limit_cut_the_text(missing: int, cut: bool) -> None:
    """The recorded text is what is written without a limit: with one token less it is cut, by whoever writes it."""
    model, one = tiny(), case()
    assert one.recorded is not None
    tokens = VocabularyData(list(model.vocabulary.tokens), model.vocabulary.eos_ids)
    limit = len(one.recorded) - missing
    for name, way in decoding_methods(model, model, tokens, limit, 1, exact=False).items():
        write = way(one)
        with ForcedOutput(model.model, len(one.prompt), one.recorded, model.vocabulary.eos_ids[0]):
            written = write()
            assert written.is_cut() is cut, name
        assert len(written.tokens) <= limit
        assert (written.tokens == one.recorded) is not cut, name


@pytest.mark.parametrize("nodes", [1, 8, 64])
def test_a_recorded_text_takes_as_many_passes_as_its_replay(nodes: int) -> None:
    """The replay knows no model: it follows drafts along the recorded tokens."""
    model, one = tiny(), case()
    assert one.recorded is not None
    automaton = constrained.compile(SCHEMA, model.vocabulary)
    names = ("forced", "ngram", "prompt_lookup")
    gen = constrained.Generator(
        model,
        automaton,
        sampler=constrained.Local(ends="certain"),
        speculation=Speculation(nodes=nodes, adapts=False, sources=names, memory=DraftMemory()),
    )
    with (
        ForwardCounter(model.model) as watch,
        ForcedOutput(model.model, len(one.prompt), one.recorded, model.vocabulary.eos_ids[0]),
    ):
        out = gen(one.prompt, max_tokens=100)
    assert out.text == TEXT
    draws = required_draws(automaton, one.recorded)
    assert draws is not None
    done = replay(
        draws,
        DrafterFactory(automaton, DraftMemory(), "k", source_names=names).lazy_drafter(one.prompt),
        nodes,
    )
    assert (watch.passes, out.stats.drafted) == (done.passes, done.nodes)


def test_the_peak_stands_at_the_next_token_of_every_place() -> None:
    """Of a whole text read at once, and of a tree whose branches stand at the same place."""
    model, recorded = tiny(), [7, 8, 9, 10]
    end = model.vocabulary.eos_ids[0]
    prompt = [5, 6]
    with ForcedOutput(model.model, 2, recorded, end):
        cache = model.cache(1)
        logits = model.forward_trees([[*prompt, *recorded]], [[-1, 0, 1, 2, 3, 4]], [1], cache)[0]
        assert logits.argmax(1).tolist() == [*recorded, end]
        cache = model.cache(1)
        logits = model.forward_trees([[*prompt, 7, 11, 8]], [[-1, 0, 1, 1, 2]], [1], cache)[0]
        assert logits.argmax(1).tolist() == [7, 8, 8, 9]
    assert model.forward([prompt], model.cache(1)).max() < 100


def test_a_later_text_is_said_by_the_same_tensors() -> None:
    """A graph of a device that was captured while one text was said says the next one: the text is data."""
    model, end = tiny(), tiny().vocabulary.eos_ids[0]
    with ForcedOutput(model.model, 1, [7, 8], end) as forced:
        held = forced._tokens, forced._bounds
        assert model.forward_trees([[5, 7, 8]], [[-1, 0, 1]], [0], model.cache(1))[0].argmax(1).tolist() == [
            7,
            8,
            end,
        ]
        forced.say(2, [9], end)
        assert model.forward_trees([[5, 6, 9]], [[-1, 0, 1]], [1], model.cache(1))[0].argmax(1).tolist() == [
            9,
            end,
        ]
        assert (forced._tokens, forced._bounds) == held


def test_batches_have_no_recorded_text() -> None:
    model = tiny()
    with ForcedOutput(model.model, 1, [7], 0), pytest.raises(ValueError, match="single"):
        model.model(input_ids=torch.tensor([[1, 2], [3, 4]]))


def test_masks_of_other_engines_are_followed_and_refusals_reported() -> None:
    vocabulary = small_bpe_vocabulary()
    tokens = VocabularyData(list(vocabulary.tokens), vocabulary.eos_ids)
    compiled = load_engine("constrained")(tokens, 1).compile(SCHEMA, json.dumps(SCHEMA))
    masked = MaskedSequence(compiled, vocabulary)
    for token in vocabulary.encode(TEXT):
        row = masked.fill()[0]
        assert row[token >> 5] >> (token & 31) & 1
        masked.commit(token)
    end = vocabulary.eos_ids[0]
    assert masked.fill()[0][end >> 5] >> (end & 31) & 1
    with pytest.raises(EngineFault):
        masked.commit(vocabulary.encode("x")[0])


def test_held_out_texts_follow_their_schemas() -> None:
    model = constrained.load()
    for one in cases(model, 5, 0, recorded=True):
        assert one.recorded is not None
        automaton = constrained.compile(constrained.json_schema(one.schema), model.vocabulary)
        assert required_draws(automaton, one.recorded) is not None


def test_what_a_way_cannot_write_counts_for_none(monkeypatch) -> None:
    from constrained.bench.speed import ways as module

    def refuse(*arguments: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(module, "_processor", refuse)
    with pytest.raises(InvalidArgument, match=r"generate \+ constrained"):
        run(SpeedSettings(random="1m", device="cpu", sample=1, only=("generate + constrained",)))


def test_shapes_have_the_weights_they_are_named_for() -> None:
    for name, sizes in SHAPES.items():
        attention = sizes.hidden * sizes.hidden * (2 + 2 * sizes.groups / sizes.heads)
        weights = sizes.layers * (attention + 3 * sizes.hidden * sizes.inner)
        named = float(name[:-1]) * {"m": 1e6, "b": 1e9}[name[-1]]
        assert named / 1.4 < weights < 1.4 * named, name


def command(*options: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "speed", "--quiet", "--device", "cpu", *options])
    return ended.value.code


def test_the_command_measures_and_writes(tmp_path, capsys) -> None:
    only = "generate + lookup;generate + constrained;constrained auto"
    arguments = ("--random", "1m", "--sample", "1", "--only", only, "--out", str(tmp_path))
    assert command(*arguments) in (None, 0)
    told = capsys.readouterr().out
    rows = json.loads((tmp_path / "speed.json").read_text())
    assert set(rows["by_method"]) == {"generate", *only.split(";")}
    assert len({one["tokens"] for one in rows["by_method"].values()}) == 1
    assert {one["cut"] for one in rows["by_method"].values()} == {0}
    page = (tmp_path / "speed.md").read_text()
    for name in rows["by_method"]:
        assert f"| {name} |" in page
        assert name in told
    assert "recorded texts" in told
    assert command("--random", "2x") == 2
    assert command("--random", "1m", "--exact") == 2
    assert command("--random", "1m", "--dtype", "int8") == 2
    assert command("--random", "1m", "--engine", "jit") == 2
    assert command("--random", "1m", "--only", "nothing") == 2


def test_the_bundled_model_writes_with_every_sampler(tmp_path, capsys) -> None:
    assert command("--sample", "1", "--exact", "--only", "constrained;cars auto", "--out", str(tmp_path)) in (
        None,
        0,
    )
    rows = json.loads((tmp_path / "speed.json").read_text())
    assert set(rows["by_method"]) == {"generate", "constrained", "cars auto"}
    assert "cars auto" in capsys.readouterr().out


def test_public_cases_are_schemas_texts_and_calls_in_turn(tmp_path: Path) -> None:
    function = {"name": "add", "description": "Adds.", "parameters": SCHEMA}
    rows: list[dict[str, Any]] = [
        {"id": "1", "task": "texts", "text": "one two", "schema": SCHEMA},
        {
            "id": "2",
            "task": "calls",
            "messages": [{"role": "user", "content": "1 and 2"}],
            "tools": [{"type": "function", "function": function}],
        },
        {"id": "3", "task": "labels", "text": "one", "options": ["a", "b"]},
    ]
    schemas = [
        {"id": "s", "schema": SCHEMA, "tests": []},
        {"id": "refused", "schema": {"type": 1}, "tests": []},
    ]
    for name, lines in ((SCHEMAS_FILE, schemas), (VALUES_FILE, rows)):
        with gzip.open(tmp_path / name, "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    model = constrained.load()
    found = list(public_cases(model, 9, 0, tmp_path))
    assert sorted(one.kind for one in found) == ["call", "schema", "text"]
    assert all(one.schema == SCHEMA for one in found)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        list(public_cases(model, 1, 0, tmp_path / "none"))
