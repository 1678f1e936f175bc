"""The drafter in Python: the definition that the native drafter (`spec/_core`) is compared with, node by node.

drafter.py      the drafter of one sequence
context.py      the end of a sequence or a node of its draft tree, as sources see it
json_path.py    the position in a JSON value
retokenizer.py  bytes as tokens, without the tokenizer
sources/        each proposes the tokens that may follow a context
calibration.py  how often proposals of each kind were accepted
builder.py      best-first fusion of all proposals into one draft tree
tree.py         the draft tree
memory.py       what is learned beyond one sequence
protocols.py    what is needed of an automaton and of a vocabulary
"""
