"""How many random examples tests draw, and how many random cases they go through."""

from __future__ import annotations

import os


def examples(full: int) -> int:
    """`full` examples where CONSTRAINED_ALL_EXAMPLES is set (`make test-all`), a quarter of them otherwise."""
    return full if os.environ.get("CONSTRAINED_ALL_EXAMPLES") else max(1, full // 4)
