"""`python -m tests.fuzz [--minutes N] [--seed S] [TARGET...]`: random constraints until the time is up.

A failure is shrunk and printed with the value that causes it; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.check import check
from tests.fuzz.targets import TARGETS

ROUND = 100
"""Examples of one target before the next one has its turn."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "targets", nargs="*", default=list(TARGETS), metavar="TARGET", help=", ".join(TARGETS)
    )
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    became = {name: Counter[str]() for name in options.targets}
    failed: set[str] = set()
    turn = options.seed
    while time.monotonic() < end and len(failed) < len(became):
        for name in became:
            if name in failed or time.monotonic() > end:
                continue
            try:
                _round(name, turn, became[name])
            except Exception as error:
                failed.add(name)
                print(f"{name}: {type(error).__name__}: {error}", *getattr(error, "__notes__", ()), sep="\n")
        turn += 1
    for name, outcomes in became.items():
        shown = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        print(f"{name}: {'FAILED; ' if name in failed else ''}{outcomes.total()} examples: {shown}")
    return 1 if failed else 0


def _round(name: str, turn: int, outcomes: Counter[str]) -> None:
    strategy, make = TARGETS[name]

    @seed(turn)
    @settings(
        max_examples=ROUND,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(value: object) -> None:
        outcomes[check(lambda: make(value), turn)] += 1

    one()


if __name__ == "__main__":
    sys.exit(main())
