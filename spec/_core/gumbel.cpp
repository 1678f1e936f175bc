#include "gumbel.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

// Wide registers are used where the processor has them; every clone does the same steps.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SPEC_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#define SPEC_AVX2 __attribute__((target("avx2")))
#include <immintrin.h>
#else
#define SPEC_WIDE
#endif

namespace spec {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMostNoise = 88.0;  // a little more than the largest Gumbel noise
constexpr uint32_t kCoarse = 1u << 22;  // words from here on need no further word
constexpr double kNear = 2.0;        // scores this close to the best are looked at first
constexpr size_t kLanes = 8;
constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;

/// The number v between 0 and 1 of a token, from its first word and, where that is small, further ones: see spec/noise.py.
double uniform(const NoiseKey& key, uint64_t id, uint32_t word) {
    uint64_t bits = word;
    double unit = 0x1p-32;
    for (uint32_t level = 1; bits < kCoarse && level < kLevels; ++level) {
        bits = bits << 32 | philox(key, static_cast<uint32_t>(id >> 2), level)[id & 3];
        unit *= 0x1p-32;
    }
    return std::max((static_cast<double>(bits) + 0.5) * unit, 0x1p-126);
}

/// The keys of the leaders so far, and the key that one has to reach to be among them.
class Leaders {
public:
    /// `top` is the largest score: keys are off by rounding, by less than `slack_`.
    Leaders(const NoiseKey& key, size_t count, double top)
        : key_(key), count_(count), slack_(1e-6 + 1e-14 * std::abs(top)) {
        keys_.reserve(count + 1);
    }

    double least() const { return least_; }

    void look(int64_t index, int64_t id, double score) {
        if (static_cast<uint64_t>(id) >> 2 != block_) {
            block_ = static_cast<uint64_t>(id) >> 2;
            words_ = philox(key_, static_cast<uint32_t>(block_));
        }
        judge(index, id, words_[static_cast<size_t>(id) & 3], score);
    }

    /// The same, where the first word of the token is known.
    void judge(int64_t index, int64_t id, uint32_t word, double score) {
        // Noise g takes v <= exp(-g): most words show by their number of bits that they are too large. 0 shows nothing.
        const double exponent = static_cast<double>(std::bit_width(word)) - 33.0;
        if (word && exponent > (score - least_) * 1.4426950408889634) return;
        const double key = score - std::log(-std::log1p(-uniform(key_, static_cast<uint64_t>(id), word)));
        if (!(key >= least_)) return;
        found_.push_back({index, key});
        keys_.push_back(key);
        std::push_heap(keys_.begin(), keys_.end(), std::greater<>());
        if (keys_.size() > count_) {
            std::pop_heap(keys_.begin(), keys_.end(), std::greater<>());
            keys_.pop_back();
        }
        if (keys_.size() == count_) least_ = keys_.front() - slack_;
    }

    std::vector<int64_t> indices() const {
        std::vector<int64_t> kept;
        for (const auto& [index, key] : found_) {
            if (key >= least_) kept.push_back(index);
        }
        std::sort(kept.begin(), kept.end());
        return kept;
    }

private:
    struct Found {
        int64_t index;
        double key;
    };
    NoiseKey key_;
    size_t count_;
    double slack_;
    uint64_t block_ = ~uint64_t{0};
    std::array<uint32_t, 4> words_{};
    std::vector<double> keys_;  // a heap, the least on top
    std::vector<Found> found_;
    double least_ = -kInfinity;
};

typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));
typedef int64_t Whole __attribute__((vector_size(kLanes * sizeof(double))));

template <class Score>
__attribute__((always_inline)) inline void load(const Score* from, Lanes& lanes) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = static_cast<double>(from[i]);
}

