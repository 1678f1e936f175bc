"""The process in which one engine runs: cases come in on standard input, rows go out, one line of JSON each.

python -m constrained.evaluate.masks.worker ENGINE TOKENS_FILE THREADS
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from constrained.evaluate.masks import rows as r
from constrained.evaluate.masks.engines import CompiledSchema, Engine, load_engine
from constrained.evaluate.masks.engines.base import MaskTable
from constrained.evaluate.masks.machine import peak_bytes, resident_bytes
from constrained.evaluate.masks.replay import Replayer
from constrained.evaluate.masks.workload import Instance, VocabularyData

_LONGEST_MESSAGE = 500


def main() -> None:
    """Serves cases until the input ends."""
    name, tokens_file, threads = sys.argv[1:]
    answers = _private_output()
    try:
        made = load_engine(name)
        tokens = VocabularyData.load(Path(tokens_file))
        begun = time.perf_counter()
        engine = made(tokens, int(threads))
    except Exception as error:
        _send(answers, {"unavailable": _described(error)})
        return
    ready = {"version": engine.version, "seconds": time.perf_counter() - begun}
    _send(answers, ready | {"bytes": resident_bytes(os.getpid())})
    replayer = Replayer((tokens.size + 31) // 32, tokens.eos_ids)
    for line in sys.stdin:
        gc.collect()  # what one schema left behind is not charged to the next
        case = json.loads(line)
        row = r.MaskBenchRow(name, case["id"])
        serve(engine, replayer, case, row, answers)
        row.process_bytes, row.peak_bytes = resident_bytes(os.getpid()), peak_bytes()
        _send(answers, {"row": row.to_json()})
        if row.outcome == r.CRASHED:
            return  # an engine that panicked may have left anything behind


def serve(
    engine: Engine, replayer: Replayer, case: dict[str, Any], row: r.MaskBenchRow, answers: TextIO
) -> None:
    """Goes through one case, and says on the way which phase it is in."""
    schema, text = json.loads(case["schema"]), case["schema"]
    instances = [Instance(**instance) for instance in case["instances"]]
    watch = _Keeper(case["keep_masks"]) if case["keep_masks"] else None

    def enter(phase: str) -> None:
        row.phase = phase
        _send(answers, {"phase": phase})

    def compile() -> CompiledSchema:
        return engine.compile(schema, text)

    compiled = None
    try:
        compiled, state, took = replayer.first(compile)
        enter(r.COLD)
        row.passes[r.COLD] = replayer.replay(compiled, state, took, instances, watch)
        if compiled.memory is not None:
            row.compiled_bytes = compiled.memory()
        if case["warm"]:
            enter(r.AGAIN)
            row.passes[r.AGAIN] = replayer.replay(*replayer.first(compile), instances)
            enter(r.KEPT)
            kept = compiled
            row.passes[r.KEPT] = replayer.replay(*replayer.first(lambda: kept), instances)
        if case["batch"]:
            enter("batch")
            row.batch = replayer.batch(compiled, instances, row.passes[r.COLD], case["batch"])
        if watch is not None:
            watch.save()
    except MemoryError as error:
        row.outcome, row.kind, row.message = r.MEMORY, "MemoryError", str(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        row.outcome = r.REFUSED if compiled is None else r.FAILED
        row.kind, row.message = type(error).__name__, _said(error)
    except BaseException as error:  # a panic of a Rust extension is no Exception
        row.outcome, row.kind, row.message = r.CRASHED, type(error).__name__, _said(error)


class _Keeper:
    """Keeps every mask of the cold pass in a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.places: list[tuple[int, int]] = []
        self.masks: list[MaskTable] = []

    def __call__(self, instance: int, position: int, row: MaskTable) -> None:
        self.places.append((instance, position))
        self.masks.append(row[0].copy())

    def save(self) -> None:
        if self.masks:
            np.savez_compressed(self.path, places=np.array(self.places), masks=np.stack(self.masks))


def _private_output() -> TextIO:
    """Where answers go; whatever an engine prints goes to standard error instead."""
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "w", encoding="utf-8")


def _send(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message, separators=(",", ":")) + "\n")
    answers.flush()


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {_said(error)}"


def _said(error: BaseException) -> str:
    return str(error)[:_LONGEST_MESSAGE].encode("utf-8", "backslashreplace").decode()


if __name__ == "__main__":
    main()
