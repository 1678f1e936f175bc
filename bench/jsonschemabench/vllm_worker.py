"""The process of a vLLM engine with one backend of structured outputs; reads and writes as `worker` does.

python -m constrained.bench.jsonschemabench.vllm_worker BACKEND SETTINGS_FILE THREADS
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, sleep, thread_time
from typing import Any

from constrained.bench.harness.machine import resident_bytes
from constrained.bench.harness.worker_io import error_text, private_output, send
from constrained.bench.jsonschemabench import judging
from constrained.bench.jsonschemabench import rows as r
from constrained.bench.jsonschemabench.generating import prompt_for
from constrained.bench.jsonschemabench.settings import BUNDLED
from constrained.bench.masks.engines.unconstrained import UNCONSTRAINED
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.models.gguf import SMOLLM2, smollm2_folder
from constrained.models.tiny import WEIGHTS

OURS = "constrained"


def main() -> None:
    """Serves schemas until the input ends."""
    name, settings_file, _ = sys.argv[1:]
    settings = json.loads(Path(settings_file).read_bytes())
    output = private_output()
    os.environ["CONSTRAINED_VLLM"] = "1" if name == OURS else ""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine in this process: its calls are timed
    try:
        bench = VllmBench(name, settings, lambda message: send(output, message))
    except Exception as error:
        send(output, {"unavailable": error_text(error, with_type=True)})
        return
    send(output, {"version": bench.version, "seconds": 0.0, "bytes": resident_bytes(os.getpid())})
    for line in sys.stdin:
        send(output, {"row": bench.serve(json.loads(line)).to_json()})


def checkpoint(model: str) -> str:
    """What vLLM loads for the name of a model."""
    if model == SMOLLM2:
        return smollm2_folder()[0]
    return str(WEIGHTS) if model == BUNDLED else model


class CallTimer:
    """Adds up the seconds that calls of a function take."""

    def __init__(
        self,
        owner: Any,
        name: str,
        after: Callable[[], None] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """Replaces a method of `owner`; `after` is called when a call has returned."""
        self.seconds = 0.0
        function = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            began = clock()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += clock() - began
                if after is not None:
                    after()

        setattr(owner, name, timed)


def _limit_excludes(grammar: Any) -> bool:
    candidates = AutomatonCandidates(grammar.automaton, grammar.state, grammar.budget)
    _ = candidates.ids
    return candidates.limit_excludes


class VllmBench:
    """An engine of vLLM.

    Attributes:
        version: of vLLM.
    """

    def __init__(self, name: str, settings: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
        import vllm
        from vllm.sampling_params import SamplingParams

        self.version = f"in vLLM {vllm.__version__}"
        self._name = name
        self._limit: int = settings["max_tokens"]
        self._tell = tell
        self._row: r.SchemaBenchRow | None = None
        own = name not in (OURS, UNCONSTRAINED)
        options: dict[str, Any] = {"structured_outputs_config": {"backend": name}} if own else {}
        on_gpu = (settings["device"] or "").startswith("cuda")
        if not on_gpu:
            # By default vLLM takes nine tenths of the memory, and does not start where less is free.
            os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
            options["gpu_memory_utilization"] = 0.5
        self._llm = vllm.LLM(
            checkpoint(settings["models"][0]),
            enforce_eager=not on_gpu,
            max_num_seqs=4,
            **options,
        )
        self._tokenizer = self._llm.get_tokenizer()
        self._context: int = self._llm.llm_engine.model_config.max_model_len
        core = self._llm.llm_engine.engine_core.engine_core
        manager = self._manager = core.structured_output_manager
        self._compiling = [
            CallTimer(SamplingParams, "_validate_structured_outputs"),
            CallTimer(manager, "_create_grammar", self._compiled),
        ]
        self._masking = [
            # Processor time: on a busy machine a call of microseconds waits for milliseconds.
            CallTimer(manager, "grammar_bitmask", clock=thread_time),
            CallTimer(manager, "accept_tokens", self._stepped, clock=thread_time),
        ]
        self._steps: list[float] = []

    def serve(self, item: dict[str, Any]) -> r.SchemaBenchRow:
        """Measures one schema."""
        from vllm import SamplingParams, TokensPrompt
        from vllm.exceptions import VLLMValidationError
        from vllm.sampling_params import StructuredOutputsParams

        row = self._row = r.SchemaBenchRow(
            self._name, item["id"], item["split"], instances=len(item["tests"])
        )
        self._steps.clear()
        for timer in (*self._compiling, *self._masking):
            timer.seconds = 0.0
        began = perf_counter()
        try:
            wanted = None
            if self._name == UNCONSTRAINED:
                self._compiled()
            else:
                wanted = StructuredOutputsParams(json=json.dumps(item["schema"]))
            params = SamplingParams(temperature=0.0, max_tokens=self._limit, structured_outputs=wanted)
            ids = prompt_for(item["schema"], self._encode, self._context, self._limit)
            prompt = TokensPrompt(prompt_token_ids=ids)
            (output,) = self._llm.generate([prompt], params, use_tqdm=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a Rust extension is not an Exception
            known = isinstance(error, (VLLMValidationError, ValueError)) and row.phase == "compile"
            row.cut = known and getattr(error, "parameter", None) == "max_tokens"  # no completion is as short
            row.status = r.TRUNCATED if row.cut else r.REFUSED if known else r.CRASH
            row.message = error_text(error, with_type=True)
            return row
        row.compile_seconds = sum(timer.seconds for timer in self._compiling)
        self._record(row, output.outputs[0], began, item["schema"])
        if row.status != r.CRASH and wanted is not None:
            row.again_seconds = self._read_again(row, params, output.outputs[0].token_ids)
        return row

    def _record(self, row: r.SchemaBenchRow, completion: Any, began: float, schema: Any) -> None:
        row.text, row.tokens = completion.text, len(completion.token_ids)
        if self._steps:
            row.first_seconds = max(0.0, self._steps[0] - began - (row.compile_seconds or 0.0))
        if len(self._steps) > 1:
            row.token_seconds = (self._steps[-1] - self._steps[0]) / (len(self._steps) - 1)
        if row.tokens and self._name != UNCONSTRAINED:
            row.mask_seconds = sum(timer.seconds for timer in self._masking) / row.tokens
        if completion.finish_reason == "error":
            row.status = r.CRASH if row.tokens else r.REFUSED
            row.message = "vLLM ended the request with an error; see the log"
            return
        row.valid, row.valid_2020, row.message = judging.judge(schema, completion.text)
        row.cut = completion.finish_reason == "length"
        row.status = r.OK if row.valid else r.TRUNCATED if row.cut else r.INVALID

    def _read_again(self, row: r.SchemaBenchRow, params: Any, tokens: Sequence[int]) -> float | None:
        """Seconds of a token for a second request that writes the same text, without the model; sets `row.cut` of ours."""
        from vllm.v1.request import Request

        self._row = None  # what follows is not of its phases
        params = params.clone()
        params.update_from_generation_config({}, eos_token_id=self._tokenizer.eos_token_id)
        params.structured_outputs._backend = self._name
        request: Any = Request("again", [0], params, None)
        self._manager.grammar_init(request)
        while not request.structured_output_request.is_grammar_ready:
            sleep(0.001)
        before = sum(timer.seconds for timer in self._masking)
        grammar = request.structured_output_request.grammar
        for token in tokens:
            if self._name == OURS:  # vLLM says that a text ended by itself which was closed in time
                row.cut |= _limit_excludes(grammar)
            self._manager.grammar_bitmask({"again": request}, ["again"], {})
            request.append_output_token_ids([token])
            self._manager.accept_tokens(request, [token])
        return (sum(timer.seconds for timer in self._masking) - before) / len(tokens) if tokens else None

    def _encode(self, text: str) -> list[int]:
        """The prompt of a message, by the model's chat template if it has one."""
        if self._tokenizer.chat_template:
            message = [{"role": "user", "content": text}]
            text = self._tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _compiled(self) -> None:
        """Called when vLLM has a compiled grammar, in the thread that compiled it."""
        if self._row is not None:
            self._row.phase = "generate"
            self._tell({"phase": "generate", "row so far": self._row.to_json()})

    def _stepped(self) -> None:
        self._steps.append(perf_counter())


if __name__ == "__main__":
    main()
