"""One hostile case under one engine: a forked process with limits of time and memory compiles it and follows its masks."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from constrained.automaton.bitmask import zero_mask
from constrained.automaton.protocol import NO_LIMIT
from constrained.bench.harness.machine import peak_bytes, resident_bytes
from constrained.bench.harness.worker_io import error_text
from constrained.bench.hostile.case import Case
from constrained.bench.hostile.settings import HostileSettings
from constrained.bench.masks.engines.base import CompiledSchema, Engine
from constrained.errors import UnsupportedConstraint

BUDGETS = (0, 1, 10)
"""Tokens that a mask under a budget may spend beyond the shortest completion."""

_PATIENCE = 20
"""On a busy machine a process may live so many times as long as its limit of processor time."""
_OVERDUE = (signal.SIGALRM, signal.SIGXCPU)

OK, REFUSED, RAISED, STOPPED = "ok", "refused", "raised later", "stopped"
"""Followed to the end; an error before the first token; an error after it; ended by a limit, or crashed."""


@dataclass(slots=True)
class Measured:
    """What became of a case. Times are seconds of processor time of the thread.

    Attributes:
        outcome: `OK`, `REFUSED`, `RAISED` or `STOPPED`.
        detail: the error, or what was being done.
        compile: from the constraint to something that makes masks.
        mask: the worst mask.
        within: the worst mask under a budget of tokens; None: the engine knows none.
        memory: bytes, at most, beyond those before the case.
    """

    outcome: str = STOPPED
    detail: str = "compile"
    compile: float | None = None
    mask: float | None = None
    within: float | None = None
    memory: int = 0


def measure(case: Case, engine: Engine, tokens: Sequence[bytes], settings: HostileSettings) -> Measured:
    """Forks, and runs the case in the child.

    Args:
        case: with a source, in a notation that the engine reads.
        engine: over these tokens.
        tokens: bytes per id.
        settings: limits of the child, and the seed of the choice of tokens.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # panics of other engines
        with os.fdopen(write, "w") as pipe:
            _limited(case, engine, tokens, settings, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    # A line that was cut off when the process was killed is no JSON.
    whole = [line for line in lines if line.endswith("}")]
    found = Measured(**json.loads(whole[-1])) if whole else Measured()
    if os.WIFSIGNALED(status) and found.outcome == STOPPED and os.WTERMSIG(status) not in _OVERDUE:
        found.detail += f", {signal.Signals(os.WTERMSIG(status)).name}"
    return found


def compile_source(engine: Engine, notation: str | None, source: Any) -> CompiledSchema:
    """A source in one of the notations of `Case`, compiled by an engine.

    Raises:
        Exception: the engine refuses it, or does not read the notation.
    """
    if notation == "json_schema":
        return engine.compile(source, json.dumps(source))
    read: Callable[[str, str], CompiledSchema] | None = getattr(engine, "compile_source", None)
    if notation is None or read is None:
        raise UnsupportedConstraint("the engine does not read this notation")
    return read(notation, source)


def _limited(
    case: Case, engine: Engine, tokens: Sequence[bytes], settings: HostileSettings, pipe: TextIO
) -> None:
    """Applies the limits; what is known so far goes through the pipe whenever it changes."""
    here = resident_bytes(os.getpid()) or 0
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    space = pages * resource.getpagesize() + settings.memory_limit
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (settings.time_limit, settings.time_limit + 1))
    signal.alarm(_PATIENCE * settings.time_limit)
    found = Measured()

    def tell() -> None:
        found.memory = max(found.memory, (peak_bytes() or here) - here)
        pipe.write(json.dumps(asdict(found)) + "\n")
        pipe.flush()

    tell()
    try:
        source = case.source()
        began = time.thread_time()
        compiled = compile_source(engine, case.notation, source)
        found.compile, found.detail = time.thread_time() - began, "the first mask"
        tell()
        _walk(compiled, tokens, settings.steps, random.Random(settings.seed), found, tell)
        found.outcome, found.detail = OK, ""
    except BaseException as error:  # a panic of another engine is no Exception
        found.outcome = REFUSED if found.compile is None else RAISED
        found.detail = error_text(error, with_type=True)
    tell()
    sys.stdout.flush()


def _walk(
    compiled: CompiledSchema,
    tokens: Sequence[bytes],
    steps: int,
    draw: random.Random,
    found: Measured,
    tell: Callable[[], None],
) -> None:
    """Follows the masks for some tokens, half of them short ones, which end strings and numbers sooner."""
    row = zero_mask(len(tokens), 1)
    (target,) = compiled.targets(row)
    state = compiled.start()
    for step in range(steps):
        began = time.thread_time()
        compiled.fill(state, *target)
        found.mask = max(found.mask or 0.0, time.thread_time() - began)
        compiled.check(state)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if compiled.fill_within is not None and compiled.shortest is not None:
            for extra in BUDGETS:
                began = time.thread_time()
                compiled.fill_within(state, row[0], min(compiled.shortest(state) + extra, NO_LIMIT))
                found.within = max(found.within or 0.0, time.thread_time() - began)
        found.detail = f"after {step + 1} tokens"
        tell()
        texts = [token for token in allowed.tolist() if token < len(tokens) and tokens[token]]
        if not texts:
            return
        few = draw.choices(texts, k=16)
        token = min(few, key=lambda one: len(tokens[one])) if draw.random() < 0.5 else few[0]
        after = compiled.commit(state, token)
        if after is False or (not compiled.in_place and after == 0):
            raise RuntimeError(f"token {tokens[token]!r} of the mask is refused")
        if not compiled.in_place:
            state = after
        compiled.check(state)
