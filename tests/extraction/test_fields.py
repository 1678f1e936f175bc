"""Probabilities of fields: against products of single steps over a listed language, whatever the passes of the model."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import constrained
from constrained.automaton import compile
from constrained.constraint import json_schema, regex
from constrained.extraction.values.fields import by_doubt, score_fields
from constrained.extraction.values.json_places import scalar_places
from constrained.models.base import Prompt
from constrained.testing import ScriptedModel
from constrained.testing.models import FunctionModel
from constrained.vocabulary import Vocabulary
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import FiniteAutomaton, byte_vocabulary

PROMPT = [3]


class ArbitraryModel(FunctionModel):
    """Logits that look random, and depend on all tokens before; counts what it reads at once."""

    def __init__(self, vocabulary: Vocabulary, seed: int = 0) -> None:
        self.vocabulary = vocabulary
        self.seed = seed
        self.asked = 0
        self.passes: list[int] = []

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        return list(PROMPT)

    def logits(self, prompt: list[int], completion: list[int]) -> NDArray[np.floating[Any]]:
        self.asked += 1
        return np.random.default_rng([self.seed, *prompt, 999, *completion]).normal(
            0, 2, self.vocabulary.size
        )

    def forward_trees(self, tokens, parents, skip, cache):  # type: ignore[no-untyped-def]
        self.passes.append(len(tokens[0]))
        return super().forward_trees(tokens, parents, skip, cache)


class SteppingModel(ArbitraryModel):
    """The same, one token at a time."""

    no_trees = "the test reads single tokens"
    no_chains = "the test reads single tokens"

    def forward_trees(self, tokens, parents, skip, cache):  # type: ignore[no-untyped-def]
        raise AssertionError("a model of single tokens was given a tree")


def allowed_after(texts: list[bytes], vocabulary: Vocabulary, prefix: bytes) -> list[int]:
    """By the list of a language: the tokens that may follow a prefix."""
    return [
        token
        for token, piece in enumerate(vocabulary.tokens)
        if (
            prefix in texts
            if token in vocabulary.eos_ids
            else any(text.startswith(prefix + piece) for text in texts)
        )
    ]


def step(
    model: FunctionModel, texts: list[bytes], tokens: list[int], at: int
) -> tuple[list[int], dict[int, float]]:
    """By one call of the model: what may be drawn at a place of a completion, and the probability of each."""
    allowed = allowed_after(texts, model.vocabulary, model.vocabulary.decode(tokens[:at]))
    row = model.logits(PROMPT, tokens[:at])
    weights = {token: math.exp(float(row[token])) for token in allowed}
    return allowed, {token: weight / math.fsum(weights.values()) for token, weight in weights.items()}


PIECES = ("{", '"', "name", '"name": "', "age", '": ', ", ", '", "', "Ann", '"}', "12", "2}", "An")
TEXTS = [
    f'{{"name": "{name}", "age": {age}}}'.encode()
    for name in ("An", "Ann", "Anna", "B")
    for age in (1, 12, 2, 122)
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.decode())
@pytest.mark.parametrize("seed", [0, 1])
def test_probabilities_are_products_over_the_tokens_of_a_value(text, seed):
    vocabulary = byte_vocabulary(*PIECES)
    automaton = FiniteAutomaton(TEXTS, vocabulary)
    model = ArbitraryModel(vocabulary, seed)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        tokens, at = [], 0
        while at < len(text):  # any tokenisation
            fitting = [t for t, piece in enumerate(vocabulary.tokens) if piece and text.startswith(piece, at)]
            tokens.append(int(rng.choice(fitting)))
            at += len(vocabulary.tokens[tokens[-1]])
        found = score_fields(model, automaton, PROMPT, tokens)
        assert list(found) == ["/name", "/age"]
        value = json.loads(text)
        stops = np.cumsum([len(vocabulary.tokens[t]) for t in tokens]).tolist()
        for pointer, written in (("/name", json.dumps(value["name"])), ("/age", str(value["age"]))):
            start = text.index(b": ", text.index(pointer[1:].encode())) + 2
            end = start + len(written)
            # A string ends with its quote; a number with the token that writes something else.
            inside = [
                i
                for i, stop in enumerate(stops)
                if stop > start and ([0, *stops][i] < end or (pointer == "/age" and [0, *stops][i] == end))
            ]
            steps = {i: step(model, TEXTS, tokens, i) for i in inside}
            field = found[pointer]
            assert field.value == value[pointer[1:]]
            assert field.logprob == pytest.approx(
                math.fsum(math.log(steps[i][1][tokens[i]]) for i in inside), abs=1e-5
            )
            assert field.probability == pytest.approx(math.exp(field.logprob))
            behind_quote = start + (pointer == "/name")
            choices = [i for i in inside if len(steps[i][0]) > 1 and stops[i] > behind_quote]
            if not choices:
                assert (field.choice, field.others, field.alternatives) == ("", 0, ())
                continue
            first = choices[0]
            probabilities = dict(steps[first][1])
            own = probabilities.pop(tokens[first])
            assert field.choice == vocabulary.tokens[tokens[first]].decode()
            assert field.others == pytest.approx(1 - own, abs=1e-6)
            best = sorted(probabilities.items(), key=lambda item: -item[1])[:5]
            assert [name for name, _ in field.alternatives] == [
                vocabulary.tokens[token].decode() for token, _ in best
            ]
            assert [p for _, p in field.alternatives] == pytest.approx([p for _, p in best], abs=1e-6)


def test_the_values_of_a_language_have_probabilities_that_add_up_to_one():
    # All completions of a regex, as one value with its end, are all that can be drawn.
    model = EnumerableModel(seed=4, depth=4)
    automaton = compile(regex("[abc]{1,3}"), model.vocabulary)
    sequences = [tokens for tokens in model.sequences() if 1 <= len(tokens) <= 3]
    total = []
    for tokens in sequences:
        (field,) = score_fields(
            model, automaton, [model.eos], tokens, is_json=False, ended=len(tokens) < 3
        ).values()
        assert field.value == model.vocabulary.decode(tokens).decode()
        total.append(field.probability)
    assert math.fsum(total) == pytest.approx(1, abs=1e-9)
    by_text = dict(zip(sequences, total, strict=True))
    local = model.distributions({model.vocabulary.decode(tokens) for tokens in sequences}).local
    assert all(by_text[t] == pytest.approx(local[model.vocabulary.decode(t)], abs=1e-12) for t in sequences)


def test_the_end_of_a_number_is_part_of_it_where_digits_may_follow():
    vocabulary = byte_vocabulary()
    model = ArbitraryModel(vocabulary)
    constraint = json_schema({"type": "array", "items": {"type": "integer"}}, max_digits=2)
    automaton = compile(constraint, vocabulary)
    tokens = vocabulary.encode("[12]")
    found = score_fields(model, automaton, PROMPT, tokens)
    rows = [model.logits(PROMPT, tokens[:at]) for at in range(3)]
    first = [ord("]"), *map(ord, "\n -0123456789")]  # an empty array, or a number
    second = [*map(ord, "\n 0123456789,]")]

    def logprob(row, allowed, token):
        return float(row[token] - np.log(np.exp(row[allowed]).sum()))

    # Two digits are the limit: what follows them is another number or the end of the array.
    third = [*map(ord, "\n ,]")]
    assert found["/0"].logprob == pytest.approx(
        logprob(rows[1], first, tokens[1])
        + logprob(rows[2], second, tokens[2])
        + logprob(model.logits(PROMPT, tokens[:3]), third, tokens[3]),
        abs=1e-5,
    )
    one = compile(json_schema({"type": "integer"}, max_digits=3), vocabulary)
    short = vocabulary.encode("12")
    (ended,) = score_fields(model, one, PROMPT, short, ended=True).values()
    (cut,) = score_fields(model, one, PROMPT, short).values()
    end = logprob(
        model.logits(PROMPT, short), [*map(ord, "0123456789"), *vocabulary.eos_ids], vocabulary.eos_ids[0]
    )
    assert ended.logprob - cut.logprob == pytest.approx(end, abs=1e-5)
    full = vocabulary.encode("123")
    (complete,) = score_fields(model, one, PROMPT, full).values()
    assert complete.logprob < 0
    assert math.isfinite(complete.logprob)


def test_several_ends_of_sequence_are_one_event():
    vocabulary = Vocabulary.from_bytes([b"a", b"", b""], [1, 2])
    automaton = compile(regex("a*"), vocabulary)
    model = ArbitraryModel(vocabulary)
    (field,) = score_fields(model, automaton, [0], [], is_json=False, ended=True).values()
    weights = np.exp(model.logits([0], []))
    assert field.probability == pytest.approx(float(weights[1:].sum() / weights.sum()), abs=1e-6)
    assert field.choice == "(end)"
    assert [name for name, _ in field.alternatives] == ["a"]


@pytest.mark.parametrize("size", [1, 2, 127, 128, 129, 130, 300])
def test_passes_of_many_tokens_equal_single_steps(size):
    vocabulary = byte_vocabulary()
    text = json.dumps(["x" * size, 5])
    tokens = vocabulary.encode(text)
    automaton = compile(json_schema({"type": "array"}), vocabulary)
    whole, stepping = ArbitraryModel(vocabulary), SteppingModel(vocabulary)
    found = score_fields(whole, automaton, PROMPT, tokens)
    assert found == score_fields(stepping, automaton, PROMPT, tokens)
    assert whole.asked == stepping.asked == len(tokens)  # each row once
    assert whole.passes == [128] * ((len(tokens) - 1) // 128) + [(len(tokens) - 1) % 128] * bool(
        (len(tokens) - 1) % 128
    )


def test_what_the_model_excludes_has_probability_zero():
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b""], [3])

    class Refusing(ArbitraryModel):
        def logits(self, prompt, completion):
            row = super().logits(prompt, completion)
            row[[0, 1]] = -np.inf
            return row

    model = Refusing(vocabulary)
    (some,) = score_fields(model, compile(regex("a|c"), vocabulary), [0], [0], is_json=False).values()
    assert (some.logprob, some.others) == (-math.inf, 1)
    (none,) = score_fields(model, compile(regex("a|b"), vocabulary), [0], [0], is_json=False).values()
    assert none.logprob == -math.inf  # the model excludes all that is allowed
    (only,) = score_fields(model, compile(regex("ab"), vocabulary), [0], [0, 1], is_json=False).values()
    assert (only.logprob, only.choice, only.others) == (0, "", 0)  # nothing else was allowed


def test_fields_of_empty_and_nested_values():
    vocabulary = byte_vocabulary()
    automaton = compile(json_schema({}), vocabulary)
    model = ArbitraryModel(vocabulary)
    text = '{"a": [], "b": {"c/d": "\\u00e9\u00e9", "": null}, "e": ["", -1.5e3, true]}'
    found = score_fields(model, automaton, PROMPT, vocabulary.encode(text))
    assert {pointer: field.value for pointer, field in found.items()} == {
        "/b/c~1d": "éé",
        "/b/": None,
        "/e/0": "",
        "/e/1": -1500.0,
        "/e/2": True,
    }
    doubted = [field.logprob + math.log(field.allowed) for _, field in by_doubt(found)]
    assert doubted == sorted(doubted)
    assert score_fields(model, automaton, PROMPT, vocabulary.encode("[]")) == {}
    digits = "7" * 5000
    assert scalar_places(f"[{digits}]") == {"/0": (1, 5001, (10**5000 - 1) // 9 * 7)}


# ---------------------------------------------------------------- extractions


@dataclass
class City:
    name: str
    inhabitants: int


def city_model() -> ScriptedModel:
    return ScriptedModel(
        byte_vocabulary(),
        lambda prompt: f'{{"name": "{prompt.rpartition(" ")[2]}", "inhabitants": 21}}',
        margin=6,
    )


def test_fields_of_an_extraction_and_of_a_stream():
    extractor = constrained.Extractor(city_model(), City)
    found = extractor("Go to Lyon")
    assert {pointer: field.value for pointer, field in found.fields.items()} == {
        "/name": "Lyon",
        "/inhabitants": 21,
    }
    assert all(0 < field.probability < 1 for field in found.fields.values())
    assert found.fields["/name"].choice == "L"
    *_, last = extractor.stream("Go to Lyon")
    assert last.result is not None
    assert last.result.fields == found.fields
    bare = constrained.Extractor(city_model(), constrained.regex("[a-z{]+"))("go")
    assert list(bare.fields) == [""]


def test_fields_of_a_retried_document_belong_to_its_last_prompt():
    asked: list[list[int]] = []

    class Listening(ScriptedModel):
        def forward(self, tokens, cache):
            asked.append(list(tokens[0]))
            return super().forward(tokens, cache)

    @dataclass
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("odd")

    model = Listening(
        byte_vocabulary(), lambda prompt: '{"number": 2}' if "odd" in prompt else '{"number": 1}'
    )
    found = constrained.Extractor(model, Even, retries=1)("one")
    assert (found.value.number, found.attempts) == (2, 2)
    asked.clear()
    assert (
        found.fields["/number"].probability > 0.99
    )  # under the prompt with the refusal; not so under the first
    assert b"odd" in model.vocabulary.decode(asked[0])


def test_fields_that_cannot_be_computed_say_why():
    error = constrained.PromptError("the text is empty")
    with pytest.raises(constrained.PromptError, match="empty"):
        _ = constrained.Extraction[City](7, "", error=error).fields
    found = constrained.Extractor(city_model(), City)("Go to Lyon")
    copy = pickle.loads(pickle.dumps(found))
    with pytest.raises(constrained.InvalidArgument, match="in the process that generated it"):
        _ = copy.fields


def test_a_value_that_the_model_did_not_want_is_derailed() -> None:
    """It wants to write a name, and has to write a number."""
    vocabulary = byte_vocabulary()
    automaton = compile(
        json_schema({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}), vocabulary
    )
    model = ScriptedModel(vocabulary, '{"a": Ana", "b": "Ben"}')
    text = '{"a": 12, "b": "Ben"}'
    found = score_fields(model, automaton, PROMPT, vocabulary.encode(text))
    assert found["/a"].derailed
    wanted = score_fields(ScriptedModel(vocabulary, text), automaton, PROMPT, vocabulary.encode(text))
    assert not any(field.derailed for field in wanted.values())
