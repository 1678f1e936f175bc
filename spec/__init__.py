"""What will probably be said, and how a guess is checked. Knows automata by protocol only.

native.py       the native module, where it was built
scores.py       a row of scores, as a draw reads it
noise.py        position-keyed random numbers: a draw is the same whoever asks for it
protocols.py    what is asked of an automaton and of a vocabulary
place.py        a place in a text, as sources see it
sources/        each guesses the tokens that may follow a place
calibration.py  how often such guesses came true
builder.py      best-first fusion of all guesses into one tree
tree.py         the tree
budget.py       how many nodes pay
memory.py       what outlives a text: counts, and the calibration
drafter.py      all of it for one text; the definition
drafts.py       the same by the native drafter (`_core`), where it was built
pieces.py       bytes as tokens, near enough to guess by
json_path.py    where in a JSON value a text is
rehearsal.py    the names of a schema, said before the first text
kernels/        the device side of verification: statistics of rows, the walk, compaction, masks by number
references/     the rules of others, for comparison
"""
