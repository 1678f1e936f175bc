"""Where the checkout and the test cases that are data lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
