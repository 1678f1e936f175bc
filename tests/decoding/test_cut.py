"""Where the token limit changes a completion: against runs with equal seeds and a limit that is never reached.

The judge knows nothing of masks: it draws again with `AMPLE` tokens and compares. The models give bit-identical logits
for a prefix in whichever batch it is read, so one position and one token are right.
"""

from __future__ import annotations

import random
from typing import Annotated, Any

import numpy as np
import pytest

import constrained
from constrained import (
    AWRS,
    CARS,
    MCMC,
    SMC,
    ASAp,
    Cut,
    Generator,
    Local,
    Output,
    Rejection,
    Speculation,
    Vocabulary,
    predicate,
)
from constrained.decoding.cut import truncated_error
from constrained.decoding.partial_json import open_pointer
from constrained.errors import BudgetExhausted, DoesNotFit, InvalidArgument, RejectedValue, Truncated
from constrained.testing import ScriptedModel
from constrained.testing.models import FunctionModel
from tests.spec.speculating import letters, words
from tests.support.examples import examples
from tests.support.finite import byte_vocabulary

AMPLE = 250

LIST = {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 5}
RECORD = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "born": {"type": "integer", "minimum": 0, "maximum": 3000},
                   "tags": LIST, "address": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
                                             "required": ["city"], "additionalProperties": False}},
    "required": ["name"], "additionalProperties": False,
}  # fmt: skip
SCRIPTS: list[tuple[Any, bytes]] = [
    (LIST, b'["green", "anna", "oslo", "blue"]'),
    (RECORD, b'{"name": "Ann", "born": 1815, "tags": ["a", "b"], "address": {"city": "Rome"}}'),
    (constrained.regex(r"[a-z]{1,6}( [a-z]{1,6}){0,4}\.?"), b"green anna oslo blue."),
    (constrained.regex(r"a(bcd)?|x(yz){0,3}"), b"abcd"),
]
SAMPLERS = [Local(), Local(weights=False), AWRS(), AWRS(checks=2, patience=3, cached=False)]
SHAPES = [{}, {"temperature": 0.8}, {"temperature": 1.0}]
TRUNCATIONS = [
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 1.0, "top_p": 0.6},
    {"temperature": 1.0, "min_p": 0.2},
]


def check_against_ample(short: Output[Any], ample: Output[Any], eos: tuple[int, ...]) -> bool:
    """Compares with a run that no limit touched; whether the limit changed the completion."""
    assert ample.cut is None
    cut = short.cut
    if cut is None:
        assert (short.tokens, short.text, short.finish) == (ample.tokens, ample.text, ample.finish)
        return False
    assert short.finish == "limit"
    before = short.tokens[: cut.position]
    assert before == ample.tokens[: cut.position]
    assert len(before) == cut.position
    if cut.token is None:  # the model was not asked
        assert len(short.tokens) == cut.position
    elif cut.token in eos:
        assert (len(ample.tokens), len(short.tokens) > cut.position) == (cut.position, True)
    else:
        assert ample.tokens[cut.position] == cut.token
        assert short.tokens[cut.position : cut.position + 1] != (cut.token,)
    return True


@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_a_cut_is_the_first_token_that_a_larger_limit_changes(number: int) -> None:
    constraint, script = SCRIPTS[number]
    rng = random.Random(number)
    changed, trials = 0, examples(24)
    for trial in range(trials):
        sampler = SAMPLERS[trial % len(SAMPLERS)]
        shape = rng.choice([*SHAPES, *TRUNCATIONS] if isinstance(sampler, Local) else SHAPES)
        speculation = Speculation(nodes=8, adapts=False) if trial % 3 == 0 else None
        generator = Generator(words(script), constraint, sampler=sampler, speculation=speculation)
        needed = generator.automaton.shortest_completion(generator.automaton.start)
        eos, seed = generator.automaton.vocabulary.eos_ids, rng.randrange(1 << 30)
        ample = generator("A list:", seed=seed, max_tokens=AMPLE, **shape)
        for limit in {
            *range(needed, min(needed + 6, AMPLE)),
            max(needed, len(ample.tokens) - 1),
            len(ample.tokens),
        }:
            if limit >= needed:
                short = generator("A list:", seed=seed, max_tokens=limit, **shape)
                changed += check_against_ample(short, ample, eos)
    assert changed > 3 * trials // 4


