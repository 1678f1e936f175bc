"""Speculation: proposing draft tokens, and the randomness that makes verification exact. Knows automata by protocol only.

noise.py       Gumbel noise keyed by position: a draw does not depend on the batch or the draft tree
scores.py      top k, log-sum-exp and Gumbel candidates of logits
sources.py     the names of the draft sources
drafts.py      drafters, which build draft trees
memory.py      tables learned across sequences
prior.py       the shipped tables of a first completion, and their file
budget.py      the draft length controller: how many tokens to draft and to verify
acceptance.py  predicted acceptance of draft tokens
schema_warmup.py  an example value for a JSON Schema, from which drafters learn the order of names
packing.py     word counts as columns of a file
protocols.py   protocols of the automaton and the vocabulary
_core/         the native drafter and sampler
kernels/       verification on the device: row statistics, tree verification, cache compaction, masks
"""
