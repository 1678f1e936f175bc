"""The loop: every text is complete and valid, costs what it must, and is a function of prompt, settings and seed."""

from __future__ import annotations

import json
import math
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import constrained
from constrained import Generator, Local
from constrained.decoding.partial_json import partial_json
from constrained.errors import (
    DoesNotFit,
    InvalidArgument,
    ModelError,
    ModelMismatch,
    PromptError,
    PromptTooLong,
)
from constrained.models import load
from constrained.testing import ScriptedModel
from constrained.vocabulary import Vocabulary
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import FiniteAutomaton, FiniteConstraint, byte_vocabulary, json_automaton
from tests.support.tiny_models import llama, random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

WORDS = constrained.regex(r"[a-z]{2,8}( [a-z]{2,8}){0,6}[.!]?")
PROMPTS = [
    "a",
    "the name of",
    "Zoë lives in Łódź, and",
    "1 2 3 4 5 6 7 8 9 10 11",
    "x" * 60,
    "the",
    "born 1990:",
    "😀",
]


def words() -> Generator:
    return Generator(llama(), WORDS)


# ---------------------------------------------------------------- what comes out


def test_an_output_has_the_value_the_text_and_what_it_cost():
    vocabulary = byte_vocabulary('{"', '":', "true")
    model = ScriptedModel(vocabulary, '{"ok":true}')
    out = Generator(
        model, json_automaton([{"ok": True}, {"ok": False}, {"no": None}], vocabulary), sampler="local"
    )("prompt")
    assert out.value == {"ok": True}
    assert out.text == '{"ok":true}'
    assert vocabulary.decode(out.tokens).decode() == out.text
    assert (out.finish, out.distribution) == ("complete", "greedy")
    assert (out.stats.tokens, out.stats.prompt_tokens, out.stats.drafted) == (len(out.tokens), 6, 0)
    assert out.stats.seconds > 0


def test_the_constraint_wins_over_the_model():
    vocabulary = byte_vocabulary()
    out = Generator(ScriptedModel(vocabulary, "maybe"), FiniteAutomaton(["yes", "no"], vocabulary))("sure?")
    assert out.text in {"yes", "no"}


def test_a_text_that_cannot_go_on_ends_without_asking_the_model():
    vocabulary = byte_vocabulary()
    model = ScriptedModel(vocabulary, "yes")
    for sampler in (Local(weights=False), Local(ends="certain")):
        out = Generator(model, FiniteAutomaton(["yes", "no"], vocabulary), sampler=sampler)("sure?")
        assert out.finish == "complete"
        assert out.stats.forwards == len(out.tokens) == 3
        empty = Generator(model, FiniteAutomaton([""], vocabulary), sampler=sampler)("sure?")
        assert (empty.text, empty.finish, empty.stats.forwards, empty.logprob) == ("", "complete", 0, 0.0)


def test_with_weights_the_model_is_asked_for_the_probability_of_an_end_that_must_come():
    vocabulary = byte_vocabulary()
    model = ScriptedModel(vocabulary, "yes")
    end = -math.log1p((vocabulary.size - 1) * math.exp(-30))  # the margin of a script
    for sampler in ("local", Local(weights=False, ends="model")):
        out = Generator(model, FiniteAutomaton(["yes", "no"], vocabulary), sampler=sampler)("sure?")
        assert (out.text, out.finish, out.stats.forwards) == ("yes", "complete", 4)
        assert out.logprob == pytest.approx(4 * end, abs=1e-12)
    empty = Generator(model, FiniteAutomaton([""], vocabulary))("sure?")
    assert (empty.text, empty.finish, empty.stats.forwards) == ("", "complete", 1)
    assert empty.logprob == pytest.approx(-30 + end)


def test_where_the_text_may_go_on_the_model_decides_whether_it_ends():
    vocabulary = byte_vocabulary()
    language = FiniteAutomaton(["a", "ab", "abc"], vocabulary)
    short = Generator(ScriptedModel(vocabulary, "ab"), language, sampler="local")("p")
    assert (short.text, short.finish, short.stats.forwards) == ("ab", "end", 3)
    long = Generator(ScriptedModel(vocabulary, "abc"), language, sampler="local")("p")
    assert (long.text, long.finish, long.stats.forwards) == ("abc", "complete", 4)


