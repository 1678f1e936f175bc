"""Many documents in one batch: the results are those of single extractions, and one document never harms another."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch

import constrained
from constrained import Document, Extractor, InvalidArgument, PromptError, extract, extract_many
from constrained.decoding.request_batch import RequestBatch
from constrained.decoding.request_runner import BatchedRequest
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary
from tests.support.tiny_models import llama, random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


@dataclass
class Word:
    word: str
    known: bool


@dataclass
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


def last_word(prompt: str) -> str:
    return f'{{"word": "{prompt.split()[-1]}", "known": true}}'


def scripted(script: Any = last_word) -> ScriptedModel:
    return ScriptedModel(byte_vocabulary(), script)


class CountingModel(ScriptedModel):
    """Notes how many rows its passes read."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.rows: list[int] = []

    def forward(self, tokens: Any, cache: Any) -> Any:
        self.rows.append(len(tokens))
        return super().forward(tokens, cache)


TEXTS = [f"text number {i} ends in w{i}" + " and" * (i % 5) for i in range(8)]


@cache
def extracted_alone(*settings: tuple[str, Any]) -> list[Word]:
    return [extract(llama(), text, Word, **dict(settings)) for text in TEXTS]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "seed": 5}])
def test_each_result_is_that_of_a_single_extraction(batch_size: int, settings: dict[str, Any]) -> None:
    settings = {**settings, "max_tokens": 40, "on_limit": "close"}
    found = extract_many(llama(), TEXTS, Word, batch_size=batch_size, ordered=True, **settings)
    assert [result.value for result in found] == extracted_alone(*settings.items())


@pytest.mark.parametrize("sampler", ["awrs", "rejection"])
def test_all_samplers_can_be_used(sampler: str) -> None:
    choice = constrained.choice(["yes", "no"])
    model = constrained.load(random_llama(), small_bpe_tokenizer())
    options: dict[str, Any] = {"sampler": constrained.CARS() if sampler == "cars" else sampler, "seed": 3}
    if sampler == "rejection":  # accepted at once by a model that says what is wanted
        model = scripted(lambda prompt: "yes")
    alone = [extract(model, text, choice, temperature=1.0, **options) for text in TEXTS[:4]]
    found = extract_many(model, TEXTS[:4], choice, temperature=1.0, ordered=True, **options)
    assert [result.value for result in found] == alone


def test_documents_come_in_several_forms_and_keep_their_ids() -> None:
    documents: list[Any] = [
        "to a",
        Document("b", "to b"),
        ("c", "to c"),
        {"id": 7, "text": "to d", "more": 1},
        {"text": "to e"},
        Document(None, "to f"),
    ]
    results = list(extract_many(scripted(), iter(documents), Word, ordered=True))
    assert [(result.id, result.value.word) for result in results] == [
        (0, "a"),
        ("b", "b"),
        ("c", "c"),
        (7, "d"),
        (4, "e"),
        (5, "f"),
    ]
    assert results[1].document == "to b"


def test_a_bad_document_is_an_error_of_its_own() -> None:
    documents: list[Any] = ["to a", "", b"bytes", {"body": "x"}, ("id", 5), "lone \ud800 surrogate", "to b"]
    results = list(extract_many(scripted(), documents, Word, ordered=True))
    assert [type(result.error) for result in results] == [type(None), *[PromptError] * 5, type(None)]
    assert results[1].attempts == 0
    assert "lone surrogate at character 5: U+D800" in str(results[5].error)
    with pytest.raises(PromptError, match=r"document 1: there is nothing .* the text is empty"):
        list(extract_many(scripted(), documents, Word, ordered=True, errors="raise"))
    assert list(extract_many(scripted(), [], Word)) == []


def test_a_text_that_is_too_long_loses_no_other() -> None:
    model = constrained.load(random_llama(), small_bpe_tokenizer())
    texts = ["a city", "enormous " * 5000, "another"]
    errors = [
        result.error
        for result in extract_many(model, texts, Word, ordered=True, max_tokens=30, on_limit="close")
    ]
    assert [type(error) for error in errors] == [type(None), constrained.PromptTooLong, type(None)]


