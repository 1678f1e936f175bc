// A row of scores, as a draw reads it: the noise of its tokens, the few that can win, the mass of all. The definitions
// are spec/noise.py and spec/scores.py. Invariant: what decides a draw, integers and which tokens can win, is exact;
// keys that are compared here only narrow down, and are computed again by whoever draws.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spec {

/// What keys the noise of one place: see spec/noise.py.
struct NoiseKey {
    uint64_t seed;
    uint32_t sequence, purpose, position;
};

/// Philox4x32-10: the words of the four tokens 4 * block .. 4 * block + 3.
std::array<uint32_t, 4> philox(const NoiseKey& key, uint32_t block);

/// The words of tokens, in their order.
void words(const NoiseKey& key, std::span<const int64_t> ids, uint32_t* out);

/// Indices, ascending, of a superset of the `count` largest scores[i] * scale + noise of ids[i] (of i, without ids),
/// larger by near-ties only. Scores of -inf and NaN are never among them.
template <class Score>
std::vector<int64_t> leading(std::span<const Score> scores, double scale, const int64_t* ids, const NoiseKey& key,
                             size_t count);

/// Indices of the `count` largest scores, best first, of equal ones the lower first; NaN is never among them.
template <class Score>
std::vector<int64_t> largest(std::span<const Score> scores, size_t count);

/// log of the sum of exp(scores * scale), to a few roundings: -inf for none, NaN where there is a NaN, else inf where
/// there is one.
template <class Score>
double log_sum_exp(std::span<const Score> scores, double scale);

}  // namespace spec
