"""Constraints under the `generate` of transformers: every kind of decoding it has, and our loop behind its arguments."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch

import constrained
from constrained import ConstraintLogitsProcessor, Generator, choice, decode, regex
from constrained.errors import DoesNotFit, InvalidArgument, ModelMismatch, UnsupportedConstraint
from constrained.integrations.transformers import ConstrainedOutput
from tests.support.tiny_models import llama, random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

pytestmark = pytest.mark.contract

WORDS = regex(r"[a-z]{2,8}( [a-z]{2,8}){0,6}[.!]")
NUMBERS = regex(r"[0-9]{3,12};")
PROMPTS = ["a", "the name of", "Zoë lives in Łódź, and", "1 2 3 4 5"]


@cache
def model() -> Any:
    """A random Llama whose ids of padding and end are those of the small tokenizer."""
    made = random_llama()
    made.generation_config.eos_token_id = llama().vocabulary.eos_ids[0]
    made.generation_config.pad_token_id = llama().vocabulary.eos_ids[0]
    return made.eval()


def inputs(prompts: list[str] = PROMPTS) -> dict[str, Any]:
    """A batch, padded on the left."""
    rows = [small_bpe_tokenizer()(prompt)["input_ids"] for prompt in prompts]
    width = max(map(len, rows))
    pad = llama().vocabulary.eos_ids[0]
    return {
        "input_ids": torch.tensor([[pad] * (width - len(row)) + row for row in rows]),
        "attention_mask": torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows]),
    }


def texts(sequences: torch.Tensor, batch: dict[str, Any]) -> list[str]:
    """What follows the prompts, up to the end of each."""
    ends = set(llama().vocabulary.eos_ids)
    found = []
    for row in sequences[:, batch["input_ids"].shape[1] :].tolist():
        stop = next((i for i, token in enumerate(row) if token in ends), len(row))
        assert all(token in ends for token in row[stop:]), "something follows the end"
        found.append(llama().vocabulary.decode(row[:stop]).decode())
    return found


def processor(constraint: Any = WORDS, **settings: Any) -> ConstraintLogitsProcessor:
    return ConstraintLogitsProcessor(constraint, llama().vocabulary, **settings)


def generated(
    batch: dict[str, Any],
    constraint: Any = WORDS,
    *,
    limit: int = 30,
    assisted: bool = False,
    **settings: Any,
) -> list[str]:
    used = processor(constraint, max_tokens=limit, assisted=assisted)
    return texts(model().generate(**batch, logits_processor=[used], max_new_tokens=limit, **settings), batch)


# ---------------------------------------------------------------- the processor


def test_greedy_texts_are_those_of_the_generator():
    ours = [out.text for out in Generator(llama(), WORDS).batch(PROMPTS, max_tokens=30)]
    assert generated(inputs()) == ours


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True, "temperature": 1.5, "top_k": 0},
        {"do_sample": True, "top_p": 0.8},
        {"do_sample": True, "num_return_sequences": 3},
        {"num_beams": 4},
        {"num_beams": 3, "num_return_sequences": 3, "length_penalty": 0.2},
        {"num_beams": 3, "do_sample": True, "early_stopping": True},
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
    ],
)
@pytest.mark.parametrize("limit", [4, 15])
def test_every_way_of_decoding_gives_complete_texts(settings, limit):
    torch.manual_seed(0)
    found = generated(inputs(), limit=limit, **settings)
    assert len(found) == len(PROMPTS) * settings.get("num_return_sequences", 1)
    for text in found:
        assert re.fullmatch(WORDS.pattern, text), text


def test_every_prompt_of_a_batch_can_have_its_own_constraint():
    kinds = [WORDS, NUMBERS, choice(["yes", "no"]), {"type": "boolean"}]
    patterns = [WORDS.pattern, NUMBERS.pattern, "yes|no", "true|false"]
    for settings in ({}, {"num_beams": 2, "num_return_sequences": 2}):
        found = generated(inputs(), kinds, **settings)
        each = len(found) // len(kinds)
        for i, text in enumerate(found):
            assert re.fullmatch(patterns[i // each], text)
    with pytest.raises(InvalidArgument, match="4 constraints do not fit 3 rows"):
        generated(inputs(PROMPTS[:3]), kinds)


def test_without_max_tokens_masks_are_sent_to_the_device_once():
    used = processor()
    batch = inputs()
    first = model().generate(**batch, logits_processor=[used], max_new_tokens=60)
    assert all(re.fullmatch(WORDS.pattern, text) for text in texts(first, batch))
    sent = used._mirror.sent
    again = model().generate(**batch, logits_processor=[used], max_new_tokens=60)
    assert torch.equal(first, again)
    assert used._mirror.sent == sent


@pytest.mark.parametrize(
    "constraints",
    [
        [NUMBERS],  # compiled before, over an equal vocabulary
        [NUMBERS, choice(["known to the second vocabulary alone"])],  # masks in both
        [constrained.lark('start: "a" <|user|> "b"')],  # over the vocabulary with that token
        [constrained.lark('start: words "."\nwords[max_tokens=3]: /[a-z ]+/')],  # masks without ids
    ],
    ids=["equal", "both", "special", "counted"],
)
def test_masks_are_those_of_the_automaton_whatever_vocabulary_it_is_over(constraints: list[Any]) -> None:
    tokenizer = constrained.load().tokenizer  # type: ignore[attr-defined]
    ConstraintLogitsProcessor(NUMBERS, tokenizer)  # makes a vocabulary of its own, and the cached automaton
    size = constrained.load().vocabulary.size
    for constraint in constraints:  # ids of other masks, if masks were looked up in the wrong vocabulary
        used = ConstraintLogitsProcessor([constraint, WORDS], tokenizer, spelling="any")
        used(torch.zeros((2, 1), dtype=torch.long), torch.zeros(2, size))
    used = ConstraintLogitsProcessor(constraints, tokenizer, spelling="any")
    rows = len(constraints)
    scores = used(torch.zeros((rows, 1), dtype=torch.long), torch.zeros(rows, size))
    for constraint, row in zip(constraints, scores, strict=True):
        automaton = constrained.compile(constraint, used.vocabulary)
        for token in range(size):
            allowed = bool(automaton.next(automaton.start, token)) or (
                token in used.vocabulary.eos_ids and automaton.accepts(automaton.start)
            )
            assert (row[token] == 0) == allowed, token


def test_a_processor_serves_one_call_after_another():
    used = processor(max_tokens=12)

    def call(batch: dict[str, Any], **settings: Any) -> list[str]:
        found = model().generate(**batch, logits_processor=[used], max_new_tokens=12, **settings)
        return texts(found, batch)

    alone = [call(inputs([prompt]))[0] for prompt in PROMPTS]
    assert call(inputs()) == alone
    assert call(inputs(PROMPTS[:2])) == alone[:2]
    assert call(inputs(PROMPTS[:2]), num_beams=2) == generated(inputs(PROMPTS[:2]), limit=12, num_beams=2)
    # A prompt that continues a sequence of the last call is a prompt: its completion starts empty.
    longer = inputs([f"{PROMPTS[0]}{alone[0]} and then"])
    assert call(longer) == generated(longer, limit=12)


def test_a_prompt_that_ends_inside_the_last_text_needs_a_word():
    used = processor()
    batch = inputs(["the"])
    whole = model().generate(**batch, logits_processor=[used], max_new_tokens=8)
    width = batch["input_ids"].shape[1]
    part = whole[:, : width + 3]
    with pytest.raises(InvalidArgument, match="got shorter"):
        model().generate(part, logits_processor=[used], max_new_tokens=8)
    used.reset()
    fresh = model().generate(part, logits_processor=[used], max_new_tokens=40)
    assert re.fullmatch(WORDS.pattern, texts(fresh, {"input_ids": part})[0])


@pytest.mark.parametrize("prompt", ["the the the the", "a b a b a b"])
def test_assisted_decoding_gives_the_text_of_the_model_alone(prompt):
    batch = inputs([prompt])
    plain = generated(batch)
    looked_up = generated(batch, assisted=True, prompt_lookup_num_tokens=4)
    helped = generated(batch, assisted=True, assistant_model=assistant(), num_assistant_tokens=4)
    assert plain == looked_up == helped


@cache
def assistant() -> Any:
    """Another random model: most of its draft tokens are rejected."""
    from transformers import LlamaForCausalLM

    from tests.support.tiny_models import seeded

    made = seeded(lambda: LlamaForCausalLM(model().config), 1)
    made.generation_config.eos_token_id = model().generation_config.eos_token_id
    made.generation_config.pad_token_id = model().generation_config.pad_token_id
    return made.eval()


def test_scores_wider_than_the_vocabulary_are_masked_too():
    used = processor()
    ids = inputs(["the"])["input_ids"]
    size = llama().vocabulary.size
    scores = used(ids, torch.zeros(1, size + 70))
    assert scores.shape == (1, size + 70)
    assert bool(torch.isneginf(scores[:, size:]).all())
    row = used._histories.automata[0].new_mask()
    used._histories.automata[0].fill_mask(used._histories.automata[0].start, row)
    allowed = [t for t in range(size) if row[t // 32] >> (t % 32) & 1]
    assert torch.isfinite(scores[0]).nonzero().flatten().tolist() == allowed
    with pytest.raises(ModelMismatch, match="vocabulary"):
        used(ids, torch.zeros(1, size - 1))


def test_a_token_that_something_else_forced_is_an_error():
    used = processor()
    ids = inputs(["the"])["input_ids"]
    used(ids, torch.zeros(1, llama().vocabulary.size))
    digit = llama().vocabulary.encode("7")[0]
    with pytest.raises(InvalidArgument, match="does not allow"):
        used(torch.cat([ids, torch.tensor([[digit]])], 1), torch.zeros(1, llama().vocabulary.size))


def test_what_cannot_be_used_is_refused_before_the_model_runs():
    with pytest.raises(DoesNotFit):
        processor(max_tokens=1)
    with pytest.raises(InvalidArgument, match="a constraint is missing"):
        processor([])
    with pytest.raises(UnsupportedConstraint):
        processor(regex(r"(a)\1"))
    assert ConstraintLogitsProcessor.supports_continuous_batching is False


# ---------------------------------------------------------------- custom_generate=decode


def decoded(batch: dict[str, Any], constraint: Any = WORDS, *, limit: int = 30, **settings: Any) -> Any:
    return model().generate(
        **batch,
        custom_generate=decode,
        constraint=constraint,
        vocabulary=llama().vocabulary,
        max_new_tokens=limit,
        **settings,
    )


def test_decode_gives_what_generate_and_the_generator_give():
    batch = inputs()
    assert texts(decoded(batch), batch) == generated(batch)
    ours = Generator(llama(), WORDS).batch(PROMPTS, max_tokens=30, temperature=0.8, top_k=7, seed=3)
    torch.manual_seed(5)
    found = decoded(batch, do_sample=True, temperature=0.8, top_k=7, seed=3, return_dict_in_generate=True)
    assert isinstance(found, ConstrainedOutput)
    assert texts(found.sequences, batch) == [out.text for out in ours]
    assert [out.log_weight for out in found.outputs] == pytest.approx(
        [out.log_weight for out in ours], abs=1e-3
    )


def test_decode_takes_its_seed_from_torch_where_none_is_given():
    batch = inputs()

    def draw(seed: int) -> list[str]:
        torch.manual_seed(seed)
        return texts(decoded(batch, do_sample=True, num_return_sequences=2), batch)

    assert draw(0) == draw(0) != draw(1)
    assert len(draw(0)) == 2 * len(PROMPTS)
    assert draw(0)[0] != draw(0)[1]


def test_exact_samplers_run_under_generate():
    batch = inputs(["the", "a"])
    found = decoded(
        batch,
        choice(["yes", "no", "maybe"]),
        sampler="cars",
        do_sample=True,
        top_k=0,
        seed=1,
        return_dict_in_generate=True,
    )
    assert [out.distribution for out in found.outputs] == ["conditional"] * 2
    assert set(texts(found.sequences, batch)) <= {"yes", "no", "maybe"}
    with pytest.raises(InvalidArgument, match="top_k"):
        decoded(batch, sampler="cars", do_sample=True)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_beams": 2}, "num_beams"),
        ({"repetition_penalty": 1.2}, "repetition_penalty"),
        ({"prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens"),
        ({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size"),
        ({"bad_words_ids": [[5]]}, "bad_words_ids"),
        ({"min_new_tokens": 3}, "min_new_tokens"),
        ({"max_time": 3.0}, "max_time"),
        ({"output_scores": True, "return_dict_in_generate": True}, "output_scores"),
        ({"typical_p": 0.5, "do_sample": True}, "typical_p"),
        ({"prefix_allowed_tokens_fn": lambda batch, ids: [1]}, "PrefixConstrained"),
    ],
)
def test_what_decode_does_not_do_is_refused_by_name(settings, named):
    with pytest.raises(InvalidArgument, match=named):
        decoded(inputs(["the"]), **settings)


def test_decode_runs_no_other_processor():
    with pytest.raises(InvalidArgument, match="ConstraintLogitsProcessor"):
        decoded(inputs(["the"]), logits_processor=[processor()])


def test_decode_names_missing_arguments():
    batch = inputs(["the"])
    with pytest.raises(InvalidArgument, match="a constraint is missing"):
        model().generate(**batch, custom_generate=decode, vocabulary=llama().vocabulary, max_new_tokens=9)
    with pytest.raises(InvalidArgument, match="vocabulary"):
        model().generate(**batch, custom_generate=decode, constraint=WORDS, max_new_tokens=9)
    with pytest.raises(DoesNotFit):
        decoded(batch, limit=2)
    automaton = constrained.compile(WORDS, llama().vocabulary)
    assert texts(
        model().generate(**batch, custom_generate=decode, constraint=automaton, max_new_tokens=30), batch
    ) == generated(batch)


def test_at_the_limit_no_end_is_appended():
    batch = inputs(["the"])
    found = decoded(batch, regex("[a-z]{0,3}"), limit=3)
    assert found.shape[1] - batch["input_ids"].shape[1] <= 3
    assert decoded(batch, regex(""), limit=3).shape[1] == batch["input_ids"].shape[1] + 1
