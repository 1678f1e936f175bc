"""Runs batches of requests in a vLLM engine of its own process: jobs as JSON on standard input, results to a file.

vLLM keeps state for the process, so each engine gets one. The engine is in this process, not in one of its own, so that its
passes can be counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from constrained.models.tiny import WEIGHTS

ENVIRONMENT = {
    "CONSTRAINED_VLLM": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
DRAFTS = {
    "method": "custom_class",
    "model": "constrained.integrations.vllm.drafts.Proposer",
    "num_speculative_tokens": 8,
}
NGRAM = {"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_max": 4, "prompt_lookup_min": 1}


def run_engine(batches: list[list[dict[str, Any]]], folder: Path, **job: Any) -> dict[str, Any]:
    """Starts an engine, runs batches of requests one after the other, and ends it.

    Args:
        batches: requests: `prompt` (token ids), `structured` (fields of `StructuredOutputsParams`), other sampling parameters.
        folder: for the results.
        job: `speculative`, `right_expand`, `structured_outputs_config`; `environment`.

    Returns:
        `results`: for each batch, its completions or errors in order; `passes`: for each batch.
    """
    environment = {**os.environ, **ENVIRONMENT, **job.pop("environment", {})}
    target = folder / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.vllm_worker", str(target)],
        input=json.dumps({"batches": batches, **job}),
        env={**environment, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if not target.exists():
        return {"failed": done.stderr + done.stdout}
    results: dict[str, Any] = json.loads(target.read_text())
    return results


def main() -> None:
    job = json.load(sys.stdin)
    if job.get("right_expand"):
        use_right_expand()
    from vllm import LLM, SamplingParams, TokensPrompt
    from vllm.sampling_params import StructuredOutputsParams

    llm = LLM(
        str(WEIGHTS),
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=64,
        speculative_config=job.get("speculative"),
        structured_outputs_config=job.get("structured_outputs_config") or {},
        seed=0,
    )
    core = llm.llm_engine.engine_core.engine_core
    passes = 0
    execute = core.model_executor.execute_model

    def counted(scheduled: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal passes
        passes += scheduled.total_num_scheduled_tokens > 0  # 0 while the engine waits for a grammar
        return execute(scheduled, *arguments, **options)

    core.model_executor.execute_model = counted

    def parameters(request: dict[str, Any]) -> Any:
        fields = {name: value for name, value in request.items() if name not in ("prompt", "structured")}
        if bias := fields.get("logit_bias"):
            fields["logit_bias"] = {
                int(token): value for token, value in bias.items()
            }  # JSON made them texts
        wanted = request.get("structured")
        return SamplingParams(**fields, structured_outputs=wanted and StructuredOutputsParams(**wanted))

    def run(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        prompts = [TokensPrompt(prompt_token_ids=request["prompt"]) for request in batch]
        outputs = llm.generate(prompts, [parameters(request) for request in batch], use_tqdm=False)
        return [
            {"text": one.text, "tokens": list(one.token_ids), "finish": one.finish_reason}
            for output in outputs
            for one in output.outputs
        ]

    results, counts = [], []
    for batch in job["batches"]:
        passes = 0
        try:
            results.append(run(batch))
        except Exception as error:
            results.append([{"error": str(error), "type": type(error).__name__}])
        counts.append(passes)
    manager = type(core.structured_output_manager).__name__
    Path(sys.argv[1]).write_text(json.dumps({"results": results, "passes": counts, "manager": manager}))


def use_right_expand() -> None:
    """Replaces vLLM's expansion of temperatures to draft positions, which leaves its result uninitialised on the CPU.

    The kernel for the CPU writes into a copy of its output (vllm-cpu 0.32.0, `_expand_kernel_impl`).
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    def expand(
        x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0
    ) -> Any:
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        expanded = torch.repeat_interleave(x, counts.to(torch.int64), output_size=num_tokens)
        return torch.where(expanded == replace_from, torch.full_like(expanded, replace_to), expanded)

    rejection_sampler.expand_batch_to_tokens = expand


if __name__ == "__main__":
    main()
