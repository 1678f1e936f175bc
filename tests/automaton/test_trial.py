"""Work is counted, a constraint that takes too much is refused before its first token, and nothing raises after it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from constrained import automaton as automata
from constrained.automaton import DEAD, LexerAutomaton, TokenAutomaton, compile, compile_grammar, trial
from constrained.automaton.bitmask import unpack_ids
from constrained.chat.reply import reply_constraint
from constrained.constraint import (
    Constraint,
    after,
    gbnf,
    json_schema,
    lark,
    regex,
    structural_tag,
    tag,
    tags,
)
from constrained.errors import ConstraintTooLarge
from constrained.grammars.work import MAX_STEPS
from tests.support.finite import byte_vocabulary

AMBIGUOUS = gbnf('root ::= x\nx ::= x x x | "a" | "b"')
SECURITY = Path(__file__).parents[2] / "SECURITY.md"


NAMES = {"^a": {"type": "integer"}, "^b": {"type": "string"}, "^c": {"type": "boolean"}}
CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}


def allowed(automaton: TokenAutomaton | LexerAutomaton, state: int) -> set[int]:
    mask = automaton.new_mask()
    automaton.fill_mask(state, mask)
    return set(unpack_ids(mask).tolist())


def works(automaton: TokenAutomaton) -> list[int]:
    """Steps of a few calls, each of which asks for something new."""
    steps, state = [], automaton.start
    for byte in b"abbab":
        automaton.fill_mask(state, automaton.new_mask())
        steps.append(automaton.last_work)
        automaton.shortest_completion(state)
        steps.append(automaton.last_work)
        state = automaton.next(state, byte)
        steps.append(automaton.last_work)
    return steps


def test_work_is_a_count_and_the_same_each_time() -> None:
    first, second = (TokenAutomaton(AMBIGUOUS.grammar, byte_vocabulary("ab", "ba")) for _ in range(2))
    steps = works(first)
    assert steps == works(second)
    assert max(steps) > 1000
    assert works(first)[0] < steps[0]  # what is known costs nothing


def test_a_call_that_takes_too_many_steps_refuses_the_constraint_and_names_the_text_before_it() -> None:
    automaton = TokenAutomaton(AMBIGUOUS.grammar, byte_vocabulary("ab", "ba"))
    with pytest.raises(ConstraintTooLarge, match="at the start") as refused:
        trial.try_out(automaton, 10, start_limit=10)
    assert "more than 10 steps" in str(refused.value)
    later = TokenAutomaton(regex("a([d-z]x{20000}|b)").grammar, byte_vocabulary())
    with pytest.raises(ConstraintTooLarge, match=r"after the text 'a[d-z]'"):
        trial.try_out(later, 100_000)


def test_masks_are_tried_at_the_token_limit_and_where_it_leaves_tokens_to_spare() -> None:
    """With the fewest tokens that complete a number no name fits, and the patterns of names are not looked at."""
    spare = set()

    class Recorded(TokenAutomaton):
        def fill_mask_within(self, state: int, mask: Any, budget: int) -> None:
            spare.add(budget - self.shortest_completion(state))
            super().fill_mask_within(state, mask, budget)

    trial.try_out(Recorded(json_schema({"propertyNames": {"pattern": "a.{6}b"}}).grammar, byte_vocabulary()))
    assert spare == set(trial._SPARE) > {0}


def test_calls_that_take_too_many_steps_together_refuse_the_constraint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes after a text that was not followed is not known, and not promised."""
    monkeypatch.setattr(trial, "_ALL", 2_000)
    with pytest.raises(ConstraintTooLarge, match="more than 2,000 steps together"):
        trial.try_out(TokenAutomaton(AMBIGUOUS.grammar, byte_vocabulary("ab", "ba")))


