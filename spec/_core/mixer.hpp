// The probability of a draft token from what all sources say about it and its competitors: online logistic regression, as in
// context mixing (Mahoney 2005): the sum of several sets of weights, each selected by something else; AdaGrad (Duchi, Hazan and
// Singer 2011).
//
// Thread safety: not thread-safe; `Memory::lock` guards it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace spec {

/// Which sets of weights count for a token, one of each kind.
struct MixerPlace {
    uint32_t place;    // 0 .. 7: name, colon, value, or behind one; inside a string
    uint32_t written;  // 0 .. 3: how much of a name or value was written
    uint32_t around;   // 0 .. 149: classes of the byte before it, and of its first and its last one
    uint32_t sources;  // 0 .. 63: those that proposed it
};

class Mixer {
public:
    static constexpr uint32_t kSources = 8, kPlaces = 8, kWritten = 4, kAround = 150, kTogether = 64;
    /// Kinds of sets: by place alone, by place and what was written, by the bytes around, by the sources.
    static constexpr uint32_t kSets = 4, kClasses = kPlaces * (1 + kWritten) + kAround + kTogether;
    /// For each source its logit and whether it proposed the token; the surest logit, that of the surest competitor, the
    /// logit of all competitors together, a constant; the depth in the tree, and how improbable the way to the node was: as
    /// one feature if a source that proposed the node proposes the token, too (it was right), as another if not.
    static constexpr uint32_t kSurest = 2 * kSources, kCompetitor = kSurest + 1, kOthers = kSurest + 2, kConstant = kSurest + 3, kDepth = kSurest + 4, kTrusted = kSurest + 5, kDoubted = kSurest + 6,
                              kFeatures = kSurest + 7;
    static constexpr double kRate = 0.1, kBound = 7.0;
    using Features = std::array<double, kFeatures>;

    Mixer() : weights_(kClasses), squares_(kClasses) {
        for (uint32_t i = 0; i < kClasses; ++i) {
            weights_[i].fill(0.0);
            if (i < kPlaces) weights_[i][kSurest] = 1.0;
            squares_[i].fill(1.0);
        }
    }

    static double logit(double p) { return std::min(kBound, std::max(-kBound, std::log(p / (1.0 - p)))); }

    double probability(const MixerPlace& place, const Features& features) const {
        const auto sets = sets_of(place);
        const Features &first = weights_[sets[0]], &second = weights_[sets[1]], &third = weights_[sets[2]], &fourth = weights_[sets[3]];
        double sum = 0.0;
        each(features, [&](uint32_t i) { sum += (first[i] + second[i] + third[i] + fourth[i]) * features[i]; });
        return 1.0 / (1.0 + std::exp(-sum));
    }

    void learn(const MixerPlace& place, const Features& features, bool hit) {
        const double error = (hit ? 1.0 : 0.0) - probability(place, features);
        for (const uint32_t set : sets_of(place)) {
            each(features, [&](uint32_t i) {
                const double slope = error * features[i];
                if (slope == 0.0) return;
                squares_[set][i] += slope * slope;
                weights_[set][i] += kRate * slope / std::sqrt(squares_[set][i]);
            });
        }
    }

    /// Weights and sums of squares, by set.
    std::vector<double> numbers() const {
        std::vector<double> found;
        for (uint32_t set = 0; set < kClasses; ++set) {
            found.insert(found.end(), weights_[set].begin(), weights_[set].end());
            found.insert(found.end(), squares_[set].begin(), squares_[set].end());
        }
        return found;
    }

    /// Restores `numbers`; returns false and changes nothing if they are not finite, or not as many.
    bool restore(const std::vector<double>& numbers) {
        if (numbers.size() != 2 * kClasses * kFeatures) return false;
        for (size_t i = 0; i < numbers.size(); ++i) {
            if (!std::isfinite(numbers[i]) || ((i / kFeatures) % 2 && numbers[i] < 1.0)) return false;
        }
        auto from = numbers.begin();
        for (uint32_t set = 0; set < kClasses; ++set) {
            for (auto& weight : weights_[set]) weight = *from++;
            for (auto& square : squares_[set]) square = *from++;
        }
        return true;
    }

private:
    /// Calls `use` for the features that are not zero for want of a source: few sources propose one token.
    template <class Use>
    static void each(const Features& features, Use use) {
        for (uint32_t i = 0; i < kSurest; i += 2) {
            if (features[i + 1] == 0.0) continue;
            use(i);
            use(i + 1);
        }
        for (uint32_t i = kSurest; i < kFeatures; ++i) use(i);
    }
    static std::array<uint32_t, kSets> sets_of(const MixerPlace& at) {
        constexpr uint32_t kFirstAround = kPlaces * (1 + kWritten), kFirstTogether = kFirstAround + kAround;
        return {at.place, kPlaces + at.place * kWritten + at.written, kFirstAround + at.around, kFirstTogether + at.sources};
    }

    std::vector<Features> weights_, squares_;
};

}  // namespace spec
