"""Text that is forced is written without logits where nobody asks for weights: fewer passes, the same tokens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import Generator, Local, Speculation, choice, json_schema, regex
from constrained.automaton.forced_tokens import forced_token
from constrained.decoding.request_batch import request_runner
from constrained.decoding.request_runner import BatchedRequest
from constrained.spec.budget import DraftBudget
from constrained.testing.models import ScriptedModel
from tests.chat.test_reply_guard import FORMATS, MixtureModel
from tests.chat.test_reply_guard import generator as guarded
from tests.support.examples import examples
from tests.support.tiny_models import llama

SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"const": "a reading of the weather"},
        "wet": {"type": "boolean"},
        "place": {"enum": ["the hill", "the harbour"]},
        "number": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["kind", "wet", "place", "number"],
    "additionalProperties": False,
}
UNWEIGHED = Local(weights=False)


def generated(sampler: Any, speculation: Any = None) -> Generator[Any]:
    return Generator(llama(), json_schema(SCHEMA), sampler=sampler, speculation=speculation)


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.7, 1.0]), st.integers(52, 90))
@settings(max_examples=examples(20), deadline=None)
def test_the_tokens_are_those_of_a_pass_each(number: int, temperature: float, most: int) -> None:
    """Also where the token limit closes the text, and with drafts."""
    options: dict[str, Any] = {"temperature": temperature, "seed": number, "max_tokens": most}
    expected = generated(Local(ends="certain"))(f"number {number}:", **options)
    for speculation in (None, Speculation(nodes=12, adapts=False)):
        out = generated(UNWEIGHED, speculation)(f"number {number}:", **options)
        assert (out.tokens, out.finish, out.cut) == (expected.tokens, expected.finish, expected.cut)
        assert out.stats.forwards < expected.stats.forwards


def test_passes_are_those_of_the_choices() -> None:
    """One where the model chooses, none for text that has one spelling, at the start, in between and at the end."""
    generator = generated(UNWEIGHED)
    out = generator("x", seed=1)
    automaton, state, chosen = generator.automaton, generator.automaton.start, 0
    for token in out.tokens:
        chosen += forced_token(automaton, state) is None
        state = automaton.next(state, token)
    assert out.stats.forwards == chosen < len(out.tokens) / 2


def test_text_without_a_choice_takes_no_pass() -> None:
    out = Generator(llama(), json_schema({"const": "a reading"}), sampler=UNWEIGHED, speculation=None)("x")
    assert (out.text, out.stats.forwards, out.logprob) == ('"a reading"', 0, 0.0)


def test_the_log_probability_is_that_of_the_choices() -> None:
    """With weights each token is read, and counts."""
    both = [generated(sampler)("x", seed=1) for sampler in (UNWEIGHED, Local(ends="certain"))]
    assert both[0].tokens == both[1].tokens
    assert both[1].logprob < both[0].logprob < 0.0


def test_a_stream_has_all_of_the_text() -> None:
    generator = generated(UNWEIGHED, "auto")
    chunks = list(generator.stream("x", seed=1))
    assert "".join(chunk.delta for chunk in chunks) == generator("x", seed=1).text == chunks[-1].text
    assert all(chunk.tokens for chunk in chunks)


def test_in_a_batch_each_text_has_its_own() -> None:
    generators = [
        Generator(llama(), constraint, sampler=UNWEIGHED, speculation=None)
        for constraint in (json_schema(SCHEMA), json_schema({"const": 1}), choice(["red", "a long way home"]))
    ]
    alone = [one("x", seed=3) for one in generators]
    shared = llama()
    for one in generators:
        one.model = shared
    runner = request_runner(generators[0], 4)
    members = [BatchedRequest(one, one._request("x", seed=3)) for one in generators]
    for member in members:
        runner.add(member)
    while len(runner):
        runner.step()
    assert [member.outcome.tokens for member in members] == [one.tokens for one in alone]  # type: ignore[union-attr]


def test_in_a_batch_forced_text_makes_no_pass_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a pass are padded to the widest: what one of many leaves no choice of is read in several passes."""
    model, widths = llama(), []
    long = Generator(model, regex("[a-c] long way home[.!]"), sampler=UNWEIGHED, speculation=None)
    short = Generator(model, regex("[a-c]{20}"), sampler=UNWEIGHED, speculation=None)
    runner = request_runner(long, 6)
    members = [BatchedRequest(one, one._request("x", seed=3)) for one in (long, short, short, short)]
    expected = [one.generator._decode(one.request, 0.0).tokens for one in members]
    read = type(model).forward_logits

    def reading(self: Any, tokens: Any, *arguments: Any) -> Any:
        if len(tokens) > 1:
            widths.append(max(map(len, tokens)))
        return read(self, tokens, *arguments)

    monkeypatch.setattr(type(model), "forward_logits", reading)
    for member in members:
        runner.add(member)
    while len(runner):
        runner.step()
    assert [member.outcome.tokens for member in members] == expected  # type: ignore[union-attr]
    assert len(expected[0]) > 5
    assert set(widths) == {1}


def test_models_that_tell_prompts_from_completions_read_each_token() -> None:
    model = ScriptedModel(llama().vocabulary, '"a reading"')
    out = Generator(model, json_schema({"const": "a reading"}), sampler=UNWEIGHED, speculation=None)("x")
    assert (out.text, out.stats.forwards) == ('"a reading"', len(out.tokens))


def test_texts_to_be_avoided_are_not_charged_as_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They once drew the balance down until nothing was drafted for calls of tools."""
    nodes: list[int] = []
    record = DraftBudget.record_pass

    def recording(self: DraftBudget, sequences: int, read: int, *arguments: Any, **named: Any) -> None:
        nodes.append(read)
        record(self, sequences, read, *arguments, **named)

    monkeypatch.setattr(DraftBudget, "record_pass", recording)
    format = FORMATS["hermes"]
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.4}
    out = guarded(MixtureModel(format, law), format, speculation="auto")("Hi", max_tokens=900)
    assert out.stats.forwards > 3
    assert max(nodes) <= 64
