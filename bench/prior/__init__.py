"""`bench prior`: what drafters can know before the first completion, from recorded texts.

counts.py       what follows in them, under several schemas
calibration.py  how reliable draft tokens made of these counts are
fit.py          both, as a prior
"""

from __future__ import annotations

from constrained.bench.prior.calibration import CalibrationSettings
from constrained.bench.prior.fit import PriorSettings, fit

__all__ = ["CalibrationSettings", "PriorSettings", "fit"]
