"""Closed slots: an enumeration, a boolean, a bounded integer inside of a JSON text is drawn as a whole, in one pass."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import constrained
from constrained import Generator, Local, Speculation, json_schema, lark, regex
from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.cache import compile_cached
from constrained.automaton.forced_tokens import forced_token
from constrained.decoding import sequence as decoding_sequence
from constrained.decoding.closed_slots import ClosedSlot, closed_slot
from constrained.decoding.request_batch import request_runner
from constrained.decoding.request_runner import BatchedRequest
from constrained.decoding.slot_reading import SlotReading
from constrained.sampling import SAMPLERS
from constrained.spec.scores import log_sum_exp
from constrained.testing.models import FunctionModel
from tests.support.examples import examples
from tests.support.random_schemas import RandomSchemas
from tests.support.tiny_models import llama

LABELS = st.lists(st.text("abcé 12", min_size=1, max_size=7), min_size=2, max_size=12, unique=True)
SLOTS = Local(slots=True)


def member(schema: Any, **others: Any) -> Any:
    """An object with a closed member, and others behind it."""
    return json_schema(member_schema(schema, **others), separators=(", ", ": "))


def member_schema(schema: Any, **others: Any) -> dict[str, Any]:
    members = {"kind": schema, **others}
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def slot_start(generator: Generator[Any]) -> tuple[list[int], int]:
    """The forced tokens before the first slot of a text, and the state behind them."""
    automaton, state, tokens = generator.automaton, generator.automaton.start, []
    while (token := forced_token(automaton, state)) is not None:
        tokens.append(token)
        state = automaton.next(state, token)
    return tokens, state


def values(generator: Generator[Any], text: str = "") -> list[str] | None:
    """The texts of the slot behind a text, or behind what is forced at the start; None without one."""
    automaton, vocabulary = generator.automaton, generator.automaton.vocabulary
    if text:
        tokens = vocabulary.encode(text)
        (*_, state) = automaton.walk(automaton.start, tokens)
    else:
        tokens, state = slot_start(generator)
    slot = closed_slot(automaton, state, tokens)
    return None if slot is None else [vocabulary.decode(one).decode() for one in slot.tokens]


def judged(model: Any, prompt: str, generator: Generator[Any], texts: Sequence[str]) -> dict[str, float]:
    """The probability of each whole text with one slot: its tokens and an end behind them, read one by one."""
    automaton, vocabulary = generator.automaton, generator.automaton.vocabulary
    before, start = slot_start(generator)
    begun = len(vocabulary.decode(before))
    scores = {}
    for text in texts:
        data = text.encode()[begun:-1]  # without the brace
        is_string = data.endswith(b'"')
        ids, total, state = [*model.encode(prompt), *before], 0.0, start
        for token in vocabulary.encode(data[:-1] if is_string else data):
            logits = model.forward([ids], model.cache(1))[0].astype(np.float64)
            total += logits[token] - log_sum_exp(logits)
            ids, state = [*ids, token], automaton.next(state, token)
        logits = model.forward([ids], model.cache(1))[0].astype(np.float64)
        ends = [
            token
            for token in range(vocabulary.size)
            if vocabulary.tokens[token].startswith(b'"' if is_string else b"}")
            and automaton.next(state, token)
        ]
        scores[text] = total + log_sum_exp(logits[ends]) - log_sum_exp(logits)
    everything = log_sum_exp(np.array(list(scores.values())))
    return {text: float(np.exp(score - everything)) for text, score in scores.items()}


@given(LABELS, st.integers(0, 100))
@settings(max_examples=examples(10), deadline=None)
def test_a_value_has_its_probability_as_a_whole(labels: list[str], number: int) -> None:
    """Greedy it is the likeliest one; a draw has the probability that its weight says."""
    model, prompt = llama(), f"number {number}:"
    generator = Generator(model, member({"enum": labels}), sampler=SLOTS)
    texts = {json.dumps({"kind": one}, ensure_ascii=False): one for one in labels}
    law = judged(model, prompt, generator, list(texts))
    assert law[generator(prompt).text] >= max(law.values()) - 1e-4
    for seed in range(3):
        out = generator(prompt, temperature=1.0, seed=seed)
        share = np.exp(out.logprob - out.log_weight)
        assert share <= law[out.text] + 1e-4
        if not any(one != texts[out.text] and one.startswith(texts[out.text]) for one in labels):
            assert share == pytest.approx(law[out.text], abs=1e-4)  # else the end may have several spellings


@pytest.mark.parametrize("speculation", [None, Speculation(adapts=False, nodes=8)], ids=["plain", "drafts"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("labels", [["red", "reddish", "blue"], [f"colour {i}" for i in range(40)]])
def test_a_text_has_the_probability_that_the_model_gives_its_tokens(
    labels: list[str], temperature: float, speculation: Any
) -> None:
    """Its first token was read a pass before its other ones: it had the probability of another place."""
    model, prompt = llama(), "the colour:"
    generator = Generator(model, member({"enum": labels}), sampler=SLOTS, speculation=speculation)
    out = generator(prompt, temperature=temperature, seed=1)
    ids, total = model.encode(prompt), 0.0
    for token in out.tokens:
        logits = model.forward([ids], model.cache(1))[0].astype(np.float64)
        total += logits[token] - log_sum_exp(logits)
        ids = [*ids, token]
    logits = model.forward([ids], model.cache(1))[0].astype(np.float64)
    ends = [logits[token] - log_sum_exp(logits) for token in generator.automaton.vocabulary.eos_ids]
    assert any(out.logprob == pytest.approx(total + end, abs=1e-3) for end in (0.0, *ends))


def test_draws_follow_the_law_of_whole_values() -> None:
    """Numbers of which some begin with others, and words: 300 draws, each with its own seed."""
    model = llama()
    for schema, texts in (
        ({"type": "integer", "minimum": 1, "maximum": 12}, [f'{{"kind": {n}}}' for n in range(1, 13)]),
        ({"enum": ["red", "reddish", "blue"]}, [f'{{"kind": "{c}"}}' for c in ("red", "reddish", "blue")]),
    ):
        generator = Generator(model, member(schema), sampler=Local(weights=False, slots=True))
        law = judged(model, "x", generator, texts)
        drawn = Counter(out.text for out in generator.batch(["x"] * 300, temperature=1.0, seed=5))
        assert set(drawn) <= set(law)
        chi2 = sum((drawn[text] - 300 * share) ** 2 / (300 * share) for text, share in law.items())
        assert chi2 < 33  # 0.05 % of such samples are above, with 11 degrees of freedom


SCHEMA = member(
    {"enum": ["the hill", "the harbour", "the"]},
    number={"type": "integer", "minimum": 0, "maximum": 20},
    text={"type": "string", "maxLength": 4},
    maybe={"anyOf": [{"const": "x"}, {"type": "null"}]},
    wet={"type": "boolean"},
    all={"type": "array", "items": {"enum": ["a", "b", "ab"]}, "maxItems": 3},
)


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.7, 1.0]), st.sampled_from([{}, {"top_p": 0.8}]))
@settings(max_examples=examples(6), deadline=None)
def test_drafts_batches_and_streams_do_not_change_a_text(
    number: int, temperature: float, truncation: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"temperature": temperature, "seed": number, "max_tokens": 120}
    if temperature:
        options.update(truncation)
    prompts = [f"number {number}:", "x", "Where?"]
    generator = Generator(llama(), SCHEMA)
    alone = [generator(prompt, **options) for prompt in prompts]
    jumping = Generator(llama(), SCHEMA, sampler=Local(weights=False, slots=True))
    for other in (generator, jumping):
        assert [out.text for out in other.batch(prompts, **options)] == [out.text for out in alone]
    for sampler in (SLOTS, jumping.sampler):
        drafting = Generator(
            llama(), SCHEMA, sampler=sampler, speculation=Speculation(nodes=12, adapts=False)
        )
        assert [drafting(prompt, **options).text for prompt in prompts] == [out.text for out in alone]
    (*_, last) = generator.stream(prompts[0], **options)
    assert last.text == alone[0].text


def test_few_values_are_read_in_the_pass_before_them() -> None:
    schema = member({"type": "boolean"}, wet={"enum": ["a", "b"]})
    out = Generator(llama(), schema, sampler=Local(weights=False, slots=True))("x")
    assert out.stats.forwards == 2


def test_of_many_values_those_are_read_that_may_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight needs all of them."""
    read: list[int] = []
    texts = SlotReading.next_texts

    def reading(self: SlotReading) -> Any:
        read.append(len(found := texts(self)) - 1)
        return found

    monkeypatch.setattr(SlotReading, "next_texts", reading)
    schema = member({"enum": [f"{letter}{number} long" for letter in "abcdefgh" for number in range(4)]})
    counts = {}
    for weights in (True, False):
        read.clear()
        Generator(Likes("b"), schema, sampler=Local(weights=weights, slots=True))(
            "x", temperature=1.0, seed=1
        )
        counts[weights] = max(read)
    assert counts[False] < counts[True]


