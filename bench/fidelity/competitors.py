"""genlm-control beside this library: SMC with AWRS over an identical distribution, with a Python interpreter of its own."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from constrained.bench.fidelity.exact_distribution import kl_divergence, total_variation
from constrained.bench.fidelity.measure import TaskMeasurement
from constrained.bench.fidelity.rows import FidelityRow
from constrained.bench.fidelity.settings import FidelitySettings

GENLM = "genlm-control"

_IMPORT_LIMIT = 600
"""Seconds; it imports torch, which can take minutes on a busy machine."""

_WORKER = Path(__file__).with_name("genlm_worker.py")


class GenlmUnavailable(Exception):
    """It is not installed, or fails."""


def genlm_version(interpreter: str) -> str:
    """Its version.

    Raises:
        GenlmUnavailable: this interpreter does not have it, or takes longer than ten minutes to import it.
    """
    code = "import genlm.control; from importlib.metadata import version; print(version('genlm-control'))"
    late = f"importing it took longer than {_IMPORT_LIMIT} s"
    return _output([interpreter, "-W", "ignore", "-c", code], "", _IMPORT_LIMIT, late).strip()


def _output(command: list[str], given: str, seconds: float, late: str) -> str:
    """What a program writes to its standard output, for what it is given on its standard input."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=seconds, check=False
        )
    except OSError as error:
        raise GenlmUnavailable(str(error)) from None
    except subprocess.TimeoutExpired:
        raise GenlmUnavailable(late) from None
    if done.returncode:
        raise GenlmUnavailable((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return done.stdout


def genlm_rows(
    measured: TaskMeasurement, settings: FidelitySettings, interpreter: str
) -> Iterator[FidelityRow]:
    """A row for each size and repetition. A forward is a distinct prefix at which the model was evaluated.

    Args:
        measured: a task with its n-gram model.
        settings: of the measurement; all sets together get the sum of their time limits.
        interpreter: a Python that has genlm-control.

    Raises:
        GenlmUnavailable: it failed or took too long.
    """
    sets = [(size, repeat) for size in settings.sizes for repeat in range(settings.repeats)]
    task = _task(measured) | {"sets": [(size, settings.seed * 1000 + repeat) for size, repeat in sets]}
    written = _output(
        [interpreter, "-W", "ignore", str(_WORKER)],
        json.dumps(task),
        _IMPORT_LIMIT + settings.time_limit * len(sets),
        f"{measured.task.name} took longer than {settings.time_limit:g} s a set",
    )
    for (size, repeat), line in zip(sets, written.splitlines(), strict=True):
        found = json.loads(line)
        exact = measured.exact
        yield FidelityRow(
            measured.task.name,
            GENLM,
            size,
            repeat,
            drawn=size,
            forwards=found["forwards"],
            contexts=found["forwards"],
            checks=found["checks"],
            attempts=size,
            seconds=found["seconds"],
            cpu_seconds=found["cpu_seconds"],
            distance=total_variation(found["posterior"], exact.conditional),
            divergence=kl_divergence(found["posterior"], exact.conditional),
            evidence=math.exp(found["log_evidence"]) / exact.mass,
            effective=found["effective"],
        )


def _task(measured: TaskMeasurement) -> dict[str, Any]:
    """The distribution as a table: the model's log-probabilities after every prefix that the constraint permits.

    Where a predicate leads into a dead end at the limit, prefixes without a text are among them: neither side knows.
    """
    model = measured.model
    letters = [piece.decode() for piece in model.vocabulary.tokens if piece]
    texts = list(measured.exact.conditional)
    prefixes = _permitted_prefixes(measured, letters)
    place = {letter: i for i, letter in enumerate(letters)}
    rows: dict[str, list[float | None]] = {}
    for text in prefixes:
        logits: Any = model.logits([], [place[letter] for letter in text])  # type: ignore[attr-defined]
        logs = logits - np.log(np.exp(logits).sum())
        rows[text] = [float(value) if np.isfinite(value) else None for value in logs]
    return {"letters": letters, "limit": measured.task.limit, "rows": rows, "texts": texts}


def _permitted_prefixes(measured: TaskMeasurement, letters: list[str]) -> list[str]:
    """The texts that the automaton permits as beginnings of one that ends within the limit."""
    automaton, limit = measured.automaton, measured.task.limit
    level, found = [("", automaton.start)], [""]
    for left in range(limit, 0, -1):
        level = [
            (text + letter, after)
            for text, state in level
            for token, letter in enumerate(letters)
            if (after := automaton.next(state, token)) and automaton.shortest_completion(after) < left
        ]
        found += [text for text, _ in level]
    return found
