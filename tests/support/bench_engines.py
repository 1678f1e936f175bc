"""Engines for tests of the measurement itself: ours, with faults on request."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from constrained.bench.masks.engines.base import CompiledSchema
from constrained.bench.masks.engines.ours import ConstrainedEngine
from constrained.bench.masks.workload import VocabularyData


class Panic(BaseException):
    """What a panic in a native extension looks like: no `Exception`."""


def _hang(*_: Any) -> Any:
    Path(os.environ.get("BENCH_HANGING", os.devnull)).write_text(str(os.getpid()))
    time.sleep(600)


def _eat() -> None:
    eaten = b"x" * 2**28
    time.sleep(600)
    print(len(eaten))


def _fail(*_: Any) -> Any:
    raise RuntimeError("lost my way")


class Troubled(ConstrainedEngine):
    """Ours, but a schema can say by ``x-fault`` what shall go wrong."""

    version = "0.0"

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        fault = schema.get("x-fault")
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "hang":
            _hang()
        if fault == "eat":
            _eat()
        if fault == "panic":
            raise Panic("index out of bounds")
        if fault == "refuse":
            raise ValueError("not in the mood")
        compiled = super().compile(schema, text)
        if fault == "hang later":
            return replace(compiled, commit=_hang)
        if fault == "fail later":
            return replace(compiled, commit=_fail)
        if fault == "chatter":
            print("an engine that prints to standard output")
        return compiled


class Permissive(ConstrainedEngine):
    """Allows everything, the end included, at any time."""

    def compile(self, schema: Any, text: str) -> CompiledSchema:
        def fill(state: int, row: Any) -> None:
            row.fill(-1)

        compiled = super().compile(schema, text)
        return replace(compiled, fill=fill, commit=lambda state, token: 1, fill_many=None)


class Impossible(ConstrainedEngine):
    """Cannot read any vocabulary."""

    def __init__(self, tokens: VocabularyData, threads: int) -> None:
        raise OSError("no licence")
