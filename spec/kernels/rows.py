"""The statistics of rows of logits that sampling needs, in one read of the logits.

For each row, with z the logits, T the temperature and G the noise of `constrained.spec.noise` (Gumbel-max rule)

    lse             log sum exp(z / T), over all tokens and, given masks, over the allowed ones
    the top m       allowed tokens by key z / T + G: the token that is drawn, the one that would be drawn next if it were
                    rejected, and so on; ties by the lower id

so that 64 rows of 131,072 logits leave the device as 8 KB. The log-sum-exp is merged from pieces of the row as in
online softmax (Milakov & Gimelshein 2018). T = 0 means greedy: keys are z itself, and log-probabilities are those at T = 1.
In float32; 1 / T is rounded once and multiplied.

Must not know: automata, trees, models.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from constrained.spec.kernels import checks, order
from constrained.spec.kernels.row_stats import RowStats, SplitStats
from constrained.spec.noise import GumbelNoise, philox4x32, torch_gumbel

MAX_TOP_M = 64
"""The largest m."""


def noise_keys(
    noises: Sequence[GumbelNoise], positions: Sequence[int], device: torch.device | str
) -> torch.Tensor:
    """The words that key the noise of rows, int64 ``[rows, 5]``: seed (low, high), position, sequence, purpose.

    Args:
        noises: of each row.
        positions: absolute position of the token that each row draws, 0 .. 2**32 - 1.
        device: where the logits are.

    Raises:
        ValueError: a position is out of range, or `positions` and `noises` differ in length.
    """
    words = []
    for noise, position in zip(noises, positions, strict=True):
        if not 0 <= position < 1 << 32:
            raise ValueError(f"position {position} is out of range: it must be in 0 .. 2**32 - 1")
        words.append((noise.seed & 0xFFFFFFFF, noise.seed >> 32, position, noise.sequence, noise.purpose))
    return torch.tensor(words, dtype=torch.int64).reshape(-1, 5).to(device)


def row_stats(
    logits: torch.Tensor,
    keys: torch.Tensor,
    temperature: torch.Tensor | float = 1.0,
    *,
    mask_table: torch.Tensor | None = None,
    mask_ids: torch.Tensor | None = None,
    top_m: int = 16,
) -> RowStats:
    """The log-sum-exp and the top m of every row.

    Args:
        logits: bfloat16, float16 or float32 ``[rows, vocabulary]``, each row contiguous.
        keys: of the noise, from `noise_keys`; int64 ``[rows, 5]``.
        temperature: 0 (greedy) or more, one for all or float32 ``[rows]``.
        mask_table: masks, int32 ``[masks, words]``, token t at bit ``t % 32`` of word ``t // 32``; tokens beyond it are
            not allowed.
        mask_ids: index into the table for each row, int32 ``[rows]``; -1: all tokens are allowed.
        top_m: how many tokens, 1 .. 64.

    Raises:
        InvalidTensor: an argument has the wrong shape, type or device.
    """
    return merge_splits(
        split_stats(logits, keys, temperature, mask_table=mask_table, mask_ids=mask_ids, top_m=top_m)
    )


def split_stats(
    logits: torch.Tensor,
    keys: torch.Tensor,
    temperature: torch.Tensor | float = 1.0,
    *,
    mask_table: torch.Tensor | None = None,
    mask_ids: torch.Tensor | None = None,
    top_m: int = 16,
) -> SplitStats:
    """The first half of `row_stats`; see `row_stats` for arguments and errors."""
    checks.check_tensor("logits", logits, checks.FLOATS, (None, None))
    rows = len(logits)
    if not 0 < logits.shape[1] < 1 << 31:
        raise checks.InvalidTensor("logits", f"has {logits.shape[1]} tokens, not 1 .. 2**31 - 1")
    checks.check_tensor("keys", keys, (torch.int64,), (rows, 5), logits)
    if not isinstance(temperature, torch.Tensor):
        if not 0 <= temperature < float("inf"):
            raise checks.InvalidTensor("temperature", f"is {temperature}, not 0 or more")
        temperature = torch.full((rows,), temperature, dtype=torch.float32, device=logits.device)
    checks.check_tensor("temperature", temperature, (torch.float32,), (rows,), logits)
    if (mask_table is None) != (mask_ids is None):
        raise checks.InvalidTensor(
            "mask_ids" if mask_ids is None else "mask_table", "is missing: pass both or neither"
        )
    if mask_table is not None:
        checks.check_masks(mask_table, mask_ids, rows, logits)
    if not 1 <= top_m <= MAX_TOP_M:
        raise checks.InvalidTensor("top_m", f"is {top_m}, not 1 .. {MAX_TOP_M}")
    if checks.uses_triton(logits):
        from constrained.spec.kernels.gpu.rows import launch_split_stats

        with torch.cuda.device(logits.device):
            return launch_split_stats(logits, keys, temperature, mask_table, mask_ids, top_m)
    return split_stats_torch(logits, keys, temperature, mask_table, mask_ids, top_m)


def merge_splits(stats: SplitStats) -> RowStats:
    """The second half of `row_stats`: merges the splits of each row."""
    if checks.uses_triton(stats.logits):
        from constrained.spec.kernels.gpu.rows import launch_merge_splits

        with torch.cuda.device(stats.logits.device):
            return launch_merge_splits(stats)
    return merge_splits_torch(stats)


def split_stats_torch(
    logits: torch.Tensor,
    keys: torch.Tensor,
    temperature: torch.Tensor,
    mask_table: torch.Tensor | None,
    mask_ids: torch.Tensor | None,
    top_m: int,
) -> SplitStats:
    """`split_stats` in torch; every row is one split."""
    z = logits.to(torch.float32) * _scale(temperature)[:, None]
    ids = torch.arange(z.shape[1], device=z.device)
    allowed = (
        None if mask_table is None or mask_ids is None else unpack_masks(mask_table, mask_ids, z.shape[1])
    )
    drawn = torch.where((temperature > 0)[:, None], z + gumbel_rows(keys, z.shape[1]), z)
    possible = z > -torch.inf if allowed is None else allowed & (z > -torch.inf)
    best = order.pack_keys(torch.where(possible, drawn, -torch.inf), ids)
    if z.shape[1] < top_m:
        nothing = order.pack_keys(torch.full_like(z[:, :1], -torch.inf), ids[:1])
        best = torch.cat((best, nothing.expand(-1, top_m - z.shape[1])), dim=1)
    masses = _mass(z)
    masses = torch.cat(
        (masses, masses if allowed is None else _mass(torch.where(allowed, z, -torch.inf))), dim=1
    )
    best = torch.topk(best, top_m, dim=1).values
    return SplitStats(best[:, None, :], masses[:, None, :], logits, temperature, top_m)


def merge_splits_torch(stats: SplitStats) -> RowStats:
    """`merge_splits` in torch."""
    best = torch.topk(stats.best.flatten(1), stats.top_m, dim=1).values
    ids, keys = order.ids_of(best), order.keys_of(best)
    lse, log_z = log_partition(stats)
    z = stats.logits.gather(1, ids.clamp(min=0).to(torch.int64)).to(torch.float32)
    log_p = z * _scale(stats.temperature)[:, None] - lse[:, None]
    return RowStats(ids, keys, torch.where(ids < 0, -torch.inf, log_p), lse, log_z)


def log_partition(stats: SplitStats) -> tuple[torch.Tensor, torch.Tensor]:
    """The log-sum-exp of every row and the log of what is allowed of it, float32 ``[rows]`` each, in torch."""
    lse = _merged(stats.masses[:, :, 0], stats.masses[:, :, 1])
    allowed = _merged(stats.masses[:, :, 2], stats.masses[:, :, 3])
    return lse, torch.where(allowed == -torch.inf, allowed, allowed - lse)


def gumbel_rows(keys: torch.Tensor, size: int) -> torch.Tensor:
    """Gumbel noise of whole rows, float32 ``[rows, size]``, for keys int64 ``[rows, 5]``."""
    blocks = torch.arange((size + 3) // 4, device=keys.device)[None, :]
    words = torch.stack(_philox_blocks(keys[:, :, None], blocks), dim=-1).flatten(1)[:, :size]

    def further(some: tuple[torch.Tensor, ...], level: int) -> torch.Tensor:
        row, token = some
        block = (token >> 2) | level << 30
        table = torch.stack(_philox_blocks(keys[row][:, :, None], block[:, None]), dim=-1)
        return table[torch.arange(len(token), device=keys.device), 0, token & 3]

    return torch_gumbel(words, further)


def _philox_blocks(keys: torch.Tensor, blocks: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The four words of blocks int64 ``[rows or 1, n]`` for keys int64 ``[rows, 5, 1]``: int64 ``[rows, n]`` each."""
    low, high, position, sequence, purpose = (keys[:, i] for i in range(5))
    zero = torch.zeros_like(blocks)
    counter = (blocks + 0 * low, zero + position, zero + sequence, zero + purpose)
    return philox4x32(counter, (low, high))


