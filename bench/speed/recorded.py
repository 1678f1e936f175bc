"""Makes a model say a recorded text: after each of its tokens the next one has by far the largest logit.

Where a token stands follows from its position, so this holds in any pass: of a prompt, of one token, of draft tokens that
are checked, of a tree (whose wrong branches get a peak, too, and nobody follows them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from constrained.models.capabilities import CACHE_NAMES

_PEAK = 1e4
_LONGEST = 1 << 14
"""Tokens of a text."""


class ForcedOutput:
    """While it is entered, a transformers model says a text and ends. For passes over a single text.

    Attributes:
        model: a causal language model of transformers.
    """

    def __init__(self, model: Any, prompt: int, tokens: Sequence[int], end: int) -> None:
        """Changes nothing yet; see `say`."""
        self.model = model
        device = next(model.parameters()).device
        self._tokens = torch.zeros(_LONGEST, dtype=torch.int64, device=device)
        # Tokens of the prompt, and the last place of the text.
        self._bounds = torch.zeros(2, dtype=torch.int64, device=device)
        self._hook: Any = None
        self.say(prompt, tokens, end)

    def say(self, prompt: int, tokens: Sequence[int], end: int) -> None:
        """From now on it says this text.

        Args:
            prompt: tokens of the prompt.
            tokens: what it says after the prompt.
            end: the end of sequence that it says then.
        """
        self._tokens[: len(tokens) + 1] = torch.tensor([*tokens, end])
        self._bounds[:] = torch.tensor([prompt, len(tokens)])

    def __enter__(self) -> ForcedOutput:
        self._hook = self.model.register_forward_hook(self._peak, with_kwargs=True)
        return self

    def __exit__(self, *exception: object) -> None:
        self._hook.remove()

    def _peak(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> None:
        logits = outputs.logits
        if logits.shape[0] != 1:
            raise ValueError("a recorded output needs a forward pass with a single sequence")
        positions = kwargs.get("position_ids")
        if positions is None:
            read = next(kwargs[name] for name in CACHE_NAMES if name in kwargs).get_seq_length()
            positions = torch.arange(read - logits.shape[1], read, device=logits.device).unsqueeze(0)
        prompt, last = self._bounds
        at = torch.minimum((positions[0, -logits.shape[1] :] + 1 - prompt).clamp(min=0), last)
        logits.scatter_(2, self._tokens[at].view(1, -1, 1), _PEAK)
