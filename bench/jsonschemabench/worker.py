"""The process of one engine with its model: reads schemas from standard input, writes rows, one line of JSON each.

python -m constrained.bench.jsonschemabench.worker ENGINE SETTINGS_FILE THREADS
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from constrained.bench.harness.machine import resident_bytes
from constrained.bench.harness.worker_io import error_text, private_output, send
from constrained.bench.jsonschemabench import generating, judging
from constrained.bench.jsonschemabench import rows as r
from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.engines.base import CompiledSchema
from constrained.bench.masks.replay import Replayer
from constrained.bench.masks.workload import VocabularyData, prepare
from constrained.models import LanguageModel, load

OURS = "constrained"


def main() -> None:
    """Serves schemas until the input ends."""
    name, settings_file, threads = sys.argv[1:]
    settings = json.loads(Path(settings_file).read_bytes())
    output = private_output()
    try:
        model = _model(settings["models"][0], settings["device"])
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(int(threads))
        bench = EngineBench(name, model, settings, int(threads))
    except Exception as error:
        send(output, {"unavailable": error_text(error, with_type=True)})
        return
    ready = {"version": bench.engine.version, "seconds": 0.0, "bytes": resident_bytes(os.getpid())}
    send(output, ready)
    for line in sys.stdin:
        row = bench.serve(json.loads(line), output)
        send(output, {"row": row.to_json()})


class EngineBench:
    """An engine and its model."""

    def __init__(self, name: str, model: LanguageModel, settings: dict[str, Any], threads: int) -> None:
        self.name = name
        self.model = model
        self.limit: int = settings["max_tokens"]
        vocabulary = model.vocabulary
        tokens = VocabularyData.from_vocabulary(vocabulary, getattr(model, "tokenizer", None))
        self.engine = load_engine(name)(tokens, threads)
        self.replayer = Replayer((vocabulary.size + 31) // 32, tuple(vocabulary.eos_ids))

    def serve(self, item: dict[str, Any], output: TextIO) -> r.SchemaBenchRow:
        """Measures one schema; reports each phase as it begins."""
        row = r.SchemaBenchRow(self.name, item["id"], item["split"], instances=len(item["tests"]))

        def enter(phase: str) -> None:
            row.phase = phase
            send(output, {"phase": phase, "row so far": row.to_json()})

        try:
            self._generate(item["schema"], row, enter)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a Rust extension is not an Exception
            row.status = r.REFUSED if row.phase == "compile" else r.CRASH
            row.message = error_text(error, with_type=True)
            return row
        if item["tests"]:
            enter("instances")
            self._agree(item, row)
        return row

    def _generate(self, schema: Any, row: r.SchemaBenchRow, enter: Any) -> None:
        text = json.dumps(schema)
        began = perf_counter()
        generator = compiled = None
        if self.name == OURS:
            generator = generating.compile_constrained(self.model, schema)
        else:
            compiled = self.engine.compile(schema, text)
        row.compile_seconds = perf_counter() - began
        enter("generate")
        prompt = generating.prompt_for(schema, self.model.encode, self.model.context, self.limit)
        if generator is not None:
            completion = generating.generate_constrained(generator, prompt, self.limit)
        else:
            assert compiled is not None
            completion = generating.generate_with_masks(self.model, compiled, prompt, self.limit)
        row.first_seconds, row.token_seconds = completion.first_seconds, completion.token_seconds
        row.tokens, row.text, row.cut = completion.tokens, completion.text, completion.cut
        if not completion.complete:
            row.status = r.TRUNCATED
            return
        row.valid, row.valid_2020, row.message = judging.judge(schema, completion.text)
        row.status = r.OK if row.valid else r.INVALID

    def _agree(self, item: dict[str, Any], row: r.SchemaBenchRow) -> None:
        """Replays the recorded instances: does the engine accept exactly the valid ones?"""
        try:
            case = prepare(item, self.model.vocabulary)
            schema = item["schema"]

            def compile() -> CompiledSchema:
                return self.engine.compile(schema, case.schema)

            replays = self.replayer.replay(*self.replayer.first(compile), case.instances).replays
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            row.exact, row.lax = False, None
            return
        row.exact = all(replay.accepted == replay.valid for replay in replays)
        row.lax = any(replay.accepted and not replay.valid for replay in replays)


def _model(name: str, device: str | None) -> LanguageModel:
    """A model by name or folder, or the one that ``module:function`` returns."""
    module, _, function = name.partition(":")
    if function and not Path(name).exists():
        return load(getattr(import_module(module), function)())
    return load(name, device=device)


if __name__ == "__main__":
    main()
