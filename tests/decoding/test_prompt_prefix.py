"""What prompts have in common is read once."""

from __future__ import annotations

from typing import Any

import pytest

import constrained
from constrained.decoding.prompt_prefix import PromptPrefix


def test_a_common_prefix_is_read_once_and_changes_no_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = constrained.load()
    read: list[int] = []
    forward = type(model).forward

    def counted(self: Any, tokens: Any, cache: Any) -> Any:
        read.append(len(tokens[0]))
        return forward(self, tokens, cache)

    monkeypatch.setattr(type(model), "forward", counted)
    shared = list(range(300, 340))
    prompts = [[*shared, *range(400 + i, 410 + i)] for i in range(4)] + [[*shared[:35], 7, 8], [9] * 50]
    prefix = PromptPrefix(model)
    for prompt in prompts:
        cache, known = prefix.cache_for(prompt)
        assert cache.lengths == [known]
        logits = model.forward([prompt[known:]], cache)
        alone = model.forward([prompt], model.cache(1))
        read.pop()
        assert abs(logits - alone).max() < 1e-3
    # The first alone; the prefix of the first two; 10 tokens each; a shorter prefix; the last has another one.
    assert read == [50, 40, 10, 10, 10, 35, 2, 50]
    prefix.clear()
    assert prefix.cache_for(prompts[0])[1] == 0
