"""How far from the model's own law over valid texts each sampler is, and what it costs to get close.

tasks.py      languages and models whose laws can be written down
samplers.py   what is compared
measure.py    sets of texts of a task, against its exact law
prices.py     what AWRS asks, beside a mask
retold.py     a model's law in the tokens of another vocabulary
rows.py       the raw results
report.py     tables, page, plot
run.py        all of it, into a folder
"""

from __future__ import annotations

from constrained.evaluate.fidelity.run import FidelityResults, FidelitySettings, run

__all__ = ["FidelityResults", "FidelitySettings", "run"]
