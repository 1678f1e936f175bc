"""Strings and the phrases of a text: a phrase goes to the member that wants it most, and members that want no phrase are written."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from constrained.extraction import Extractor, trial
from constrained.extraction.phrases import MOST_NODES
from tests.support.wishing_model import WishingModel


class Wishing(WishingModel):
    """Where the value of a member begins it likes some texts, each so much; then it goes on with them."""

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        row = np.zeros(self.vocabulary.size)
        member = re.search(rb'"(\w+)": "([^"]*)$', bytes(completion))
        if member is None:
            row[ord('"')] += 12.0 * bytes(completion).endswith(b'": ')
            return row
        for wish, strength in self.wishes.get(member[1].decode(), {}).items():
            said, whole = member[2], wish.encode() + b'"'
            if whole.startswith(said):
                row[whole[len(said)]] += 12.0 if said else strength
        return row


def strings(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(required),
        "additionalProperties": False,
    }


TEXT = "Ada Lim, who lives in Oslo, is a vet."


def test_a_phrase_goes_to_the_member_in_which_it_is_most_likely_and_is_lost_to_the_others() -> None:
    model = Wishing({"name": {"Ada Lim": 6.0}, "country": {"Oslo": 4.0}, "city": {"Oslo": 5.0}})
    found = Extractor(model, strings("name", "country", "city"))(TEXT)
    assert found.value == {"name": "Ada Lim", "city": "Oslo"}
    assert set(found.decisions) == {"/name", "/country", "/city"}
    assert found.decisions["/city"].probability > 0.5


def test_a_member_that_loses_its_phrase_gets_the_next_one_that_it_wants() -> None:
    model = Wishing({"name": {"Ada Lim": 6.0}, "job": {"Ada Lim": 3.5, "vet": 3.2}})
    assert Extractor(model, strings("name", "job"))(TEXT).value == {"name": "Ada Lim", "job": "vet"}


def test_a_phrase_is_given_twice_if_it_stands_there_twice_or_both_members_surely_want_it() -> None:
    wish = {"from": {"Oslo": 4.0}, "to": {"Oslo": 4.0}}
    schema = strings("from", "to")
    assert len(Extractor(Wishing(wish), schema)("From Oslo to Bergen").value) == 1
    assert len(Extractor(Wishing(wish), schema)("From Oslo to Oslo").value) == 2
    sure = {"from": {"Oslo": 9.0}, "to": {"Oslo": 9.0}}
    assert len(Extractor(Wishing(sure), schema)("From Oslo to Bergen").value) == 2


def test_a_required_member_gets_its_phrase_or_is_written() -> None:
    model = Wishing({"name": {"Ada Lim": 6.0}, "owner": {"Ada Lim": 4.0}})
    found = Extractor(model, strings("owner", "name", required=("name",)))(TEXT)
    assert found.value == {"name": "Ada Lim"}
    assert set(found.decisions) == {"/name", "/owner"}
    unlikely = Extractor(Wishing({"name": {"Ada Lim": 0.5}}), strings("name", required=("name",)))(TEXT)
    assert not unlikely.decisions


def test_a_label_at_its_value_is_no_part_of_it() -> None:
    model = Wishing({"doi": {"doi:10.1000/182": 6.0, "10.1000/182": 6.0}})
    assert Extractor(model, strings("doi"))("Lim, A. Vets. doi:10.1000/182").value == {"doi": "10.1000/182"}


def test_a_string_for_a_code_is_rather_what_is_hardly_anything_else() -> None:
    """A small model begins every string with the first words of a text."""
    model = Wishing({"reference": {"Closed": 9.0, "88213": 3.0}})
    schema = strings("reference", required=("reference",))
    assert Extractor(model, schema)("Closed: case 88213. Ada Lim is happy.").value == {"reference": "88213"}


def test_a_digit_is_no_beginning_of_a_number_of_the_text() -> None:
    """A browser's 17 let a small model write ``1.0.0`` as the version of a program."""
    model = Wishing({"version": {"1.0.0": 6.0}})
    assert Extractor(model, strings("version"))("It fails on Safari 17.").value == {}


def test_a_string_is_no_pronoun_and_no_preposition() -> None:
    """It is what begins most sentences, and stands for a name that is elsewhere."""
    model = Wishing({"name": {"She": 9.0, "with": 8.0, "Ada Lim": 6.0}})
    found = Extractor(model, strings("name", required=("name",)))("She works with Ada Lim.")
    assert found.value == {"name": "Ada Lim"}
    code = Extractor(Wishing({"state": {"IN": 9.0}}), strings("state"))("She lives in Gary, IN now.")
    assert code.value == {"state": "IN"}


