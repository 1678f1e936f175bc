// What may be left of a number of which many remainders are told apart, by alternatives.
//
// Hardly any remainder comes twice, so residuals and states between the digits of a token would only fill memory: walks over digits
// hold these values instead, and make a residual where a number may end.
// Thread safety: plain data.
#pragma once

#include <vector>

#include "common.hpp"
#include "decimal_multiple.hpp"

namespace core {

/// A number, and what follows it.
struct NumberRest {
    DecimalMultiple number;
    RegexId tail;          ///< of the terminal
    uint32_t item;         ///< of the state, which has the terminal
    ContinuationId after;  ///< of that item
    uint32_t behind;       ///< bytes that follow the number at least
    uint32_t length;       ///< and bytes that it needs itself

    bool complete() const { return length == 0; }
};

class NumberRests {
public:
    static constexpr uint64_t kMany = 1 << 12;

    bool empty() const { return rests_.empty(); }
    const std::vector<NumberRest>& list() const { return rests_; }
    /// Adds an alternative without its length, if the number can be completed. `before`: its length one byte earlier, or 0.
    void add(NumberRest rest, uint32_t before);
    /// The alternatives that can be completed after a byte.
    NumberRests after(uint8_t byte) const;

    /// Whether many remainders are told apart, by all alternatives together.
    bool many() const;
    /// Whether a number may end here.
    bool may_end() const {
        return std::ranges::any_of(rests_, &NumberRest::complete);
    }
    /// Bytes that are left at least; kInfinite if there is no alternative.
    uint32_t length() const { return length_; }
    /// Steps of work in which it was made.
    uint64_t steps() const { return remainders_ / DecimalMultiple::kRemaindersInStep; }
    /// Appends the bytes of the shortest way to complete a number, the least of these, as far as where one may end and what follows is
    /// as short; returns what is left there.
    NumberRests skip(std::vector<uint8_t>& text) const;

private:
    std::vector<NumberRest> rests_;
    uint32_t length_ = kInfinite;
    uint64_t remainders_ = 0;
};

}  // namespace core
