"""What the model writes before a value: its reasoning, within a budget, or a draft without the constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import constrained
from constrained import Extractor, Generator, InvalidArgument, after, choice
from constrained.extraction.first_pass import DRAFT_REQUEST
from constrained.sampling import Local
from constrained.testing import ScriptedModel
from tests.support.chat_templates import TemplateSpeaker
from tests.support.finite import byte_vocabulary

QWEN = "Qwen-Qwen3-0.6B"
TEXT = "Ana was born in 1987."
ANSWER = '{"name": "Ana", "born": 1987}'
ENDLESS = "<think>\n" + "hmm, ÿ😀 " * 200


@dataclass
class Person:
    name: str
    born: int


class Reasoner(TemplateSpeaker):
    """Goes on with its script behind a prompt that holds the script's beginning."""

    def logits(self, prompt: list[int], tokens: list[int]) -> Any:
        read = len(self.ids) if len(self.ids) < len(prompt) else len(prompt)
        known = next((n for n in range(read, 0, -1) if prompt[-n:] == self.ids[:n]), 0)
        return super().logits(prompt[: len(prompt) - known], prompt[len(prompt) - known :] + tokens)


def drafting(first: str, second: str = ANSWER) -> ScriptedModel:
    """Says `first`, and `second` where a draft is in the prompt."""
    return ScriptedModel(byte_vocabulary(), lambda prompt: second if DRAFT_REQUEST in prompt else first)


def test_a_draft_is_free_and_the_constrained_pass_reads_it() -> None:
    model = drafting("Born: 1987; Ana.")
    result = Extractor(model, Person, draft_first=True)(TEXT)
    assert result.value == Person("Ana", 1987)
    assert result.first_pass == "Born: 1987; Ana."
    ((_, prompt),) = result._requests
    question, draft, request = prompt  # type: ignore[str-unpack]
    assert [question] == Extractor(model, Person).prompt(TEXT)
    assert draft == {"role": "assistant", "content": "Born: 1987; Ana."}
    assert request == {"role": "user", "content": DRAFT_REQUEST}


def test_a_draft_of_a_choice_is_followed_by_the_choices() -> None:
    model = ScriptedModel(
        byte_vocabulary(), lambda prompt: "no" if "Write this answer again" in prompt else "I think no."
    )
    result = Extractor(model, choice(["yes", "no"]), draft_first=True)(TEXT)
    assert (result.value, result.first_pass) == ("no", "I think no.")
    assert '"yes" | "no"' in result._requests[0][1][-1]["content"]  # type: ignore[index]


def test_without_it_nothing_is_written_first() -> None:
    result = Extractor(drafting(ANSWER, "{}"), Person)(TEXT)
    assert (result.value, result.first_pass) == (Person("Ana", 1987), None)


def test_a_draft_that_does_not_end_is_cut_and_read_all_the_same() -> None:
    result = Extractor(drafting("Ana " * 500), Person, draft_first=True, max_tokens=40)(TEXT)
    assert result.value == Person("Ana", 1987)
    assert result.first_pass == "Ana " * 10


def test_drafts_are_made_for_each_document_part_and_retry_and_in_streams() -> None:
    extractor: Extractor[Any] = Extractor(drafting("draft"), Person, draft_first=True, retries=1)
    many = list(extractor.many([TEXT, "Bo was born in 1987."], ordered=True))
    assert [(one.value, one.first_pass) for one in many] == [(Person("Ana", 1987), "draft")] * 2
    *_, last = extractor.stream(TEXT)
    assert last.result is not None
    assert (last.result.value, last.result.first_pass) == (Person("Ana", 1987), "draft")
    parts: Extractor[Any] = Extractor(
        drafting("draft"), Person, draft_first=True, long="split", chunk_tokens=40
    )
    assert parts(TEXT * 4).value == Person("Ana", 1987)


