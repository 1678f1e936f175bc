"""Adversarial constraints, and harmless ones that look like them: what becomes of them, here and under other engines.

case.py     what a case is
cases/      all of them, by subject; the tests go through the same
measure.py  one case under one engine, in a process with limits
run.py      several, as a table
"""

from constrained.bench.hostile.measure import Limits, Measured, measure
from constrained.bench.hostile.run import Rows, exceeds, measure_all, quantiles, table, tally

__all__ = ["Limits", "Measured", "Rows", "exceeds", "measure", "measure_all", "quantiles", "table", "tally"]
