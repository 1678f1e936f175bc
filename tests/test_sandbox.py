"""Calls in a process with limits: processor time counts, and waiting counts less."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from constrained import sandbox as module
from constrained.sandbox import WALL, Sandbox, SandboxFailed, SandboxTimeout
from constrained.vocabulary import Vocabulary

SECONDS = 0.2
VOCABULARY = Vocabulary.from_bytes([*(bytes((byte,)) for byte in range(256)), b""], [256])


def warm(vocabulary: Vocabulary) -> None:
    """Nothing needs to be loaded."""


def sleep(vocabulary: Vocabulary, seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def work(vocabulary: Vocabulary) -> None:
    while True:
        pass


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(VOCABULARY, SECONDS, 256 << 20, warm)
    yield made
    made.close()


@pytest.mark.ci
def test_a_call_that_only_waits_is_not_ended_at_its_limit_of_processor_time(sandbox: Sandbox) -> None:
    assert sandbox.run(sleep, 2 * SECONDS) == 2 * SECONDS


@pytest.mark.ci
def test_a_call_that_waits_forever_is_ended(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxTimeout):
        sandbox.run(sleep, 100 * WALL * SECONDS)


def test_a_call_that_computes_is_ended_and_the_next_one_is_run(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxTimeout):
        sandbox.run(work)
    assert sandbox.run(sleep, 0.0) == 0.0


def hang(vocabulary: Vocabulary) -> None:
    time.sleep(600)


def stop(vocabulary: Vocabulary) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def crash(vocabulary: Vocabulary) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def kill(vocabulary: Vocabulary) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exit_(vocabulary: Vocabulary) -> None:
    raise ValueError("no result")


def joined(vocabulary: Vocabulary, parts: list[bytes], last: bytes) -> bytes:
    return b"".join([*parts, last])


def test_what_cannot_be_pickled_is_an_error_and_the_next_call_is_run(sandbox: Sandbox) -> None:
    with pytest.raises((AttributeError, pickle.PicklingError)):
        sandbox.run(sleep, lambda: None)
    assert sandbox.run(sleep, 0.0) == 0.0


@pytest.mark.ci
@pytest.mark.parametrize(
    ("at_start", "call"), [(hang, sleep), pytest.param(warm, stop, marks=pytest.mark.ci)]
)
def test_a_process_that_does_not_answer_is_killed(
    at_start: Callable[[Any], None], call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOADING", 1.0)
    made = Sandbox(VOCABULARY, SECONDS, 256 << 20, at_start)
    try:
        with pytest.raises(SandboxFailed):
            made.run(call, *([0.0] if call is sleep else []))
    finally:
        made.close()


_left: list[bytes] = []


def leave(vocabulary: Vocabulary, size: int) -> int:
    _left.append(b"x" * size)
    return len(_left)


@pytest.mark.ci
def test_a_call_has_all_of_its_memory_and_finds_nothing_that_earlier_ones_left() -> None:
    made = Sandbox(VOCABULARY, 10, 64 << 20, warm)
    try:
        for _ in range(6):
            assert made.run(leave, 40 << 20) == 1
            process = made._process
            for too_much in ((leave, 80 << 20), (joined, [b"x" * (40 << 20)], b"y")):
                with pytest.raises(MemoryError):
                    made.run(*too_much)
            assert made._process is process
    finally:
        made.close()


def test_who_ended_a_process_is_told(sandbox: Sandbox) -> None:
    for end, crashed in ((crash, True), (kill, False), (exit_, False)):
        with pytest.raises(SandboxFailed) as failed:
            sandbox.run(end)
        assert failed.value.crashed is crashed


@pytest.mark.ci
def test_after_a_crash_another_process_starts_before_it_is_asked(sandbox: Sandbox) -> None:
    for _ in range(3):
        with pytest.raises(SandboxFailed) as failed:
            sandbox.run(crash)
        assert failed.value.code == -signal.SIGSEGV
        assert sandbox._process is not None
    assert sandbox.run(sleep, 0.0) == 0.0


def test_what_cannot_be_sent_leaves_no_process() -> None:
    made = Sandbox(lambda: None, SECONDS, 256 << 20, warm)
    for _ in range(2):
        with pytest.raises(Exception, match=r"pickle|lambda"):
            made.run(sleep, 0.0)
        assert made._process is None
    made.close()
