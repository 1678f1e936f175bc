#include "gumbel.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

// Wide registers are used where the processor has them; every clone does the same steps.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SPEC_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
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
    uint8_t able[kGroup];
};

/// The counters of blocks, word by word, which `run` replaces by the blocks' words.
template <size_t kCount>
struct Counters {
    uint64_t c0[kCount], c1[kCount], c2[kCount], c3[kCount];

    __attribute__((always_inline)) inline void start(size_t i, const NoiseKey& key, uint64_t block) {
        c0[i] = block;
        c1[i] = key.position;
        c2[i] = key.sequence;
        c3[i] = key.purpose;
    }

    __attribute__((always_inline)) inline void run(uint64_t seed) {
        auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
        for (int round = 0; round < 10; ++round) {
            for (size_t i = 0; i < kCount; ++i) {
                const uint64_t p0 = kMultiply0 * (c0[i] & 0xFFFFFFFF), p1 = kMultiply1 * (c2[i] & 0xFFFFFFFF);
                c0[i] = (p1 >> 32) ^ c1[i] ^ k0;
                c1[i] = p1 & 0xFFFFFFFF;
                c2[i] = (p0 >> 32) ^ c3[i] ^ k1;
                c3[i] = p0 & 0xFFFFFFFF;
            }
            k0 += kStep0;
            k1 += kStep1;
        }
    }
};

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

/// A group of tokens with neighbouring ids: four of them share a block.
template <class Score>
__attribute__((always_inline)) inline void fill(const NoiseKey& key, const Score* scores, uint32_t first, double scale,
                                                double least, Group& group) {
    Counters<kBlocks> blocks;
    for (size_t i = 0; i < kBlocks; ++i) blocks.start(i, key, first / 4 + i);
    blocks.run(key.seed);
    for (size_t i = 0; i < kBlocks; ++i) {
        group.words[4 * i] = static_cast<uint32_t>(blocks.c0[i]);
        group.words[4 * i + 1] = static_cast<uint32_t>(blocks.c1[i]);
        group.words[4 * i + 2] = static_cast<uint32_t>(blocks.c2[i]);
        group.words[4 * i + 3] = static_cast<uint32_t>(blocks.c3[i]);
    }
    judge(scores, scale, least, group);
}

/// A group of tokens with any ids: each has a block of its own.
template <class Score>
__attribute__((always_inline)) inline void fill(const NoiseKey& key, const Score* scores, const int64_t* ids, double scale,
                                                double least, Group& group) {
    for (size_t part = 0; part < kGroup; part += kBlocks) {
        Counters<kBlocks> blocks;
        for (size_t i = 0; i < kBlocks; ++i) blocks.start(i, key, static_cast<uint64_t>(ids[part + i]) >> 2);
        blocks.run(key.seed);
        for (size_t i = 0; i < kBlocks; ++i) {
            const int64_t id = ids[part + i];
            const uint64_t even = id & 2 ? blocks.c2[i] : blocks.c0[i], odd = id & 2 ? blocks.c3[i] : blocks.c1[i];
            group.words[part + i] = static_cast<uint32_t>(id & 1 ? odd : even);
        }
    }
    judge(scores, scale, least, group);
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
    each_word(key, ids, 0, [&](size_t i, uint32_t word) { out[i] = uniform(key, static_cast<uint64_t>(ids[i]), word); });
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
    for (size_t i = 0; i < scores.size(); ++i) {
        const double score = static_cast<double>(scores[i]) * scale;
        if (score >= top - kNear) leaders.look(static_cast<int64_t>(i), id(i), score);
    }
    const auto rest = [&](double score) {
        return score >= leaders.least() - kMostNoise && score < top - kNear && score > -kInfinity;
    };
    Group group;
    size_t at = 0;
    for (; at + kGroup <= scores.size(); at += kGroup) {
        if (ids) {
            look(key, scores.data() + at, ids + at, scale, leaders.least(), group);
        } else {
            look(key, scores.data() + at, static_cast<uint32_t>(at), scale, leaders.least(), group);
        }
        for (size_t i = 0; i < kGroup; ++i) {
            const double score = static_cast<double>(scores[at + i]) * scale;
            if (group.able[i] && rest(score)) leaders.judge(static_cast<int64_t>(at + i), id(at + i), group.words[i], score);
        }
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
