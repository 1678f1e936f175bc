"""Measurements of this library and of others: what they cost and whether they are right.

    masks/    token masks over recorded outputs, one engine beside another (`constrained bench masks`)
    jsonschemabench/   valid texts of a model under each engine (`constrained bench jsonschemabench`)

A measurement writes its raw rows first; every figure and table is made from those.
"""