/// x becomes exp(x), for x <= 0, to about one rounding; below -700 some number that is as good as 0.
__attribute__((always_inline)) inline void exponential(Lanes& x) {
    const Lanes floor = Lanes{} - 700.0;
    x = x > floor ? x : floor;
    constexpr double kShift = 0x1.8p52;  // adding it leaves a whole number in the lowest bits
    const Lanes shifted = x * 1.4426950408889634 + kShift;
    const Lanes k = shifted - kShift;
    const Lanes r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    Lanes p = Lanes{} + 1.0 / 6227020800.0;
    constexpr double kTaylor[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                                  1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5,         1.0, 1.0};
    for (const double c : kTaylor) p = p * r + c;
    Whole bits;
    __builtin_memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    Whole power;
    __builtin_memcpy(&power, &p, sizeof power);
    power += bits;
    __builtin_memcpy(&x, &power, sizeof x);
}

/// Tokens are looked at in groups: their words, and which of them can have keys as large as `least`.
constexpr size_t kBlocks = 8, kGroup = 4 * kBlocks;
struct Group {
    uint32_t words[kGroup];
    alignas(8) uint8_t able[kGroup];

    /// Calls use(i) for every token that is able, in order.
    template <class Use>
    void each(Use use) const {
        for (size_t part = 0; part < kGroup; part += 8) {
            uint64_t eight;
            __builtin_memcpy(&eight, able + part, sizeof eight);
            if (!eight) continue;
            for (size_t i = part; i < part + 8; ++i) {
                if (able[i]) use(i);
            }
        }
    }
};

#ifdef SPEC_AVX2
/// `words_of_blocks` in registers of four 64-bit lanes. Products read the lower halves of lanes; the upper halves of the
/// counters hold anything.
SPEC_AVX2 void words_of_blocks_avx2(const NoiseKey& key, const uint32_t* blocks, uint32_t* words) {
    const __m256i multiply0 = _mm256_set1_epi64x(kMultiply0), multiply1 = _mm256_set1_epi64x(kMultiply1);
    __m256i c0[2], c1[2], c2[2], c3[2];
    for (int half = 0; half < 2; ++half) {
        c0[half] = _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + 4 * half)));
        c1[half] = _mm256_set1_epi64x(key.position);
        c2[half] = _mm256_set1_epi64x(key.sequence);
        c3[half] = _mm256_set1_epi64x(key.purpose);
    }
    auto k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const __m256i step0 = _mm256_set1_epi64x(k0), step1 = _mm256_set1_epi64x(k1);
        for (int half = 0; half < 2; ++half) {
            const __m256i p0 = _mm256_mul_epu32(c0[half], multiply0), p1 = _mm256_mul_epu32(c2[half], multiply1);
            c0[half] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1[half]), step0);
            c1[half] = p1;
            c2[half] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3[half]), step1);
            c3[half] = p0;
        }
        k0 += kStep0;
        k1 += kStep1;
    }
    for (int half = 0; half < 2; ++half) {
        const __m256i front = _mm256_blend_epi32(c0[half], _mm256_slli_epi64(c1[half], 32), 0xAA);
        const __m256i back = _mm256_blend_epi32(c2[half], _mm256_slli_epi64(c3[half], 32), 0xAA);
        const __m256i even = _mm256_unpacklo_epi64(front, back), odd = _mm256_unpackhi_epi64(front, back);
        auto* const out = reinterpret_cast<__m256i*>(words + 16 * half);
        _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
        _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
    }
}

const bool kHasAvx2 = __builtin_cpu_supports("avx2");
#endif

/// The first words of the tokens of `kBlocks` blocks, four of each block, in order.
void words_of_blocks(const NoiseKey& key, const uint32_t* blocks, uint32_t* words) {
#ifdef SPEC_AVX2
    static_assert(kBlocks == 8);
    if (kHasAvx2) return words_of_blocks_avx2(key, blocks, words);
#endif
    for (size_t i = 0; i < kBlocks; ++i) {
        const auto four = philox(key, blocks[i]);
        std::copy(four.begin(), four.end(), words + 4 * i);
    }
}

