"""What a message states and no call has."""

from __future__ import annotations

import pytest

from constrained.chat.stated import MOST_CHARACTERS, NOTHING_STATED, StatedValues

MESSAGE = "Weather in Rome and Oslo, in 7 and 14 days, at a rate of 5 % and -3.50 degrees."


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"city": "R', "ome"),
        ('{"city": "Rome', ""),
        ('{"city": "Bonn', None),
        ('{"city": "in Ro', None),  # not at its beginning
        ('{"days": 1', "4"),
        ('{"days": [7, 1', "4"),
        ('{"days": 14', ""),
        ('{"days": 15', None),
        ('{"low": -3', ".50"),
        ('{"city": "', None),
        ("", None),
    ],
)
def test_a_text_ends_in_a_stated_value(text: str, rest: str | None) -> None:
    assert StatedValues(MESSAGE).rest(text) == rest


def test_the_first_word_of_a_sentence_is_no_name() -> None:
    stated = StatedValues('Book a room. "Tell me, where is Rome?" - (Now) Oslo\nBonn: Kiel')
    found = [
        stated.rest(f'{{"a": "{name}') for name in ("Book", "Tell", "Now", "Bonn", "Rome", "Oslo", "Kiel")
    ]
    assert found == [None, None, "", None, "", "", ""]


def test_values_that_begin_alike_go_on_as_far_as_they_agree() -> None:
    assert StatedValues("120 and 125 and 7").rest('{"a": 1') == "2"
    assert StatedValues("120 and 125 and 1").rest('{"a": 1') == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"city": "rome, Italy"}', '{"city": "R'),
        ('{"days": 14.0}', '{"days": 1'),
        ('{"plan": {"rates": [0.05]}}', '{"rate": 5'),
        ('{"low": "-3.5 degrees"}', '{"low": -3'),
    ],
)
def test_what_a_call_has_is_no_longer_missing(arguments: str, text: str) -> None:
    stated = StatedValues(MESSAGE)
    left = stated.without(arguments)
    assert stated.rest(text) is not None
    assert left.rest(text) is None
    assert len(left) < len(stated)


def test_other_values_change_nothing() -> None:
    stated = StatedValues(MESSAGE)
    assert len(stated.without('{"city": "Bonn", "days": 3, "now": true, "at": null}')) == len(stated)


@pytest.mark.parametrize(
    "arguments", ['{"a": ' + "1" * 5000 + "}", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"]
)
def test_arguments_that_python_does_not_read_have_nothing_follow(arguments: str) -> None:
    assert len(StatedValues(MESSAGE).without(arguments)) == 0


def test_a_long_message_is_a_document() -> None:
    assert len(StatedValues("Rome 7 " + "x" * MOST_CHARACTERS)) == len(NOTHING_STATED) == 0
