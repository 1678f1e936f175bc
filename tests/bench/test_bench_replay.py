"""Passes are counted as they would happen, documents hold the values, and the command writes what it measured."""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from typing import Any

import pytest

import constrained
from constrained.bench.replay.measure import prompt_lookup, replay, replay_prompt_lookup, required_draws
from constrained.bench.replay.prompts import calls_by_tool, earlier_calls, make_document
from constrained.cli import main
from constrained.decoding.speculation import Speculation
from constrained.spec.drafts import DrafterFactory
from constrained.spec.memory import DraftMemory
from constrained.testing import ScriptedModel
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
    "additionalProperties": False,
}
TEXT = '{"a": "one two three", "b": [1, 22, 333]}'


@pytest.mark.parametrize("nodes", [1, 8, 64])
def test_a_replay_takes_as_many_passes_as_generation(nodes) -> None:
    """A model that says the recorded text is run with the same drafts, which learn the same."""
    vocabulary = small_bpe_vocabulary()
    model = ScriptedModel(vocabulary, TEXT)
    automaton = constrained.compile(SCHEMA, vocabulary)
    gen = constrained.Generator(
        model,
        automaton,
        sampler=constrained.Local(ends="certain"),
        speculation=Speculation(nodes=nodes, adapts=False, sources=("forced", "ngram"), memory=DraftMemory()),
    )
    out = gen([5, 6, 7], max_tokens=200)
    assert out.text == TEXT
    draws = required_draws(automaton, vocabulary.encode(TEXT))
    assert draws is not None
    names = ("forced", "ngram")
    done = replay(
        draws,
        DrafterFactory(automaton, DraftMemory(), "k", source_names=names).lazy_drafter([5, 6, 7]),
        nodes,
    )
    assert done.passes == out.stats.forwards
    assert done.nodes == out.stats.drafted
    assert done.accepted == out.stats.accepted
    assert 0 < done.promised <= done.nodes
    assert done.draws == len(draws) == len(out.tokens)


def test_what_is_drawn_ends_where_the_text_does() -> None:
    vocabulary = small_bpe_vocabulary()
    word = constrained.compile(constrained.regex("ab+"), vocabulary)
    assert required_draws(word, vocabulary.encode("abb"))[-1] == -1  # more could follow: the end is drawn
    assert required_draws(word, vocabulary.encode("a")) is None


def test_prompt_lookup_copies_what_followed() -> None:
    assert prompt_lookup([1, 2, 3, 4, 5, 1, 2, 3]) == [4, 5, 1, 2, 3]
    assert prompt_lookup([1, 2, 3]) == []
    done = replay_prompt_lookup([4, 5, 6], [1, 4, 5, 6, 1])
    assert (done.draws, done.passes) == (3, 1)
    assert replay_prompt_lookup([7, 8, 9], [1, 2]).passes == 3


def test_a_document_holds_the_values_and_not_the_names() -> None:
    value = {"name": 'Ann "the Cat"', "born": 1984, "likes": ["tea", "walks in Lyon"], "alive": True}
    text = make_document(value, 1)
    assert text == make_document(value, 1)
    for leaf in ('Ann "the Cat"', "tea", "walks in Lyon"):
        assert leaf.lower() in text.lower()
    assert "1984" in text or "1,984" in text
    assert "likes" not in text
    assert "True" not in text


def test_earlier_calls_are_those_of_the_same_tool_in_other_rows() -> None:
    def row(name: str, value: object, schema: object = None) -> dict[str, Any]:
        return {"id": name, "schema": schema or {}, "tests": [{"valid": True, "data": value}]}

    rows = [row(f"Glaiveai2K---send_mail_{i}", {"to": i % 6}) for i in range(8)]
    rows += [row("Glaiveai2K---send_money_0", {"to": 1}), row("Github_easy---send_mail_0", {"to": 99})]
    rows += [row(f"BFCL_simple_{i}", {"sum": [i]}, {"properties": {"sum": {}}}) for i in range(2)]
    calls = calls_by_tool(rows)
    assert set(calls) == {"send_mail", "send_money", "sum"}
    assert earlier_calls(rows[0], calls) == [
        f'{{"to": {i}}}' for i in (1, 2, 3, 4)
    ]  # not its own value again
    assert earlier_calls(rows[8], calls) == []
    assert earlier_calls(rows[9], calls) == []
    assert earlier_calls(rows[10], calls) == ['{"sum": [1]}']


def test_the_command_measures_and_writes(tmp_path, monkeypatch, capsys) -> None:
    rows = [
        {"id": f"s{i}", "schema": SCHEMA,
         "tests": [{"valid": True, "data": {"a": f"word {i} {j}", "b": [i, j]}} for j in range(2)]}
        for i in range(4)
    ]  # fmt: skip
    data = tmp_path / "data.jsonl.gz"
    data.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    from constrained.bench.masks.workload import VocabularyData

    module = import_module("constrained.bench.replay.run")

    vocabulary = small_bpe_vocabulary()
    tokens = VocabularyData(list(vocabulary.tokens), vocabulary.eos_ids)
    monkeypatch.setattr(module, "load_bench_vocabulary", lambda name: (vocabulary, tokens))
    out = tmp_path / "out"

    def command(*options: str) -> object:
        with pytest.raises(SystemExit) as ended:
            main(["bench", "replay", "--data", str(data), "--quiet", "--out", str(out), *options])
        return ended.value.code

    assert command("--sample", "4") in (None, 0)
    assert "tokens per forward pass" in capsys.readouterr().out
    found = json.loads((out / "replay.json").read_text())
    scenarios = ("cold", "cold, nothing learned", "document", "repeated", "repeated, document")
    assert found["texts"] == dict.fromkeys(scenarios, 4)  # none of these rows calls a tool
    cold = found["by_scenario"]["cold"]
    assert cold["all, 64 nodes"]["passes"] < cold["forced only"]["passes"]
    assert found["by_scenario"]["repeated"]["all, 64 nodes"]["passes"] < cold["all, 64 nodes"]["passes"]
    nothing = found["by_scenario"]["cold, nothing learned"]
    assert cold["all, 64 nodes"]["passes"] < nothing["all, 64 nodes"]["passes"]
    assert cold["forced only"]["passes"] == nothing["forced only"]["passes"]
    assert "| all, 64 nodes |" in (out / "replay.md").read_text()
    assert command("--only", "nothing") not in (None, 0)