def test_calls_batches_and_streams_agree() -> None:
    for sampler in SAMPLERS:
        generator = Generator(words(SCRIPTS[1][1]), RECORD, sampler=sampler)
        prompts = [f"Prompt {i}" for i in range(6)]
        settings: dict[str, Any] = {"seed": 5, "temperature": 1.0, "max_tokens": 24}
        alone = [generator(prompt, **settings) for prompt in prompts]
        batch = generator.batch(prompts, **settings)
        streamed = [list(generator.stream(prompt, **settings))[-1].output for prompt in prompts]
        for one, two, three in zip(alone, batch, streamed, strict=True):
            assert three is not None
            assert one.cut == two.cut == three.cut
            assert one.finish == two.finish == three.finish
        assert any(one.cut for one in alone)


def test_sets_are_cut_where_larger_limits_change_them() -> None:
    changed, seeds = 0, examples(12)
    for seed in range(seeds):
        for pattern in ("[abc]{1,6}", "a(b|c){0,4}a?", "(ab|ba|c){1,3}"):
            for sampler in (Local(), AWRS()):
                generator = Generator(letters(seed), constrained.regex(pattern), sampler=sampler)
                settings: dict[str, Any] = {"seed": seed, "temperature": 1.0}
                short = generator.sample("", 3, max_tokens=3, **settings)
                ample = generator.sample("", 3, max_tokens=AMPLE, **settings)
                for one, other in zip(short, ample, strict=True):
                    changed += check_against_ample(one, other, generator.automaton.vocabulary.eos_ids)
    assert changed > 2 * seeds


WHOLE = [CARS, ASAp, Rejection, MCMC, SMC]
"""Samplers that weigh or reject whole texts."""


class Hopeless(FunctionModel):
    """After `s`, which is likely, no valid text is: the law of the texts hardly depends on the limit."""

    vocabulary = Vocabulary.from_bytes([b"x", b"s", b"y", b""], [3])

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return [3]

    def logits(self, prompt: Any, said: Any) -> Any:
        if not said:
            return np.log([0.3, 0.6, 0.05, 0.05])
        return np.log([0.5, 0.4, 1e-9, 0.1] if said[-1] == 1 else [0.01, 0.01, 0.01, 0.97])


@pytest.mark.parametrize("sampler", [*WHOLE, Local])
def test_an_excluded_token_is_a_cut_only_where_texts_are_drawn_token_by_token(sampler: Any) -> None:
    generator = Generator(Hopeless(), constrained.choice(["x", "syyy"]), sampler=sampler())
    short = [generator("p", seed=seed, max_tokens=2, temperature=1.0) for seed in range(30)]
    short += generator.sample("p", 30, seed=0, max_tokens=2, temperature=1.0)
    assert {output.text for output in short} == {"x"}
    for output in short:
        assert (output.cut is not None) == (output.finish == "limit")
    assert any(output.cut for output in short) == (sampler is Local)


@pytest.mark.parametrize("sampler", WHOLE)
def test_the_limit_ends_a_text_where_it_makes_the_end_certain(sampler: Any) -> None:
    found = 0
    for seed in range(examples(12)):
        generator = Generator(letters(seed), constrained.regex("[abc]{1,6}"), sampler=sampler(ends="certain"))
        for output in generator.sample("", 3, max_tokens=2, seed=seed):
            assert (output.cut is not None) == (output.finish == "limit") == (len(output.tokens) == 2)
            assert output.cut is None or output.cut.token is None
            found += output.cut is not None
        generator = Generator(letters(seed), constrained.regex("[abc]{1,6}"), sampler=sampler())
        for output in generator.sample("", 3, max_tokens=2, seed=seed):
            assert (output.cut, output.finish) == (
                None,
                "end",
            )  # it has the probability that the model gives it
    assert found


