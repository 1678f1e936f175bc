"""The process of one engine: reads cases from standard input, writes rows, one line of JSON each.

python -m constrained.bench.masks.worker ENGINE TOKENS_FILE THREADS
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

from constrained.bench.harness.machine import peak_bytes, resident_bytes
from constrained.bench.harness.worker_io import error_text, private_output, send
from constrained.bench.masks import rows as r
from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.engines.base import CompiledSchema, Engine, MaskTable
from constrained.bench.masks.replay import Replayer
from constrained.bench.masks.workload import Instance, VocabularyData, is_structural_tag
from constrained.errors import UnsupportedConstraint


def main() -> None:
    """Serves cases until the input ends."""
    name, tokens_file, threads = sys.argv[1:]
    output = private_output()
    try:
        engine_class = load_engine(name)
        tokens = VocabularyData.load(Path(tokens_file))
        start = time.perf_counter()
        engine = engine_class(tokens, int(threads))
    except Exception as error:
        send(output, {"unavailable": error_text(error, with_type=True)})
        return
    ready = {"version": engine.version, "seconds": time.perf_counter() - start}
    send(output, ready | {"bytes": resident_bytes(os.getpid())})
    replayer = Replayer((tokens.size + 31) // 32, tokens.eos_ids)
    for line in sys.stdin:
        gc.collect()  # garbage of one schema must not cost the next one time
        case = json.loads(line)
        row = r.MaskBenchRow(name, case["id"])
        serve(engine, replayer, case, row, output)
        row.process_bytes, row.peak_bytes = resident_bytes(os.getpid()), peak_bytes()
        send(output, {"row": row.to_json()})
        if row.outcome == r.CRASHED:
            return  # the state of an engine after a panic is unknown


def serve(
    engine: Engine, replayer: Replayer, case: dict[str, Any], row: r.MaskBenchRow, output: TextIO
) -> None:
    """Measures one case; reports each phase as it begins."""
    schema, text = json.loads(case["schema"]), case["schema"]
    instances = [Instance(**instance) for instance in case["instances"]]
    recorder = _MaskRecorder(case["keep_masks"]) if case["keep_masks"] else None

    def enter(phase: str) -> None:
        row.phase = phase
        send(output, {"phase": phase})

    def compile() -> CompiledSchema:
        if is_structural_tag(schema) and not getattr(engine, "structural_tags", False):
            raise UnsupportedConstraint("structural tags are not measured with this engine")
        return engine.compile(schema, text)

    compiled = None
    try:
        compiled, state, took = replayer.first(compile)
        enter(r.COLD)
        row.passes[r.COLD] = replayer.replay(compiled, state, took, instances, recorder)
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
        if recorder is not None:
            recorder.save()
    except MemoryError as error:
        row.outcome, row.kind, row.message = r.MEMORY, "MemoryError", str(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        row.outcome = r.REFUSED if compiled is None else r.FAILED
        row.kind, row.message = type(error).__name__, error_text(error)
    except BaseException as error:  # a panic of a Rust extension is not an Exception
        row.outcome, row.kind, row.message = r.CRASHED, type(error).__name__, error_text(error)


class _MaskRecorder:
    """Saves every mask of the cold pass in a file."""

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


if __name__ == "__main__":
    main()
