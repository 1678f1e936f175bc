"""lm-evaluation-harness: the model ``constrained``, which writes each answer under the JSON Schema of its document.

    python -m constrained.integrations.lm_eval --model constrained --model_args pretrained=Qwen/Qwen3-0.6B \
        --tasks jsonschema_bench_easy

The harness finds no models of other packages by itself: importing this page registers it, and running it is the harness's
own command line after that.

    model.py     the model, registered
    asked.py     a request taken apart: its schema, its prompt, how it is to be written
    writing.py   texts of several requests side by side, each under its own constraint
    scoring.py   log-likelihoods of given texts
"""

from __future__ import annotations

from constrained.extras import require_extra

with require_extra("lm-eval"):
    import lm_eval  # noqa: F401

from constrained.integrations.lm_eval.model import ConstrainedLM

__all__ = ["ConstrainedLM"]
