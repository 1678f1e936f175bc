"""The attention of draft trees: the kernel and its twin in torch against float64, with what must not be read set to NaN."""

from __future__ import annotations

import math
import random

import pytest
import torch

from constrained.spec.kernels import InvalidTensor, tree_attention
from constrained.spec.kernels.attention import tree_attention_torch


def trees(
    rng: random.Random, slots: int, nodes: int
) -> tuple[torch.Tensor, torch.Tensor, list[list[set[int]]]]:
    """Words, depths, and the sets of nodes that each node sees."""
    words, depths, sets = [], [], []
    for _ in range(slots):
        seen: list[set[int]] = []
        for i in range(nodes):
            parent = rng.randrange(-1, i)
            seen.append({i} | (seen[parent] if parent >= 0 else set()))
        sets.append(seen)
        depths.append([len(one) - 1 for one in seen])
        words.append([sum(1 << j for j in one) - ((1 << 64) if 63 in one else 0) for one in seen])
    return torch.tensor(words), torch.tensor(depths), sets


def judge(queries, keys, values, lengths, depths, sets, scale, window):
    """One score after another, in float64."""
    slots, heads, nodes, size = queries.shape
    shared = heads // keys.shape[1]
    result = torch.zeros((slots, nodes, heads, size), dtype=torch.float64)
    for slot in range(slots):
        length = int(lengths[slot])
        for node in range(nodes):
            place = length + int(depths[slot, node])
            columns = [c for c in range(length) if not window or c > place - window]
            columns += [
                length + j for j in sorted(sets[slot][node]) if not window or length + int(depths[slot, j]) > place - window
            ]  # fmt: skip
            for head in range(heads):
                k, v = (
                    keys[slot, head // shared, columns].double(),
                    values[slot, head // shared, columns].double(),
                )
                shares = torch.softmax(k @ queries[slot, head, node].double() * scale, dim=0)
                result[slot, node, head] = shares @ v
    return result


CASES = [
    # slots, heads, key heads, nodes, size, lengths, window
    (2, 4, 2, 5, 64, (0, 37), 0),
    pytest.param((1, 6, 2, 64, 64, (70,), 0), marks=pytest.mark.ci),
    (1, 2, 1, 1, 128, (130,), 0),
    (2, 2, 2, 8, 80, (31, 96), 20),
    (1, 1, 1, 16, 256, (65,), 0),
]


@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.ci), torch.bfloat16], ids=str
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_nodes_see_the_text_and_their_ancestors(device, case, dtype):
    slots, heads, groups, nodes, size, lengths, window = case
    torch.manual_seed(nodes)
    columns = max(lengths) + nodes + 9
    words, depths, sets = trees(random.Random(nodes), slots, nodes)
    ends = torch.tensor(lengths)
    queries = torch.randn(slots, nodes, heads, size).to(dtype).transpose(1, 2)
    keys, values = (torch.randn(slots, groups, columns, size).to(dtype) for _ in range(2))
    for slot, end in enumerate(lengths):
        keys[slot, :, end + nodes :] = values[slot, :, end + nodes :] = math.nan
    expected = judge(queries, keys, values, ends, depths, sets, 0.17, window)
    close = {"atol": {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype], "rtol": 0.0}
    given = queries, keys, values, ends, words, depths
    torch.testing.assert_close(tree_attention_torch(*given, 0.17, window).double(), expected, **close)
    from constrained.spec.kernels.gpu.attention import launch_tree_attention

    there = [one.to(device) for one in given]
    found = launch_tree_attention(*there, 0.17, window, split=64)
    torch.testing.assert_close(found.cpu().double(), expected, **close)


@pytest.mark.ci
def test_a_compiled_function_is_one_graph_around_it():
    """`fullgraph`: what cannot be traced is an error."""
    torch.manual_seed(0)
    words, depths, _ = trees(random.Random(0), 2, 4)
    queries, (keys, values) = torch.randn(2, 4, 4, 16), torch.randn(2, 2, 2, 20, 16)
    given = queries, keys, values, torch.tensor([9, 16]), words, depths

    def around(doubled: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return tree_attention(doubled * 2, *others, scale=0.2, window=7) + 1

    compiled = torch.compile(around, fullgraph=True, backend="aot_eager")
    with torch.inference_mode():
        torch.testing.assert_close(compiled(*given), around(*given))
    torch.library.opcheck(torch.ops.constrained.tree_attention.default, (*given, 0.2, 7))


def test_arguments_are_checked():
    one = torch.zeros(1, 2, 3, 16)
    ends, words = torch.zeros(1, dtype=torch.int64), torch.ones(1, 3, dtype=torch.int64)
    good = {
        "queries": one, "keys": torch.zeros(1, 1, 8, 16), "values": torch.zeros(1, 1, 8, 16), "lengths": ends,
        "words": words, "depths": words,
    }  # fmt: skip
    assert tree_attention(**good, scale=1.0).shape == (1, 3, 2, 16)
    for name, wrong in (
        ("queries", torch.zeros(1, 2, 65, 16)), ("queries", torch.zeros(1, 2, 3, 257)),
        ("keys", torch.zeros(1, 3, 8, 16)), ("keys", torch.zeros(1, 1, 8, 16, dtype=torch.float16)),
        ("values", torch.zeros(1, 1, 9, 16)), ("lengths", ends.int()), ("words", words[:, :2]),
    ):  # fmt: skip
        with pytest.raises(InvalidTensor, match=name):
            tree_attention(**{**good, name: wrong}, scale=1.0)
