"""Benches of this library and of others: costs and correctness.

harness/          shared by all benches: settings, result folders, tables, pages, plots
masks/            token masks over recorded outputs, one engine beside another (`constrained bench masks`, `bench memos`)
hostile/          constraints that mean harm, under each engine (`bench hostile`)
jsonschemabench/  valid completions of a model under each engine (`bench jsonschemabench`)
quality/          puzzles with one right answer under each engine (`bench quality`)
fidelity/         distances of samplers from exact distributions (`bench fidelity`)
prior/            what texts under many schemas have in common (`bench prior`)
replay/           tokens per forward pass with speculation (`bench replay`)
speed/            tokens per second (`bench speed`)
acceptance.py     acceptance rates of verification rules (`bench acceptance`)
kernels.py        bandwidth of the verification kernels (`bench kernels`)
device.py         a device against the CPU, and against what its memory allows (`bench device`)
roofline.py       bytes and operations of a decoding step, computed

A bench writes its raw rows first; every figure and table is computed from those.
"""
