"""Speculation: proposing draft tokens, and the randomness that makes verification exact. Knows automata by protocol only.

noise.py       Gumbel noise keyed by position: a draw does not depend on the batch or the draft tree
scores.py      top k, log-sum-exp and Gumbel candidates of logits
sources.py     the names of the draft sources
drafts.py      drafters, which build draft trees
memory.py      what is learned beyond one sequence
prior.py       what is known before the first completion, and its file
budget.py      how many draft tokens pay
promise.py     how many draft tokens will be accepted
rehearsal.py   an example value for a JSON Schema, from which drafters learn the order of names
protocols.py   what is needed of an automaton and of a vocabulary
_core/         the native drafter and sampler
kernels/       verification on the device: row statistics, tree verification, cache compaction, masks
references/    verification rules of other papers, for comparison
"""
