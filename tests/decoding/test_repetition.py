"""A JSON value in which the model repeats itself is closed, and the members behind it are the model's."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import constrained
from constrained import Generator, Local, Truncated
from constrained.automaton.protocol import NO_LIMIT
from constrained.constraint.generated import generated_constraint
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.json_reader import JsonReader
from constrained.decoding.repetition import RepetitionGuard, _ClosingCandidates
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary

DATA = os.environ.get("CONSTRAINED_DATA")
NOTE = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "year": {"type": "integer"},
    },
    "required": ["note", "tags", "year"],
    "additionalProperties": False,
}
ONE_LINE: Any = {"separators": (", ", ": ")}


def written(
    script: str, prompt: str = "Go on.", schema: Any = NOTE, **options: Any
) -> constrained.Output[Any]:
    """What is written of a script; behind the end of a value that was closed, the script goes on at the next member."""
    model = ScriptedModel(byte_vocabulary(), script.encode())
    constraint = constrained.json_schema(schema, **ONE_LINE)
    generator = Generator(model, constraint, sampler=Local(weights=False), chat=False, **options)
    return generator(prompt, max_tokens=400)


def test_a_string_is_closed() -> None:
    out = written('{"note": "' + "no no " * 60, on_repeat="close")
    assert out.value["note"].startswith("no no no")
    assert len(out.value["note"]) < 30
    repair = out.repairs[0]
    assert repair.pointer == "/note"
    assert sorted(repair.piece) == sorted("no ")


@pytest.mark.parametrize("piece", ["パラ", "はは", "哈哈哈", "ไป"])
def test_scripts_without_spaces_are_prose(piece: str) -> None:
    """A piece of them was taken for code or a number, which may be repeated twice as long."""
    out = written('{"note": "' + piece * 60, on_repeat="close")
    assert out.value["note"].startswith(piece * 2)
    assert len(out.value["note"].encode()) <= 48
    assert out.repairs[0].pointer == "/note"


def test_a_word_without_spaces_is_closed_sooner_than_digits() -> None:
    """A command for a tool was ``heroku.heroku.`` thirty times; digits are repeated in long numbers that people wrote."""
    assert len(written('{"note": "' + "heroku." * 60, on_repeat="close").value["note"]) <= 64
    assert len(written('{"note": "' + "1234567890" * 30, on_repeat="close").value["note"]) > 80


def test_a_list_takes_no_more_items() -> None:
    out = written('{"note": "a", "tags": [' + '"red", ' * 60, on_repeat="close")
    assert out.finish != "limit"
    assert set(out.value["tags"]) == {"red"}
    assert len(out.value["tags"]) == 6
    assert [repair.pointer for repair in out.repairs] == ["/tags"]


def test_a_list_whose_item_is_closed_takes_no_more_items() -> None:
    items = ", ".join(f'"{number} {"no " * 60}"' for number in range(9))
    out = written(f'{{"note": "a", "tags": [{items}', on_repeat="close")
    assert out.finish != "limit"
    assert len(out.value["tags"]) == 1
    assert [repair.pointer for repair in out.repairs] == ["/tags/0"]


def test_without_the_guard_the_limit_ends_it() -> None:
    out = written('{"note": "' + "no no " * 100, on_repeat=None)
    assert (out.finish, out.repairs) == ("limit", ())


def test_without_it_the_error_of_the_limit_says_that_more_tokens_do_not_help() -> None:
    out = written('{"note": "' + "no no " * 100, on_repeat=None)
    with pytest.raises(Truncated, match=r"the string /note repeats\n(.|\n)*bound it \(max_string_length"):
        out.raise_if_cut()
    out = written('{"note": "' + "".join(map(str, range(300))), on_repeat=None)
    with pytest.raises(Truncated, match=r"the string /note goes on\n(.|\n)*raise max_tokens"):
        out.raise_if_cut()


def test_as_an_error_it_names_place_and_piece() -> None:
    with pytest.raises(
        Truncated, match=r"repeats itself in /note.*\n.*was repeated(.|\n)*max_string_length"
    ) as raised:
        written('{"note": "' + "no no " * 60, on_repeat="error")
    assert raised.value.value["note"].startswith("no no")


def test_what_the_prompt_says_may_be_repeated() -> None:
    song = "la la " * 12
    out = written(
        '{"note": "' + song + '", "tags": [], "year": 1}', prompt=f"Copy: {song}", on_repeat="close"
    )
    assert out.value == {"note": song, "tags": [], "year": 1}
    assert out.repairs == ()


def _closes(reader: JsonReader, start: int, piece: bytes) -> bool:
    """Whether a piece ends the string that begins there, or goes on with no array or object that does, read byte by byte."""
    after = reader.copy()
    after.read(piece)
    is_over = start != reader.string or piece[:1] == b'"'
    return is_over and not {start, after.array_of_last_string(start)} & after.went_on


@pytest.mark.parametrize(
    "written", ['{"a":"x x x', '{"a":["x","y"', '{"a":["x","y","', '{"a":"x"', '{"a":["']
)
def test_what_closes_a_value_is_found_as_token_by_token(written: str) -> None:
    pieces = ['"', '",', '","', '"]', '"],"b":"', ",", ', "', "]", "}", "x", "xy", ",x", '"}', '"],', "],"]
    tokens = [*(bytes([i]) for i in range(128)), *(piece.encode() for piece in pieces), b""]
    vocabulary = constrained.Vocabulary.from_bytes(
        list(dict.fromkeys(tokens)), [len(dict.fromkeys(tokens)) - 1]
    )
    schema = {"properties": {"a": {}, "b": {}}}
    automaton = constrained.compile(constrained.json_schema(schema), vocabulary)
    state = automaton.start
    for token in vocabulary.encode(written):
        state = automaton.next(state, token)
    reader = JsonReader()
    reader.read(written.encode())
    starts = {reader.string, *(value.start for value in reader.open)} - {None}
    assert starts
    for start in starts:
        closing = _ClosingCandidates(automaton, state, NO_LIMIT, reader, start)
        allowed = AutomatonCandidates(automaton, state, NO_LIMIT).ids.tolist()
        kept = [
            one for one in allowed if one in closing.eos_ids or _closes(reader, start, vocabulary.tokens[one])
        ]
        assert closing.ids.tolist() == (kept or allowed)


def test_what_must_be_repeated_is_written() -> None:
    schema = {"type": "array", "items": {"const": "all the same"}, "minItems": 12, "maxItems": 12}
    out = written("[" + '"all the same", ' * 12, schema=schema, on_repeat="close")
    assert out.value == ["all the same"] * 12


def test_draft_tokens_change_nothing() -> None:
    script = '{"note": "a", "tags": [' + '"red", ' * 60
    plain = written(script, on_repeat="close")
    drafted = written(script, on_repeat="close", speculation=constrained.Speculation(nodes=8))
    assert (drafted.text, drafted.repairs) == (plain.text, plain.repairs)
    assert drafted.stats.accepted > 0


@pytest.mark.parametrize("sampler", [Local(), constrained.AWRS(), constrained.CARS()])
def test_samplers_with_a_law_are_left_alone(sampler: Any) -> None:
    schema = {"type": "string", "maxLength": 40}
    model = ScriptedModel(byte_vocabulary(), b'"' + b"no no " * 30)
    out = Generator(model, constrained.json_schema(schema), sampler=sampler, chat=False, on_repeat="close")(
        "Go on."
    )
    assert out.repairs == ()


def test_only_three_choices() -> None:
    with pytest.raises(constrained.InvalidArgument, match='"close", "error" or None'):
        written("{}", on_repeat="stop")


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="CONSTRAINED_DATA is not set")
def test_no_value_that_people_wrote_is_closed() -> None:
    """All valid values of MaskBench's development half, in the tokens of a real vocabulary."""
    vocabulary = constrained.load("smollm2").vocabulary
    found = []
    with gzip.open(Path(DATA or "") / "maskbench-dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            for text in (json.dumps(one["data"], ensure_ascii=False) for one in row["tests"] if one["valid"]):
                guard, read = RepetitionGuard(vocabulary, ()), []
                for token in vocabulary.encode(text[:20_000])[:-1]:
                    read.append(token)
                    guard.commit(read)
                found += [(row["id"], repair) for repair in guard.repairs]
    assert found == []


@dataclass
class Person:
    name: str
    age: int | None = None


@dataclass
class Team:
    people: list[Person]
    words: list[str]


@pytest.mark.parametrize("repeats", [False, True])
def test_a_list_of_objects_in_a_type_ends_at_its_first_repeat(repeats: bool) -> None:
    """Which the value leaves out."""
    ann, bob = '{"name": "Ann", "age": 3}', '{"name": "Bob", "age": null}'
    people = ", ".join([ann, bob, ann, ann, '{"name": "Eve", "age": 4}'])
    model = ScriptedModel(byte_vocabulary(), f'{{"people": [{people}], "words": ["a", "b"]}}'.encode())
    constraint = generated_constraint(Team, repeats=repeats)
    generator = Generator(model, constraint, sampler=Local(weights=False), chat=False, on_repeat="close")
    out = generator("Go on.", max_tokens=400)
    names = [person.name for person in out.value.people]
    assert names == (["Ann", "Bob", "Ann", "Ann", "Eve"] if repeats else ["Ann", "Bob"])
    assert [repair.pointer for repair in out.repairs[:1]] == ([] if repeats else ["/people"])