@pytest.mark.parametrize(
    ("documents", "options", "message"),
    [
        ("one text", {}, "documents is of type str"),
        ({"text": "x"}, {}, "documents is of type dict"),
        (5, {}, "documents is of type int"),
        (["x"], {"batch_size": 0}, "batch_size is 0"),
        (["x"], {"batch_size": 2.5}, "batch_size is 2.5"),
        (["x"], {"max_batch_tokens": -1}, "max_batch_tokens is -1"),
        (["x"], {"errors": "ignore"}, "errors is 'ignore'"),
        (["x"], {"retries": -1}, "retries is -1"),
        (["x"], {"temperature": -1}, "temperature is -1"),
        (["x"], {"temprature": 1}, "did you mean 'temperature'"),
        (["x"], {"length_penalty": 1.2}, "no setting 'length_penalty'"),
        (["x"], {"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_arguments_are_refused_before_a_document_is_read(
    documents: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        extract_many(scripted(), documents, Word, **options)


def test_a_token_limit_below_every_completion_is_refused_at_once() -> None:
    with pytest.raises(constrained.DoesNotFit):
        extract_many(scripted(), iter(["x"]), Word, max_tokens=1)


def test_documents_are_read_as_the_batch_has_room() -> None:
    """Of an endless iterator, with and without order."""
    for ordered in (False, True):
        read = itertools.count()
        found = extract_many(
            scripted(), (f"to w{next(read)}" for _ in itertools.count()), Word, batch_size=4, ordered=ordered
        )
        words = {next(found).value.word for _ in range(20)}
        assert len(words) == 20
        assert next(read) <= 20 + 5 * 4
        found.close()  # type: ignore[attr-defined]


def test_a_slow_document_does_not_let_results_pile_up() -> None:
    """In order, the results behind a slow document are a bounded number."""
    read = itertools.count()

    def texts() -> Iterator[str]:
        yield "to " + "x" * 300
        while True:
            yield f"to w{next(read)}"

    found = extract_many(
        scripted(), texts(), Word, batch_size=4, ordered=True, max_tokens=400, speculation=None
    )
    assert len(next(found).value.word) == 300
    assert next(read) <= 4 * 4


def test_documents_are_not_kept() -> None:
    class Text(str):
        __slots__ = ("__weakref__",)

    gc.freeze()  # what is there already need not be looked at 30 times
    alive: weakref.WeakSet[Text] = weakref.WeakSet()

    def texts() -> Iterator[Text]:
        for i in range(30):
            text = Text(f"to w{i}")
            alive.add(text)
            yield text

    most = 0
    for _ in extract_many(scripted(), texts(), Word, batch_size=3):
        gc.collect()
        most = max(most, len(alive))
    gc.unfreeze()
    assert most <= 8


@pytest.mark.ci
def test_what_a_run_holds_does_not_grow_with_the_documents() -> None:
    """Tensors, objects of the library and tables of the automaton: as much for the tenth batch as for the second."""
    model = constrained.load(random_llama(), small_bpe_tokenizer())
    constraint = constrained.json_schema(
        {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3}, whitespace="none"
    )
    gc.collect()
    gc.freeze()  # what is there already need not be looked at

    def held() -> tuple[int, int]:
        fresh = gc.get_objects()
        tensors = {one.untyped_storage().data_ptr(): one for one in fresh if isinstance(one, torch.Tensor)}
        own = sum(type(one).__module__.split(".")[0] == "constrained" for one in fresh)
        return sum(one.untyped_storage().nbytes() for one in tensors.values()), own

    extractor = Extractor(
        model, constraint, sampler="local", speculation=None
    )  # more draft tokens in a pass have more logits
    seen = []
    for i, result in enumerate(extractor.many(TEXTS * 4, batch_size=4, max_tokens=30)):
        assert result.error is None
        if i >= 4:
            seen.append((*held(), extractor.generator.automaton.memory["bytes"]))
    gc.unfreeze()
    columns = list(zip(*seen, strict=True))
    assert all(min(column[:-1]) > 0 for column in columns[:2])
    assert [max(column[12:]) <= 1.01 * max(column[:12]) for column in columns] == [True] * 3, seen


def test_what_was_begun_is_finished_when_the_documents_fail() -> None:
    def texts() -> Iterator[str]:
        yield "to a"
        yield "to b"
        raise OSError("the disk is gone")

    found = extract_many(scripted(), texts(), Word, ordered=True)
    assert [next(found).value.word, next(found).value.word] == ["a", "b"]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)


def numbers(prompt: str) -> str:
    """Says an odd number, until the prompt has said that it was refused."""
    return '{"n": 4}' if "9 is odd" in prompt else '{"n": 9}'


def test_what_a_validator_refuses_is_tried_again_with_its_message() -> None:
    model = scripted(numbers)
    extractor = Extractor(model, Even, retries=2)
    result = extractor("How many?")
    assert (result.value, result.attempts) == (Even(4), 2)
    (result,) = extract_many(model, ["How many?"], Even, retries=1)
    assert result.value == Even(4)
    assert extract(model, "How many?", Even, retries=1) == Even(4)


def test_retries_end() -> None:
    model = scripted(lambda prompt: '{"n": 9}')
    results = list(extract_many(model, ["a", "b"], Even, retries=3))
    assert [(type(result.error), result.attempts) for result in results] == [
        (constrained.RejectedValue, 4)
    ] * 2
    with pytest.raises(constrained.RejectedValue, match="9 is odd"):
        Extractor(model, Even)("a")


def test_retries_draw_other_numbers_and_can_be_repeated() -> None:
    class Picky:
        seen: list[int] = []  # noqa: RUF012

    @dataclass
    class Number:
        n: int

        def __post_init__(self) -> None:
            Picky.seen.append(self.n)
            raise ValueError("no number will do")

    model = constrained.load(random_llama(), small_bpe_tokenizer())
    runs = []
    for _ in range(2):
        Picky.seen.clear()
        (result,) = extract_many(model, ["a number"], Number, retries=6, max_tokens=8, on_limit="close")
        assert result.attempts == 7
        runs.append(list(Picky.seen))
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 3


class FailingModel(ScriptedModel):
    """Runs out of memory when more than `rows` sequences are read at once."""

    rows = 3

    def forward(self, tokens: Any, cache: Any) -> Any:
        if len(tokens) > self.rows:
            raise MemoryError(f"no memory for {len(tokens)} rows")
        return super().forward(tokens, cache)


def test_a_batch_that_does_not_fit_into_memory_is_halved() -> None:
    model = FailingModel(byte_vocabulary(), last_word)
    found = list(
        extract_many(model, TEXTS, Word, batch_size=16, ordered=True, speculation=None, max_tokens=60)
    )
    assert [result.error for result in found] == [None] * len(TEXTS)
    assert [result.value.word for result in found] == [text.split()[-1] for text in TEXTS]


def test_a_document_whose_pass_fails_alone_is_an_error() -> None:
    class Poisoned(ScriptedModel):
        def forward(self, tokens: Any, cache: Any) -> Any:
            if any(b"poison" in bytes(byte for byte in row if byte < 256) for row in tokens):
                raise RuntimeError("device-side assert")
            return super().forward(tokens, cache)

    model = Poisoned(byte_vocabulary(), last_word)
    texts = ["to a", "to b", "poison", "to c", "to d"]
    results = list(extract_many(model, texts, Word, ordered=True, speculation=None, decisions=False))
    assert [result.error is None for result in results] == [True, True, False, True, True]
    assert isinstance(results[2].error, constrained.ModelError)
    assert isinstance(results[2].error.__cause__, RuntimeError)


def test_free_rows_are_filled_before_the_next_pass() -> None:
    model = CountingModel(byte_vocabulary(), last_word)
    assert len(
        list(extract_many(model, TEXTS, Word, batch_size=4, speculation=None, decisions=False))
    ) == len(TEXTS)
    later = [rows for rows in model.rows if rows > 1]
    assert model.rows[:4] == [1] * 4
    assert later[0] == 4
    assert sum(later) / len(later) > 3.5


def test_a_model_that_is_broken_ends_the_run() -> None:
    class Breaking(ScriptedModel):
        """Fails from its 80th pass on, as a device does after an assertion."""

        passes = 0

        def forward(self, tokens: Any, cache: Any) -> Any:
            self.passes += 1
            if self.passes >= 80:
                raise RuntimeError("device-side assert")
            return super().forward(tokens, cache)

    model = Breaking(byte_vocabulary(), last_word)
    documents = (f"to w{i}" for i in range(5000))
    found: list[Any] = []
    with pytest.raises(
        constrained.ModelError, match=r"32 documents in a row failed.*device-side assert"
    ) as raised:
        found.extend(extract_many(model, documents, Word, batch_size=4, speculation=None))
    assert isinstance(raised.value.__cause__, constrained.ModelError)
    assert int(next(documents).removeprefix("to w")) < 100


@pytest.mark.parametrize(
    ("max_rows", "max_tokens", "most"), [(10, None, 4), (3, None, 3), (10, 500, 2), (10, 9, 1)]
)
def test_a_batch_respects_its_bounds(max_rows: int, max_tokens: int | None, most: int) -> None:
    """Requests of 150, 160, 300 and 250 positions: the second joins the first in 500, the others are alone."""
    model = CountingModel(byte_vocabulary(), last_word)
    generator = Extractor(model, Word, speculation=None).generator
    batch = RequestBatch(model, max_rows=max_rows, max_tokens=max_tokens)
    requests = [
        BatchedRequest(generator, generator._request("x" * size, max_tokens=100))
        for size in (50, 60, 200, 150)
    ]
    for request in requests:
        batch.add(request)
    ended = []
    while len(batch):
        ended += batch.step()
    assert max(model.rows) == most
    assert ended == requests
    assert all(isinstance(request.outcome, constrained.decoding.Output) for request in requests)


def test_progress_is_shown_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(list(extract_many(scripted(), ["to a", ""], Word, progress=True))) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2/2" in shown.err
    assert "1 failed" in shown.err