@pytest.mark.parametrize("number", ["4", "four", "vier"])
def test_a_number_goes_to_the_string_that_is_called_one(number: str) -> None:
    wishes = {"place": {number: 5.0, "the Crown": 4.0}, "party_size_number": {number: 3.5}}
    text = f"A table for {number} at the Crown."
    found = Extractor(Wishing(wishes), strings("place", "party_size_number"))(text)
    assert found.value == {"place": "the Crown", "party_size_number": number}
    other = Extractor(Wishing(wishes | {"guests": {number: 3.5}}), strings("place", "guests"))(text)
    assert other.value == {"place": "the Crown", "guests": number}


def test_a_string_is_not_what_its_member_is_called() -> None:
    model = Wishing({"lastName": {"last name": 9.0, "Lim": 6.0}})
    found = Extractor(model, strings("lastName", required=("lastName",)))("My last name is Lim.")
    assert found.value == {"lastName": "Lim"}


def test_a_member_that_wants_no_phrase_of_the_text_is_written() -> None:
    model = Wishing({"name": {"Ada Lim": 6.0}, "summary": {"She heals": 9.0}})
    found = Extractor(model, strings("name", "summary", required=("summary",)))(TEXT)
    assert found.value == {"name": "Ada Lim", "summary": "She heals"}
    assert set(found.decisions) == {"/name"}


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models pass the trial."""
    monkeypatch.setattr(trial, "right_values", lambda model: trial.VALUES)


@pytest.mark.usefixtures("passes")
def test_a_model_that_passes_the_trial_writes_what_it_would_begin_with_something_else() -> None:
    """A model that knows the country of a city is not made to write the city."""
    model = Wishing({"name": {"Ada Lim": 6.0}, "country": {"Norge": 9.0, "Oslo": 5.0}})
    found = Extractor(model, strings("country", "name", required=("name",)))(TEXT)
    assert found.value == {"country": "Norge", "name": "Ada Lim"}
    assert "/country" not in found.decisions


def test_a_small_model_writes_no_string_that_may_be_left_out() -> None:
    model = Wishing({"name": {"Ada Lim": 6.0}, "country": {"USA": 9.0, "Oslo": 5.0}})
    found = Extractor(model, strings("country", "name", required=("name",)))(TEXT)
    assert found.value == {"name": "Ada Lim"}
    assert found.decisions["/country"].value is None
    found = Extractor(model, strings("country", required=("country",)))(TEXT)
    assert found.value == {"country": "USA"}


def test_an_article_is_no_string_but_capitals_may_be_a_code() -> None:
    for text, wish, value in (
        ("The police are here.", {"The": 9.0, "police": 7.0}, "police"),
        ("From IL to LA today.", {"LA": 9.0, "From IL": 7.0}, "LA"),
    ):
        found = Extractor(Wishing({"it": wish}), strings("it", required=("it",)))(text)
        assert found.value == {"it": value}


def test_a_member_without_a_likely_beginning_is_left_out_if_it_may_be() -> None:
    model = Wishing(
        {"name": {"Ada Lim": 6.0}, "state": dict.fromkeys(("Ohio", "Iowa", "Utah", "Texas"), 4.5)}
    )
    found = Extractor(model, strings("name", "state"))(TEXT)
    assert found.value == {"name": "Ada Lim"}
    assert found.decisions["/state"].value is None


@pytest.mark.parametrize("required", [("summary",), ()])
def test_a_long_value_that_begins_with_a_word_of_the_text_is_written(
    required: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    if not required:
        request.getfixturevalue("passes")
    wish = "who lives in Oslo and is the vet of all the cats there"
    found = Extractor(Wishing({"summary": {wish: 9.0}}), strings("summary", required=required))(TEXT)
    assert found.value == {"summary": wish}
    assert not found.decisions


def test_members_of_required_objects_are_asked_and_values_that_are_decided_use_their_phrase() -> None:
    wish = {"name": {"Ada Lim": 6.0}, "city": {"Oslo": 4.0}, "area": {"Oslo": 4.5}}
    schema = strings("area", required=("area", "person"))
    schema["properties"]["person"] = strings("name", "city")
    schema["properties"]["area"] = {"enum": ["Oslo", "Bergen"]}
    found = Extractor(Wishing(wish), schema)(TEXT)
    assert found.value == {"area": "Oslo", "person": {"name": "Ada Lim"}}
    assert found.decisions["/person/city"].value is None


def test_only_the_phrases_that_begin_as_the_model_would_begin_are_read() -> None:
    """Of a long text, too; where there are many strings, fewer each."""
    text = "of the house with no name " * 100 + TEXT
    model = Wishing({"name": {"Ada Lim": 6.0}, "city": {"Oslo": 5.0}})
    found = Extractor(model, strings("name", "city"))(text)
    assert found.value == {"name": "Ada Lim", "city": "Oslo"}
    assert all(
        "Ada Lim" in one.probabilities or "Oslo" in one.probabilities for one in found.decisions.values()
    )
    assert len(found.decisions["/name"].probabilities) < 60
    extractor = Extractor(model, strings("name", "city", *(f"other{i}" for i in range(12))))
    questions = extractor.questions(extractor.generator, text)
    assert questions is not None
    assert questions.leads is not None
    questions.choose([np.zeros(257)] * len(questions.leads.paths))
    assert 0 < len(questions.tree.tokens) <= MOST_NODES


@pytest.mark.parametrize(
    "text", ["Oslo", " ".join(f"Oslo{i}" for i in range(5000)), "アダはオスロに住む Oslo"]
)
def test_strings_of_very_long_texts_and_of_scripts_without_spaces_are_written(text: str) -> None:
    model = Wishing({"city": {"Oslo": 6.0}, "country": {"Oslo": 5.0}})
    schema = strings("country", "city", required=("country",))
    assert not Extractor(model, schema)(text).decisions
    assert not Extractor(model, schema, decisions=False)("in Oslo").decisions


@pytest.mark.parametrize(
    "kind", [{"type": "string", "maxLength": 9}, {"type": "string", "pattern": "^.{1,80}$"}]
)
def test_strings_with_bounds_are_written(kind: dict[str, Any]) -> None:
    schema = strings("name", "city")
    schema["properties"]["city"] = kind
    model = Wishing({"name": {"Ada Lim": 6.0}, "city": {"Oslo": 6.0}})
    assert "/city" not in Extractor(model, schema)(TEXT).decisions


def test_no_phrase_ends_with_and() -> None:
    model = Wishing({"to": {"Maria and": 6.0, "Maria": 5.0}, "king": {"Otto I": 6.0}})
    value = Extractor(model, strings("to", "king"))("Send it to Maria and to Otto I of Bavaria").value
    assert value == {"to": "Maria", "king": "Otto I"}


@pytest.mark.parametrize(
    ("name", "text", "wishes", "expected"),
    [
        ("near", "Ada Lim lives near Oslo.", {"Ada Lim": 5.0, "Oslo": 4.0}, "Oslo"),
        ("venue", "Ada Lim. Venue: the barn", {"Ada Lim": 4.5, "the barn": 4.0}, "the barn"),
        ("reference", "Ticket TK-55 is open.", {"Ticket": 5.0, "TK-55": 4.0}, "TK-55"),
        ("order_number", "Order 77 is late.", {"late": 5.0, "77": 2.0}, "77"),
    ],
)
def test_what_stands_behind_the_name_of_a_string_and_has_its_form_is_rather_its_value(
    name: str, text: str, wishes: dict[str, float], expected: str
) -> None:
    assert Extractor(Wishing({name: wishes}), strings(name))(text).value == {name: expected}


def test_what_stands_behind_the_name_of_another_string_is_rather_not_its_value() -> None:
    wishes = {"near": {"Raja": 4.0}, "name": {"Raja": 5.0, "The Eagle": 4.5}}
    value = Extractor(Wishing(wishes), strings("name", "near", required=("name",)))(
        "Near Raja is The Eagle."
    ).value
    assert value == {"name": "The Eagle", "near": "Raja"}


def test_a_name_has_the_word_of_an_answer_that_is_one_of_few() -> None:
    schema = strings("near")
    schema["properties"]["food"] = {"enum": ["Indian", "French"]}
    model = Wishing({"near": {"Raja Indian Cuisine": 6.0}, "food": {"Indian": 6.0}})
    value = Extractor(model, schema)("It is by Raja Indian Cuisine, and good.").value
    assert value == {"near": "Raja Indian Cuisine", "food": "Indian"}


def test_two_strings_share_a_phrase_out() -> None:
    model = Wishing({"venue": {"Depot Garage in Ghent": 6.0, "Depot Garage": 5.5}, "city": {"Ghent": 6.0}})
    value = Extractor(model, strings("venue", "city"))("We met at Depot Garage in Ghent").value
    assert value == {"venue": "Depot Garage", "city": "Ghent"}


@pytest.mark.parametrize(
    ("rest", "expected"),
    [("Octavia", {"make": "Skoda", "kind": "Octavia"}), ("blue", {"make": "Skoda Octavia", "kind": "blue"})],
)
def test_two_strings_that_want_one_name_have_a_part_each_or_the_first_has_it_whole(
    rest: str, expected: dict[str, str]
) -> None:
    """Behind the first part the other string is asked for once more."""

    class Car(Wishing):
        def logits(self, prompt: list[int], completion: list[int]) -> Any:
            behind = b'"make": "Skoda", ' in bytes(completion)
            self.wishes["kind"] = {rest: 6.0} if behind else {"Skoda Octavia": 5.0}
            row = super().logits(prompt, completion)
            row[ord('"')] -= bytes(completion).endswith(b'"make": "Skoda')  # the name is rather longer
            return row

    model = Car({"make": {"Skoda Octavia": 6.0, "Skoda": 5.9}})
    schema = strings("make", "kind", required=("make", "kind"))
    assert Extractor(model, schema)("It is a Skoda Octavia in blue.").value == expected
