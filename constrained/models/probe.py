"""Probes of a model with a few random tokens: whether two ways of reading them give equal logits.

Each probe returns the largest difference of logits, in standard deviations over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.models.attention_masks import AttentionLayout
from constrained.models.cache import ForwardFunction, forward_row
from constrained.models.sequential_cache import ForwardMode, SequentialCache
from constrained.models.slab_cache import SlabCache
from constrained.models.upload import PassUpload

if TYPE_CHECKING:
    import torch

    from constrained.models.fixed_steps import FixedSteps


def measured_error(trial: Callable[[], float]) -> float | str:
    """The error of a probe; or how it failed."""
    try:
        return float(trial())
    except Exception as failure:  # whatever code a model brings along
        return f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0][:120]}"


def probe_failure(trial: Callable[[], float], tolerance: float) -> str | None:
    """Why a probe failed; None if its error is at most `tolerance`."""
    error = measured_error(trial)
    if isinstance(error, str):
        return error
    return None if error <= tolerance else f"they are off by {error:.2g} standard deviations"


def _ids(size: int, *shape: int) -> Any:
    return np.random.default_rng(0).integers(1, size, shape)  # 0 is often what pads


def _error(actual: Any, expected: Any) -> float:
    """Largest difference of logits [rows, V], in standard deviations; NaN counts as infinite."""
    actual, expected = actual.float(), expected.float()
    error = float((actual - expected).abs().max() / expected.std(dim=-1).mean().clamp(min=1e-30))
    return error if error == error else float("inf")


def tree_error(
    run: ForwardFunction,
    layout: AttentionLayout,
    device: torch.device,
    size: int,
    steps: FixedSteps | None = None,
) -> float:
    """Two ragged rows with trees, twice, against their branches read in one piece; in fixed `steps`, or passes of any size."""
    import torch

    upload = PassUpload(device)
    ids = _ids(size, 4, 12).tolist()
    ids[1][:5], ids[3][:3] = ids[0][:5], ids[2][:3]  # rows 0 and 1 share a prefix, and so do rows 2 and 3
    positions = torch.arange(12, device=device).expand(4, -1)
    whole = run(every=True, input_ids=torch.tensor(ids, device=device), position_ids=positions)
    cache = SlabCache(2, layout, steps)
    errors = []
    tokens, parents = [], []
    for row, length in ((0, 5), (2, 3)):
        tokens.append([*ids[row][: length + 2], *ids[row + 1][length : length + 2]])
        parents.append([*range(-1, length + 1), length - 1, length + 2])
    logits = cache.forward_trees(run, tokens, parents, [4, 2], upload)
    for (row, length), part in zip(((0, 5), (2, 3)), logits, strict=True):
        errors.append(_error(part[:3], whole[row, length - 1 : length + 2]))
        errors.append(_error(part[3:], whole[row + 1, length : length + 2]))
    # One row goes on along its first branch, the other along its second, as far as its first token.
    cache.keep_paths([0, 1], [list(range(7)), [0, 1, 2, 5]])
    logits = cache.forward_trees(
        run,
        [[ids[0][7], ids[1][7], ids[0][8]], [ids[3][4], ids[3][5]]],
        [[-1, -1, 0], [-1, 0]],
        [0, 0],
        upload,
    )
    errors.append(_error(logits[0][[0, 2]], whole[0, 7:9]))
    errors.append(_error(logits[1], whole[3, 4:6]))
    return max(errors)


def rounding_error(run: ForwardFunction, embeddings: Any, device: torch.device, size: int) -> float:
    """Texts against themselves, with each number of their embeddings moved by the spacing of numbers of its size.

    That is how far the model itself carries a rounding, without any tree.
    """
    import torch

    def moved(module: Any, args: Any, output: Any) -> Any:
        signs = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], output.shape))
        factors = 1 + torch.finfo(output.dtype).eps * signs.to(output.device, torch.float32)
        return (output.float() * factors).to(output.dtype)

    texts = torch.tensor(_ids(size, 4, 12), device=device)
    plain = run(every=True, input_ids=texts)
    hook = embeddings.register_forward_hook(moved)
    try:
        other = run(every=True, input_ids=texts)
    finally:
        hook.remove()
    return _error(other.flatten(0, 1), plain.flatten(0, 1))


def context_error(run: ForwardFunction, device: torch.device, size: int) -> float:
    """Texts against those that differ in one token before: what a token in or out of sight changes."""
    import torch

    ids = _ids(size, 4, 12)
    other = ids.copy()
    other[:, 3] = other[:, 3] % (size - 1) + 1
    plain, changed = (run(every=True, input_ids=torch.tensor(texts, device=device)) for texts in (ids, other))
    return _error(changed[:, 5:].flatten(0, 1), plain[:, 5:].flatten(0, 1))


def causality_error(run: ForwardFunction, device: torch.device, size: int) -> float:
    """Logits of a common prefix in two sequences that differ after it."""
    upload = PassUpload(device)
    ids, other = _ids(size, 2, 8).tolist()
    one, two = (forward_row(run, text, None, 0, upload, every=8) for text in (ids, [*ids[:5], *other[5:]]))
    return _error(one[:5], two[:5])


def step_error(run: ForwardFunction, make: Any, device: torch.device, size: int) -> float:
    """A sequence read token by token, against one forward pass over it."""
    import torch

    upload = PassUpload(device)
    ids = _ids(size, 6).tolist()
    cache = SequentialCache(make, ForwardMode.STEPS)
    steps = [cache.forward(run, [part], upload) for part in (ids[:3], *([one] for one in ids[3:]))]
    return _error(torch.cat(steps), forward_row(run, ids, None, 0, upload, every=4))


def isolation_error(run: ForwardFunction, make: Any, device: torch.device, size: int) -> float:
    """A sequence read alone, against one interleaved with another sequence: some models have state outside the cache."""
    import torch

    upload = PassUpload(device)
    ids, other = _ids(size, 2, 6).tolist()
    alone, beside, between = (SequentialCache(make, ForwardMode.STEPS) for _ in range(3))
    parts, others = ([text[:3], *([one] for one in text[3:])] for text in (ids, other))
    expected = [alone.forward(run, [part], upload) for part in parts]
    actual = []
    for part, more in zip(parts, others, strict=True):
        actual.append(beside.forward(run, [part], upload))
        between.forward(run, [more], upload)
    return _error(torch.cat(actual), torch.cat(expected))


def chain_error(run: ForwardFunction, make: Any, device: torch.device, size: int) -> float:
    """A sequence read with right and wrong draft tokens, against token by token."""
    import torch

    upload = PassUpload(device)
    ids, other = _ids(size, 2, 8).tolist()
    cache = SequentialCache(make, ForwardMode.STEPS)
    steps = torch.cat([cache.forward(run, [part], upload) for part in (ids[:3], *([one] for one in ids[3:]))])
    cache = SequentialCache(make, ForwardMode.CHAINS)
    errors, at = [_error(cache.forward(run, [ids[:3]], upload), steps[:1])], 1
    for right, wrong in ((ids[4:5], other[:2]), (ids[6:7], []), ([], other[2:3])):
        chain = [ids[2 + at], *right, *wrong]
        (logits,) = cache.forward_trees(run, [chain], [list(range(-1, len(chain) - 1))], [0], upload)
        errors.append(_error(logits[: len(right) + 1], steps[at : at + len(right) + 1]))
        cache.keep_paths([0], [list(range(1 + len(right)))])
        at += 1 + len(right)
    return max(errors)
