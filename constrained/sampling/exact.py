"""Exact answers: where the constraint is a closed set of texts, each is weighed in one pass over the tree of their tokens.

The tree has the tokens that the tokenizer writes for each text (its canonical spelling). Other spellings of the same texts
have hardly any probability under a model that was trained on the tokenizer's own: `docs/sampling.md` has figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from constrained.errors import UnsupportedConstraint
from constrained.sampling.base import ParticleBatch, SampleBatch, Sampler
from constrained.sampling.ends import Ends, check_ends
from constrained.sampling.randomness import CHOICES, Randomness
from constrained.sampling.warpers import LogitsWarper
from constrained.spec.scores import log_sum_exp


@dataclass(frozen=True, slots=True)
class Exact(Sampler):
    """The sampler ``"exact"``: the most likely text of a closed set, or exact draws from the model's distribution over it.

    A closed set is a `choice`, an enumeration, a boolean, an integer between two bounds, or any other constraint with up to
    `constrained.automaton.closed_texts.MOST_TEXTS` texts. Greedy, it is the text of the greatest probability,
    which the most likely token at each place need not lead to. top-k, top-p and min-p are of texts.

    Attributes:
        ends: see `constrained.sampling.ends`.
        prior: what is taken off the log-probability of each text, in nats, in the order of their bytes; None: nothing. Then texts do
            not follow the model's distribution, see `constrained.decisions.prior`.
        temperature: what the rest is divided by, where a prior is taken off.
    """

    ends: Ends = "certain"
    prior: tuple[float, ...] | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_ends(self.ends)

    def distribution(self, warper: LogitsWarper) -> str:
        """``most-likely`` where it is greedy, else ``conditional``, or ``conditional-truncated`` with top-k, top-p or min-p.

        ``decided`` with a prior that is taken off.
        """
        if self.prior is not None:
            return "decided"
        if warper.greedy:
            return "most-likely"
        return "conditional-truncated" if warper.truncates else "conditional"

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Draws texts from one pass of the model.

        Raises:
            UnsupportedConstraint: the constraint is no closed set of texts.
        """
        known = batch.closed_distribution(certain_ends=self.certain_ends)
        if known is None:
            raise UnsupportedConstraint(
                "the sampler exact needs a closed set of texts, and this constraint has too many, or a predicate",
                action='use sampler="cars" for exact draws, or sampler="local"',
            )
        texts = batch.start([batch.randomness(i) for i in range(count)])
        scores = known.totals
        if self.prior is not None:
            scores = (scores - np.array(self.prior)) / self.temperature
        within = np.where(known.fits, scores, -np.inf)
        for text in texts:
            wanted, _ = pick_text(scores, batch.warper, text.randomness)
            index = wanted if known.fits[wanted] else pick_text(within, batch.warper, text.randomness)[0]
            for drawn in known.draws[index]:
                if not text.finish:  # an end that is certain ends it by itself
                    text.commit(drawn)
            if index != wanted:
                text.mark_divergence([draw.token for draw in known.draws[wanted][:-1]])
        evidence = log_sum_exp(known.totals)
        return SampleBatch(texts, evidence, 0.0, attempts=count, accepted=count)


def pick_text(
    totals: NDArray[np.float64], warper: LogitsWarper, randomness: Randomness, position_id: int = 0
) -> tuple[int, float]:
    """One of some texts, given the log-probability of each: the most likely one, or a draw.

    Args:
        totals: float64 [n], not all -inf; they need not be normalised.
        warper: says whether the most likely one is wanted, and which others may be drawn.
        randomness: for draws.
        position_id: absolute position where the texts begin; 0: they are whole.

    Returns:
        Its index, and the log of the sum over all texts that could be drawn.
    """
    ids = np.flatnonzero(totals > -math.inf)
    scores = totals[ids]
    if warper.greedy:
        return int(np.argmax(totals)), log_sum_exp(scores)
    if warper.truncates:
        kept = warper.truncation_mask(scores)
        ids, scores = ids[kept], scores[kept]
    return int(ids[randomness.pick(scores, ids, position_id, CHOICES)]), log_sum_exp(scores)
