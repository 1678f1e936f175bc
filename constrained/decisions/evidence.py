"""What a model says to closed questions: one pass over the prompt and the tree of all options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from constrained.decisions.questions import Question
from constrained.decoding.prompt_reader import score_tree
from constrained.decoding.tree_scores import TreeScores
from constrained.models import LanguageModel
from constrained.sampling.token_tree import ROOT, TokenTree
from constrained.spec.scores import log_sum_exp

_NO_MASS = 1e-30


@dataclass(frozen=True)
class Evidence:
    """The model's distribution over the options of a question.

    Attributes:
        logprobs: of each option given that it is one of them, in nats, float64 [options].
        mass: probability that the model writes one of them where the question is asked.
        elsewhere: probability of the likeliest token where the options part, or where they begin, if they are strings, if none of them
            begins with it; 0 if one does.
        likeliest: this token.
    """

    logprobs: NDArray[np.float64]
    mass: float
    elsewhere: float
    likeliest: int

    @property
    def totals(self) -> NDArray[np.float64]:
        """Log-probability that the model writes each option, in nats, float64 [options]."""
        return np.asarray(self.logprobs + np.log(max(self.mass, _NO_MASS)))


def option_tree(questions: Sequence[Question]) -> TokenTree:
    """The tree of all options, question after question."""
    return TokenTree.of([option.tokens for question in questions for option in question.options])


def option_ends(questions: Sequence[Question]) -> list[NDArray[np.intp] | None]:
    """What has to follow each of them."""
    return [option.ends for question in questions for option in question.options]


def ask(model: LanguageModel, prompt: Sequence[int], questions: Sequence[Question]) -> list[Evidence]:
    """Asks the questions behind a prompt, side by side in one pass.

    Args:
        model: reads prompt and options.
        prompt: token ids.
        questions: at least one.
    """
    return read_evidence(score_tree(model, prompt, option_tree(questions), option_ends(questions)), questions)


def read_evidence(scores: TreeScores, questions: Sequence[Question]) -> list[Evidence]:
    """The evidence for each question, of the scores of `option_tree`."""
    found, begin, every = [], 0, scores.totals
    for question in questions:
        end = begin + len(question.options)
        totals = every[begin:end]
        lead = float(scores.path(begin)[: question.lead].sum())
        whole = log_sum_exp(totals)
        mass = float(np.exp(min(0.0, whole - lead)))
        found.append(Evidence(totals - whole, mass, *_elsewhere(scores, question, begin)))
        begin = end
    return found


def _elsewhere(scores: TreeScores, question: Question, begin: int) -> tuple[float, int]:
    """See `Evidence`; to leave a member out is no option that parts from the others."""
    tree, count = scores.tree, len(question.options)
    paths = [tree.paths[begin + index] for index in range(count) if question.value(index) is not None]
    shared = [nodes[0] for nodes in zip(*paths, strict=False) if len(set(nodes)) == 1]
    is_string = question.is_json and question.options[0].text.startswith('"')
    if is_string or len(paths) == 1:
        shared = shared[: question.lead + is_string]  # behind the quote of a string
    node = shared[-1] if shared else ROOT
    top = float(scores.tops[node])
    begun = any(scores.steps[child] >= top for child in tree.children.get(node, ()))
    return 0.0 if begun else float(np.exp(top)), int(scores.likeliest[node])
