"""`aextract`: concurrent calls share batches, and cancelled ones leave them."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

import constrained
from constrained import Extractor, aextract
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary


@dataclass
class Word:
    word: str


class CountingModel(ScriptedModel):
    """Notes how many rows its passes read."""

    def __init__(self, script: Any) -> None:
        super().__init__(byte_vocabulary(), script)
        self.rows: list[int] = []

    def forward(self, tokens: Any, cache: Any) -> Any:
        self.rows.append(len(tokens))
        return super().forward(tokens, cache)


def last_word(prompt: str) -> str:
    return f'{{"word": "{prompt.split()[-1]}"}}' if "word" in prompt else "7"


def no_thread_is_left() -> bool:
    for thread in threading.enumerate():
        if thread.name == "constrained-requests":
            thread.join(10)
    return not any(thread.name == "constrained-requests" for thread in threading.enumerate())


def test_concurrent_calls_share_batches() -> None:
    model = CountingModel(last_word)

    async def run() -> list[Any]:
        calls = [aextract(model, f"to w{i}", Word, speculation=None) for i in range(20)]
        numbers = [aextract(model, "a number", int, speculation=None) for _ in range(3)]
        return await asyncio.gather(*calls, *numbers)

    values = asyncio.run(run())
    assert values == [*(Word(f"w{i}") for i in range(20)), 7, 7, 7]
    assert max(model.rows) > 4
    assert no_thread_is_left()


def test_an_error_ends_its_own_call_only() -> None:
    async def run() -> list[Any]:
        calls = [aextract(CountingModel(last_word), text, Word) for text in ("to a", " ", "to b")]
        return await asyncio.gather(*calls, return_exceptions=True)

    first, error, second = asyncio.run(run())
    assert (first, second) == (Word("a"), Word("b"))
    assert isinstance(error, constrained.PromptError)


def test_settings_are_checked_before_the_document_is_queued() -> None:
    with pytest.raises(constrained.InvalidArgument, match="no option 'speed'"):
        asyncio.run(aextract(CountingModel(last_word), "x", Word, speed=1))  # type: ignore[call-overload]


@pytest.mark.ci
def test_a_cancelled_call_leaves_the_batch() -> None:
    model = CountingModel(lambda prompt: '{"word": "' + ("x" * 100_000 if "long" in prompt else "y") + '"}')
    extractor = Extractor(model, Word, speculation=None, on_limit="close")

    async def run() -> Any:
        slow = asyncio.create_task(extractor.aextract("a long one", max_tokens=100_000))
        quick = await extractor.aextract("another")
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        return quick.value

    assert asyncio.run(run()) == Word("y")
    assert no_thread_is_left()
    assert len(model.rows) < 50_000
    assert asyncio.run(extractor.aextract("once more")).value == Word("y")
