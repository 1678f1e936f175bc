"""`bench fidelity`: distances of samplers from the exact conditional distribution, and their costs.

settings.py   what to measure
tasks.py      languages and models whose distributions can be enumerated
samplers.py   what is compared
measure.py    sets of samples of a task, against its exact distribution
predicate_cost.py  the cost of an expensive predicate
rows.py       the raw results
report.py     tables, page, plot
run.py        all of it, into a folder
"""
