"""From schemas with references, alternatives and negations to disjuncts: sets of constraints on one value."""
