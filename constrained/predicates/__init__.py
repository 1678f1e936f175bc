"""Black boxes: functions of the user that say of a text so far whether it may go on, and whether it may end.

A predicate is asked about few texts, each of them once: answers are remembered, and who asks decides what is worth
asking. It can run in worker processes, which a time limit can end. Must not know: grammars, tokens, models.

    predicate.py   what is asked, and what counts as an answer
    memo.py        answers that are known already
    workers.py     processes that answer, and are killed when they do not
"""

from __future__ import annotations

from constrained.predicates.predicate import CheckKind, Predicate

__all__ = ["CheckKind", "Predicate"]