def any_prefix(text: str) -> bool:
    return True


def has_double_c(text: str) -> bool:
    return "cc" in text


@pytest.mark.parametrize("shape", [pytest.param({}, marks=pytest.mark.ci), {"temperature": 1.0}])
def test_restarts_and_backtracking_count_as_changes(shape: dict[str, Any]) -> None:
    """Three letters without "cc" are a dead end where no fourth one fits: another completion takes their place."""
    constraint = constrained.regex("[abc]{1,6}") & predicate(prefix_ok=any_prefix, complete_ok=has_double_c)
    replaced = same = 0
    for seed in range(60):
        generator = Generator(letters(seed), constraint)
        try:
            short = generator("", seed=seed, max_tokens=3, **shape)
            ample = generator("", seed=seed, max_tokens=AMPLE, **shape)
        except BudgetExhausted:
            continue
        if short.cut is None:
            assert (short.tokens, short.finish) == (ample.tokens, ample.finish)
            same += 1
        elif short.stats.attempts > 1 or short.stats.backtracked_tokens:
            assert short.finish == "limit"
            replaced += 1
    assert replaced > 3
    assert same


def test_what_the_cut_tells() -> None:
    vocabulary = byte_vocabulary()
    model = ScriptedModel(vocabulary, '{"tags": ["zoë", "anna"]}')
    schema = {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["tags"],
    }
    generator = Generator(model, constrained.json_schema(schema))
    output = generator("p", max_tokens=24)
    cut = output.cut
    assert cut is not None
    assert output.text.encode()[: cut.byte_offset] == vocabulary.decode(output.tokens[: cut.position])
    assert output.text[: cut.offset] == '{"tags": ["zoë", "an'[: cut.offset]
    assert (cut.limit, cut.byte_offset - cut.offset, cut.pointer) == (24, 1, "/tags/1")
    assert ('{"tags": ["zoë", "anna"]}')[cut.offset] == cut.token_text
    with pytest.raises(Truncated) as raised:
        output.raise_if_cut()
    error = raised.value
    assert (error.text, error.cut) == (output.text[: cut.offset], cut)
    assert error.value["tags"][0] == "zoë"
    assert "the token limit of 24 cut the completion" in str(error)
    assert "/tags/1" in str(error)
    output.raise_if_cut("close")
    whole = generator("p", max_tokens=100)
    assert (whole.cut, whole.finish) == (None, "complete")
    whole.raise_if_cut()


def test_a_text_that_the_limit_ended_is_asked_for_more_only_with_weights() -> None:
    vocabulary = byte_vocabulary()
    for limit in (1, 2, 3):
        for weights, token in ((False, None), (True, ord("b"))):
            generator = Generator(
                ScriptedModel(vocabulary, "abcd"),
                constrained.regex("a(bcd)?"),
                sampler=constrained.Local(weights=weights),
            )
            output = generator("p", max_tokens=limit)
            assert (output.text, output.finish) == ("a", "limit")
            text = "" if token is None else "b"
            assert output.cut == Cut(
                limit=limit, position=1, offset=1, byte_offset=1, token=token, token_text=text
            )
    output = Generator(ScriptedModel(vocabulary, "abcd"), constrained.regex("a(bcd)?"))("p", max_tokens=4)
    assert (output.text, output.finish, output.cut) == ("abcd", "complete", None)


def test_a_limit_beyond_all_counters_is_no_limit() -> None:
    model = ScriptedModel(byte_vocabulary(), "abcd")
    for limit in (2**30, 2**32 - 1, 2**32, 2**70):
        output = Generator(model, constrained.regex("a(bcd)?"))("p", max_tokens=limit)
        assert (output.text, output.finish) == ("abcd", "complete")


