"""Masks of the transformers processor on a device: those of the CPU, by one launch, without a wait."""

from __future__ import annotations

import pytest
import torch

from constrained.integrations.transformers.processor import masked_scores
from constrained.vocabulary import Vocabulary
from tests.support.tiny_models import llama


@pytest.mark.parametrize("columns", [70, 96, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_scores_are_masked_as_on_the_host(device, columns, dtype):
    """Columns within, at the end of, and beyond three words."""
    masks = torch.randint(-(2**31), 2**31, (5, 3)).to(torch.int32)
    ids = torch.tensor([4, 0, 4, 2], dtype=torch.int32)
    scores = torch.randn(4, columns, dtype=dtype)
    expected = [
        [bool(token < 96 and int(masks[place, token // 32]) >> (token % 32) & 1) for token in range(columns)]
        for place in ids.tolist()
    ]
    host = masked_scores(scores, masks, ids)
    assert torch.isfinite(host).tolist() == expected
    there = [device.place(tensor) for tensor in (scores, masks, ids)]
    with device.counted() as record:
        made = masked_scores(*there)
    assert not record.waits
    assert dtype == torch.float64 or record.launches == {"clone": 1, "apply_masks": 1}
    assert torch.equal(made.cpu(), host)
    assert torch.equal(there[0].cpu(), scores)


@pytest.mark.parametrize("limit", [None, 12])
def test_a_step_of_the_processor_waits_for_the_tokens_alone(device, limit):
    """With a token limit masks depend on what is left of it, and are sent in each step."""
    import constrained
    from constrained.integrations.transformers.processor import ConstraintLogitsProcessor

    constraint = constrained.regex(r"[a-z]{3,8}")
    vocabulary = llama().vocabulary
    assert isinstance(vocabulary, Vocabulary)
    processor, expected = (
        ConstraintLogitsProcessor(constraint, vocabulary, max_tokens=limit) for _ in range(2)
    )
    ids = torch.tensor([vocabulary.encode("the")])
    for token in [None, *vocabulary.encode("abcd")]:
        if token is not None:
            ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
        scores = torch.randn(1, vocabulary.size)
        placed = [device.place(tensor) for tensor in (ids, scores)]
        with device.counted() as record:
            made = processor(*placed)
        assert all(wait.why == "copy down" for wait in record.waits), record.waits
        assert len(record.waits) <= 1
        assert torch.equal(made.cpu(), expected(ids, scores))
