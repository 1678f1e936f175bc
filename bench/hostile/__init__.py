"""Adversarial constraints, and harmless ones that look like them: what becomes of them, here and under other engines.

case.py     what a case is
cases/      all of them, by subject; the tests go through the same
measure.py  one case under one engine, in a process with limits
settings.py what is measured
run.py      several, as a table
"""
