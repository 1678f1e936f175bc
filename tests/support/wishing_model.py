"""`WishingModel`: a model that likes some texts as the values of members."""

from __future__ import annotations

from typing import Any

from constrained.testing.models import FunctionModel
from tests.support.finite import byte_vocabulary


class WishingModel(FunctionModel):
    """Likes some texts where the value of a member begins, each so much; what that means for the logits its subclasses say."""

    def __init__(self, wishes: dict[str, dict[str, float]]) -> None:
        self.vocabulary = byte_vocabulary()
        self.wishes = wishes

    def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
        return list(prompt if isinstance(prompt, str) else prompt[-1]["content"].encode())
