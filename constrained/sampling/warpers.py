"""Warpers: biases, penalties, temperature, and the truncations top-k, top-p, min-p.

They are applied in this order; a checkpoint's generation defaults are not used:

    1. logit_bias, repetition_penalty, frequency_penalty, presence_penalty: see `LogitsWarper.adjust`
    2. the mask: tokens that the constraint rejects are removed
    3. temperature: logits / T
    4. top-k, then top-p, then min-p, each on the renormalised result of the previous one (the sampler `local` only)

Since masking comes before them, a truncation always leaves a token, and top-p refers to the mass of the allowed
tokens. Biases, penalties and temperature are part of the model's distribution (`logprob` is measured after them): penalties depend
on the tokens so far and on nothing else, so every sampler stays what it is for the model that they make. A truncation is
part of the proposal: it narrows f, and Z becomes the mass of the remaining tokens.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.errors import InvalidArgument

_COLDEST = 1e-30
"""Logits over a smaller temperature would not be numbers in float32."""

REPETITION_PENALTIES = (0.01, 100.0)
"""Least and greatest: logits that are divided by it, and by the temperature, are numbers as well."""


@dataclass(frozen=True, slots=True)
class LogitsWarper:
    """How the model's distribution is reshaped before a token is drawn.

    Attributes:
        temperature: 0 or None takes the most likely token (of several, the lowest id); otherwise logits are
            divided by it.
        top_k: keep the k most likely tokens.
        top_p: keep the most likely tokens until they have this much of the mass (at least one).
        min_p: keep the tokens with at least this fraction of the most likely one's probability.
        logit_bias: numbers that are added to the logits of tokens, by token id; kept as sorted pairs.
        frequency_penalty: subtracted from a token's logit for each time that it stands in the completion so far.
        presence_penalty: subtracted from a token's logit if it stands in the completion so far.
        repetition_penalty: what logits of tokens that stand in the prompt or the completion are divided by if they are
            positive, and multiplied with if they are negative.
        repetition_window: how many of the last tokens of prompt and completion `repetition_penalty` looks at; None: all.

    Raises:
        InvalidArgument: a value is out of its range, or a truncation is given without a temperature.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    logit_bias: Mapping[int, float] | tuple[tuple[int, float], ...] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    repetition_window: int | None = None

    def __post_init__(self) -> None:
        _check(
            "temperature",
            self.temperature,
            f"0 or a number >= {_COLDEST:g}",
            lambda t: t == 0 or t >= _COLDEST,
        )
        _check("top_k", self.top_k, "a whole number >= 1", lambda k: k >= 1 and float(k).is_integer())
        _check("top_p", self.top_p, "a number above 0, at most 1", lambda p: 0 < p <= 1)
        _check("min_p", self.min_p, "a number from 0 to 1", lambda p: 0 <= p <= 1)
        for name in ("frequency_penalty", "presence_penalty"):
            _check(name, getattr(self, name), "a number", lambda _: True)
        least, most = REPETITION_PENALTIES
        what = f"a number from {least:g} to {most:g}"
        _check("repetition_penalty", self.repetition_penalty, what, lambda r: least <= r <= most)
        window = self.repetition_window
        _check("repetition_window", window, "a whole number >= 0", lambda w: w >= 0 and float(w).is_integer())
        object.__setattr__(self, "logit_bias", _bias_pairs(self.logit_bias))
        # What keeps everything is none: a truncation would only be refused, and named in the distribution.
        for name, nothing in _NOTHING:
            if getattr(self, name) == nothing:
                object.__setattr__(self, name, None)
        if window == 0:  # no token is looked at
            object.__setattr__(self, "repetition_penalty", None)
        if self.repetition_penalty is None:
            object.__setattr__(self, "repetition_window", None)
        if self.greedy and self.truncates:
            raise InvalidArgument(
                "top_k, top_p and min_p have no effect without a temperature",
                action="pass temperature=1.0 (or another) to sample, or leave them out",
            )

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return not self.temperature

    @property
    def truncates(self) -> bool:
        """Whether some tokens that the constraint allows can never be drawn."""
        return any(value is not None for value in (self.top_k, self.top_p, self.min_p))

    @property
    def adjusts(self) -> bool:
        """Whether there are biases or penalties, so that `adjust` changes logits."""
        given = (self.logit_bias, self.frequency_penalty, self.presence_penalty, self.repetition_penalty)
        return any(value is not None for value in given)

    def adjust(
        self, logits: NDArray[np.floating[Any]], prompt: Sequence[int], completion: Sequence[int]
    ) -> NDArray[np.float64]:
        """Logits with the bias, then the penalties, in the order in which vLLM and llama.cpp apply them.

        Args:
            logits: the model's, floating [V].
            prompt: token ids; those of images are left out.
            completion: the token ids before this position.

        Returns:
            New logits, float64 [V].

        Sources: frequency and presence penalty as OpenAI's API defines them; the repetition penalty of Keskar et al.,
        "CTRL" (2019), for negative logits as transformers reads it; its window is llama.cpp's ``repeat_last_n``.
        """
        scores: NDArray[np.float64] = logits.astype(np.float64)
        if self.logit_bias is not None:
            ids, values = zip(*self.logit_bias, strict=True)
            scores[list(ids)] += np.array(values)
        if self.repetition_penalty is not None:
            seen = np.zeros(len(scores), dtype=bool)
            last = _last(self.repetition_window, prompt, completion)
            seen[[token for token in last if token < len(scores)]] = True
            old = scores[seen]
            scores[seen] = np.where(old > 0, old / self.repetition_penalty, old * self.repetition_penalty)
        if completion:
            tokens, counts = np.unique(np.asarray(completion, dtype=np.intp), return_counts=True)
            scores[tokens] -= (self.frequency_penalty or 0.0) * counts + (self.presence_penalty or 0.0)
        return scores

    def scale(self, logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Logits after temperature, in float64 (greedy measures at temperature 1)."""
        wide: NDArray[np.float64] = logits.astype(np.float64)
        return wide if self.greedy else np.divide(wide, float(self.temperature or 1.0), out=wide)

    def truncation_mask(self, scaled: NDArray[np.float64]) -> NDArray[np.intp]:
        """Which of the allowed tokens survive the truncations.

        Args:
            scaled: their logits after temperature, float64 [n], n >= 1, ids ascending.

        Returns:
            Ascending indices into `scaled`, at least one.
        """
        if not self.truncates:
            return np.arange(len(scaled))
        order = np.argsort(-scaled, kind="stable")  # ties: the lower id first
        if self.top_k is not None:
            order = order[: int(self.top_k)]
        if self.top_p is not None:
            mass = np.cumsum(_softmax(scaled[order]))
            # A token stays while those before it have less than top_p; rounding must not cut at top_p = 1.
            before = np.concatenate(([0.0], mass[:-1]))
            order = order[before < self.top_p] if self.top_p < 1 else order
        if self.min_p is not None:
            mass = _softmax(scaled[order])
            order = order[mass >= self.min_p * mass[0]]
        return np.sort(order)


def _last(window: int | None, prompt: Sequence[int], completion: Sequence[int]) -> list[int]:
    """The last tokens of prompt and completion; all of them if there is no window."""
    if window is None:
        return [*prompt, *completion]
    written = list(completion[-window:])
    left = window - len(written)
    return [*prompt[-left:], *written] if left else written


def fit_settings(settings: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """The settings for a vocabulary, without a `top_k` that keeps every one of the `tokens`: it truncates nothing.

    Raises:
        InvalidArgument: `logit_bias` names a token that does not exist.
    """
    top_k, bias = settings.get("top_k"), settings.get("logit_bias")
    for token in bias if isinstance(bias, Mapping) else ():
        if not (isinstance(token, numbers.Integral) and 0 <= int(token) < tokens):
            raise InvalidArgument(
                f"logit_bias names the token {token!r}", action=f"use token ids below {tokens}"
            )
    full = isinstance(top_k, numbers.Integral) and not isinstance(top_k, bool) and int(top_k) >= tokens
    return {**settings, "top_k": None} if full else dict(settings)


def refuse_truncation(warper: LogitsWarper, sampler: str) -> LogitsWarper:
    """Returns the warper if it has no truncation.

    Raises:
        InvalidArgument: it has one.
    """
    if warper.truncates:
        raise InvalidArgument(
            f"top_k, top_p and min_p cannot be used with the sampler {sampler!r}",
            action="leave them out, or use sampler='local'",
        )
    return warper


def untruncated_warper(settings: Mapping[str, Any], sampler: str) -> LogitsWarper:
    """The warper of a sampler that draws from the model's own distribution: temperature 1 by default.

    Raises:
        InvalidArgument: the temperature is 0, or there are truncations; both change the distribution.
    """
    settings = dict(settings)
    if settings.get("temperature") is None:
        settings["temperature"] = 1.0
    warper = refuse_truncation(LogitsWarper(**settings), sampler)
    if warper.greedy:
        raise InvalidArgument(
            f"the sampler {sampler!r} needs a temperature above 0",
            action="leave the temperature out (it is 1 then), or use sampler='local'",
        )
    return warper


_NOTHING = (
    ("top_p", 1),
    ("min_p", 0),
    ("frequency_penalty", 0),
    ("presence_penalty", 0),
    ("repetition_penalty", 1),
)
"""Values that change nothing."""


def _bias_pairs(bias: Any) -> tuple[tuple[int, float], ...] | None:
    """A bias as sorted pairs; None for one that changes nothing.

    Raises:
        InvalidArgument: it is not a mapping of token ids to numbers.
    """
    if bias is None or isinstance(bias, tuple):
        return bias
    if not isinstance(bias, Mapping):
        raise InvalidArgument(f"logit_bias is {bias!r:.60}", action="pass a dict of token ids and numbers")
    for token, value in bias.items():
        if isinstance(token, bool) or not isinstance(token, numbers.Integral) or token < 0:
            raise InvalidArgument(f"logit_bias names the token {token!r}", action="pass token ids")
        _check(f"logit_bias[{token}]", value, "a number", lambda _: True)
    pairs = sorted((int(token), float(value)) for token, value in bias.items() if value)
    return tuple(pairs) or None


def _softmax(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    mass: NDArray[np.float64] = np.exp(scaled - scaled.max())
    total: NDArray[np.float64] = mass / mass.sum()
    return total


def _check(name: str, value: Any, wanted: str, good: Any) -> None:
    if value is None:
        return
    try:
        valid = (
            isinstance(value, numbers.Real)
            and not isinstance(value, bool)
            and math.isfinite(value)
            and good(value)
        )
    except OverflowError:  # a whole number beyond every float
        valid = False
    if not valid:
        raise InvalidArgument(f"{name} is {value!r}", action=f"pass {wanted}, or None")
