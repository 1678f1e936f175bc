"""Layers that append in place: equal to layers that copy all columns, whatever copies of them do meanwhile."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained.decoding.prompt_prefix import PromptPrefix
from constrained.models.growing_layer import GrowingLayer
from constrained.models.selection import Selection

HEADS, SIZE = 2, 3
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["update", "fork", "select", "join", "crop"]), st.integers(0, 9), st.integers(1, 70)
    ),
    min_size=1,
    max_size=12,
)


@given(OPERATIONS)
def test_forks_see_the_columns_that_they_appended_and_no_others(
    operations: list[tuple[str, int, int]],
) -> None:
    """The judge keeps a tensor for each layer and concatenates, as transformers does."""
    torch.manual_seed(len(operations))

    def fresh(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, HEADS, columns, SIZE)

    def start() -> tuple[Any, torch.Tensor]:
        layer, first = GrowingLayer(), fresh(2, 3)
        layer.update(first, -first)
        return layer, first

    known = [start()]
    for name, which, count in operations:
        index = which % len(known)
        layer, expected = known[index]
        if name == "update":
            new = fresh(len(expected), count)
            keys, values = layer.update(new, -new)
            expected = torch.cat([expected, new], dim=2)
            assert torch.equal(keys, expected)
            assert torch.equal(values, -expected)
        elif name == "fork":
            known.append((copy.copy(layer), expected))
        elif name == "select":
            rows = None if which % 3 == 2 else [len(expected) - 1, *([0] if count % 2 else [])]
            columns = np.arange(min(count % 3, expected.shape[2] - 1), expected.shape[2])
            layer.select(Selection(rows, columns, expected.shape[2]))
            expected = expected[range(len(expected)) if rows is None else rows][:, :, columns]
        elif name == "join":
            other, theirs = start()
            width = max(expected.shape[2], 3) + count % 2
            layer.append_rows([other], width)
            pads = [torch.zeros(len(t), HEADS, width - t.shape[2], SIZE) for t in (expected, theirs)]
            expected = torch.cat(
                [torch.cat([p, t], dim=2) for p, t in zip(pads, (expected, theirs), strict=True)]
            )
        elif expected.shape[2] > 1:
            layer.crop(-1)
            expected = expected[:, :, :-1]
        known[index] = (layer, expected)
        for one, whole in known:
            assert torch.equal(one.keys, whole)
            assert torch.equal(one.values, -whole)
            assert one.get_seq_length() == whole.shape[2]


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