/// Finds out which of the tokens of a group, whose words are there, can have keys as large as `least`.
template <class Score>
__attribute__((always_inline)) inline void judge(const Score* scores, double scale, double least, Group& group) {
    for (size_t i = 0; i < kGroup; ++i) {
        // As in `Leaders::judge`. With the exponent of half the word as a float, bits >> 23, log2(v) is at least this;
        // where that half is 0 it is -159, below every log2(v).
        const auto half = static_cast<float>(static_cast<int32_t>(group.words[i] >> 1));
        int32_t bits;
        __builtin_memcpy(&bits, &half, sizeof bits);
        const double room = (static_cast<double>(scores[i]) * scale - least) * 1.4426950408889634;
        group.able[i] = static_cast<double>((bits >> 23) - 159) <= room;
    }
}

/// The first words of a group of tokens with neighbouring ids, `first` a multiple of 4: four of them share a block.
void words_of(const NoiseKey& key, uint32_t first, uint32_t* words) {
    uint32_t blocks[kBlocks];
    for (size_t i = 0; i < kBlocks; ++i) blocks[i] = first / 4 + static_cast<uint32_t>(i);
    words_of_blocks(key, blocks, words);
}

/// The first words of a group of tokens with any ids: each has a block of its own.
void words_of(const NoiseKey& key, const int64_t* ids, uint32_t* words) {
    for (size_t part = 0; part < kGroup; part += kBlocks) {
        uint32_t blocks[kBlocks], fours[4 * kBlocks];
        for (size_t i = 0; i < kBlocks; ++i) blocks[i] = static_cast<uint32_t>(static_cast<uint64_t>(ids[part + i]) >> 2);
        words_of_blocks(key, blocks, fours);
        for (size_t i = 0; i < kBlocks; ++i) words[part + i] = fours[4 * i + static_cast<size_t>(ids[part + i] & 3)];
    }
}

/// Fills a group: its words, and which of its tokens can have keys as large as `least`. `from`: its first id, or its ids.
template <class Score, class From>
__attribute__((always_inline)) inline void fill(const NoiseKey& key, const Score* scores, From from, double scale,
                                                double least, Group& group) {
    words_of(key, from, group.words);
    judge(scores, scale, least, group);
}

/// The numbers v of a group of tokens by their first words alone; whether some of them need further words.
SPEC_WIDE bool coarse_uniforms(const NoiseKey& key, const int64_t* ids, uint32_t* words, double* out) {
    bool neighbours = !(ids[0] & 3), small = false;
    for (size_t i = 0; i < kGroup; ++i) neighbours &= ids[i] == ids[0] + static_cast<int64_t>(i);
    if (neighbours) {
        words_of(key, static_cast<uint32_t>(ids[0]), words);
    } else {
        words_of(key, ids, words);
    }
    for (size_t i = 0; i < kGroup; ++i) {
        out[i] = (static_cast<double>(words[i]) + 0.5) * 0x1p-32;
        small |= words[i] < kCoarse;
    }
    return small;
}

SPEC_WIDE void look(const NoiseKey& key, const float* scores, uint32_t first, double scale, double least, Group& group) {
    fill(key, scores, first, scale, least, group);
}
SPEC_WIDE void look(const NoiseKey& key, const double* scores, uint32_t first, double scale, double least, Group& group) {
    fill(key, scores, first, scale, least, group);
}
SPEC_WIDE void look(const NoiseKey& key, const float* scores, const int64_t* ids, double scale, double least, Group& group) {
    fill(key, scores, ids, scale, least, group);
}
SPEC_WIDE void look(const NoiseKey& key, const double* scores, const int64_t* ids, double scale, double least, Group& group) {
    fill(key, scores, ids, scale, least, group);
}

/// Which of the scores of a group are at least `least`; see `Group::each`.
template <class Score>
__attribute__((always_inline)) inline void compare_each(const Score* scores, double scale, double least, Group& group) {
    for (size_t i = 0; i < kGroup; ++i) group.able[i] = static_cast<double>(scores[i]) * scale >= least;
}
SPEC_WIDE void compare(const float* scores, double scale, double least, Group& group) {
    compare_each(scores, scale, least, group);
}
SPEC_WIDE void compare(const double* scores, double scale, double least, Group& group) {
    compare_each(scores, scale, least, group);
}