@pytest.mark.parametrize(
    ("constraint", "text", "expected"),
    [
        (member({"enum": ["red", "blue"]}), "", ["blue", "red"]),
        (member({"enum": ["dark red", "dark blue"]}), "", ["blue", "red"]),
        (member({"type": "boolean"}), "", ["false", "true"]),
        (member({"enum": [1, "one", None]}), "", ["1", "null", "one"]),
        (member({"enum": ["\n", 'a"b']}), "", ["\\n", 'a\\"b']),
        (member({"enum": ["a\nb", 'a"b']}), '{"kind": "a\\', None),
        (member({"type": "integer", "minimum": 9, "maximum": 11}), "", ["10", "11", "9"]),
        (member({"enum": ["a", "a b"]}), "", ["a", "a b"]),
        (member({"enum": ["a", "a b", "c"]}), '{"kind": "a', None),
        (member({"type": "string"}), "", None),
        (member({"type": "integer"}), "", None),
        (member({"type": "integer", "minimum": 0, "maximum": 999}), "", None),
        (member({"type": ["boolean", "array"]}), "", None),
        (member({"type": "array", "items": {"enum": ["a", "b"]}}), '{"kind": [', None),
        (member({"type": "array", "items": {"enum": ["a", "b"]}}), '{"kind": ["a", ', ["a", "b"]),
        (json_schema({"enum": [{"a": 1, "b": 1}, {"b": 2}]}, separators=(", ", ": ")), '{"', None),
        (json_schema({"properties": {"a": {}, "b": {}}, "additionalProperties": False}), '{"', None),
        (lark('start: "It is " ("\\"yes\\"" | "\\"no\\"") "."'), "It is ", ["no", "yes"]),
        (lark('start: "{\\"a\\": " ("\\"yes\\"" | "\\"no\\"") "}"'), '{"a": "', ["no", "yes"]),
        (regex(r"[a-z]+"), "", None),
        (regex("[A-Z][a-z]+ [0-9]{2,6}"), "Bva 82001", None),
        (regex("[A-Z][a-z]+ [0-9]{2}"), "Bva 8", None),
        (regex("x(: [0-9])?"), "x", None),
        (json_schema({"type": "integer", "minimum": 0, "maximum": 99_999}), "1234", None),
    ],
)
def test_what_a_slot_is(constraint: Any, text: str, expected: list[str] | None) -> None:
    found = values(Generator(llama(), constraint), text)
    # What is forced before a value may be a part of it.
    assert (found and sorted(one.lstrip(' "') for one in found)) == (
        expected and sorted(one.lstrip(' "') for one in expected)
    )


