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
constexpr double kMostNoise = 23.0;  // a little more than the largest Gumbel noise
constexpr double kNear = 2.0;        // scores this close to the best are looked at first
constexpr size_t kLanes = 8;
constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;

double gumbel(uint32_t word) {
    const double v = (static_cast<double>(word) + 0.5) * 0x1p-32;
    return -std::log(-std::log1p(-v));
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
        judge(index, words_[static_cast<size_t>(id) & 3], score);
    }

    /// The same, where the word of the token is known.
    void judge(int64_t index, uint32_t word, double score) {
        // Noise g takes v <= exp(-g): most words show by their number of bits that they are too large.
        const double exponent = static_cast<double>(std::bit_width(word)) - 33.0;
        if (exponent > (score - least_) * 1.4426950408889634) return;
        const double key = score + gumbel(word);
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

template <class Score>
__attribute__((always_inline)) inline void fill(const NoiseKey& key, const Score* scores, uint32_t first, double scale,
                                                double least, Group& group) {
    uint64_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
    for (size_t i = 0; i < kBlocks; ++i) {
        c0[i] = first / 4 + i;
        c1[i] = key.position;
        c2[i] = key.sequence;
        c3[i] = key.purpose;
    }
    auto k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        for (size_t i = 0; i < kBlocks; ++i) {
            const uint64_t p0 = kMultiply0 * (c0[i] & 0xFFFFFFFF), p1 = kMultiply1 * (c2[i] & 0xFFFFFFFF);
            c0[i] = (p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = p1 & 0xFFFFFFFF;
            c2[i] = (p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = p0 & 0xFFFFFFFF;
        }
        k0 += kStep0;
        k1 += kStep1;
    }
    for (size_t i = 0; i < kBlocks; ++i) {
        group.words[4 * i] = static_cast<uint32_t>(c0[i]);
        group.words[4 * i + 1] = static_cast<uint32_t>(c1[i]);
        group.words[4 * i + 2] = static_cast<uint32_t>(c2[i]);
        group.words[4 * i + 3] = static_cast<uint32_t>(c3[i]);
    }
    for (size_t i = 0; i < kGroup; ++i) {
        // As in `Leaders::judge`. With the exponent of half the word as a float, bits >> 23, log2(v) is at least this.
        const auto half = static_cast<float>(static_cast<int32_t>(group.words[i] >> 1));
        int32_t bits;
        __builtin_memcpy(&bits, &half, sizeof bits);
        const double room = (static_cast<double>(scores[i]) * scale - least) * 1.4426950408889634;
        group.able[i] = static_cast<double>((bits >> 23) - 159) <= room;
    }
}

SPEC_WIDE void look(const NoiseKey& key, const float* scores, uint32_t first, double scale, double least, Group& group) {
    fill(key, scores, first, scale, least, group);
}
SPEC_WIDE void look(const NoiseKey& key, const double* scores, uint32_t first, double scale, double least, Group& group) {
    fill(key, scores, first, scale, least, group);
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

}  // namespace

std::array<uint32_t, 4> philox(const NoiseKey& key, uint32_t block) {
    uint32_t c0 = block, c1 = key.position, c2 = key.sequence, c3 = key.purpose;
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

void philox_words(const NoiseKey& key, std::span<const int64_t> ids, uint32_t* out) {
    uint64_t block = ~uint64_t{0};
    std::array<uint32_t, 4> four{};
    for (size_t i = 0; i < ids.size(); ++i) {
        const auto id = static_cast<uint64_t>(ids[i]);
        if (id >> 2 != block) {
            block = id >> 2;
            four = philox(key, static_cast<uint32_t>(block));
        }
        out[i] = four[id & 3];
    }
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
    for (; !ids && at + kGroup <= scores.size(); at += kGroup) {
        look(key, scores.data() + at, static_cast<uint32_t>(at), scale, leaders.least(), group);
        for (size_t i = 0; i < kGroup; ++i) {
            const double score = static_cast<double>(scores[at + i]) * scale;
            if (group.able[i] && rest(score)) leaders.judge(static_cast<int64_t>(at + i), group.words[i], score);
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