def test_a_refused_value_is_drafted_again() -> None:
    @dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError("odd")

    def script(prompt: str) -> str:
        if "refused" not in prompt:
            return '{"n": 3}'
        return '{"n": 4}' if DRAFT_REQUEST in prompt else "four"

    model = ScriptedModel(byte_vocabulary(), script)
    result = Extractor(model, Even, draft_first=True, retries=1)("Three or four?")
    assert (result.value, result.first_pass, result.attempts) == (Even(4), "four", 2)


@pytest.mark.parametrize("speculation", [None, "auto"])
def test_reasoning_comes_before_the_value_and_apart_from_it(speculation: Any) -> None:
    model = Reasoner(QWEN, "<think>\nAna: 1987.\n</think>\n\n" + ANSWER)
    result = Extractor(model, Person, thinking=100, speculation=speculation)(TEXT)
    assert result.value == Person("Ana", 1987)
    assert (result.first_pass, result.text) == ("Ana: 1987.", ANSWER)
    assert set(result.fields) == {"/name", "/born"}
    assert constrained.generate(model, TEXT, Person, thinking=100) == Person("Ana", 1987)


@pytest.mark.parametrize("budget", [0, 4, 17])
def test_reasoning_that_uses_up_its_budget_is_ended(budget: int) -> None:
    result = Extractor(TemplateSpeaker(QWEN, ENDLESS), Person, thinking=budget, on_limit="close")(TEXT)
    assert isinstance(result.value, Person)
    assert result.first_pass is not None
    assert ENDLESS[8:].startswith(result.first_pass)
    assert len(result.first_pass.encode()) <= 8 * budget


@pytest.mark.parametrize("budget", [0, 5, 23])
def test_a_generator_ends_the_reasoning_that_its_constraint_begins_with(budget: int) -> None:
    model = ScriptedModel(byte_vocabulary(), "so " * 200)
    output = Generator(model, after("</think>", Person), thinking=budget)("Who?", max_tokens=200)
    assert output.value.thinking == ("so " * 200)[:budget]
    assert isinstance(output.value.value, Person)


def test_a_generator_without_a_budget_reasons_on() -> None:
    model = ScriptedModel(byte_vocabulary(), "so " * 20 + "</think>" + ANSWER)
    output = Generator(model, after("</think>", Person))("Who?", max_tokens=200)
    assert output.value == ("so " * 20, Person("Ana", 1987))


@pytest.mark.parametrize(("script", "taxed"), [("maybe", True), ("yes", False)])
def test_the_projection_tax_is_the_log_weight(script: str, taxed: bool) -> None:
    """Of a model that wants to write something else, and of one that is asked for what it writes."""
    model = ScriptedModel(byte_vocabulary(), script, margin=8.0)
    result: Any = Extractor(model, choice(["yes", "no"]), sampler=Local(weights=False))(TEXT)
    ((generator, prompt),) = result._requests
    output: Any = Generator(model, generator.constraint, sampler=Local(ends="certain"))(prompt)
    assert output.tokens == result.output.tokens
    np.testing.assert_allclose(result.projection_tax, -output.log_weight, atol=1e-4)
    assert (result.projection_tax > 3) == taxed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thinking": 10}, "shows no reasoning"),
        ({"thinking": 10, "draft_first": True}, "both come first"),
        ({"thinking": 10, "prompt": "template"}, "no place for thinking"),
        ({"draft_first": True, "prompt": "template"}, "no place for thinking"),
    ],
)
def test_what_cannot_come_first_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Extractor(drafting("draft"), Person, **options)


@pytest.mark.parametrize(
    ("constraint", "options", "message"),
    [
        (Person, {}, "begins with none(.|\n)*after"),
        (after("</think>", Person), {"sampler": "cars"}, "draws whole texts"),
        (after("</think>", Person), {"thinking": -1}, "thinking is -1"),
    ],
)
def test_a_budget_of_nothing_is_refused(constraint: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Generator(drafting("x"), constraint, **{"thinking": 10, **options})
