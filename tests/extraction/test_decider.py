"""`decide`: a value with the probability of every option, the prior taken off, calibration, and closed members of extractions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import numpy as np
import pytest

import constrained
from constrained import InvalidArgument, UnsupportedConstraint, decide
from constrained.decisions.score import Score
from constrained.extraction import Decider, Extractor
from constrained.testing.models import FunctionModel
from tests.support.finite import byte_vocabulary

OPINION = Literal["good", "bad"]


@dataclass
class Review:
    product: str
    opinion: OPINION
    stars: Score[1, 3]  # type: ignore[valid-type]
    bought: date
    shop: Literal["east", "west"] | None = None


class Reader(FunctionModel):
    """Writes the value that a script has for a member; where an option begins it likes those with these first letters, and the more those that the text says.

    Attributes:
        passes: prompts that it read.
    """

    def __init__(self, script: dict[str, str], likes: dict[str, float]) -> None:
        self.vocabulary = byte_vocabulary()
        self._script, self._likes = script, likes
        self.passes = 0

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return list(prompt if isinstance(prompt, str) else prompt[-1]["content"].encode())

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        self.passes += not completion
        said, text = bytes(completion), bytes(prompt).rpartition(b"Text:\n")[2].decode()
        row = np.zeros(self.vocabulary.size)
        member = re.search(rb'"(\w+)": ([^,]*)$', said)
        if member is not None and member[1].decode() in self._script:
            value = self._script[member[1].decode()].encode()
            if value.startswith(member[2]) and len(member[2]) < len(value):
                row[value[len(member[2])]] += 9.0
        for letter, logit in self._likes.items():
            row[ord(letter)] += logit + 3.0 * any(word.startswith(letter) for word in text.split())
        return row


def test_a_decision_has_the_probability_of_each_option_and_what_the_model_says() -> None:
    reader = Reader({}, {"b": 2.0})
    found = decide(reader, "it is good", OPINION, prior="none")
    assert (found.value, set(found.probabilities)) == ("bad", {"good", "bad"})
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert found.decision.unadjusted == found.probabilities
    assert 0 < found.decision.mass < 1
    assert 0 < found.decision.entropy < np.log(2)


def test_the_prior_of_the_model_is_taken_off() -> None:
    """It likes "bad" whatever the text says; that the text says "good" weighs more than that."""
    reader = Reader({}, {"b": 2.0, "g": 0.0})
    assert decide(reader, "it is good", OPINION, prior="none").value == "bad"
    law = decide(reader, "it is good", OPINION)
    assert law.probabilities["good"] > law.decision.unadjusted["good"]
    assert law.probabilities["good"] > 0.9


def test_members_are_decided_side_by_side_in_one_pass_and_labels_as_open_questions_too() -> None:
    @dataclass
    class Closed:
        opinion: OPINION
        stars: Score[1, 3]  # type: ignore[valid-type]
        shop: Literal["east", "west"] | None = None

    reader = Reader({}, {"b": 0.0, "g": 0.0, "2": 0.0, "e": 0.0})
    decider = Decider(reader, Closed)
    decider("begin")
    reader.passes = 0
    found = decider("good 2")
    assert reader.passes == 2  # opinion: stars are numbers, and shop may be left out
    assert found.value == Closed("good", 2, None)
    reader.passes = 0
    Decider(reader, Closed, prior="none")("good 2")
    assert reader.passes == 1
    assert set(found.fields) == {"/opinion", "/stars", "/shop"}
    assert found.fields["/stars"].mean == pytest.approx(
        sum(stars * share for stars, share in found.fields["/stars"].probabilities.items())
    )


def test_a_joint_decision_weighs_whole_values() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["g", "b"]}, "c": {"type": "boolean"}},
        "required": ["a", "c"],
        "additionalProperties": False,
    }
    found = decide(Reader({}, {"g": 1.0}), "good", schema, joint=True, prior="none")
    assert len(found.decision.probabilities) == 4
    assert found.value["a"] == "g"


def test_draws_are_repeatable_and_follow_the_scores() -> None:
    decider = Decider(Reader({}, {"b": 1.0}), OPINION, prior="none")
    share = decider("it").probabilities["bad"]
    drawn = [decider("it", temperature=1.0, seed=seed).value for seed in range(200)]
    assert drawn == [decider("it", temperature=1.0, seed=seed).value for seed in range(200)]
    assert drawn.count("bad") / 200 == pytest.approx(share, abs=0.12)


def test_calibration_on_labelled_rows_and_on_texts_alone() -> None:
    rows = [("good thing", "good"), ("bad thing", "bad")] * 6
    decider = Decider(Reader({}, {"b": 4.0, "g": 0.0}), OPINION, prior="none")
    assert [decider(text).value for text, _ in rows[:2]] == ["bad", "bad"]
    decider.calibrate(rows)
    assert [decider(text).value for text, _ in rows[:2]] == ["good", "bad"]
    assert decider("good thing").decision.probability > 0.8
    alone = Decider(Reader({}, {"b": 4.0, "g": 0.0}), OPINION, prior="none")
    alone.calibrate([text for text, _ in rows])
    assert [alone(text).value for text, _ in rows[:2]] == ["good", "bad"]
    with pytest.raises(InvalidArgument, match="calibration"):
        alone.calibrate(["a", ("b", "bad")])


@pytest.mark.parametrize(
    ("wanted", "options", "error", "message"),
    [
        (str, {}, UnsupportedConstraint, "too many values"),
        (Review, {}, UnsupportedConstraint, "/product is no closed question"),
        (Review, {"joint": True}, UnsupportedConstraint, "too many values"),
        (OPINION, {"prior": "yes"}, InvalidArgument, "prior"),
        (OPINION, {"neutral_texts": ()}, InvalidArgument, "neutral_texts"),
    ],
)
def test_what_cannot_be_decided_is_refused(
    wanted: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Decider(Reader({}, {}), wanted, **options)


def test_types_whose_options_have_the_same_tokens_keep_their_values() -> None:
    """What was read for one of them is known for the other."""
    reader = Reader({}, {"t": 1.0})
    found = [
        set(decide(reader, "true", wanted, prompt="Text:\n{text}").probabilities)
        for wanted in (constrained.choice(["false", "true"]), bool)
    ]
    assert found == [{"false", "true"}, {False, True}]


def test_texts_that_are_empty_or_too_long_are_refused() -> None:
    reader = Reader({}, {})
    with pytest.raises(constrained.PromptError, match="empty"):
        decide(reader, " ", OPINION)
    reader.context = 200
    with pytest.raises(constrained.PromptTooLong, match="the longest option"):
        decide(reader, "x" * 300, OPINION)


def test_a_score_needs_two_whole_numbers() -> None:
    for bounds in ((3, 1), ("a", 2), (1,), 5):
        with pytest.raises(InvalidArgument, match="Score"):
            Score[bounds]  # type: ignore[valid-type]


SCRIPT = {
    "product": '"lamp",',
    "opinion": '"bad",',
    "stars": "1,",
    "bought": '"3 May 2020",',
    "shop": '"east"}',
}
TEXT = "lamp good 2 since 3 May 2020"


def test_closed_members_of_an_extraction_are_decided_and_the_others_written() -> None:
    reader = Reader(SCRIPT, {"b": 1.0, "g": 0.0, "2": 0.0, "e": 2.0})
    found = Extractor(reader, Review)(TEXT)
    assert found.value == Review("lamp", "good", 2, date(2020, 5, 3), None)
    assert set(found.decisions) == {"/product", "/opinion", "/stars", "/bought", "/shop"}
    assert found.decisions["/opinion"].probability > 0.5
    written = Extractor(reader, Review, decisions=False)(TEXT)
    assert written.value == Review("lamp", "bad", 1, date(2020, 5, 3), "east")
    assert not written.decisions


@pytest.mark.parametrize("speculation", ["auto", None])
def test_calls_streams_and_batches_decide_alike(speculation: Any) -> None:
    reader = Reader(SCRIPT, {"b": 1.0, "g": 0.0, "2": 0.0})
    extractor = Extractor(reader, Review, speculation=speculation)
    texts = [TEXT, "lamp bad 3", "lamp"]
    alone = [extractor(text).value for text in texts]
    assert [result.value for result in extractor.many(texts, ordered=True)] == alone
    for text, value in zip(texts, alone, strict=True):
        *_, last = extractor.stream(text)
        assert last.result is not None
        assert last.result.value == value
        assert set(last.result.decisions) - {"/product", "/bought"} == {"/opinion", "/stars", "/shop"}


def test_members_that_depend_on_each_other_are_written_if_decisions_contradict_them() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["g", "b"]}, "c": {"type": "boolean"}},
        "required": ["a", "c"],
        "additionalProperties": False,
        "not": {"properties": {"a": {"const": "g"}, "c": {"const": True}}},
    }
    reader = Reader({"a": '"b"', "c": "true"}, {"g": 0.0, "t": 0.0})
    found = Extractor(reader, schema)("g t")
    assert not (found.value["a"] == "g" and found.value["c"])
    json.dumps(found.value)


def test_a_limit_that_decided_members_do_not_fit_into_keeps_the_constraint_as_it_was() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["g", "b" * 40]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    reader = Reader({}, {"b": 9.0})
    found = Extractor(reader, schema, on_limit="close")("bb", max_tokens=12)
    assert found.value == {"a": "g"}


def test_another_sampler_writes_all_members() -> None:
    extractor = Extractor(Reader(SCRIPT, {}), Review, sampler=constrained.Local())
    assert extractor(TEXT).value.opinion == "bad"
