"""lm-evaluation-harness: the model ``constrained``, which completes each document under its JSON Schema.

    python -m constrained.integrations.lm_eval --model constrained --model_args pretrained=Qwen/Qwen3-0.6B \
        --tasks jsonschema_bench_easy

The harness does not discover models of other packages: importing this package registers the model, and running it runs
the harness's own command line.

    model.py       the registered model
    requests.py    a request: its schema, prompt and settings
    generation.py  completions of several requests in one batch, each under its own constraint
    scoring.py     log-likelihoods of given texts
"""

from __future__ import annotations

from constrained.extras import require_extra

with require_extra("lm-eval"):
    import lm_eval  # noqa: F401

from constrained.integrations.lm_eval.model import ConstrainedLM

__all__ = ["ConstrainedLM"]