def test_the_limit_ends_with_the_trial() -> None:
    vocabulary = byte_vocabulary("ab", "ba")
    tried, other = (TokenAutomaton(AMBIGUOUS.grammar, vocabulary) for _ in range(2))
    with pytest.raises(ConstraintTooLarge):
        trial.try_out(tried, 10, start_limit=10)
    for automaton in (tried, other):  # in one shard: the limit was that of a call, not of the shard
        assert allowed(automaton, automaton.start) == {ord("a"), ord("b"), *(256, 257)}
        state = automaton.walk(automaton.start, [ord("a"), ord("b"), ord("a")])[-1]
        assert automaton.accepts(state)


@pytest.mark.parametrize(
    ("constraint", "suspicious"),
    [
        (json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}), False),
        (json_schema({"type": "string", "enum": ["a", "b"]}), False),
        (regex("[a-z]+(,[a-z]+)*"), False),
        (json_schema({"type": "string", "not": {"pattern": "a.{12}b"}}), True),
        (json_schema({"type": "object", "minProperties": 50}), True),
        (json_schema({"type": "object", "patternProperties": NAMES, "minProperties": 2}), False),
        (json_schema({**CLOSED, "patternProperties": NAMES, "minProperties": 9}), True),
        (regex("a{3000}"), True),
        (regex("([a-z]{1,63}[.]){1,20}[a-z]+"), False),
        (regex("((ab?c?){5,50}d){2,60}"), True),
        (json_schema({"type": "string", "maxLength": 50_000}), False),
        (json_schema({"type": "string", "pattern": "^(a(b|bc){2,40}){2,60}$"}), True),
    ],
)
def test_what_looks_costly_is_tried_and_ordinary_constraints_are_not(
    constraint: object, suspicious: bool
) -> None:
    automaton = compile(constraint, byte_vocabulary())
    assert isinstance(automaton, TokenAutomaton)
    assert automaton.needs_trial == suspicious


def test_counts_of_what_is_counted_and_can_be_read_in_several_ways_are_refused() -> None:
    """How many tokens complete a text of it took 55 million steps, once, at the start."""
    with pytest.raises(ConstraintTooLarge, match="at the start"):
        compile(regex("((ab?c?){5,50}d?){50,}"), byte_vocabulary())


def test_grammars_behind_a_lexer_are_tried() -> None:
    automaton = compile(lark('start: "a"+'), byte_vocabulary())
    assert isinstance(automaton, LexerAutomaton)
    assert automaton.needs_trial


DEAR = """
    root ::= s
    s ::= "a" s x | "a" y x | "b" | "b" y y
    x ::= s "a" x x | "a"
    y ::= s x | "a" | "a" y y | "b" x
"""
"""A mask of it takes millions of steps after some letters."""


@pytest.mark.ci
@pytest.mark.parametrize(
    "around",
    [
        gbnf,
        lambda text: after("</think>", gbnf(text)),
        lambda text: reply_constraint(content=gbnf(text)),
        lambda text: structural_tag(
            {"type": "structural_tag", "format": {"type": "grammar", "grammar": text}}
        ),
        lambda text: structural_tag(
            {
                "type": "structural_tag",
                "format": {
                    "type": "tag",
                    "begin": "<a>",
                    "content": {"type": "grammar", "grammar": text},
                    "end": "</a>",
                },
            }
        ),
        lambda text: json_schema({"type": "string", "x-content": "g"}, embed={"g": gbnf(text)}),
    ],
    ids=["alone", "after a marker", "in a reply", "as a structural tag", "inside a tag", "in a string"],
)
def test_a_grammar_inside_another_constraint_is_tried_as_well(around: Callable[[str], Constraint]) -> None:
    with pytest.raises(ConstraintTooLarge, match="the masks of the constraint take too long"):
        compile(around(DEAR), byte_vocabulary("aa", "ab", "ba", "bb", "aab", "bba", "aaaa", "abab", "bbbbbb"))


COSTLY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "x": {
            "type": "string",
            "pattern": "((b([^\\n][ab][ab])*|(([^\\n][ab][ab]|b[ab].){4}){3,5}){0,4}){4}",
            "not": {"pattern": "c"},
        }
    },
    "additionalProperties": False,
}
"""The first mask inside its string takes millions of steps, and the string may be left out."""


