"""`bench prior`: what drafters can know before the first completion, from recorded texts.

counts.py  what follows in them, under several schemas
fit.py     the counts, and how reliable draft tokens made of them are
"""

from __future__ import annotations

from constrained.evaluate.prior.fit import PriorSettings, fit

__all__ = ["PriorSettings", "fit"]
