"""What will probably be said, and how a guess is checked. Knows automata by protocol only.

Now: `spec.noise`, the position-keyed random numbers that make a draw independent of who asks for it.
"""
