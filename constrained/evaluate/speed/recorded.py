"""Makes a model say a recorded text: after each of its tokens the next one has by far the largest logit.

Where a token stands follows from its position, so this holds in any pass: of a prompt, of one token, of draft tokens that
are checked, of a tree (whose wrong branches get a peak, too, and nobody follows them).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_PEAK = 1e4


class ForcedOutput:
    """While it is entered, a transformers model says a text and ends. For passes over a single text.

    Attributes:
        model: a causal language model of transformers.
    """

    def __init__(self, model: Any, prompt: int, tokens: Sequence[int], end: int) -> None:
        """Changes nothing yet.

        Args:
            model: a causal language model of transformers.
            prompt: tokens of the prompt.
            tokens: what it says after the prompt.
            end: the end of sequence that it says then.
        """
        self.model = model
        self._prompt = prompt
        self._tokens = [*tokens, end]
        self._said: torch.Tensor | None = None
        self._hook: Any = None

    def __enter__(self) -> ForcedOutput:
        self._hook = self.model.register_forward_hook(self._peak, with_kwargs=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hook.remove()

    def _peak(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> None:
        import torch

        logits = outputs.logits
        if logits.shape[0] != 1:
            raise ValueError("a recorded output needs a forward pass with a single sequence")
        if self._said is None or self._said.device != logits.device:
            self._said = torch.tensor(self._tokens, device=logits.device)
        positions = kwargs.get("position_ids")
        if positions is None:
            read = kwargs["past_key_values"].get_seq_length()
            positions = torch.arange(read - logits.shape[1], read, device=logits.device).unsqueeze(0)
        at = (positions[0, -logits.shape[1] :] + 1 - self._prompt).clamp(0, len(self._tokens) - 1)
        logits.scatter_(2, self._said[at].view(1, -1, 1), _PEAK)
