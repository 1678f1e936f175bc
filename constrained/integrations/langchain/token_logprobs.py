"""Log-probabilities of the tokens of a reply, in the form in which `ChatOpenAI` has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from constrained.sampling import Draw, LogitsWarper, Position, TokenSampler
from constrained.vocabulary import Vocabulary

MOST = 20
"""Most likely tokens that a reply may have for each of its own, as in OpenAI's API."""
_LEAST = -9999.0  # in place of -inf, which JSON does not have


class RecordingSampler(TokenSampler):
    """Draws what another sampler draws, and keeps the log-probabilities: of one sequence.

    They are the model's, after biases, penalties and temperature and before the constraint.
    """

    def __init__(self, sampler: TokenSampler, vocabulary: Vocabulary, top: int) -> None:
        """Nothing is recorded yet.

        Args:
            sampler: draws the tokens.
            vocabulary: of the model.
            top: number of most likely tokens to keep for each position.
        """
        self._sampler = sampler
        self._vocabulary = vocabulary
        self._top = top
        self._tokens: dict[int, dict[str, Any]] = {}  # by position: a sequence may begin again
        self.weights = sampler.weights
        self.ends = sampler.ends

    @property
    def certain_ends(self) -> bool:
        """See `Sampler`."""
        return self._sampler.certain_ends

    @property
    def canonical(self) -> bool:
        """See `Sampler`."""
        return self._sampler.canonical

    def warper(self, **settings: Any) -> LogitsWarper:
        """See `Sampler`."""
        return self._sampler.warper(**settings)

    def distribution(self, warper: LogitsWarper) -> str:
        """See `Sampler`."""
        return self._sampler.distribution(warper)

    def propose(self, position: Position) -> Draw:
        """See `TokenSampler`."""
        return self._sampler.propose(position)

    def draw_token(self, position: Position) -> Draw:
        """See `TokenSampler`."""
        draw = self._sampler.draw_token(position)
        if draw.token is not None and draw.token not in self._vocabulary.eos_ids:
            logs = position.log_probs
            likely = np.argsort(-logs, kind="stable")[: self._top] if self._top else ()
            entry = self._shown(draw.token, logs[draw.token])
            top = [self._shown(int(token), logs[token]) for token in likely]
            self._tokens[position.position_id] = {**entry, "top_logprobs": top}
        return draw

    def content(self, count: int) -> dict[str, Any]:
        """What was recorded: ``response_metadata["logprobs"]`` of a reply of `count` tokens."""
        kept = sorted(self._tokens)[:count]
        return {"content": [self._tokens[place] for place in kept], "refusal": None}

    def _shown(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._vocabulary.decode((token,))
        return {
            "token": text.decode("utf-8", "replace"),
            "bytes": list(text),
            "logprob": max(float(logprob), _LEAST),
        }