template <class Score>
__attribute__((always_inline)) inline Score peak_of(const Score* scores, size_t size, bool& broken) {
    constexpr size_t kStripes = 16;
    Score best[kStripes];
    bool nan[kStripes] = {};
    std::fill(best, best + kStripes, -std::numeric_limits<Score>::infinity());
    size_t at = 0;
    for (; at + kStripes <= size; at += kStripes) {
        for (size_t i = 0; i < kStripes; ++i) {
            const Score score = scores[at + i];
            best[i] = score > best[i] ? score : best[i];
            nan[i] |= score != score;
        }
    }
    for (; at < size; ++at) {
        best[0] = scores[at] > best[0] ? scores[at] : best[0];
        nan[0] |= scores[at] != scores[at];
    }
    broken = std::any_of(nan, nan + kStripes, [](bool one) { return one; });
    return *std::max_element(best, best + kStripes);
}

template <class Score>
__attribute__((always_inline)) inline double mass_of(const Score* scores, size_t size, double scale, double peak) {
    Lanes sum{};
    size_t at = 0;
    Lanes x;
    for (; at + kLanes <= size; at += kLanes) {
        load(scores + at, x);
        x = x * scale - peak;
        exponential(x);
        sum += x;
    }
    if (at < size) {
        x = Lanes{} - kInfinity;
        for (size_t i = 0; at + i < size; ++i) x[i] = static_cast<double>(scores[at + i]) * scale - peak;
        exponential(x);
        sum += x;
    }
    double whole = 0.0;
    for (size_t i = 0; i < kLanes; ++i) whole += sum[i];
    return whole;
}

SPEC_WIDE float peak(const float* scores, size_t size, bool& broken) { return peak_of(scores, size, broken); }
SPEC_WIDE double peak(const double* scores, size_t size, bool& broken) { return peak_of(scores, size, broken); }
SPEC_WIDE double mass(const float* scores, size_t size, double scale, double top) {
    return mass_of(scores, size, scale, top);
}
SPEC_WIDE double mass(const double* scores, size_t size, double scale, double top) {
    return mass_of(scores, size, scale, top);
}

/// Calls use(i, word of ids[i]) for all ids, in order; neighbours share a block.
template <class Use>
void each_word(const NoiseKey& key, std::span<const int64_t> ids, uint32_t level, Use use) {
    uint64_t block = ~uint64_t{0};
    std::array<uint32_t, 4> four{};
    for (size_t i = 0; i < ids.size(); ++i) {
        const auto id = static_cast<uint64_t>(ids[i]);
        if (id >> 2 != block) {
            block = id >> 2;
            four = philox(key, static_cast<uint32_t>(block), level);
        }
        use(i, four[id & 3]);
    }
}

}  // namespace

std::array<uint32_t, 4> philox(const NoiseKey& key, uint32_t block, uint32_t level) {
    uint32_t c0 = level << 30 | block, c1 = key.position, c2 = key.sequence, c3 = key.purpose;
    auto k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = kMultiply0 * c0, p1 = kMultiply1 * c2;
        c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32_t>(p1);
        c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32_t>(p0);
        k0 += kStep0;
        k1 += kStep1;
    }
    return {c0, c1, c2, c3};
}

void philox_words(const NoiseKey& key, std::span<const int64_t> ids, uint32_t level, uint32_t* out) {
    each_word(key, ids, level, [&](size_t i, uint32_t word) { out[i] = word; });
}

