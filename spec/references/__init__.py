"""Draft and verification methods of other papers, in short form: for comparison of acceptance rates.

drafting    k draft tokens for a position: with replacement, without replacement, greedy
rules       recursive rejection, SpecTr, SpecInfer, greedy multi-draft
shared      the rule of this library: one noise for draft tokens and draw
bound       the optimal acceptance, which no rule exceeds
lookup      prompt lookup, which drafts a chain from the sequence so far
"""

from __future__ import annotations

from constrained.spec.references.bound import optimal_acceptance
from constrained.spec.references.lookup import prompt_lookup
from constrained.spec.references.rules import VERIFICATION_RULES, VerificationRule

__all__ = ["VERIFICATION_RULES", "VerificationRule", "optimal_acceptance", "prompt_lookup"]