def test_a_validator_that_refuses_a_cut_value_says_so_and_calls_raise_truncated() -> None:
    pydantic = pytest.importorskip("pydantic")

    def check(value: str) -> str:
        if not value.endswith("."):
            raise ValueError("no full stop")
        return value

    sentence_type = Annotated[str, pydantic.AfterValidator(check)]
    model = ScriptedModel(byte_vocabulary(), '"A sentence."')
    with pytest.raises(RejectedValue) as rejected:
        Generator(model, sentence_type)("p", max_tokens=8)
    assert rejected.value.cut is not None
    with pytest.raises(Truncated) as raised:
        constrained.generate(model, "p", sentence_type, max_tokens=8)
    assert isinstance(raised.value.__cause__, RejectedValue)
    with pytest.raises(Truncated):
        constrained.extract(model, "p", sentence_type, max_tokens=8)
    with pytest.raises(RejectedValue):
        constrained.generate(model, "p", sentence_type, max_tokens=8, on_limit="close")
    assert constrained.generate(model, "p", sentence_type, max_tokens=30) == "A sentence."


def test_extract_and_generate_raise_or_close() -> None:
    model = ScriptedModel(byte_vocabulary(), '["one", "two"]')
    for call in (constrained.extract, constrained.generate):
        with pytest.raises(Truncated) as raised:
            call(model, "text", list[str], max_tokens=10)
        assert raised.value.value[0] == "one"
        closed = call(model, "text", list[str], max_tokens=10, on_limit="close")
        assert closed[0] == "one"
        assert call(model, "text", list[str], max_tokens=40) == ["one", "two"]
        with pytest.raises(InvalidArgument, match="on_limit"):
            call(model, "text", list[str], on_limit="ignore")
        with pytest.raises(DoesNotFit):
            call(model, "text", list[str], max_tokens=1, on_limit="close")


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("", ""), ("3", ""), ('"x', ""), ("[", "/0"), ("[1", "/0"), ("[1,", "/1"), ('["x"', ""), ('["x", ', "/1"),
        ("{", ""), ('{"a', ""), ('{"a"', ""), ('{"a":', "/a"), ('{"a": 1', "/a"), ('{"a": 1 ', ""), ('{"a": 1, "b', ""),
        ('{"a": [1, {"b/~": "x', "/a/1/b~1~0"), ("[[1],[2,3],", "/2"), ("[true ,", "/1"), ("[-", "/0"),
        ('{"a": {}', ""), ('{"a": {"b": [[]', "/a/b"), ('{"\\u00e9": "', "/é"), ('{"a": "b\\"', "/a"),
    ],
)  # fmt: skip
def test_the_pointer_of_the_open_value(text: str, pointer: str) -> None:
    assert open_pointer(text) == pointer


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"note": "' + "no no " * 20, "the string /note repeats"),
        ('{"note": "a long story', "the string /note goes on"),
        ('{"people": ["M", ' + '"M.B. ", ' * 9, "the array /people repeats"),
        ('{"people": [{"a": 1}, ', "the array /people goes on"),
        ('{"a": [' + '{"b": "c"}, ' * 9 + '{"b"', "the array /a repeats"),
        ('{"a": ' + "12" * 20, "the number /a repeats"),
        ('{"a": {"a name', "the object /a goes on"),
        ('{"a": 1, ', "the object goes on"),
        ("12" * 20, "the number repeats"),
    ],
)
def test_the_error_names_what_goes_on(text: str, said: str) -> None:
    message = str(truncated_error(text, Cut(400, 9, len(text), len(text), open_pointer(text), 5, "x")))
    assert message.startswith(f"the token limit of 400 cut the completion: {said}\n")
    assert ("raise max_tokens" in message) == ("goes on" in said)
    assert ("max_items" in message) == ("array" in said)


def test_the_error_of_a_text_that_is_no_json_does_not_speak_of_values() -> None:
    message = str(truncated_error("ab" * 20, Cut(400, 9, 40, 40)))
    assert "the text repeats" in message
    assert "on_repeat" not in message