void uniforms(const NoiseKey& key, std::span<const int64_t> ids, double* out) {
    const auto refine = [&](size_t i, uint32_t word) { out[i] = uniform(key, static_cast<uint64_t>(ids[i]), word); };
    uint32_t words[kGroup];
    size_t at = 0;
    for (; at + kGroup <= ids.size(); at += kGroup) {
        if (!coarse_uniforms(key, ids.data() + at, words, out + at)) continue;
        for (size_t i = 0; i < kGroup; ++i) {
            if (words[i] < kCoarse) refine(at + i, words[i]);
        }
    }
    each_word(key, ids.subspan(at), 0, [&](size_t i, uint32_t word) { refine(at + i, word); });
}

template <class Score>
std::vector<int64_t> gumbel_candidates(std::span<const Score> scores, double scale, const int64_t* ids, const NoiseKey& key,
                             size_t count) {
    if (!count) return {};
    bool broken = false;
    const double top = static_cast<double>(peak(scores.data(), scores.size(), broken)) * scale;
    if (!(top > -kInfinity)) return {};
    Leaders leaders(key, count, top);
    const auto id = [&](size_t i) { return ids ? ids[i] : static_cast<int64_t>(i); };
    // The likely ones first: after them little can still lead, and the noise of most others is never made.
    const auto likely = [&](size_t i) {
        const double score = static_cast<double>(scores[i]) * scale;
        if (score >= top - kNear) leaders.look(static_cast<int64_t>(i), id(i), score);
    };
    Group group;
    size_t at = 0;
    for (; at + kGroup <= scores.size(); at += kGroup) {
        compare(scores.data() + at, scale, top - kNear, group);
        group.each([&](size_t i) { likely(at + i); });
    }
    for (; at < scores.size(); ++at) likely(at);
    const auto rest = [&](double score) {
        return score >= leaders.least() - kMostNoise && score < top - kNear && score > -kInfinity;
    };
    for (at = 0; at + kGroup <= scores.size(); at += kGroup) {
        if (ids) {
            look(key, scores.data() + at, ids + at, scale, leaders.least(), group);
        } else {
            look(key, scores.data() + at, static_cast<uint32_t>(at), scale, leaders.least(), group);
        }
        group.each([&](size_t i) {
            const double score = static_cast<double>(scores[at + i]) * scale;
            if (rest(score)) leaders.judge(static_cast<int64_t>(at + i), id(at + i), group.words[i], score);
        });
    }
    for (; at < scores.size(); ++at) {
        const double score = static_cast<double>(scores[at]) * scale;
        if (rest(score)) leaders.look(static_cast<int64_t>(at), id(at), score);
    }
    return leaders.indices();
}

template <class Score>
std::vector<int64_t> top_indices(std::span<const Score> scores, size_t count) {
    std::vector<int64_t> best;  // descending
    const auto larger = [&](int64_t a, int64_t b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; };
    for (size_t i = 0; count && i < scores.size(); ++i) {
        const auto index = static_cast<int64_t>(i);
        if (scores[i] != scores[i] || (best.size() == count && !larger(index, best.back()))) continue;
        if (best.size() == count) best.pop_back();
        best.insert(std::upper_bound(best.begin(), best.end(), index, larger), index);
    }
    return best;
}

template <class Score>
double log_sum_exp(std::span<const Score> scores, double scale) {
    bool broken = false;
    const double top = static_cast<double>(peak(scores.data(), scores.size(), broken)) * scale;
    if (broken) return std::numeric_limits<double>::quiet_NaN();
    if (!std::isfinite(top)) return top;
    return top + std::log(mass(scores.data(), scores.size(), scale, top));
}

template std::vector<int64_t> gumbel_candidates(std::span<const float>, double, const int64_t*, const NoiseKey&, size_t);
template std::vector<int64_t> gumbel_candidates(std::span<const double>, double, const int64_t*, const NoiseKey&, size_t);
template std::vector<int64_t> top_indices(std::span<const float>, size_t);
template std::vector<int64_t> top_indices(std::span<const double>, size_t);
template double log_sum_exp(std::span<const float>, double);
template double log_sum_exp(std::span<const double>, double);

}  // namespace spec
