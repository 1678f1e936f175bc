"""What people pass by mistake: the error says what to pass instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import constrained
from constrained import Generator, extract, python_type, regex
from constrained.errors import ConstrainedError, DoesNotFit, PromptError, UnsupportedConstraint
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary


@dataclass
class Person:
    """A person."""

    name: str


@dataclass
class Refused:
    """A value that its own code refuses."""

    name: str

    def __post_init__(self) -> None:
        raise ValueError("never")


def model(context: int | None = None) -> ScriptedModel:
    scripted = ScriptedModel(byte_vocabulary(), b'{"name": "Ana"}')
    scripted.context = context
    return scripted


@pytest.mark.parametrize(
    ("use", "error", "said"),
    [
        (lambda: python_type(Person("Ana")), UnsupportedConstraint, "it is a value; pass its class, Person"),
        (
            lambda: Generator(model(64), {"type": "string", "minLength": 90})("x"),
            DoesNotFit,
            "needs 92 tokens, and the model reads 64 in all",
        ),
        (
            lambda: Generator("bundled", Person)([{"role": "usr", "content": "x"}]),
            PromptError,
            "message 0 has the role 'usr'\n  -> did you mean 'user'?",
        ),
        (lambda: Generator("bundled", Person)(" "), PromptError, "the prompt is empty"),
        (lambda: Generator(model(), regex("(?=a)b")), ConstrainedError, "-> change what excludes every text"),
        (lambda: extract(model(), "x", Refused, retries=2), ConstrainedError, "-> 3 answers were refused"),
    ],
)
def test_the_error_says_what_to_do(use: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        use()
    assert said in str(raised.value)


def test_a_folder_without_a_tokenizer_is_told_in_whole_sentences(tmp_path: Path) -> None:
    with pytest.raises(ConstrainedError) as raised:
        constrained.load(str(tmp_path))
    assert "from one of:" not in str(raised.value)


def test_what_a_shell_completes_is_the_public_names() -> None:
    names = {name for name in dir(constrained) if not name.startswith("__")}
    assert names == {name for name in constrained.__all__ if not name.startswith("__")}
