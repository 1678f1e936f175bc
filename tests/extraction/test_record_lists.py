"""Lists of records: each record is read from the sentences that are about it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import constrained
from constrained.errors import InvalidArgument
from constrained.extraction import Extractor, trial
from constrained.extraction.record_lists import MOST_SENTENCES
from tests.support.wishing_model import WishingModel


class Reader(WishingModel):
    """Likes for a member some texts, those that stand in the document and that no record before has for it; then it goes on with them."""

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return [*super().encode(prompt, chat=chat), 0]

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        row = np.zeros(self.vocabulary.size)
        text, _, written = bytes([*prompt, *completion]).decode("utf-8", "replace").partition("\0")
        text = text.rpartition("Text:\n")[2]
        member = re.search(r'"(\w+)": ("?)([^"]*)$', written)
        if member is None:
            return row
        name, quote, said = member[1], member[2], member[3]
        for wish, strength in self.wishes.get(name, {}).items():
            if wish not in text or f'"{name}": "{wish}"' in written[: member.start()]:
                continue
            whole = f"{wish}{quote}".encode()
            if not quote and not said:
                row[ord('"') if not wish.isdigit() else whole[0]] += 12.0
            elif whole.startswith(said.encode()) and len(whole) > len(said.encode()):
                row[whole[len(said.encode())]] += 12.0 if said else strength
            elif whole == said.encode():
                row[list(b",}")] += 12.0
        return row


@dataclass
class Person:
    name: str
    job: str | None = None
    city: str | None = None


@dataclass
class Club:
    title: str
    members: list[Person]
    year: int | None = None


WISHES = {
    "name": {"Ada": 9.0, "Ben": 8.0, "Cleo": 7.0},
    "job": {"vet": 9.0, "cook": 9.0, "baker": 9.0},
    "city": {"Oslo": 9.0, "Rome": 9.0},
    "title": {"Chess Club": 9.0},
    "year": {"1990": 9.0},
}
TEXT = "Ada is a vet. The animals like it there in Oslo. Ben is a cook from Rome."
PEOPLE = [Person("Ada", "vet", "Oslo"), Person("Ben", "cook", "Rome")]


@pytest.fixture
def model() -> Reader:
    return Reader(WISHES)


def test_a_sentence_begins_a_record_or_goes_on_about_the_one_before(model: Reader) -> None:
    found = Extractor(model, list[Person], lists="apart")(TEXT)
    assert found.value == PEOPLE
    assert {"/0/city", "/1/name", "/1/job"} <= set(found.decisions)
    assert found.text == found.output.text  # type: ignore[union-attr]
    assert found.spans["/1/city"].text(TEXT) == "Rome"
    assert found.fields["/1/city"].probability > 0.5


def test_the_head_of_a_table_begins_no_record() -> None:
    model = Reader(WISHES | {"name": {"Name": 9.0, "Ada": 9.0, "Ben": 8.0}})
    found = Extractor(model, list[Person], lists="apart")("Name\tJob\nAda\tvet\nBen\tcook")
    assert [one.name for one in found.value] == ["Ada", "Ben"]


def test_a_line_with_a_bullet_begins_a_record_sooner() -> None:
    model = Reader(WISHES | {"name": {"Ada": 9.0, "Ben": 1.0}})
    for bullet, names in (("", ["Ada"]), ("- ", ["Ada", "Ben"]), ("2. ", ["Ada", "Ben"])):
        found = Extractor(model, list[Person], lists="apart")(f"{bullet}Ada, vet\n{bullet}Ben, cook")
        assert [one.name for one in found.value] == names


def test_a_sentence_with_the_same_name_goes_on_as_well(model: Reader) -> None:
    text = "Ada is a vet. Ada lives in Oslo. Ben is a cook from Rome."
    assert Extractor(model, list[Person], lists="apart")(text).value == PEOPLE


@pytest.mark.parametrize(
    "text",
    [
        "Ada is a vet, and Ben is a cook from Rome.",
        "Ada, a vet; Ben, a cook in Rome",
        "Ada the vet and Ben, who is a cook from Rome, met.",
    ],
)
def test_a_sentence_is_cut_between_its_records(model: Reader, text: str) -> None:
    found = Extractor(model, list[Person], lists="apart")(text).value
    assert found == [Person("Ada", "vet"), Person("Ben", "cook", "Rome")]


def test_the_members_that_are_no_lists_are_read_first_and_their_phrases_begin_no_record() -> None:
    wishes = {**WISHES, "name": {**WISHES["name"], "Chess Club": 8.5}}
    text = "The Chess Club of 1990 had two members. Ada was a vet. Ben was a cook from Rome."
    found = Extractor(Reader(wishes), Club, lists="apart")(text)
    assert found.value == Club("Chess Club", [Person("Ada", "vet"), Person("Ben", "cook", "Rome")], 1990)
    assert found.decisions["/title"].value == "Chess Club"


def test_a_line_that_begins_with_the_name_of_a_member_beside_the_list_is_about_no_record(
    model: Reader,
) -> None:
    """A line about the year of a club in Rome gave the last of its members a city."""
    text = "Chess Club\nAda, vet\nBen, cook\n{}: in Rome"
    cities = [
        [one.city for one in Extractor(model, Club, lists="apart")(text.format(label)).value.members]
        for label in ("Year", "Moved")
    ]
    assert cities == [[None, None], [None, "Rome"]]


def test_below_a_heading_that_names_the_list_are_all_of_its_records(model: Reader) -> None:
    text = "Chess Club, says Ada, a vet.\nMembers:\nBen, cook\nCleo, baker"
    found = Extractor(model, Club, lists="apart")(text).value
    assert found.members == [Person("Ben", "cook"), Person("Cleo", "baker")]


def test_a_name_that_the_model_passes_over_in_the_whole_text_begins_no_record() -> None:
    """As a pronoun does, which is all that its sentence has."""
    wishes = {**WISHES, "name": {**WISHES["name"], "This": 3.0}}
    text = "Ada is a vet. This one lives in Oslo. Ben is a cook from Rome."
    assert Extractor(Reader(wishes), list[Person], lists="apart")(text).value == PEOPLE


def test_records_without_a_string_that_must_be_there_are_sentences_that_state_something(
    model: Reader,
) -> None:
    members = {"job": {"type": "string"}, "city": {"type": "string"}}
    schema = {
        "type": "array",
        "items": {"type": "object", "properties": members, "additionalProperties": False},
    }
    text = "A vet in Oslo\nNothing here\nA cook in Rome"
    found = Extractor(model, schema, lists="apart")(text).value
    assert found == [{"job": "vet", "city": "Oslo"}, {"job": "cook", "city": "Rome"}]


def test_records_are_grounded_in_their_sentences(model: Reader) -> None:
    @dataclass
    class Dated:
        name: str
        year: int

    text = "Ada came in 1990. She likes it. Ben came in 1985."
    wishes = {**WISHES, "year": {"1990": 9.0, "1985": 9.0}}
    found = Extractor(Reader(wishes), list[Dated], lists="apart", require_grounding=True)(text)
    assert found.value == [Dated("Ada", 1990), Dated("Ben", 1985)]


def test_examples_are_cut_into_their_records_and_what_is_beside_them() -> None:
    shown: list[str] = []

    class Listener(Reader):
        def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
            shown.extend(f"{one['role']}: {one['content']}" for one in prompt if not isinstance(prompt, str))
            return super().encode(prompt, chat=chat)

    members = [Person("Dan", "cook"), Person("Eve", city="Bonn"), Person("Flo")]
    text = "A Go Club. Dan is a cook. He is tall. Eve lives in Bonn, and Flo is new."
    examples = [(text, Club("A Go Club", members)), ("The Tea Club: Gil", Club("Tea Club", [Person("Gus")]))]
    extractor = Extractor(Listener(WISHES), Club, examples=examples, lists="apart")
    found = extractor("The Chess Club of 1990. Ada is a vet. Ben is a cook from Rome.").value
    assert found == Club("Chess Club", [Person("Ada", "vet"), Person("Ben", "cook", "Rome")], 1990)
    asked = "".join(shown)
    for part, answer in [
        ("A Go Club. Dan is a cook. He is tall.", '{"name": "Dan", "job": "cook"}'),
        ("Eve lives in Bonn,", '{"name": "Eve", "city": "Bonn"}'),
        ("and Flo is new.", '{"name": "Flo"}'),
        (text, '{"title": "A Go Club"}'),
        ("The Tea Club: Gil", '{"title": "Tea Club"}'),
    ]:
        assert f"{part}assistant: {answer}user:" in asked
    assert '{"name": "Gus"}u' not in asked  # its name does not stand in the text


def test_batches_streams_and_background_calls_give_the_same(model: Reader) -> None:
    extractor = Extractor(model, list[Person], lists="apart")
    other = "Cleo is a baker. Ben lives in Rome."
    alone = [extractor(text).value for text in (TEXT, other)]
    assert [one.value for one in extractor.many([TEXT, other], ordered=True)] == alone
    *_, last = extractor.stream(TEXT)
    assert last.result is not None
    assert last.result.value == PEOPLE
    assert "/0/name" in last.result.decisions
    assert list(extractor.stream_items(TEXT)) == PEOPLE
    assert asyncio.run(extractor.aextract(TEXT)).value == PEOPLE


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("No one came. There was nothing to see.", {}),
        (TEXT + " It rained." * MOST_SENTENCES, {}),
        ("アダは獣医です。Ada", {}),
        (TEXT, {"max_tokens": 40}),
    ],
)
def test_the_model_writes_the_list_where_it_cannot_be_read(
    model: Reader, text: str, settings: dict[str, Any]
) -> None:
    options: Any = {"on_limit": "close", "max_items": 2, **settings}
    apart = Extractor(model, list[Person], lists="apart", **options)(text)
    assert apart.text == Extractor(model, list[Person], lists="whole", **options)(text).text


@pytest.mark.parametrize(
    "keywords", [{"minProperties": 2}, {"required": ["title", "members"], "minProperties": 2}]
)
def test_a_list_that_is_a_condition_of_the_rest_is_written(model: Reader, keywords: dict[str, Any]) -> None:
    person = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    properties = {"title": {"type": "string"}, "members": {"type": "array", "items": person, "maxItems": 2}}
    schema = {"type": "object", "properties": properties, "required": ["title"], **keywords}
    texts = [Extractor(model, schema, lists=lists)(TEXT).text for lists in ("apart", "whole")]
    assert texts[0] == texts[1]


def test_a_list_that_the_constraint_has_not_is_written(model: Reader) -> None:
    texts = [
        Extractor(model, list[Person], lists=lists, max_items=1)(TEXT).text for lists in ("apart", "whole")
    ]
    assert texts[0] == texts[1]


def test_what_code_of_the_type_refuses_is_written_again(model: Reader) -> None:
    @dataclass
    class Named:
        name: str

        def __post_init__(self) -> None:
            if self.name == "Ben":
                raise ValueError("not Ben")

    extractor = Extractor(model, list[Named], lists="apart", retries=1, max_items=2, seed=3)
    kept, refused = extractor.many(["Ada is a vet. Cleo is a baker.", TEXT], ordered=True)
    assert [one.name for one in kept.value] == ["Ada", "Cleo"]
    assert (kept.attempts, refused.attempts) == (1, 2)
    assert kept.decisions
    assert not refused.decisions


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counted: list[int] = []
    right_values = trial.right_values
    monkeypatch.setattr(trial, "right_values", lambda model: counted.append(1) or right_values(model))
    return counted


def test_lists_are_read_apart_by_models_that_cannot_write_them_which_is_tried_once(
    model: Reader, trials: list[int]
) -> None:
    for _ in range(2):
        assert Extractor(model, list[Person])(TEXT).value == PEOPLE
    assert trials == [1]
    Extractor(model, Person)(TEXT)
    Extractor(model, list[str], max_items=1, max_tokens=60, on_limit="close")(TEXT)
    assert trials == [1]


class Perfect(WishingModel):
    """Writes the answer of the trial, whatever it is asked."""

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        row = np.zeros(self.vocabulary.size)
        answer = trial.ANSWER.encode()
        if len(completion) < len(answer):
            row[answer[len(completion)]] = 9.0
        return row


def test_a_model_that_writes_lists_goes_on_doing_so(trials: list[int]) -> None:
    model = Perfect({})
    assert trial.right_values(model) == trial.VALUES
    assert trial.passes_trial(model)
    whole = Extractor(model, trial.TYPE, max_tokens=600)("Blue Fig. Saffron.")
    assert len(whole.value) == 3
    assert not whole.decisions


def test_lists_is_one_of_three(model: Reader) -> None:
    with pytest.raises(InvalidArgument, match="lists is 'both'"):
        Extractor(model, list[Person], lists="both")  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", [{}, {"type": ["object", "string"]}], ids=["any", "two"])
def test_records_are_objects_where_other_values_are_allowed_too(kind: Any) -> None:
    """A schema with `properties` and no type allows 12, and what the model wrote of a text without records was taken for one."""
    item = {**kind, "properties": {"name": {"type": "string"}}, "required": ["name"]}
    people = {"type": "array", "items": item}
    schema: Any = {"type": "object", "properties": {"people": people}, "required": ["people"]}
    extractor = Extractor(constrained.load(), schema, lists="apart", max_tokens=80, on_limit="close")
    for seed in range(4):
        value = extractor("It rains.", temperature=3.0, seed=seed).value
        assert all(isinstance(one, dict) for one in value["people"])


@dataclass
class Line:
    product: str
    quantity: int
    price: float


@dataclass
class Sale:
    title: str
    lines: list[Line]


def test_records_with_numbers_are_read_however_many_sentences_a_text_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("constrained.extraction.record_lists.MOST_SENTENCES", 1)
    wishes = {"title": {"Sale": 9.0}, "quantity": {"3": 9.0, "2": 9.0}, "price": {"24": 9.0, "89": 9.0}}
    text = "Sale today.\n3 desk lamps at 24\n2 chairs at 89"
    found = Extractor(Reader(wishes), Sale)(text)
    assert found.value == Sale("Sale", [Line("desk lamps", 3, 24), Line("chairs", 2, 89)])
    assert found.decisions["/lines/0/price"].value == 24


MAP = {
    "type": "object",
    "properties": {"stock": {"type": "object", "additionalProperties": {"type": "integer"}}},
    "required": ["stock"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("name", ["stock", None])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("There are 12 chairs, 4 tables and 31 lamps.", {"chairs": 12, "tables": 4, "lamps": 31}),
        ("Ana sold 12. Bo sold 9.", {"Ana": 12, "Bo": 9}),
    ],
)
def test_an_object_with_any_names_is_read_entry_by_entry(
    name: str | None, text: str, expected: dict[str, int]
) -> None:
    model = Reader({"name": {"Ana": 9.0, "Bo": 9.0}, "value": {"12": 9.0, "9": 9.0, "4": 9.0}})
    schema: Any = MAP if name else MAP["properties"]["stock"]
    found = Extractor(model, schema, lists="apart")(text)
    assert found.value == ({name: expected} if name else expected)
    prefix = f"/{name}/" if name else "/"
    assert set(found.decisions) <= {prefix + one for one in expected}


def test_an_example_of_an_object_with_any_names_shows_its_entries() -> None:
    model = Reader({"name": {"Ana": 9.0, "Bo": 9.0}, "value": {"12": 9.0, "9": 9.0}})
    examples = [("Cem sold 3. Dua sold 5.", {"stock": {"Cem": 3, "Dua": 5}})]
    found = Extractor(model, MAP, lists="apart", examples=examples)("Ana sold 12. Bo sold 9.")
    assert found.value == {"stock": {"Ana": 12, "Bo": 9}}
