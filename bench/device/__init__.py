"""`bench device`: a device against the CPU, and against what its memory allows.

kernels.py    the verification kernels: bandwidth, and errors against float64
attention.py  of draft trees, beside torch's with a mask
roofline.py   bytes and operations of a decoding step, computed
settings.py   what is measured
run.py        all of it, with texts and steps under each engine
"""
