"""The walk through trees, the cache after it, and masks onto logits: Triton kernels and twins against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.kernels import InvalidTensor, apply_masks, compact_kv, noise_keys, split_stats, verify_trees
from spec.kernels.compaction import compact_kv_torch
from spec.kernels.masking import apply_masks_torch
from spec.noise import GumbelNoise
from tests.kernels.reference import Row, bits
from tests.support.examples import examples

VOCABULARY = 40


def grow(rows: list[Row], draw: np.random.Generator, most: int) -> tuple[list[int], list[int]]:
    """A tree as (token, parent) lists, children after parents; half of the children are what the parent draws.

    Rows are used up from the front, one for each node.
    """
    token, parent = [-1], [-1]
    while len(token) < most:
        above = int(draw.integers(len(token)))
        right = rows[above].best(1)[0]
        draft_token = right if draw.random() < 0.5 and right >= 0 else int(draw.integers(VOCABULARY))
        if (draft_token, above) not in zip(token, parent, strict=True):
            token.append(draft_token)
            parent.append(above)
    return token, parent


def linked(parent: list[int]) -> tuple[list[int], list[int]]:
    """The arrays first_child and next_sibling."""
    first, following = [-1] * len(parent), [-1] * len(parent)
    for node in reversed(range(1, len(parent))):
        following[node] = first[parent[node]]
        first[parent[node]] = node
    return first, following


def walked(token: list[int], parent: list[int], rows: list[Row], limit: int) -> list[tuple[int, int]]:
    """(row, token) of each step, by the rule: draw, go to the child with that token, or stop."""
    node, found = 0, []
    while len(found) < limit:
        drawn = rows[node].best(1)[0]
        if drawn < 0:
            break
        found.append((node, drawn))
        children = [i for i in range(len(token)) if parent[i] == node and token[i] == drawn]
        if not children:
            break
        node = children[0]
    return found


def forest(seed: int, sizes: list[int], temperature: float = 0.9):
    """Rows, trees and everything `verify_trees` wants, on the CPU."""
    draw = np.random.default_rng(seed)
    trees, rows = [], []
    for request, size in enumerate(sizes):
        allowed = draw.random((size, VOCABULARY)) < 0.8
        if request == 1:
            allowed[0] = False
        mine = [
            Row(
                draw.normal(0, 3, VOCABULARY).astype(np.float32),
                GumbelNoise(seed, request),
                i,
                temperature,
                allowed[i],
            )
            for i in range(size)
        ]
        trees.append(grow(mine, draw, size))
        rows.append(mine)
    flat = [row for mine in rows for row in mine]
    table = torch.from_numpy(np.stack([bits(row.allowed, 2) for row in flat]))
    logits = torch.from_numpy(np.stack([row.z for row in flat]))
    keys = noise_keys([row.noise for row in flat], [row.position for row in flat], "cpu")
    links = [linked(parent) for _, parent in trees]
    arrays = [
        torch.tensor(array, dtype=torch.int32)
        for array in (
            [token for tokens, _ in trees for token in tokens],
            [node for first, _ in links for node in first],
            [node for _, following in links for node in following],
            np.cumsum([0, *sizes]),
        )
    ]
    masks = (table, torch.arange(len(flat), dtype=torch.int32))
    return rows, trees, (logits, keys, torch.full((len(flat),), temperature)), masks, arrays


def check(walk, rows, trees, limit: int) -> None:
    start = 0
    for request, (mine, (token, parent)) in enumerate(zip(rows, trees, strict=True)):
        path = walked(token, parent, mine, limit)
        rest = [-1] * (limit - len(path))
        assert int(walk.num_tokens[request]) == len(path)
        assert walk.rows[request].tolist() == [start + node for node, _ in path] + rest
        assert walk.tokens[request].tolist() == [drawn for _, drawn in path] + rest
        log_p = [mine[node].scaled[drawn] - mine[node].lse() for node, drawn in path]
        log_z = [mine[node].lse(masked=True) - mine[node].lse() for node, _ in path]
        zeros = [0.0] * len(rest)
        assert np.allclose(walk.log_p[request].cpu(), log_p + zeros, rtol=1e-6, atol=4e-6)
        assert np.allclose(walk.log_z[request].cpu(), log_z + zeros, rtol=1e-6, atol=4e-6)
        start += len(mine)


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32), st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(1, 6))
def test_the_twin_follows_the_rule(seed, sizes, limit):
    rows, trees, drawn, (table, places), arrays = forest(seed, sizes)
    stats = split_stats(*drawn, mask_table=table, mask_ids=places, top_m=2)
    check(verify_trees(stats, *arrays, limit=limit), rows, trees, limit)


def test_the_kernel_follows_the_rule(device):
    """A chain that is right to its end among them, one request that can say nothing, one that is only a root."""
    from spec.kernels.gpu.rows import launch_split_stats
    from spec.kernels.gpu.walk import launch_verify_trees

    rows, trees, drawn, masks, arrays = forest(
        3, [6, 2, 1, 4], temperature=0.0
    )  # the noise is for other tests
    chain, start = trees[3][0], 9
    arrays[0][start : start + 4] = torch.tensor([-1, *(rows[3][i].best(1)[0] for i in range(3))])
    arrays[1][start : start + 4] = torch.tensor([1, 2, 3, -1])
    arrays[2][start : start + 4] = -1
    chain[:], trees[3][1][:] = arrays[0][start : start + 4].tolist(), [-1, 0, 1, 2]
    on_device = [given.to(device) for given in (*drawn, *masks)]
    stats = launch_split_stats(*on_device, 1, split=32, group=4)
    arrays = [array.to(device) for array in arrays]
    for limit in (2, 5):
        check(launch_verify_trees(stats, *arrays, limit), rows, trees, limit)
    assert len(walked(*trees[3], rows[3], 5)) == 4


def test_the_kernel_ends_whatever_the_arrays_say(device):
    """Siblings in a circle: found nowhere, so the walk stops instead of going round."""
    from spec.kernels.gpu.rows import launch_split_stats
    from spec.kernels.gpu.walk import launch_verify_trees

    logits = torch.zeros((3, 8), device=device)
    logits[:, 5] = 100.0
    stats = launch_split_stats(
        logits, noise_keys([GumbelNoise(0)] * 3, [0, 1, 1], device), torch.zeros(3, device=device), None, None, 1,
        split=32, group=4,
    )  # fmt: skip
    arrays = [[-1, 1, 2], [1, -1, -1], [-1, 2, 1], [0, 3]]
    walk = launch_verify_trees(
        stats, *(torch.tensor(array, dtype=torch.int32, device=device) for array in arrays), 4
    )
    assert walk.tokens.tolist() == [[5, -1, -1, -1]]


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
    from spec.kernels.gpu.compaction import launch_compact_kv

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
    launch_compact_kv(on_device, source.to(device), start.to(device))
    for one, wanted in zip(on_device, expected, strict=True):
        assert np.array_equal(one.float().cpu().numpy(), wanted)
    assert torch.equal(long[:, :, 12:], behind)


def test_the_twin_moves_what_the_kernel_moves_in_any_type():
    cache = torch.arange(24, dtype=torch.int8).reshape(1, 1, 6, 4)
    compact_kv_torch([cache], torch.tensor([[4, 5]], dtype=torch.int32), torch.tensor([3], dtype=torch.int32))
    assert cache[0, 0, 3:5, 0].tolist() == [16, 20]


# ---------------------------------------------------------------- masks onto logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_masks_onto_logits(device, dtype):
    """One row is left alone; what is beyond the table is not allowed; nothing else is touched."""
    from spec.kernels.gpu.masking import launch_apply_masks

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


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda i: compact_kv([torch.zeros(1, 1, 4, 2)], i((1, 2)), i((2,))), r"start has shape \[2\]"),
        (lambda i: compact_kv([torch.zeros(1, 4, 2)], i((1, 2)), i((1,))), r"caches\[0\] has shape"),
        (lambda i: compact_kv([torch.zeros(2, 1, 4, 2)], i((1, 2)), i((1,))), r"caches\[0\] has shape"),
        (lambda i: compact_kv([None], i((1, 2)), i((1,))), r"caches\[0\] is NoneType"),
        (lambda i: compact_kv([], i((1, 1025)), i((1,))), "source moves 1025 rows"),
        (lambda i: compact_kv([], i((1, 2)).long(), i((1,))), "source has dtype torch.int64"),
        (lambda i: apply_masks(torch.zeros(2, 8), i((1, 1)), i((3,))), "mask_ids has shape"),
        (lambda i: apply_masks(torch.zeros(2, 8), i((1,)), i((2,))), "mask_table has shape"),
        (lambda i: apply_masks(torch.zeros(2, 8).int(), i((1, 1)), i((2,))), "logits has dtype"),
    ],
)
def test_arguments_are_looked_at(call, problem):
    with pytest.raises(InvalidTensor, match=problem):
        call(lambda shape: torch.zeros(shape, dtype=torch.int32))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"token": torch.zeros(2, dtype=torch.int32)}, r"token has shape \[2\], not \[3\]"),
        ({"first_child": torch.zeros(3)}, "first_child has dtype"),
        ({"next_sibling": None}, "next_sibling is NoneType"),
        ({"offsets": torch.zeros(0, dtype=torch.int32)}, "offsets is empty"),
        ({"limit": 0}, "limit is 0"),
    ],
)
def test_arguments_of_a_walk_are_looked_at(change, problem):
    stats = split_stats(torch.zeros((3, 8)), noise_keys([GumbelNoise(0)] * 3, [0, 1, 1], "cpu"))
    none = torch.full((3,), -1, dtype=torch.int32)
    offsets = torch.tensor([0, 3], dtype=torch.int32)
    fine = {"token": none, "first_child": none, "next_sibling": none, "offsets": offsets, "limit": 2}
    assert verify_trees(stats, **fine).num_tokens.tolist() == [1]
    with pytest.raises(InvalidTensor, match=problem):
        verify_trees(stats, **(fine | change))