@pytest.mark.parametrize("temperature", [None, 0.7, 1.5])
def test_logprob_and_log_weight_are_those_of_the_text_under_the_model(temperature):
    gen = words()
    out = gen("the name of", temperature=temperature, seed=3, max_tokens=30)
    automaton, vocabulary, prompt = gen.automaton, llama().vocabulary, llama().encode("the name of")
    logprob = log_weight = 0.0
    state = automaton.start
    # Independently: every prefix is read from its start, every token is checked by the automaton.
    for n, token in enumerate([*out.tokens, vocabulary.eos_ids[0]]):
        ids = prompt + list(out.tokens[:n])
        logits = llama().forward([ids], llama().cache(1))[0].astype(np.float64) / (temperature or 1.0)
        p = np.exp(logits - logits.max())
        p /= p.sum()
        row = automaton.new_mask()
        automaton.fill_mask_within(state, row, 30 - n)
        f = np.unpackbits(row.view(np.uint8), bitorder="little")[: len(p)].astype(bool)
        logprob += math.log(p[token])
        log_weight += math.log(p[f].sum())
        state = automaton.next(state, token)
    assert out.logprob == pytest.approx(logprob, abs=1e-4)
    assert out.log_weight == pytest.approx(log_weight, abs=1e-4)


# ---------------------------------------------------------------- the same everywhere


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"temperature": 1.0, "seed": 0}, marks=pytest.mark.ci),
        pytest.param({"temperature": 0.7, "seed": 12345, "top_k": 20}, marks=pytest.mark.ci),
        {"temperature": 1.3, "seed": 2**64 - 1, "top_p": 0.9, "min_p": 0.01, "max_tokens": 9},
    ],
)
def test_stream_batch_and_one_by_one_give_identical_tokens(settings):
    gen = words()
    alone = [gen(prompt, **settings) for prompt in PROMPTS]
    together = gen.batch(PROMPTS, **settings)
    streamed = [list(gen.stream(prompt, **settings))[-1].output for prompt in PROMPTS]
    assert [o.tokens for o in alone] == [o.tokens for o in together] == [o.tokens for o in streamed]
    for a, b, c in zip(alone, together, streamed, strict=True):
        assert a.text == b.text == c.text
        assert a.finish == b.finish == c.finish
        assert a.logprob == pytest.approx(b.logprob, abs=1e-3)
        assert (a.logprob, a.log_weight) == (c.logprob, c.log_weight)
        assert (a.stats.forwards, a.stats.seed) == (b.stats.forwards, b.stats.seed)
        assert re.fullmatch(WORDS.pattern, a.text)


def test_neighbours_in_a_batch_do_not_matter():
    gen = words()
    settings = {"temperature": 1.0, "seed": 5}
    tokens = {p: o.tokens for p, o in zip(PROMPTS, gen.batch(PROMPTS, **settings), strict=True)}
    backwards = gen.batch(PROMPTS[::-1], **settings)
    assert [o.tokens for o in backwards] == [tokens[p] for p in PROMPTS[::-1]]
    assert gen.batch(PROMPTS[2:4], **settings)[1].tokens == tokens[PROMPTS[3]]


def test_copies_of_a_prompt_are_independent_texts_and_each_can_be_had_alone():
    gen = words()
    outs = gen.batch(["the", "a", "the", "the"], temperature=1.0, seed=1)
    assert len({o.tokens for o in outs}) == 4
    assert [o.stats.sequence for o in outs] == [0, 0, 1, 2]
    assert gen("the", temperature=1.0, seed=1, sequence=2).tokens == outs[3].tokens
    chosen = gen.batch(["the", "the"], temperature=1.0, seed=1, sequences=[2, 2])
    assert [o.tokens for o in chosen] == [outs[3].tokens] * 2


def test_seeds_make_the_difference_and_fresh_ones_are_recorded():
    gen = words()
    assert len({gen("the", temperature=1.0, seed=seed).tokens for seed in range(6)}) > 4
    fresh = [gen("the", temperature=1.0) for _ in range(2)]
    assert fresh[0].stats.seed != fresh[1].stats.seed
    for out in fresh:
        assert gen("the", temperature=1.0, seed=out.stats.seed).tokens == out.tokens
    assert gen("the").stats.seed == 0  # greedy uses no noise


def test_greedy_is_the_limit_of_cold_sampling():
    gen = words()
    assert gen("the").tokens == gen("the", temperature=1e-6, seed=9).tokens


def test_many_threads_can_share_a_generator():
    gen = words()
    wanted = [gen(p, temperature=1.0, seed=4).tokens for p in PROMPTS]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda p: gen(p, temperature=1.0, seed=4).tokens, PROMPTS * 3))
    assert got == wanted * 3


def test_an_empty_batch_is_an_empty_list():
    assert words().batch([]) == []


# ---------------------------------------------------------------- limits


