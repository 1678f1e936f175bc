"""The cache after a tree, and masks onto logits: Triton kernels and twins against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.spec.kernels import InvalidTensor, LayerCaches, apply_masks, compact_kv
from constrained.spec.kernels.caches import compact_kv_torch
from constrained.spec.kernels.masking import apply_masks_torch
from tests.kernels.reference import bits
from tests.support.examples import examples

# ---------------------------------------------------------------- the cache


def moved(cache: np.ndarray, source: np.ndarray, start: np.ndarray) -> np.ndarray:
    out = cache.copy()
    for request, row in enumerate(source):
        for column, taken in enumerate(row):
            if taken >= 0:
                out[request, :, start[request] + column] = cache[request, :, taken]
    return out


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 9))
def test_the_twin_moves_rows_whatever_overlaps(seed, requests, width):
    draw = np.random.default_rng(seed)
    cache = draw.normal(size=(requests, 2, 16, 5)).astype(np.float32)
    source = draw.integers(-1, 16, (requests, width)).astype(np.int32)
    start = draw.integers(0, 16 - width, requests).astype(np.int32)
    given_ = torch.from_numpy(cache.copy())
    compact_kv([given_], torch.from_numpy(source), torch.from_numpy(start))
    assert np.array_equal(given_.numpy(), moved(cache, source, start))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_kernel_moves_all_layers(device, dtype):
    """Layers of two forms, one of them a part of a longer cache; an accepted path, and one in no order at all."""
    from constrained.spec.kernels.gpu.caches import AddressedCaches

    draw = torch.Generator().manual_seed(0)
    long = torch.randn((2, 2, 20, 24), generator=draw).to(dtype)
    caches = [torch.randn((2, 2, 12, 24), generator=draw).to(dtype) for _ in range(2)]
    caches += [long[:, :, :12], torch.randn((2, 1, 12, 5), generator=draw).to(dtype)]
    source = torch.tensor([[4, 6, 7, -1, -1], [9, 4, 5, 11, 4]], dtype=torch.int32)
    start = torch.tensor([4, 5], dtype=torch.int32)
    expected = [moved(one.float().numpy(), source.numpy(), start.numpy()) for one in caches]
    on_device = [one.to(device) if one.shape[2] == one.stride(1) // one.shape[3] else one for one in caches]
    long = long.to(device)
    on_device[2] = long[:, :, :12]
    behind = long[:, :, 12:].clone()
    AddressedCaches(on_device).compact(source.to(device), start.to(device))
    for one, wanted in zip(on_device, expected, strict=True):
        assert np.array_equal(one.float().cpu().numpy(), wanted)
    assert torch.equal(long[:, :, 12:], behind)


def test_the_twin_moves_what_the_kernel_moves_in_any_type():
    cache = torch.arange(24, dtype=torch.int8).reshape(1, 1, 6, 4)
    compact_kv_torch([cache], torch.tensor([[4, 5]], dtype=torch.int32), torch.tensor([3], dtype=torch.int32))
    assert cache[0, 0, 3:5, 0].tolist() == [16, 20]


def copied(theirs: np.ndarray, mine: np.ndarray, *which: int) -> np.ndarray:
    source, target, count, rows, same = which
    out = mine.copy()
    for number in range(count):
        out[target + number, :, :rows] = theirs[source + (0 if same else number), :, :rows]
    return out


@pytest.mark.parametrize("where", ["kernel", "twin"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_first_rows_are_copied_in_all_layers(device, dtype, where):
    """Layers of two forms, from shorter caches with more requests, and within the same ones; more rows than a program copies."""
    from constrained.spec.kernels.gpu.caches import AddressedCaches

    draw = torch.Generator().manual_seed(0)
    forms = [(2, 24), (2, 24), (1, 5)]
    long = [torch.randn((3, heads, 50, size), generator=draw).to(dtype) for heads, size in forms]
    short = [torch.randn((5, heads, 35, size), generator=draw).to(dtype) for heads, size in forms]
    for theirs, mine, which in (
        (short, long, (3, 0, 2, 35, False)),
        (short, long, (4, 1, 2, 1, True)),
        (long, short, (1, 3, 2, 17, False)),
        (long, long, (1, 0, 1, 50, True)),
    ):
        expected = [
            copied(old.float().numpy(), new.float().numpy(), *which)
            for old, new in zip(theirs, mine, strict=True)
        ]
        there = "cpu" if where == "twin" else device
        found = [one.clone().to(there) for one in mine]
        source = found if theirs is mine else [one.clone().to(there) for one in theirs]
        made = LayerCaches if where == "twin" else AddressedCaches
        made(found).copy_from(made(source), *which)
        for one, wanted in zip(found, expected, strict=True):
            assert np.array_equal(one.float().cpu().numpy(), wanted)


def test_caches_whose_layers_are_alike_elsewhere_are_refused(device):
    from constrained.spec.kernels.gpu.caches import AddressedCaches

    long = torch.zeros((1, 1, 8, 4), device=device)
    alike, other = (
        [torch.zeros((1, 1, 4, 4), device=device) for _ in range(2)],
        [long[:, :, :4], long[:, :, :4]],
    )
    other[1] = torch.zeros((1, 1, 4, 4), device=device)
    with pytest.raises(InvalidTensor, match="alike in other layers"):
        AddressedCaches(alike).copy_from(AddressedCaches(other), 0, 0, 1, 2, False)


# ---------------------------------------------------------------- masks onto logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_masks_onto_logits(device, dtype):
    """One row is left alone; what is beyond the table is not allowed; nothing else is touched."""
    from constrained.spec.kernels.gpu.masking import launch_apply_masks

    draw = np.random.default_rng(0)
    whole = torch.from_numpy(draw.normal(size=(3, 200))).to(dtype)
    allowed = draw.random((2, 96)) < 0.5
    table = torch.from_numpy(np.stack([bits(row, 3) for row in allowed]))
    places = torch.tensor([1, -1, 0], dtype=torch.int32)
    expected = whole.clone()
    for row, place in ((0, 1), (2, 0)):
        kept = np.concatenate([allowed[place], np.zeros(37, dtype=bool)])
        expected[row, 10:143][torch.from_numpy(~kept)] = -torch.inf
    for apply in (launch_apply_masks, apply_masks_torch, apply_masks):
        if apply is launch_apply_masks:
            given_ = whole.clone().to(device)
            launch_apply_masks(given_[:, 10:143], table.to(device), places.to(device), block=64)
        else:
            given_ = whole.clone()
            apply(given_[:, 10:143], table, places)
        assert torch.equal(given_.cpu(), expected)


# ---------------------------------------------------------------- arguments


def layers(size: int) -> LayerCaches:
    return LayerCaches([torch.zeros(1, 1, 4, size)])


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda i: compact_kv([torch.zeros(1, 1, 4, 2)], i((1, 2)), i((2,))), r"start has shape \[2\]"),
        (lambda i: compact_kv([torch.zeros(1, 4, 2)], i((1, 2)), i((1,))), r"caches\[0\] has shape"),
        (lambda i: compact_kv([torch.zeros(2, 1, 4, 2)], i((1, 2)), i((1,))), r"source has shape \[1, 2\]"),
        (lambda i: compact_kv([None], i((1, 2)), i((1,))), r"caches\[0\] is NoneType"),
        (
            lambda i: compact_kv([torch.zeros(1, 1, 4, 2), torch.zeros(2, 1, 4, 2)], i((1, 2)), i((1,))),
            r"caches\[1\] has shape",
        ),
        (lambda i: compact_kv([], i((1, 1025)), i((1,))), "source moves 1025 rows"),
        (lambda i: compact_kv([], i((1, 2)).long(), i((1,))), "source has dtype torch.int64"),
        (lambda i: layers(2).copy_from(layers(3), 0, 0, 1, 4), "other has other heads, sizes or types"),
        (lambda i: layers(2).copy_from(layers(2), 0, 0, 1, 5), "5 rows are not in both"),
        (lambda i: layers(2).copy_from(layers(2), 0, 1, 1, 4), "from request 0 to 1, 1 of them"),
        (lambda i: layers(2).copy_from(layers(2), 0, 0, 2, 4), "from request 0 to 0, 2 of them"),
        (lambda i: apply_masks(torch.zeros(2, 8), i((1, 1)), i((3,))), "mask_ids has shape"),
        (lambda i: apply_masks(torch.zeros(2, 8), i((1,)), i((2,))), "mask_table has shape"),
        (lambda i: apply_masks(torch.zeros(2, 8).int(), i((1, 1)), i((2,))), "logits has dtype"),
    ],
)
def test_arguments_are_looked_at(call, problem):
    with pytest.raises(InvalidTensor, match=problem):
        call(lambda shape: torch.zeros(shape, dtype=torch.int32))