class Likes(FunctionModel):
    """Finds the tokens of one letter likely, and all others alike."""

    def __init__(self, letter: str) -> None:
        self.vocabulary = llama().vocabulary
        self._row = np.zeros(self.vocabulary.size)
        self._row[self.vocabulary.encode(letter.encode())] = 9.0

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return self.vocabulary.encode(prompt.encode())

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        return self._row


def test_a_value_that_does_not_fit_is_left_out_and_the_output_says_where() -> None:
    """The limit leaves room for one of two values: it is taken, and is not what would have been drawn."""
    long, short = "c" * 30, "a"

    generator = Generator(Likes("c"), member({"enum": [long, short]}), sampler=SLOTS)
    free = generator("x", max_tokens=80)
    assert (free.value, free.cut) == ({"kind": long}, None)
    out = generator("x", max_tokens=len(free.tokens) - 1)
    assert (out.value, out.finish) == ({"kind": short}, "limit")
    assert out.cut is not None


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_value_that_begins_another_one_fits_only_with_what_follows_its_own_end(temperature: float) -> None:
    """`a` needs a long member behind it, `ab` none: the limit leaves room for the shorter text alone."""
    kinds = [("a", {"x": {"const": "c" * 40}}), ("ab", {}), ("b", {})]
    schema = {"anyOf": [member_schema({"const": kind}, **others) for kind, others in kinds]}
    generator = Generator(Likes("a"), json_schema(schema, separators=(", ", ": ")), sampler=SLOTS)
    shortest = generator.automaton.shortest_completion(generator.automaton.start)
    for most in range(shortest, shortest + 8):
        for seed in range(8 if temperature else 1):
            out = generator("x", max_tokens=most, temperature=temperature, seed=seed)
            assert out.value["kind"] in ("ab", "b")


def test_behind_a_long_prompt_a_slot_takes_a_pass_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = member({"type": "boolean"})
    generator = Generator(llama(), schema, sampler=Local(weights=False, slots=True))
    prompts = ["a long prompt, of more than five tokens", "x"]
    expected = [generator(prompt) for prompt in prompts]
    monkeypatch.setattr(decoding_sequence, "LONGEST_PROMPT", 5)
    found = [generator(prompt) for prompt in prompts]
    assert [out.text for out in found] == [out.text for out in expected]
    assert found[0].stats.forwards > expected[0].stats.forwards
    assert [out.text for out in generator.batch(prompts)] == [out.text for out in expected]


