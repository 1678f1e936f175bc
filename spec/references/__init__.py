"""How others guess and verify, each once and short: to be compared with, and to show that the laws are equal.

drafting    k guesses for a position: independent, distinct, greedy
rules       recursive rejection, SpecTr, SpecInfer, greedy multi-draft
shared      the rule of this library: one noise for guesses and draw
bound       the optimum that no rule exceeds
lookup      prompt lookup, which guesses a chain out of the text so far
"""

from __future__ import annotations

from spec.references.bound import optimal_acceptance
from spec.references.lookup import prompt_lookup
from spec.references.rules import VERIFICATION_RULES, VerificationRule

__all__ = ["VERIFICATION_RULES", "VerificationRule", "optimal_acceptance", "prompt_lookup"]
