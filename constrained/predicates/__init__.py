"""Predicates: functions of the user that decide whether a text is a valid prefix, and whether it is complete.

Verdicts are cached, so a function is called once for each text. It can run in worker processes with a time limit.
Must not know: grammars, tokens, models.

    predicate.py   checks, and validation of their results
    memo.py        cache of verdicts
    failures.py    how a call in a worker process fails
    workers.py     worker processes, which are killed at a timeout
"""

from __future__ import annotations

from constrained.predicates.predicate import CheckKind, Predicate

__all__ = ["CheckKind", "Predicate"]
