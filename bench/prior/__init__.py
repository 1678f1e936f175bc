"""`bench prior`: what drafters can know before the first completion, from recorded texts.

counts.py       what follows in them, under several schemas
calibration.py  how reliable draft tokens made of these counts are
settings.py     what is counted
fit.py          both, as a prior
"""
