"""A choice as a whole value is asked twice: with its options, and as an open question whose answers are their words."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
import pytest

import constrained
from constrained import choice, extract
from constrained.decisions import ask
from constrained.decisions.naming import named_options
from constrained.decisions.prior import NEUTRAL_TEXTS
from constrained.decisions.questions import ClosedAnswer, Question
from constrained.decisions.wording import worded_question
from constrained.extraction.decider import Decider
from constrained.extraction.open_question import SHARE
from constrained.extraction.prompt import PromptParts, open_prompt
from constrained.models import LanguageModel

TOPICS = ("card_arrival", "pinBlocked", "exchange-rate")
TEXT = "Where is my card? Its arrival was announced."


@cache
def bundled() -> LanguageModel:
    return constrained.load()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (['"card_arrival"', '"pinBlocked"'], ["card arrival", "pin blocked"]),
        (['"EUR"', '"a.b/c-d"'], ["eur", "a b c d"]),
        (["1", "2"], None),
        (['"yes"', "true"], None),
        (['"top_up"', '"top-up"'], None),  # the same words
        (['"_"', '"a"'], None),
    ],
)
def test_options_are_read_as_words(options: list[str], words: list[str] | None) -> None:
    question = Question("", tuple(ClosedAnswer(text, (1,), None) for text in options))
    worded = worded_question(question, bundled().vocabulary)
    if words is None:
        assert worded is None
        return
    assert worded is not None
    assert [bundled().vocabulary.decode(option.tokens).decode() for option in worded.options] == words
    assert [worded.value(i) for i in range(2)] == [question.value(i) for i in range(2)]


def test_the_open_prompt_has_the_instructions_and_no_options() -> None:
    (message,) = open_prompt(TEXT, PromptParts("What does the customer ask about?", "From a chat."))
    assert all(part in message["content"] for part in (TEXT, "ask about?", "From a chat."))
    assert "arrival" not in message["content"].replace(TEXT, "")


@pytest.mark.parametrize("constraint", [Literal[TOPICS], choice(list(TOPICS))])
def test_scores_are_the_shares_of_both_questions(constraint: Any) -> None:
    """From one pass for each prompt, added up here."""
    asked: Decider[str] = Decider(bundled(), constraint, instructions="The topic")
    (listed,) = asked.questions
    worded = worded_question(listed, bundled().vocabulary)
    assert worded is not None

    def adjusted(question: Question, ids: Any) -> np.ndarray:
        def said(text: str) -> np.ndarray:
            return np.array(ask(bundled(), ids(text), [question])[0].logprobs)

        return said(TEXT) - np.mean([said(text) for text in NEUTRAL_TEXTS], axis=0)

    def open_ids(text: str) -> list[int]:
        return bundled().encode(open_prompt(text, PromptParts("The topic")))

    scores = (1 - SHARE) * adjusted(listed, asked.ids) + SHARE * adjusted(worded, open_ids)
    scores += named_options(listed, TEXT)
    shares = np.exp(scores - np.logaddexp.reduce(scores))
    expected = {listed.value(index): pytest.approx(share, abs=1e-4) for index, share in enumerate(shares)}
    assert asked(TEXT).probabilities == expected


@pytest.mark.parametrize("text", [TEXT, "My pin blocked itself.", "What is the exchange rate today?"])
def test_extract_and_decide_give_the_same_choice(text: str) -> None:
    decided = constrained.decide(bundled(), text, Literal[TOPICS])
    assert extract(bundled(), text, Literal[TOPICS]) == decided.value


@pytest.mark.parametrize(
    ("member", "about"), [({}, "topic"), ({"description": "What it is about"}, "What it is about")]
)
def test_the_open_question_of_a_member_says_what_the_schema_says(member: Any, about: str) -> None:
    schema = {
        "type": "object",
        "properties": {"topic": {"enum": list(TOPICS), **member}, "sure": {"type": "boolean"}},
        "required": ["topic", "sure"],
    }
    asked: Decider[Any] = Decider(bundled(), schema)
    assert [question.about for question in asked.questions] == [about, "sure"]
    temperatures = [weighing.temperature for weighing in asked.weighings]
    assert temperatures == [pytest.approx(1 / (1 - SHARE)), 1.0]
    assert asked(TEXT).value["topic"] in TOPICS


def test_examples_and_prompts_of_the_user_are_asked_as_they_are() -> None:
    examples = [("It never came.", "card_arrival")]
    for options in ({"examples": examples}, {"prompt": "{text} {type}"}, {"prior": "none"}):
        asked: Decider[str] = Decider(bundled(), Literal[TOPICS], **options)  # type: ignore[arg-type]
        (weighing,) = asked.weighings
        assert weighing.temperature == 1.0


def test_calibration_counts_the_open_question() -> None:
    rows = [("The ball is red.", "red_ball"), ("The ball is blue.", "blue_ball")] * 3
    asked: Decider[str] = Decider(bundled(), Literal["red_ball", "blue_ball"])
    asked.calibrate(rows)
    assert [asked(text).value for text, _ in rows] == [label for _, label in rows]
    asked.calibrate([text for text, _ in rows])
    assert asked("The ball is blue.").value in ("red_ball", "blue_ball")
