// Philox noise, Gumbel-top-k candidates and log-sum-exp of scores: the native part of spec/noise.py and spec/scores.py.
//
// Invariant: the words of noise and the set of candidates are exact. Keys computed here only preselect candidates; the caller
// recomputes them.
// Thread safety: stateless functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spec {

/// The key of the noise of one position: see spec/noise.py.
struct NoiseKey {
    uint64_t seed;
    uint32_t sequence, purpose, position;
};

/// Words that a token has; all but the first are needed where those before them are small.
constexpr uint32_t kLevels = 4;

/// Philox4x32-10: word number `level` of each of the four tokens 4 * block .. 4 * block + 3, for block < 2**30.
std::array<uint32_t, 4> philox(const NoiseKey& key, uint32_t block, uint32_t level = 0);

/// Word number `level` of the tokens `ids`, in order; ids are below 2**32.
void philox_words(const NoiseKey& key, std::span<const int64_t> ids, uint32_t level, uint32_t* out);

/// The numbers between 0 and 1 that the noise of the tokens `ids` is made from, in order.
void uniforms(const NoiseKey& key, std::span<const int64_t> ids, double* out);

/// Ascending indices of a superset of the `count` largest scores[i] * scale + noise of ids[i] (of i, without ids); the
/// superset adds near-ties only. Never contains scores of -inf or NaN.
template <class Score>
std::vector<int64_t> gumbel_candidates(std::span<const Score> scores, double scale, const int64_t* ids, const NoiseKey& key,
                             size_t count);

/// Indices of the `count` largest scores, best first, ties by ascending index; never contains NaN.
template <class Score>
std::vector<int64_t> top_indices(std::span<const Score> scores, size_t count);

/// log of the sum of exp(scores * scale), to a few roundings: -inf for none, NaN where there is a NaN, else inf where
/// there is one.
template <class Score>
double log_sum_exp(std::span<const Score> scores, double scale);

}  // namespace spec
