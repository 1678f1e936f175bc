"""Benches of this library and of others: costs and correctness.

In wheels, for those who compare engines on models and schemas of their own:

harness/          shared by all benches: settings, result folders, tables, pages, plots
values/           how often the values of a model are right, under each engine (`constrained bench values`)
jsonschemabench/  valid completions of a model under each engine (`bench jsonschemabench`)
quality/          puzzles with one right answer under each engine (`bench quality`)
masks/            token masks over recorded outputs, one engine beside another (`bench masks`)
speed/            tokens per second (`bench speed`, in a checkout: its texts are those the bundled model was trained on)
commands/         their command lines

In a checkout only, for those who change this library:

hostile/          adversarial constraints, under each engine (`bench hostile`)
fidelity/         distances of samplers from exact distributions (`bench fidelity`)
prior/            what texts under many schemas have in common (`bench prior`)
replay/           tokens per forward pass with speculation (`bench replay`)
device/           a device against the CPU, and against what its memory allows (`bench device`)

A bench writes its raw rows first; every figure and table is computed from those.
"""