@pytest.mark.ci
@pytest.mark.parametrize(
    "constraint",
    [
        after("</think>", json_schema(COSTLY, whitespace="none")),
        tags(tag("<a>", json_schema(COSTLY, whitespace="none"), "</a>")),
        after("x", tags(tag("<a>", json_schema(COSTLY, whitespace="none"), "</a>"))),
        structural_tag(
            {
                "type": "structural_tag",
                "format": {
                    "type": "triggered_tags",
                    "triggers": ["<f"],
                    "tags": [
                        {
                            "type": "tag",
                            "begin": "<f>",
                            "content": {"type": "json_schema", "json_schema": COSTLY},
                            "end": "</f>",
                        }
                    ],
                },
            }
        ),
        reply_constraint([{"name": "f", "parameters": COSTLY}]),
    ],
    ids=[
        "after a marker",
        "in a section",
        "in a section after a marker",
        "in a triggered tag",
        "a tool",
    ],
)
def test_a_constraint_far_from_the_first_token_is_tried_by_itself(constraint: Constraint) -> None:
    vocabulary = byte_vocabulary("aa", "ab", "ba", "bb", "aab", "bba", "aaaa", "abab", "bbbbbb", '{"', 'x":"')
    whole = compile_grammar(constraint.grammar, vocabulary)
    trial.try_out(whole)  # its first texts do not come there
    with pytest.raises(ConstraintTooLarge, match="the masks of the constraint take too long"):
        compile(constraint, vocabulary)


def test_a_part_that_passed_its_trial_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary, tried = byte_vocabulary(), []
    monkeypatch.setattr(automata, "try_out", lambda automaton, *, written: tried.append(automaton))
    part = gbnf('root ::= "a"+')
    for marker in ("</think>", "</thought>"):
        compile(after(marker, part), vocabulary)
    assert len(tried) == 3  # each whole, and the part once
    compile(after("</think>", part), byte_vocabulary("ab"))
    assert len(tried) == 5


def test_a_search_that_gives_up_leaves_tokens_out_and_raises_nothing() -> None:
    """After one "a" as many must follow as make a multiple of 2 * 3 * 5 * 7 * 11 * 13."""
    schema = {
        "allOf": [{"pattern": f"^(a{{{prime}}})*c$"} for prime in (2, 3, 5, 7, 11, 13)],
        "type": "string",
    }
    automaton = compile(json_schema(schema), byte_vocabulary())
    assert isinstance(automaton, TokenAutomaton)
    state = automaton.walk(automaton.start, list(b'"'))[-1]
    assert automaton.next(state, ord("a")) == DEAD
    assert ord("a") not in allowed(automaton, state)
    state = automaton.next(state, ord("c"))
    assert allowed(automaton, state) == {ord('"')}


def test_the_page_on_security_names_the_limits_of_the_core() -> None:
    rows = dict(
        re.findall(r"^\| ([a-z][^|`]+) \| ([\d,]+) steps?[^|]* \|", SECURITY.read_text(), re.MULTILINE)
    )
    assert rows["one mask, or one count of tokens, in the trial"] == f"{trial.WORK_LIMIT:,}"
    assert rows["the same at the start, once"] == f"{trial.START_LIMIT:,}"
    assert rows["the same in the longer text of an ambiguous grammar"] == f"{trial._LONG_LIMIT:,}"
    assert (
        rows[f"the first {trial._LONG_LEAST} bytes of that longer text, together"]
        == f"{trial._LONG_LEAST_ALL:,}"
    )
    assert rows["one text of the trial, all of its calls together"] == f"{trial._ALL:,}"
    assert (
        rows["reading a JSON Schema: conditions, patterns and values that are tried against each other"]
        == f"{MAX_STEPS:,}"
    )
    for file, name, row in (
        ("regex.hpp", "kDive", "a search for a text of an intersection"),
        ("flat_grammar.hpp", "kReadingWork", "reading the regular expressions of a constraint, or its rules"),
    ):
        source = (SECURITY.parent / "constrained/_core" / file).read_text()
        limit = re.search(rf"{name} = ([\d']+);", source)
        assert limit is not None
        assert rows[row] == limit[1].replace("'", ",")