def unpack_masks(mask_table: torch.Tensor, mask_ids: torch.Tensor, size: int) -> torch.Tensor:
    """Masks as bool ``[rows, size]``; index -1 allows all tokens, and tokens beyond the table are not allowed."""
    words = mask_table[mask_ids.clamp(min=0).to(torch.int64)]
    bits = (words[:, :, None] >> torch.arange(32, device=mask_table.device, dtype=torch.int32)) & 1
    allowed = torch.zeros((len(mask_ids), size), dtype=torch.bool, device=mask_table.device)
    known = min(size, 32 * mask_table.shape[1])
    allowed[:, :known] = bits.reshape(len(mask_ids), -1)[:, :known] != 0
    return allowed | (mask_ids < 0)[:, None]


def _scale(temperature: torch.Tensor) -> torch.Tensor:
    return torch.where(temperature > 0, 1.0 / temperature, 1.0)


def _mass(z: torch.Tensor) -> torch.Tensor:
    """The largest entry of each row, and the sum of exp(entry - largest), ``[rows, 2]``."""
    peak = z.amax(dim=1, keepdim=True)
    mass = torch.exp(z - torch.where(peak == -torch.inf, 0.0, peak)).sum(dim=1, keepdim=True)
    return torch.cat((peak, mass), dim=1)


def _merged(peak: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """The log-sum-exp of rows from those of their splits."""
    whole = peak.amax(dim=1)
    whole = torch.where(whole == -torch.inf, 0.0, whole)
    return whole + torch.log((mass * torch.exp(peak - whole[:, None])).sum(dim=1))
