"""Long documents: where they are split, how values of parts are merged, and what becomes of a whole document."""

from __future__ import annotations

import itertools
import json
import pickle
import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained import Extractor, Span, extract, extract_many
from constrained.constraint.json_text import read_exact, write_exact
from constrained.constraint.narrowing import optional_members
from constrained.extraction.chunks import sentences, split_text
from constrained.extraction.values.exact_json import in_schema_order
from constrained.extraction.values.merge import merge_values
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary


def words(text: str) -> int:
    return len(text.split())


PROSE = st.lists(
    st.sampled_from(
        ["One.", "Two words!", "日本語。", "e\u0301\u0301", "👩‍👩‍👧", "\n\n", "\n", "x" * 30, "Is it?", " "]
    ),
    max_size=60,
).map(" ".join)


@given(PROSE, st.integers(1, 40), st.integers(0, 20), st.sampled_from([words, len]))
def test_chunks_cover_a_text_and_stay_within_the_budget(
    text: str, budget: int, overlap: int, count: Any
) -> None:
    chunks = split_text(text, count, budget, overlap)
    assert chunks[0].start == 0
    assert chunks[-1].end == len(text)
    for before, after in itertools.pairwise(chunks):
        assert before.start < after.start <= before.end < after.end
        assert count(text[after.start : before.end]) <= overlap
    for chunk in chunks:
        part = text[chunk.start : chunk.end]
        assert count(part) <= budget or len(re.findall(r"\S", part)) <= 8  # one grapheme, at most a family


def test_chunks_end_at_paragraphs_and_sentences() -> None:
    text = "One two three. Four five.\n\nSix seven eight nine. Ten eleven twelve.\n\nThirteen."
    parts = [text[chunk.start : chunk.end] for chunk in split_text(text, words, 6)]
    assert parts == [
        "One two three. Four five.\n\n",
        "Six seven eight nine. ",
        "Ten eleven twelve.\n\nThirteen.",
    ]
    overlapping = [text[chunk.start : chunk.end] for chunk in split_text(text, words, 7, 3)]
    assert overlapping[1].startswith("Four five.")
    accents = "ae\u0301" * 8
    assert [accents[c.start : c.end] for c in split_text(accents, len, 6)] == ["ae\u0301" * 2] * 4


@dataclass
class Reading:
    """A part of a document as `merge_values` sees it, with places and confidences that the test chose."""

    value: Any
    extent: tuple[int, int] = (0, 1)
    where: dict[str, tuple[int, int]] = field(default_factory=dict)
    logprobs: dict[str, float] = field(default_factory=dict)

    def places(self, pointer: str) -> list[tuple[int, int]]:
        return [
            place for name, place in self.where.items() if name == pointer or name.startswith(pointer + "/")
        ]

    def confidence(self, pointer: str) -> float:
        return self.logprobs[pointer]


@pytest.mark.parametrize(
    "parts",
    [
        ["1. Ada, vet\n", "2. Ben, cook"],
        ["Dr. Khan met J. Smith in St. Ives. ", "He left at 5. ", "Then it rained!"],
        ["In 2019. ", "Then", ""],
    ],
)
def test_numbers_of_lines_initials_and_titles_end_no_sentence(parts: list[str]) -> None:
    text = "".join(parts)
    assert [text[one.start : one.end] for one in sentences(text)] == [part for part in parts if part]


def test_values_of_parts_are_merged_by_their_kind() -> None:
    merged = merge_values(
        [
            Reading(
                {"name": None, "tags": ["a", "b", "b"], "total": Decimal("1.10"), "note": {"x": 1}},
                logprobs={"/total": -0.5},
            ),
            Reading(
                {"name": "Ana", "tags": ["b", "c"], "total": Decimal("2"), "note": {"y": 2}},
                logprobs={"/total": -0.1},
            ),
        ]
    )
    assert merged.value == {
        "name": "Ana",
        "tags": ["a", "b", "b", "c"],
        "total": Decimal(2),
        "note": {"x": 1, "y": 2},
    }
    assert merged.origins == {
        "/name": (1, "/name"),
        "/tags/0": (0, "/tags/0"),
        "/tags/1": (0, "/tags/1"),
        "/tags/2": (0, "/tags/2"),
        "/tags/3": (1, "/tags/1"),
        "/total": (1, "/total"),
        "/note/x": (0, "/note/x"),
        "/note/y": (1, "/note/y"),
    }
    people = merge_values([Reading([{"name": "Ana"}]), Reading([{"name": "Ana", "age": 3}, {"name": "Bo"}])])
    assert people.value == [{"name": "Ana", "age": 3}, {"name": "Bo"}]
    assert people.origins["/0/age"] == (1, "/0/age")


