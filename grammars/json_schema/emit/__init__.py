"""From constraints on one value to rules of the grammar."""
