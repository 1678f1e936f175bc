"""Decisions: closed questions about a text, answered with a probability of each option.

    questions.py   the closed members of a constraint, with the tokens of their options
    evidence.py    what a model says to them: one pass over the prompt and the tree of all options
    prior.py       how the answers are weighed: what the model likes anyway is taken off
    naming.py      the options that a text names
    wording.py     labels read as words, for a question that does not show them
    decision.py    the answer to one of them

An option's tokens are those that the tokenizer writes for it behind what stands before it. Several questions stand side by
side in one tree. Must not know: extraction, prompts.
"""

from __future__ import annotations

from constrained.decisions.decision import Decision
from constrained.decisions.evidence import Evidence, ask
from constrained.decisions.questions import ABSENT, ClosedAnswer, Question, closed_questions, whole_question
from constrained.decisions.score import Score

__all__ = [
    "ABSENT",
    "ClosedAnswer",
    "Decision",
    "Evidence",
    "Question",
    "Score",
    "ask",
    "closed_questions",
    "whole_question",
]