@given(st.lists(st.lists(st.integers(0, 4), max_size=6), min_size=1, max_size=4))
def test_an_item_without_a_place_is_taken_as_often_as_the_part_that_has_it_most_often(
    parts: list[list[int]],
) -> None:
    merged = merge_values([Reading(part) for part in parts]).value
    most: Counter[int] = Counter()
    for part in parts:
        most |= Counter(part)
    assert Counter(merged or []) == most


@pytest.mark.parametrize(
    ("place", "schema", "count"),
    [
        ((85, 88), None, 1),  # where both parts read
        ((120, 123), None, 2),  # another mention, which only the second part read
        ((120, 123), {"type": "array", "uniqueItems": True}, 1),
    ],
)
def test_equal_items_are_one_where_both_parts_read(place: tuple[int, int], schema: Any, count: int) -> None:
    first = Reading(["Ana"], (0, 90), {"/0": (10, 13)})
    second = Reading(["Ana"], (80, 200), {"/0": place})
    assert merge_values([first, second], schema).value == ["Ana"] * count


def test_numbers_survive_as_they_were_written() -> None:
    text = '{"a": 1.10, "b": 123456789012345678901234567890, "c": [true, null, "é"]}'
    assert write_exact(read_exact(text)) == text
    schema = {
        "properties": {"b": {}, "a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"properties": {"q": {}, "p": {}}}},
    }
    assert json.dumps(in_schema_order({"a": {"p": 1, "q": 2}, "b": 3}, schema, schema)) == (
        '{"b": 3, "a": {"q": 2, "p": 1}}'
    )


def test_members_outside_of_arrays_become_optional() -> None:
    item = {"type": "object", "properties": {"n": {}}, "required": ["n"]}
    schema = {
        "properties": {
            "a": {"$ref": "#/$defs/item"},
            "b": {"type": "array", "items": item, "minItems": 2},
            "c": {"anyOf": [item, {"type": "null"}]},
            "d": {"anyOf": [item, item]},
        },
        "required": ["a", "b"],
        "$defs": {"item": item},
    }
    free = {"type": "object", "properties": {"n": {}}}
    relaxed = optional_members(schema)
    assert relaxed["properties"] == {
        "a": free,
        "b": {"type": "array", "items": item},
        "c": {"anyOf": [free, {"type": "null"}]},
        "d": {"anyOf": [item, item]},
    }
    assert "required" not in relaxed
    assert list(optional_members(schema, ["b"])["properties"]) == ["b"]


@dataclass
class Ledger:
    owner: str
    sums: list[int] = field(default_factory=list)
    city: str | None = None


def read_ledger(prompt: str) -> str:
    """Reads what a part says, and leaves out what it does not say."""
    text = prompt.rpartition("Text:\n")[2]
    found: dict[str, Any] = {}
    if "owner" in prompt and (owner := re.search(r"Owner (\w+)", text)):
        found["owner"] = owner.group(1)
    if "sums" in prompt:
        found["sums"] = [int(number) for number in re.findall(r"Sum (\d+)", text)]
    if "sums" not in prompt and (city := re.search(r"City (\w+)", text)):  # seen in the second pass only
        found["city"] = city.group(1)
    return json.dumps(found)


LEDGER = "Owner Ana keeps this.\n\n" + "\n\n".join(f"Sum {i} was paid." for i in range(60)) + "\n\nCity Oslo."


def ledger_model() -> ScriptedModel:
    return ScriptedModel(byte_vocabulary(), read_ledger)


def test_a_long_document_is_read_in_parts() -> None:
    extractor = Extractor(ledger_model(), Ledger, long="split", chunk_tokens=200)
    result = extractor(LEDGER)
    assert result.value == Ledger("Ana", list(range(60)))
    assert len(result.parts) > 5
    assert result.output is None
    assert json.loads(result.text)["sums"] == list(range(60))
    for i in range(60):
        part, pointer = result.origins[f"/sums/{i}"]
        said = result.parts[part]
        assert f"Sum {i} was" in LEDGER[said.start : said.end]
        assert json.loads(said.output.text)["sums"][int(pointer.rpartition("/")[2])] == i
        span = result.spans[f"/sums/{i}"]
        assert span.how == "exact"
        assert (span.start, span.text(LEDGER)) == (LEDGER.index(f"Sum {i} ") + 4, str(i))
    assert result.spans["/owner"].text(LEDGER) == "Ana"
    assert extract(ledger_model(), LEDGER, Ledger, long="split", chunk_tokens=200) == result.value
    (many,) = extract_many(ledger_model(), [LEDGER], Ledger, long="split", chunk_tokens=200, batch_size=3)
    assert many.value == result.value


@dataclass
class Note:
    title: str
    total: int | None = None


def read_note(prompt: str) -> str:
    text = prompt.rpartition("Text:\n")[2]
    title, total = re.search(r"Title (\w+)", text), re.search(r"total (\d+)", text)
    found: dict[str, Any] = {"title": title[1]} if title else {}
    return json.dumps(found | ({"total": int(total[1])} if total else {}))


class DoubtingModel(ScriptedModel):
    """Hesitates over titles, and over a total that its text calls doubtful."""

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        at_total = b"total" in self.vocabulary.decode(completion)
        doubtful = b"maybe" in self.vocabulary.decode(prompt)
        return super().logits(prompt, completion) * (0.5 if at_total != doubtful else 0.15)


def test_of_different_scalars_the_likeliest_wins_and_keeps_its_probability() -> None:
    # The part with the sure total has the less likely completion, by token too: it hesitates over a long title.
    document = "The total 17 is maybe right.\n\nTitle Zusammenfassung. The total 23 stands."
    extractor = Extractor(DoubtingModel(byte_vocabulary(), read_note), Note, long="split", chunk_tokens=50)
    result = extractor(document)
    assert result.value == Note("Zusammenfassung", 23)
    doubted, sure = (part.output for part in result.parts)
    assert (doubted.value["total"], sure.value["total"]) == (17, 23)
    assert doubted.logprob / len(doubted.tokens) > sure.logprob / len(sure.tokens)
    constraint = extractor.part_generator.constraint
    for pointer, found in result.fields.items():
        part, place = result.origins[pointer]
        text = document[result.parts[part].start : result.parts[part].end]
        alone = Extractor(extractor.generator.model, constraint, decisions=False)(text)
        assert found == alone.fields[place], pointer
        assert result.spans[pointer].text(document) == str(found.value)
    assert pickle.loads(pickle.dumps(result)).spans == result.spans
    with pytest.raises(constrained.InvalidArgument, match="need the model"):
        _ = pickle.loads(pickle.dumps(result)).fields


def test_spans_of_a_part_are_spans_of_that_part() -> None:
    """The script quotes what stands in another part: the constraint of this one does not allow it."""

    @dataclass
    class Quote:
        words: Annotated[str, Span(words=True)] | None = None

    document = "One two three four.\n\nFive six seven."
    model = ScriptedModel(byte_vocabulary(), lambda prompt: '{"words": "seven"}')
    result = Extractor(model, Quote, long="split", chunk_tokens=22)(document)
    assert len(result.parts) == 2
    for part in result.parts:
        assert part.output.value["words"] in document[part.start : part.end]


def test_a_part_without_a_number_has_no_value_where_one_is_required() -> None:
    document = "There is nothing to count here.\n\nIt is 42."
    model = ScriptedModel(byte_vocabulary(), lambda prompt: "42")
    options: Any = {"long": "split", "chunk_tokens": 34, "require_grounding": True}
    result = Extractor(model, int, **options)(document)
    assert result.value == 42
    assert len(result.parts) == 1
    assert result.spans[""].text(document) == "42"
    with pytest.raises(constrained.UnsatisfiableConstraint):
        Extractor(model, int, **options)(document.replace("42", "all"))


def test_a_second_pass_asks_for_what_has_no_value() -> None:
    extractor = Extractor(ledger_model(), Ledger, long="split", chunk_tokens=200, passes=2)
    assert extractor(LEDGER).value == Ledger("Ana", list(range(60)), "Oslo")


def tail_model(*, tails: str) -> ScriptedModel:
    """Reads titles and totals, and never ends a title whose text has one of these words."""

    def script(prompt: str) -> str:
        text = prompt.rpartition("Text:\n")[2]
        return '{"title": "' + "abcdefgh " * 30 if re.search(tails, text) else read_note(prompt)

    return ScriptedModel(byte_vocabulary(), script)


def test_parts_that_are_whole_are_kept_where_another_one_is_cut() -> None:
    document = "Title Zusammenfassung stands here.\n\nEndless words with no end.\n\nThe total 23 stands."
    options: Any = {"long": "split", "chunk_tokens": 40, "overlap_tokens": 0, "max_tokens": 60}
    extractor: Extractor[Any] = Extractor(tail_model(tails="Endless"), Note, **options)
    with pytest.warns(UserWarning, match=r"document 7: nothing is taken from characters 36 to 64: the token"):
        (result,) = extractor.many([constrained.Document(7, document)])
    assert result.value == Note("Zusammenfassung", 23)
    ((start, end),) = [(part.start, part.end) for part in result.failed]
    assert document[start:end].startswith("Endless")
    assert isinstance(result.failed[0].error, constrained.Truncated)
    assert [part.output.value for part in result.parts] == [{"title": "Zusammenfassung"}, {"total": 23}]
    assert result.spans["/total"].text(document) == "23"


@pytest.mark.parametrize("tails", ["Title", "Title|total|words"])
def test_a_failed_part_is_the_error_where_the_others_give_no_value(tails: str) -> None:
    document = "Title Zusammenfassung stands here.\n\nA few more words, no end.\n\nThe total 23 stands."
    options: Any = {"long": "split", "chunk_tokens": 40, "overlap_tokens": 0, "max_tokens": 60}
    with pytest.raises(constrained.Truncated, match=r"characters 0 to"):
        Extractor(tail_model(tails=tails), Note, **options)(document)


def test_what_no_part_says_is_an_error_and_not_invented() -> None:
    with pytest.raises(constrained.RejectedValue, match="owner") as raised:
        extract(ledger_model(), LEDGER.replace("Owner", "Holder"), Ledger, long="split", chunk_tokens=200)
    assert "passes=2" in str(raised.value)


def test_a_short_document_is_read_whole() -> None:
    result = Extractor(ledger_model(), Ledger, long="split")("Owner Bo. Sum 3 was paid.")
    assert result.value == Ledger("Bo", [3])
    assert result.parts == ()
    assert result.output is not None


@pytest.mark.ci
def test_without_the_option_a_long_document_is_an_error_that_names_it() -> None:
    model = ledger_model()
    model.context = 2000
    with pytest.raises(constrained.PromptTooLong, match='long="split"'):
        extract(model, LEDGER * 5, Ledger)
    value = extract(model, LEDGER * 5, Ledger, long="split")
    assert value.owner == "Ana"
    assert set(value.sums) == set(range(60))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"long": "cut"}, "long is 'cut'"),
        ({"passes": 2}, "read in parts"),
        ({"passes": 3, "long": "split"}, "passes is 3"),
        ({"chunk_tokens": 3, "long": "split"}, "chunk_tokens is 3"),
        ({"instructions": 3}, "instructions is of type int"),
        ({"context": b"x"}, "context is of type bytes"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(constrained.InvalidArgument, match=re.escape(message)):
        Extractor(ledger_model(), Ledger, **options)


def test_values_within_free_text_are_not_merged() -> None:
    with pytest.raises(constrained.UnsupportedConstraint, match="free text"):
        Extractor(ledger_model(), constrained.after("</think>", Ledger), long="split")