@given(st.integers(0, 14), st.integers(0, 100))
def test_every_limit_closes_to_a_valid_text_or_is_refused_before_the_first_token(limit, seed):
    vocabulary = byte_vocabulary('["', '","', "abc", '"]', "zz")
    values = [[], ["abc"], ["zz", "abc"], ["a", "b", "c"], [["zz"], []], "abcabc"]
    model = EagerTalker(vocabulary)
    gen = Generator(model, json_automaton(values, vocabulary))
    needed = gen.automaton.shortest_completion(gen.automaton.start)
    if limit < needed:
        with pytest.raises(DoesNotFit, match=f"needs {needed} tokens") as caught:
            gen("p", max_tokens=limit, seed=seed, temperature=2.0)
        assert (caught.value.needed, caught.value.limit) == (needed, limit)
        assert model.calls == 0
        return
    out = gen("p", max_tokens=limit, seed=seed, temperature=2.0)
    assert out.value in values
    assert len(out.tokens) <= limit


class EagerTalker(ScriptedModel):
    """Prefers the longest tokens and never wants to stop."""

    def __init__(self, vocabulary):
        super().__init__(vocabulary, "")
        self.calls = 0

    def logits(self, prompt, tokens):
        self.calls += 1
        logits = np.array([float(len(token)) for token in self.vocabulary.tokens])
        logits[list(self.vocabulary.eos_ids)] = -5.0
        return logits


@pytest.mark.parametrize("limit", [4, 5, 7, 13])
def test_the_real_automaton_closes_at_every_limit(limit):
    gen = Generator(llama(), constrained.regex(r'\["[a-z]*"(, "[a-z]*")*\]'))
    for seed in range(5):
        out = gen("the list:", max_tokens=limit, temperature=1.5, seed=seed)
        assert isinstance(json.loads(out.text), list)
        assert len(out.tokens) <= limit


@pytest.mark.parametrize("weights", [False, True])
def test_at_the_limit_the_end_costs_nothing_without_weights(weights):
    model = EagerTalker(byte_vocabulary())
    language = FiniteAutomaton(["aaaa", "aa", "aaa"], model.vocabulary)
    gen = Generator(model, language, sampler=Local(weights=weights))
    out = gen("p", max_tokens=3)
    assert (out.text, out.finish) == ("aaa", "limit")
    assert model.calls == out.stats.forwards == 3 + weights
    model.calls = 0
    full = gen("p", max_tokens=4)
    assert (full.text, full.finish, model.calls) == ("aaaa", "complete", 4 + weights)


def test_the_models_context_is_a_limit_too():
    vocabulary = byte_vocabulary()
    language = FiniteAutomaton(["a" * n for n in (2, 5, 9)], vocabulary)
    model = EagerTalker(vocabulary)
    model.context = 10
    gen = Generator(model, language, sampler="local")
    assert gen("p").text == "a" * 9
    assert gen("12345").text == "a" * 5
    assert gen("12345678", max_tokens=100).text == "aa"
    with pytest.raises(PromptTooLong, match="9 tokens and the text needs 2 or more: the model reads 10"):
        gen("123456789")
    with pytest.raises(PromptTooLong, match=r"^prompt 1: the prompt has 40 tokens"):
        gen.batch(["1", "4" * 40])


def test_a_long_context_model_reads_up_to_its_last_position():
    gen = Generator(llama(), constrained.regex("[a-z]+"))
    room = llama().context
    out = gen([7] * (room - 2), temperature=2.0, seed=0)
    assert 1 <= len(out.tokens) <= 2
    with pytest.raises(PromptTooLong):
        gen([7] * room)


def test_the_default_limit_grows_with_the_shortest_text():
    vocabulary = byte_vocabulary()
    out = Generator(ScriptedModel(vocabulary, ""), FiniteAutomaton(["a" * 600], vocabulary))("p")
    assert len(out.tokens) == 600


# ---------------------------------------------------------------- streams


def test_a_stream_is_the_text_in_pieces_with_the_value_so_far():
    vocabulary = byte_vocabulary('{"', "name", '":"', '"}', "Zo")
    value = {"name": "Zoë 😀", "tags": ["x", "yy"], "n": 12}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    gen = Generator(ScriptedModel(vocabulary, text), json_automaton([value], vocabulary), sampler="local")
    chunks = list(gen.stream("p"))
    assert "".join(chunk.delta for chunk in chunks) == chunks[-1].text == text
    assert [chunk.text for chunk in chunks] == [text[: len(chunk.text)] for chunk in chunks]
    assert sum((chunk.tokens for chunk in chunks), ()) == chunks[-1].output.tokens
    assert all(chunk.output is None for chunk in chunks[:-1])
    values = [chunk.value for chunk in chunks]
    assert values[0] == {}
    assert {"name": "Zo"} in values
    assert {"name": "Zoë 😀", "tags": ["x", "y"]} in values
    assert values[-1] == value == gen("p").value
    for chunk in chunks:  # bytes of a half character are held back
        assert "\ufffd" not in chunk.delta


