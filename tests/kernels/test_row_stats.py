"""Row statistics: Triton kernel and torch twin against the definitions in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.spec.kernels import InvalidTensor, noise_keys, row_stats, split_stats
from constrained.spec.kernels.rows import gumbel_rows, merge_splits_torch, split_stats_torch
from constrained.spec.noise import GumbelNoise
from tests.exactness.philox import places, uniforms_of
from tests.kernels.reference import Row, bits, check
from tests.support.examples import examples


def arguments(rows: list[Row], words: int, device: str = "cpu", dtype: torch.dtype = torch.float32):
    """Tensors of rows; the first one's place is -1 where everything is allowed to it, masks stand in reverse."""
    table = np.stack([bits(row.allowed, words) for row in reversed(rows)])
    places = [-1 if row.allowed.all() else len(rows) - 1 - i for i, row in enumerate(rows)]
    return (
        torch.from_numpy(np.stack([row.z for row in rows])).to(device, dtype),
        noise_keys([row.noise for row in rows], [row.position for row in rows], device),
        torch.tensor([row.temperature for row in rows], dtype=torch.float32, device=device),
        torch.from_numpy(table).to(device),
        torch.tensor(places, dtype=torch.int32, device=device),
    )


def random_rows(size: int, seed: int, dtype: torch.dtype = torch.float32) -> list[Row]:
    """Rows of every kind: sampled, greedy with ties, hot; unmasked, masked, masked to few, to none, impossible."""
    draw = np.random.default_rng(seed)

    def logits() -> np.ndarray:
        return torch.from_numpy(draw.normal(0, 3, size)).to(dtype).to(torch.float32).numpy()

    everything = np.ones(size, dtype=bool)
    half, few, none = draw.random(size) < 0.5, np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    few[draw.choice(size, 3, replace=False)] = True
    tied = np.round(logits())
    tied[::3] = -0.0
    forbidden = np.where(draw.random(size) < 0.9, -np.inf, logits()).astype(np.float32)
    return [
        Row(logits(), GumbelNoise(seed), 7, 1.0, everything),
        Row(tied, GumbelNoise(1), 0, 0.0, half),
        Row(logits(), GumbelNoise(2**64 - 1, 2**32 - 1, 3), 2**32 - 1, 0.5, few),
        Row(logits(), GumbelNoise(2, 5), 12, 3.0, none),
        Row(forbidden, GumbelNoise(3), 12, 1.25, half),
        Row(np.full(size, -np.inf, dtype=np.float32), GumbelNoise(3), 1, 1.0, everything),
    ]


