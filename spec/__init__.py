"""What will probably be said, and how a guess is checked. Knows automata by protocol only.

`spec.noise` has the position-keyed random numbers that make a draw independent of who asks for it, `spec.kernels` the
device side of verification, `spec.references` the rules of others, for comparison.
"""
