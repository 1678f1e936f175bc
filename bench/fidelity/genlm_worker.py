"""Sets of texts by genlm-control's AWRS and SMC: runs under an interpreter that has it, and needs nothing else.

Reads a task as JSON from standard input, answers with a line of JSON for each set; see `competitors.py`.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from typing import Any

import numpy as np
from genlm.control import AWRS, Potential


class TableModel(Potential):  # type: ignore[misc]
    """A model as a table of log-probabilities by prefix; the last entry of each row is the end."""

    def __init__(self, letters: list[str], rows: dict[str, list[float]]) -> None:
        super().__init__([letter.encode() for letter in letters])
        self.rows = {text: np.array(row) for text, row in rows.items()}
        self.place = {letter.encode(): i for i, letter in enumerate(letters)}
        self.evaluated: set[str] = set()

    async def prefix(self, context: Any) -> float:
        """Log P(prefix)."""
        total, text = 0.0, ""
        for token in context:
            row = self.rows.get(text)
            if row is None:
                return -math.inf
            total += float(row[self.place[token]])
            text += token.decode()
        return total

    async def complete(self, context: Any) -> float:
        """Log P(text)."""
        row = self.rows.get(b"".join(context).decode())
        return -math.inf if row is None else await self.prefix(context) + float(row[-1])

    async def logw_next(self, context: Any) -> Any:
        """A row."""
        text = b"".join(context).decode()
        self.evaluated.add(text)
        return self.make_lazy_weights(self.rows[text])


class FiniteLanguage(Potential):  # type: ignore[misc]
    """The sequences of a language and their prefixes."""

    def __init__(self, letters: list[str], texts: list[str], prefixes: list[str]) -> None:
        super().__init__([letter.encode() for letter in letters])
        self.texts, self.prefixes = set(texts), set(prefixes)
        self.checks = 0

    async def prefix(self, context: Any) -> float:
        """0 or -inf."""
        self.checks += 1
        return 0.0 if b"".join(context).decode() in self.prefixes else -math.inf

    async def complete(self, context: Any) -> float:
        """0 or -inf."""
        self.checks += 1
        return 0.0 if b"".join(context).decode() in self.texts else -math.inf


async def draw(task: dict[str, Any], size: int, seed: int) -> dict[str, Any]:
    """One set."""
    np.random.seed(seed)
    model = TableModel(task["letters"], task["rows"])
    language = FiniteLanguage(task["letters"], task["texts"], list(task["rows"]))
    sampler = AWRS(model, language, seed=seed)
    began, used = time.perf_counter(), time.process_time()
    found = await sampler.smc(n_particles=size, ess_threshold=0.5, max_tokens=task["limit"] + 1)
    seconds = time.perf_counter() - began
    posterior = {text: float(weight) for text, weight in found.decoded_posterior.items()}
    return {
        "posterior": posterior,
        "log_evidence": float(found.log_ml),
        "effective": float(found.ess),
        "seconds": seconds,
        "cpu_seconds": time.process_time() - used,
        "forwards": len(model.evaluated),
        "checks": language.checks,
    }


def main() -> None:
    """Reads a task from standard input and prints a line for each set."""
    task = json.load(sys.stdin)
    for text, row in task["rows"].items():
        task["rows"][text] = [-math.inf if value is None else value for value in row]
    for size, seed in task["sets"]:
        print(json.dumps(asyncio.run(draw(task, size, seed))), flush=True)


if __name__ == "__main__":
    main()
