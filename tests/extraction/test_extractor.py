"""`Extractor` and `Extraction`: one constraint, documents one by one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import constrained
from constrained.automaton.protocol import is_automaton
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary


@dataclass
class City:
    name: str
    inhabitants: int


def test_an_extractor_compiles_once_and_reads_documents():
    model = ScriptedModel(
        byte_vocabulary(), lambda prompt: f'{{"name": "{prompt.rpartition(" ")[2]}", "inhabitants": 1}}'
    )
    extractor = constrained.Extractor(model, City)
    first, second = extractor("Go to Lyon"), extractor("Go to Oslo")
    assert (first.value, second.value) == (City("Lyon", 1), City("Oslo", 1))
    assert first.document == "Go to Lyon"
    assert first.output is not None
    assert first.output.text == '{"name": "Lyon", "inhabitants": 1}'
    assert (first.error, first.attempts) == (None, 1)
    assert "City(name='Lyon'" in repr(first)


def test_the_value_of_a_failed_extraction_is_its_error():
    error = constrained.PromptError("the text is empty")
    failed: constrained.Extraction[City] = constrained.Extraction(7, "", error=error, attempts=0)
    assert "empty" in repr(failed)
    with pytest.raises(constrained.PromptError) as raised:
        _ = failed.value
    assert raised.value is error


def test_whether_a_constraint_is_an_automaton_is_not_asked_of_its_attributes() -> None:
    """Up to Python 3.11 `isinstance` reads those of a protocol in the order of a set: one run in twelve could not read spans."""

    class Read(Exception):
        pass

    class Trap:
        def __getattr__(self, name: str) -> object:
            raise Read(name)

    assert not is_automaton(Trap())
    automaton = constrained.compile({"type": "integer"}, byte_vocabulary())
    assert is_automaton(automaton)