def test_a_stream_of_bare_text_has_the_text_as_its_value():
    vocabulary = byte_vocabulary()
    gen = Generator(ScriptedModel(vocabulary, "yes"), FiniteAutomaton(["yes"], vocabulary), sampler="local")
    assert [chunk.value for chunk in gen.stream("p")] == ["y", "ye", "yes", "yes"]  # and the end
    gen = Generator(gen.model, gen.automaton, sampler=Local(weights=False))
    assert [chunk.value for chunk in gen.stream("p")] == ["y", "ye", "yes"]


def test_a_text_without_tokens_streams_one_chunk():
    vocabulary = byte_vocabulary()
    gen = Generator(ScriptedModel(vocabulary, ""), FiniteAutomaton(["", "a"], vocabulary), sampler="local")
    (chunk,) = gen.stream("p")
    assert (chunk.delta, chunk.tokens, chunk.output.text) == ("", (), "")


def test_a_stream_checks_its_arguments_at_once_and_can_be_left():
    with pytest.raises(InvalidArgument):
        words().stream("the", temperature=-1)
    with pytest.raises(PromptError):
        words().stream("")
    model = EagerTalker(byte_vocabulary())
    stream = Generator(model, FiniteAutomaton(["a" * 50], model.vocabulary), sampler="local").stream("p")
    next(stream)
    stream.close()
    assert model.calls == 1


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1000, 1000)
    | st.floats(-10, 10).map(lambda x: round(x, 3))
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


def begins(part, whole):
    """Whether `part` is a partial value of `whole`."""
    if isinstance(whole, dict):
        keys = list(part)
        return keys == list(whole)[: len(keys)] and all(
            begins(part[key], whole[key]) if key == keys[-1] else part[key] == whole[key] for key in keys
        )
    if isinstance(whole, list):
        return len(part) <= len(whole) and all(
            begins(x, y) if i == len(part) - 1 else x == y
            for i, (x, y) in enumerate(zip(part, whole, strict=False))
        )
    if isinstance(whole, str):
        return isinstance(part, str) and whole.startswith(part)
    return type(part) is type(whole) and part == whole


@given(json_values, st.booleans(), st.sampled_from([None, 1]))
@example({"a": '\\"\\', "😀": ["😀", "\\u00e9"]}, True, None)
def test_every_prefix_of_json_has_a_partial_value_that_only_grows(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    last = 0
    for n in range(len(text) + 1):
        part = partial_json(text[:n])
        assert part is None or begins(part, value)
        size = 0 if part is None else len(json.dumps(part))
        assert size >= last
        last = size
    if isinstance(value, list | dict | str):
        assert part == value


# ---------------------------------------------------------------- misuse and accidents


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"max_tokens": 2.5}, "max_tokens is 2.5"),
        ({"max_tokens": True}, "max_tokens is True"),
        ({"max_tokens": "9"}, "max_tokens is '9'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "whole number in 0"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"sequence": -2}, "sequence is -2"),
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"top_p": 0.5}, "without a temperature"),
    ],
)
def test_settings_out_of_range_are_refused_in_one_line_and_an_advice(settings, message):
    with pytest.raises(InvalidArgument, match=re.escape(message)) as caught:
        words()("the", **settings)
    assert len(str(caught.value).splitlines()) == 2


def test_numpy_numbers_are_numbers():
    gen = words()
    out = gen(
        "the", seed=np.int64(3), max_tokens=np.int32(20), temperature=np.float32(1.0), top_k=np.int64(5)
    )
    assert out.tokens == gen("the", seed=3, max_tokens=20, temperature=1.0, top_k=5).tokens


def test_misuse_of_a_batch_is_named():
    with pytest.raises(InvalidArgument, match="prompts are a str"):
        words().batch("the")
    with pytest.raises(InvalidArgument, match="2 prompts and 1 sequences"):
        words().batch(["a", "b"], sequences=[1])
    with pytest.raises(PromptError, match=r"^prompt 1: "):
        words().batch(["a", ""])
    with pytest.raises(InvalidArgument, match="'temprature': did you mean 'temperature'"):
        words()("a", temprature=1.0)
    with pytest.raises(InvalidArgument, match="'seed' is an argument of each call"):
        Generator(llama(), WORDS, seed=1)  # type: ignore[call-arg]


