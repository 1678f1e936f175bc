"""The process of one engine with its model: schemas come in on standard input, rows go out, one line of JSON each.

python -m constrained.evaluate.jsonschemabench.worker ENGINE SETTINGS_FILE THREADS
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from constrained.evaluate.jsonschemabench import generating, judging
from constrained.evaluate.jsonschemabench import rows as r
from constrained.evaluate.masks.engines import CompiledSchema, load_engine
from constrained.evaluate.masks.machine import resident_bytes
from constrained.evaluate.masks.replay import Replayer
from constrained.evaluate.masks.workload import VocabularyData, prepare
from constrained.models import LanguageModel, load

OURS = "constrained"
_LONGEST_MESSAGE = 500


def main() -> None:
    """Serves schemas until the input ends."""
    name, settings_file, threads = sys.argv[1:]
    settings = json.loads(Path(settings_file).read_bytes())
    answers = _private_output()
    try:
        model = _model(settings["model"], settings["device"])
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(int(threads))
        bench = EngineBench(name, model, settings, int(threads))
    except Exception as error:
        _send(answers, {"unavailable": f"{type(error).__name__}: {_said(error)}"})
        return
    ready = {"version": bench.engine.version, "seconds": 0.0, "bytes": resident_bytes(os.getpid())}
    _send(answers, ready)
    for line in sys.stdin:
        row = bench.serve(json.loads(line), answers)
        _send(answers, {"row": row.to_json()})


class EngineBench:
    """An engine and the model it is used with."""

    def __init__(self, name: str, model: LanguageModel, settings: dict[str, Any], threads: int) -> None:
        self.name = name
        self.model = model
        self.limit: int = settings["max_tokens"]
        vocabulary = model.vocabulary
        backend = getattr(getattr(model, "tokenizer", None), "backend_tokenizer", None)
        text = backend.to_str() if backend is not None else None
        tokens = VocabularyData(list(vocabulary.tokens), tuple(vocabulary.eos_ids), tokenizer_json=text)
        self.engine = load_engine(name)(tokens, threads)
        self.replayer = Replayer((vocabulary.size + 31) // 32, tuple(vocabulary.eos_ids))

    def serve(self, item: dict[str, Any], answers: TextIO) -> r.SchemaBenchRow:
        """Goes through one schema, and says on the way which phase it is in."""
        row = r.SchemaBenchRow(self.name, item["id"], item["split"], instances=len(item["tests"]))

        def enter(phase: str) -> None:
            row.phase = phase
            _send(answers, {"phase": phase, "row so far": row.to_json()})

        try:
            self._generate(item["schema"], row, enter)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a Rust extension is no Exception
            row.status = r.REFUSED if row.phase == "compile" else r.CRASH
            row.message = f"{type(error).__name__}: {_said(error)}"
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
        prompt = generating.prompt_for(self.model, schema, self.limit)
        if generator is not None:
            written = generating.generate_constrained(generator, prompt, self.limit)
        else:
            assert compiled is not None
            written = generating.generate_with_masks(self.model, compiled, prompt, self.limit)
        row.first_seconds, row.token_seconds = written.first_seconds, written.token_seconds
        row.tokens, row.text = written.tokens, written.text
        if not written.complete:
            row.status = r.TRUNCATED
            return
        row.valid, row.valid_2020, row.message = judging.judge(schema, written.text)
        row.status = r.OK if row.valid else r.INVALID

    def _agree(self, item: dict[str, Any], row: r.SchemaBenchRow) -> None:
        """Replays the recorded instances: are those taken that are valid, and no others?"""
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


def _model(name: str | None, device: str | None) -> LanguageModel:
    """A model by name or folder, or what ``module:function`` makes."""
    module, _, function = (name or "").partition(":")
    if function and not Path(name or "").exists():
        return load(getattr(import_module(module), function)())
    return load(name, device=device)


def _private_output() -> TextIO:
    """Where answers go; whatever an engine prints goes to standard error instead."""
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "w", encoding="utf-8")


def _send(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message, separators=(",", ":")) + "\n")
    answers.flush()


def _said(error: BaseException) -> str:
    return str(error)[:_LONGEST_MESSAGE].encode("utf-8", "backslashreplace").decode()


if __name__ == "__main__":
    main()
