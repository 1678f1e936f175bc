"""A constraint whose masks are slow ends its own completion; the others of the batch go on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from constrained.automaton import TokenAutomaton
from constrained.decoding.sequence import TokenSequence
from constrained.server import sequence_stream
from tests.server.serving import scripted, served


class Clock:
    """Processor time that passes in draws of one pattern, and nowhere else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pattern: str, seconds: float) -> None:
        self.now = 0.0
        commit = TokenSequence.commit

        def slow(sequence: TokenSequence, draw: Any) -> None:
            if getattr(sequence.params.automaton.constraint, "pattern", "") == pattern:
                self.now += seconds
            commit(sequence, draw)

        monkeypatch.setattr(TokenSequence, "commit", slow)
        monkeypatch.setattr(sequence_stream.time, "thread_time", lambda: self.now)


def test_slow_draws_end_their_request_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, "[a-z]{5}", 0.5)
    with served(scripted("hello"), draw_seconds=1.2) as server, ThreadPoolExecutor(2) as pool:
        slow = pool.submit(server.chat, structured_outputs={"regex": "[a-z]{5}"})
        quick = pool.submit(server.chat, structured_outputs={"regex": "[a-z]{5,}"})
        error = slow.result().json()["error"]
        assert (slow.result().status_code, error["code"]) == (400, "constraint_too_slow")
        assert "more than 1.2 seconds by token 3" in error["message"]
        assert "-> simplify it" in error["message"]
        assert quick.result().json()["choices"][0]["message"]["content"] == "hello"
        streamed = server.chat(structured_outputs={"regex": "[a-z]{5}"}, stream=True)
        assert "constraint_too_slow" in streamed.text


def test_draws_that_are_not_slow_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, "[a-z]{5}", sequence_stream.SLOW_DRAW * 0.9)
    with served(scripted("hello"), draw_seconds=0.2) as server:
        answer = server.chat(structured_outputs={"regex": "[a-z]{5}"})
        assert answer.json()["choices"][0]["message"]["content"] == "hello"


def test_an_error_of_one_draw_is_that_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little memory for what it asks of its automaton."""
    step = TokenAutomaton.next_within

    def fails(automaton: Any, state: int, token: int, budget: int) -> int:
        if "zz" in getattr(automaton.constraint, "pattern", ""):
            raise MemoryError
        return step(automaton, state, token, budget)

    monkeypatch.setattr(TokenAutomaton, "next_within", fails)
    with served(scripted("abc"), max_tokens=20) as server:
        answer = server.chat(structured_outputs={"regex": "(zz|[a-c]){3,}"}, temperature=1)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "out_of_memory")
        assert server.chat(structured_outputs={"regex": "[a-c]{3,}"}, temperature=1).status_code == 200
