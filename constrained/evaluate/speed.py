"""Tokens per second of the same model on the same prompts: unconstrained by transformers, and by this library.

The bundled model extracts held-out values, each under a schema of its own. Ways of decoding take turns on every prompt,
so that what else the machine does hits all of them. Processor time is measured, of one thread; compiling a schema is not
counted, masks are. All decode greedily; the unconstrained ways may write other texts, and longer ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.evaluate.masks.report import Section

_LIMIT = 256
Way = Callable[[Sequence[int], Any], tuple[int, int]]
"""From a prompt and an example to (tokens, forward passes; 0 where they are not known)."""


@dataclass(slots=True)
class Speed:
    """What one way took.

    Attributes:
        tokens: written.
        forwards: passes of the model; 0 where they are not counted.
        seconds: of processor time.
    """

    tokens: int = 0
    forwards: int = 0
    seconds: float = 0.0


def measure(
    count: int, seed: int = 0, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> dict[str, Speed]:
    """Every way on so many held-out examples.

    Args:
        count: of examples.
        seed: of the held-out stream.
        progress: told after each example.
    """
    import torch

    from constrained.constraint import json_schema
    from constrained.decoding import Generator
    from constrained.models import load
    from constrained.models.tiny.score import heldout
    from constrained.prompt import extraction_messages

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model: Any = load()
        found: dict[str, Speed] = {}
        for done, example in enumerate(heldout(count + 1, seed)):
            prompt = model.encode(extraction_messages(example.text, example.schema))
            constraint = json_schema(example.schema)
            ways: dict[str, Callable[[], tuple[int, int]]] = {
                "transformers, unconstrained": lambda: _generate(model, prompt),  # noqa: B023 - called at once
                "transformers, prompt lookup": lambda: _generate(model, prompt, prompt_lookup_num_tokens=10),  # noqa: B023
            }
            for name, draft in (("constrained", None), ("constrained, draft", "auto")):
                made = Generator(model, constraint, draft=draft)
                ways[name] = lambda made=made: _ours(made, prompt)  # type: ignore[misc] # noqa: B023
            for name, way in ways.items():
                begun = time.process_time()
                tokens, forwards = way()
                seconds = time.process_time() - begun
                if done:  # the first one also imports and warms up
                    one = found.setdefault(name, Speed())
                    one.tokens += tokens
                    one.forwards += forwards
                    one.seconds += seconds
            progress("measuring", done, count)
        return found
    finally:
        torch.set_num_threads(threads)


def _ours(made: Any, prompt: Sequence[int]) -> tuple[int, int]:
    out = made(list(prompt), max_tokens=_LIMIT)
    return len(out.tokens), out.stats.forwards


def _generate(model: Any, prompt: Sequence[int], **options: Any) -> tuple[int, int]:
    import torch

    ids = torch.tensor([list(prompt)])
    with torch.inference_mode():
        out = model.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=_LIMIT, do_sample=False, **options
        )
    return out.shape[1] - len(prompt), 0


def section(found: dict[str, Speed]) -> Section:
    """The table."""
    base = next(iter(found.values()))
    rate = {name: one.tokens / one.seconds for name, one in found.items()}
    return Section(
        "bundled model, one thread, processor time",
        list(found),
        [
            ("tokens", [str(one.tokens) for one in found.values()]),
            ("tokens a pass", [f"{one.tokens / one.forwards:.2f}" if one.forwards else "-" for one in found.values()]),
            ("tokens a second", [f"{rate[name]:.0f}" for name in found]),
            ("against unconstrained", [f"{rate[name] / (base.tokens / base.seconds):.2f}" for name in found]),
        ],
    )  # fmt: skip