def test_samplers_by_name_draw_token_by_token() -> None:
    assert not SAMPLERS["local"]().slots  # type: ignore[attr-defined]
    assert not SLOTS.weighted().slots
    with pytest.raises(constrained.InvalidArgument, match="slots is 1"):
        Local(slots=1)  # type: ignore[arg-type]


def test_a_model_that_reads_no_trees_draws_token_by_token() -> None:
    model = Likes("b")
    model.no_trees = "it reads one continuation at a time"
    assert Generator(model, SCHEMA).sampler == Local()
    outputs = [Generator(model, SCHEMA, sampler=one)("x") for one in (Local(), SLOTS)]
    assert outputs[0].tokens == outputs[1].tokens


def test_copies_of_a_request_draw_their_own_values() -> None:
    """Requests with equal prompts share the pass over them."""
    generator = Generator(
        llama(),
        member({"type": "integer", "minimum": 0, "maximum": 9}),
        sampler=Local(weights=False, slots=True),
    )
    alone = [generator("x", temperature=1.0, seed=2, sequence=i) for i in range(6)]
    runner = request_runner(generator, 6)
    requests = [
        BatchedRequest(generator, generator._request("x", sequence=i, seed=2, temperature=1.0))
        for i in range(6)
    ]
    for one in requests:
        runner.add(one)
    while len(runner):
        runner.step()
    assert [one.outcome.text for one in requests] == [out.text for out in alone]  # type: ignore[union-attr]
    assert len({out.text for out in alone}) > 2


def left_out(automaton: Any, state: int, slot: ClosedSlot) -> list[bytes]:
    """What may follow a state and is no value of its slot, nor the beginning of one, nor one with an end behind it."""
    vocabulary = automaton.vocabulary
    texts = [vocabulary.decode(one) for one in slot.tokens]
    ends = [{vocabulary.tokens[end][:1] for end in ids.tolist()} for ids in slot.ends]
    mask = automaton.new_mask()
    automaton.fill_mask(state, mask)
    return [
        token
        for token in (vocabulary.tokens[one] for one in unpack_ids(mask).tolist())
        if not token
        or not any(
            text.startswith(token) or (token.startswith(text) and token[len(text) :][:1] in first)
            for text, first in zip(texts, ends, strict=True)
        )
    ]


@pytest.mark.parametrize("draft", ["4", "2020-12"])
def test_a_slot_has_all_that_may_follow(draft: str) -> None:
    """Random schemas, grammars with numbers and words, and random texts of them: nothing that is allowed is lost."""
    rng, slots = random.Random(7), 0
    constraints = [
        regex("[A-Z][a-z]? [0-9]{1,3}(\\.[05])?"),
        regex('(: )?("a"|"b\\\\"c"|true|-?1[0-2]?)x?'),
        lark('start: "[" (V ", ")* V? "]"\nV: "1" | "12" | "\\"a\\"" | "\\"ab\\"" | "null"'),
        json_schema({"enum": [1, 12, "a", "a b", None, [1], "\\", 'x"y']}),
    ]
    constraints += [
        SCHEMA,
        *(member({"enum": labels}, b={"type": "boolean"}) for labels in ([1, "1"], ["a", "ab", "b c"])),
    ]
    by_hand = len(constraints)
    while len(constraints) < by_hand + examples(10):
        with contextlib.suppress(constrained.ConstraintError, constrained.ConstraintTooLarge):
            constraint = json_schema(RandomSchemas(rng, draft).schema(), separators=(", ", ": "))
            compile_cached(constraint, llama().vocabulary)
            constraints.append(constraint)
    for number, constraint in enumerate(constraints):
        _, automaton = compile_cached(constraint, llama().vocabulary)
        mask = automaton.new_mask()
        for _ in range(8 if number < by_hand else 3):
            state, tokens = automaton.start, list[int]()
            for _ in range(25):
                slot = closed_slot(automaton, state, tokens)
                if slot is not None:
                    slots += 1
                    assert left_out(automaton, state, slot) == [], (constraint, tokens)
                automaton.fill_mask(state, mask)
                allowed = [one for one in unpack_ids(mask).tolist() if automaton.vocabulary.tokens[one]]
                if not allowed:
                    break
                tokens.append(
                    min(rng.choices(allowed, k=2), key=lambda one: len(automaton.vocabulary.tokens[one]))
                )
                state = automaton.next(state, tokens[-1])
    assert slots > 15
