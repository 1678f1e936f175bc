// The probability of a draft token from what all sources say about it and its competitors: online logistic regression, as in
// context mixing (Mahoney 2005), one set of weights for each class of place; AdaGrad (Duchi, Hazan and Singer 2011).
//
// Thread safety: not thread-safe; `Memory::lock` guards it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace spec {

class Mixer {
public:
    static constexpr uint32_t kSources = 11, kClasses = 8;
    /// For each source its logit and whether it proposed the token; the surest logit, that of the surest competitor, the
    /// logit of all competitors together, a constant; the depth in the tree, and how improbable the way to the node was: as
    /// one feature if a source that proposed the node proposes the token, too (it was right), as another if not.
    static constexpr uint32_t kSurest = 2 * kSources, kCompetitor = kSurest + 1, kOthers = kSurest + 2, kConstant = kSurest + 3, kDepth = kSurest + 4, kTrusted = kSurest + 5, kDoubted = kSurest + 6,
                              kFeatures = kSurest + 7;
    static constexpr double kRate = 0.2, kBound = 7.0;
    using Features = std::array<double, kFeatures>;

    Mixer() {
        for (auto& weights : weights_) {
            weights.fill(0.0);
            weights[kSurest] = 1.0;
        }
        for (auto& squares : squares_) squares.fill(1.0);
    }

    static double logit(double p) { return std::min(kBound, std::max(-kBound, std::log(p / (1.0 - p)))); }

    double probability(uint32_t place, const Features& features) const {
        double sum = 0.0;
        for (uint32_t i = 0; i < kFeatures; ++i) sum += weights_[place][i] * features[i];
        return 1.0 / (1.0 + std::exp(-sum));
    }

    void learn(uint32_t place, const Features& features, bool hit) {
        const double error = (hit ? 1.0 : 0.0) - probability(place, features);
        for (uint32_t i = 0; i < kFeatures; ++i) {
            const double slope = error * features[i];
            if (slope == 0.0) continue;
            squares_[place][i] += slope * slope;
            weights_[place][i] += kRate * slope / std::sqrt(squares_[place][i]);
        }
    }

    /// Weights and sums of squares, by class of place.
    std::vector<double> numbers() const {
        std::vector<double> found;
        for (uint32_t place = 0; place < kClasses; ++place) {
            found.insert(found.end(), weights_[place].begin(), weights_[place].end());
            found.insert(found.end(), squares_[place].begin(), squares_[place].end());
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
        for (uint32_t place = 0; place < kClasses; ++place) {
            for (auto& weight : weights_[place]) weight = *from++;
            for (auto& square : squares_[place]) square = *from++;
        }
        return true;
    }

private:
    std::array<Features, kClasses> weights_, squares_;
};

}  // namespace spec