@pytest.mark.parametrize(("size", "m"), [(1, 1), (5, 16), (777, 16), (1000, 5)])
def test_the_twin_follows_the_definitions(size, m):
    rows = random_rows(max(size, 3), seed=size) if size > 3 else random_rows(8, seed=1)
    logits, keys, temperature, table, places = arguments(rows, (len(rows[0].z) + 31) // 32)
    check(row_stats(logits, keys, temperature, mask_table=table, mask_ids=places, top_m=m), rows, m)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_follows_the_definitions(device, dtype):
    """A size that is a multiple of nothing, in pieces of 512, the last of them short; m = 5 is no power of two."""
    from constrained.spec.kernels.gpu.rows import launch_merge_splits, launch_split_stats

    size, m = 777, 5
    rows = random_rows(size, seed=11, dtype=dtype)[: 6 if dtype == torch.float32 else 2]
    given = arguments(rows, (size + 31) // 32, device, dtype)
    check(launch_merge_splits(launch_split_stats(*given, m, split=512, group=16)), rows, m)


def test_the_kernel_in_its_own_sizes(device):
    """Two pieces of 8,192, and a mask that ends before the logits do: what is beyond it is not allowed."""
    from constrained.spec.kernels.gpu.rows import launch_merge_splits, launch_split_stats

    size, words, m = 8192 + 31, 250, 16
    draw = np.random.default_rng(5)
    allowed = draw.random(size) < 0.7
    allowed[32 * words :] = False
    row = Row(draw.normal(0, 4, size).astype(np.float32), GumbelNoise(9, 1), 4, 0.8, allowed)
    check(launch_merge_splits(launch_split_stats(*arguments([row], words, device), m)), [row], m)
    row = Row(row.z, row.noise, row.position, row.temperature, np.ones(size, dtype=bool))
    logits, keys, temperature, _, _ = arguments([row], words, device)
    check(launch_merge_splits(launch_split_stats(logits, keys, temperature, None, None, m)), [row], m)


@pytest.mark.ci
def test_the_search_goes_on_while_a_bound_is_above_the_keys_found(device):
    """The first word of `low` is 0: its bound is 87, its key some 23. The best keys lie in between, in other groups."""
    from constrained.spec.kernels.gpu.rows import launch_merge_splits, launch_split_stats

    size, group, m, seed = 512, 16, 2, 5
    for low, position, sequence, purpose in itertools.islice(places(0, size, seed), 2):
        noise = GumbelNoise(seed, sequence, purpose)
        best = [(low // group + i) % (size // group) * group for i in (3, 2, 1)]  # in groups of their own
        z = np.full(size, -1000, dtype=np.float32)
        z[low] = 0
        z[best] = np.array([50, 45, 40], dtype=np.float32) - noise.gumbel(position, np.array(best))
        row = Row(z, noise, position, 1.0, np.ones(size, dtype=bool))
        assert row.best(3) == best
        given = arguments([row], size // 32, device)
        check(launch_merge_splits(launch_split_stats(*given, m, split=size, group=group)), [row], m)


@settings(max_examples=examples(50))
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_rows_have_the_noise_of_the_definition(seed, sequence, position, size):
    noise = GumbelNoise(seed, sequence)
    drawn = gumbel_rows(noise_keys([noise], [position], "cpu"), size)[0]
    assert torch.equal(drawn, noise.torch_gumbel(position, torch.arange(size)))


def test_the_kernel_has_the_noise_of_the_definition(device):
    """Keys of a row of zeros are the noise itself, of every token."""
    from constrained.spec.kernels.gpu.rows import launch_merge_splits, launch_split_stats

    noise, size = GumbelNoise(2**63 + 12345, 2**31 + 1, 2**32 - 1), 61
    logits = torch.zeros((1, size), device=device)
    keys = noise_keys([noise], [2**31 + 7], device)
    stats = launch_merge_splits(
        launch_split_stats(logits, keys, torch.ones(1, device=device), None, None, 64, split=512, group=4)
    )
    ids = stats.ids[0, :size].cpu().numpy()
    assert sorted(ids) == list(range(size))
    assert np.allclose(stats.keys[0, :size].cpu(), noise.gumbel(2**31 + 7, ids), rtol=1e-6, atol=2e-6)


@pytest.mark.ci
def test_the_noise_of_every_word_is_precise(device):
    """Also where the hardware's logarithm is not, and where a token needs all of its words; and never above its bound."""
    from tests.kernels.noise_kernel import noise_of

    seed, size = 5, 8
    spread = [int(word) for word in np.concatenate([2 ** np.arange(32), 2**32 - 2 ** np.arange(32)])]
    found = [next(places(word, 1 << 17, seed, word)) for word in [0, 0, 3, 2**22 - 1, *spread[::7]]]
    blocks, keys, wanted = [], [], []
    for token, position, sequence, purpose in found:
        block = token // 4 + np.arange(size)
        blocks.append(block)
        keys.append((seed, 0, position, sequence, purpose))
        ids = np.arange(4 * block[0], 4 * block[-1] + 4)
        wanted.append(-np.log(-np.log1p(-uniforms_of(seed, sequence, purpose, position, ids))))
    out, bound = (torch.empty(4 * size * len(found), device=device) for _ in range(2))
    noise_of[(len(found),)](
        torch.from_numpy(np.concatenate(blocks)).to(device), torch.tensor(keys).to(device), out, bound, n=size
    )
    definition = np.concatenate(wanted)
    assert definition.max() > 22.2
    assert np.allclose(out.cpu(), definition, rtol=5e-7, atol=5e-7)
    assert (bound.cpu().numpy() > definition - 1e-5).all()
    assert np.allclose(bound.cpu()[definition < 6.9], definition[definition < 6.9], rtol=2e-6, atol=2e-6)


@pytest.mark.ci
def test_the_kernel_finds_the_tail(device):
    """A likely token and a flat tail, where first words of the tail are 0: bounds lie far above the keys then."""
    from constrained.spec.kernels.gpu.rows import launch_merge_splits, launch_split_stats

    size, seed = 2048, 5
    found = places(0, size, seed)
    for mass, counts in ((1e-7, (4,)), (1e-3, (1,)), (0.5, (4,))):
        token, position, sequence, purpose = next(found)
        z = np.full(size, np.log(mass / size), dtype=np.float32)
        z[7] = 0.0
        row = Row(z, GumbelNoise(seed, sequence, purpose), position, 1.0, np.ones(size, dtype=bool))
        assert token in row.best(2)
        logits, keys, temperature, _, _ = arguments([row], size // 32, device)
        for m in counts:
            stats = launch_split_stats(logits, keys, temperature, None, None, m, split=1024, group=16)
            check(launch_merge_splits(stats), [row], m)


def test_the_kernel_looks_at_more_groups_where_bounds_are_loose(device):
    """Keys of a row of equal logits: the best of each group are looked at until no bound is above the m-th key."""
    from constrained.spec.kernels.gpu.rows import launch_merge_splits, launch_split_stats

    for step in range(3):
        z = np.zeros(2048, dtype=np.float32)
        row = Row(z, GumbelNoise(step), step, 1.0, np.ones(len(z), dtype=bool))
        logits, keys, temperature, _, _ = arguments([row], len(z) // 32, device)
        stats = launch_split_stats(logits, keys, temperature, None, None, 1, split=2048, group=4)
        check(launch_merge_splits(stats), [row], 1)


def test_a_row_that_is_no_distribution_has_no_log_sum_exp(device):
    from constrained.spec.kernels.gpu.rows import launch_merge_splits, launch_split_stats

    logits = torch.zeros((2, 40))
    logits[0, 3], logits[1, 39] = torch.nan, torch.inf
    given = (logits, noise_keys([GumbelNoise(0)] * 2, [0, 0], "cpu"), torch.ones(2))
    assert merge_splits_torch(split_stats_torch(*given, None, None, 4)).lse.isnan().all()
    on_device = [one.to(device) for one in given]
    stats = launch_merge_splits(launch_split_stats(*on_device, None, None, 4, split=64, group=16))
    assert stats.lse.isnan().all()


def test_rows_may_be_part_of_something_wider(device):
    from constrained.spec.kernels.gpu.rows import launch_merge_splits, launch_split_stats

    draw = np.random.default_rng(2)
    whole = torch.from_numpy(draw.normal(0, 3, (2, 100)).astype(np.float32)).to(device)
    part = whole[:, 10:70]
    rows = [Row(part[i].cpu().numpy(), GumbelNoise(i), i, 1.0, np.ones(60, dtype=bool)) for i in range(2)]
    keys = noise_keys([GumbelNoise(0), GumbelNoise(1)], [0, 1], device)
    given = (part, keys, torch.ones(2, device=device), None, None, 4)
    check(launch_merge_splits(launch_split_stats(*given, split=64, group=16)), rows, 4)
    check(merge_splits_torch(split_stats_torch(*given)), rows, 4)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"logits": torch.zeros(4)}, r"logits has shape \[4\], not \[any, any\]"),
        ({"logits": torch.zeros(2, 8, dtype=torch.float64)}, "logits has dtype torch.float64"),
        ({"logits": torch.zeros(8, 2).T}, "logits has stride"),
        ({"logits": torch.zeros(2, 0)}, "logits has 0 tokens"),
        ({"logits": [[0.0]]}, "logits is list, not a tensor"),
        ({"keys": torch.zeros((2, 4), dtype=torch.int64)}, "keys has shape"),
        ({"keys": torch.zeros((3, 5), dtype=torch.int64)}, "keys has shape"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": torch.ones(2, dtype=torch.float64)}, "temperature has dtype"),
        ({"mask_table": torch.zeros((1, 1), dtype=torch.int32)}, "mask_ids is missing"),
        ({"mask_ids": torch.zeros(2, dtype=torch.int32)}, "mask_table is missing"),
        (
            {
                "mask_table": torch.zeros((1, 1), dtype=torch.int32),
                "mask_ids": torch.zeros(2, dtype=torch.int64),
            },
            "mask_ids has dtype",
        ),
        ({"top_m": 0}, "top_m is 0"),
        ({"top_m": 65}, "top_m is 65"),
    ],
)
def test_arguments_are_looked_at(change, problem):
    given = {
        "logits": torch.zeros((2, 8)),
        "keys": noise_keys([GumbelNoise(0)] * 2, [0, 1], "cpu"),
        "temperature": 1.0,
    }
    given |= change
    with pytest.raises(InvalidTensor, match=problem):
        split_stats(given.pop("logits"), given.pop("keys"), given.pop("temperature"), **given)


def test_no_rows_are_no_rows():
    stats = row_stats(torch.zeros((0, 9)), noise_keys([], [], "cpu"), 1.0, top_m=3)
    assert stats.ids.shape == (0, 3)
    assert stats.lse.shape == (0,)


def test_positions_are_looked_at():
    with pytest.raises(ValueError, match="position -1 is out of range"):
        noise_keys([GumbelNoise(0)], [-1], "cpu")
