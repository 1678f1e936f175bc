"""Log-likelihoods: what a model thinks of texts that it did not write."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from constrained.models.hugging_face import HuggingFaceModel


def score_continuations(
    model: HuggingFaceModel, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], context: int
) -> list[tuple[float, bool]]:
    """Scores continuations of token ids in one forward pass. Constraints do not apply.

    Args:
        model: reads them.
        pairs: context, at least one id, and continuation, at least one; only the last ``context + 1`` ids are used.
        context: positions that the model reads.

    Returns:
        For each: the log-probability of the continuation in nats, and whether greedy decoding would write it.
    """
    import torch

    rows = [[*before, *text][-(context + 1) :] for before, text in pairs]
    continuations = [text[-len(row) + 1 :] for (_, text), row in zip(pairs, rows, strict=True)]
    width = max(len(row) - 1 for row in rows)
    # Padding on the right: no token of a causal model attends to it.
    ids = torch.zeros((len(rows), width), dtype=torch.long, device=model.device)
    for place, row in enumerate(rows):
        ids[place, : len(row) - 1] = torch.tensor(row[:-1])
    first = min(len(row) - 1 - len(text) for row, text in zip(rows, continuations, strict=True))
    options: dict[str, Any] = {"use_cache": False}
    if "logits_to_keep" in inspect.signature(model.model.forward).parameters:
        options["logits_to_keep"] = width - first  # skips logits that are not needed
    scores = []
    with torch.inference_mode():
        logits = model.model(input_ids=ids, **options).logits
        skipped = width - logits.shape[1]
        for place, (row, text) in enumerate(zip(rows, continuations, strict=True)):
            end = len(row) - 1 - skipped
            logprobs = logits[place, end - len(text) : end].to(torch.float32).log_softmax(-1)
            targets = torch.tensor(text, device=logprobs.device)
            total = float(logprobs.gather(1, targets[:, None]).sum())
            scores.append((total, bool((logprobs.argmax(-1) == targets).all())))
    return scores