def test_an_unknown_sampler_lists_the_known_ones():
    with pytest.raises(InvalidArgument, match=r"use one of: .*local"):
        Generator(llama(), WORDS, sampler="beam")


def test_an_automaton_of_another_vocabulary_is_refused():
    with pytest.raises(ModelMismatch, match="compiled for"):
        Generator(llama(), FiniteAutomaton(["a"], byte_vocabulary()))


def test_an_automaton_can_be_passed_and_equal_constraints_share_one():
    automaton = constrained.compile(WORDS, llama().vocabulary)
    assert Generator(llama(), automaton).automaton is automaton
    again = constrained.regex(WORDS.pattern)
    assert Generator(llama(), again).automaton is words().automaton


def test_logits_that_are_no_distribution_are_reported():
    class Broken(EagerTalker):
        def logits(self, prompt, tokens):
            return np.full(self.vocabulary.size, np.nan)

    with pytest.raises(ModelError, match="not a distribution"):
        Generator(
            Broken(byte_vocabulary()), FiniteAutomaton(["ab", "b"], byte_vocabulary()), sampler="local"
        )("p")


def test_ctrl_c_in_the_middle_passes_through_and_leaves_everything_usable():
    class Interrupted(EagerTalker):
        def logits(self, prompt, tokens):
            if self.calls == 3:
                self.calls += 1
                raise KeyboardInterrupt
            return super().logits(prompt, tokens)

    model = Interrupted(byte_vocabulary())
    gen = Generator(model, FiniteAutomaton(["abcdef"], model.vocabulary), sampler="local")
    with pytest.raises(KeyboardInterrupt):
        gen.batch(["p", "q"])
    assert gen("p").text == "abcdef"


def test_a_value_the_wanted_type_refuses_is_an_error_that_carries_the_text():
    class Even(FiniteConstraint):
        pass

    def refuse(text):
        raise constrained.RejectedValue("odd", text=text)

    vocabulary = byte_vocabulary()
    gen = Generator(ScriptedModel(vocabulary, "3"), FiniteAutomaton(["3"], vocabulary, Even(refuse)))
    with pytest.raises(constrained.RejectedValue, match="odd") as caught:
        gen("p")
    assert caught.value.text == "3"


# ---------------------------------------------------------------- travelling


def test_outputs_chunks_and_generators_can_be_pickled():
    gen = Generator(load(random_llama(), small_bpe_tokenizer()), WORDS)
    out = gen("the", temperature=1.0, seed=2)
    assert pickle.loads(pickle.dumps(out)) == out
    copy = pickle.loads(pickle.dumps(gen))
    assert copy("the", temperature=1.0, seed=2).tokens == out.tokens
    chunk = next(iter(gen.stream("the")))
    assert pickle.loads(pickle.dumps(chunk)) == chunk


def test_counts_that_are_saturated_say_more_than():
    """The shortest text has 2^60 items: no limit holds it, not even none."""
    twice = {"type": "array", "minItems": 2, "maxItems": 2}
    defs = {f"d{i}": {**twice, "items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(60)}
    schema = {"$defs": {**defs, "d60": {"type": "null"}}, "$ref": "#/$defs/d0"}
    gen = Generator(ScriptedModel(byte_vocabulary(), "x"), constrained.json_schema(schema))
    for limit in (None, 1000):
        with pytest.raises(
            DoesNotFit, match="needs more than 1073741824 tokens\n  -> pass a constraint with"
        ):
            gen("x", max_tokens=limit)


def test_errors_can_be_pickled():
    with pytest.raises(DoesNotFit) as caught:
        words()("the", max_tokens=0)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.needed) == (str(caught.value), caught.value.needed)


def test_threads_that_compile_the_same_constraint_get_the_same_automaton():
    pattern = constrained.regex("[abc]{1,5}x")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(Generator(llama(), pattern).automaton)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(automaton) for automaton in found}) == 1


def test_the_enumerable_model_generates_too():
    model = EnumerableModel()
    out = Generator(model, FiniteAutomaton(["ab", "c"], model.vocabulary))("p", temperature=1.0, seed=1)
    assert out.text in {"ab", "c"}


def test_bytes_of_named_tokens_that_are_no_character_are_replaced_in_the_text_alone():
    vocabulary = Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b"a\xc3", b""], (257,))
    gen = Generator(ScriptedModel(vocabulary, b"a\xc3c"), constrained.lark('start: <[256]> "c"'))
    out = gen("the")
    assert (out.text, out.tokens) == ("a\ufffdc", (256, ord("c")))
    *_, last = gen.stream("the")
    assert last.output is not None
    assert (last.text, last.output.text) == (out.text, out.text)
