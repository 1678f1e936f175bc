// The rest of a decimal number that is a multiple of another one: digits, then optionally a point and more digits.
//
// The remainder represents the digits read so far, so a residual is a few numbers however large the modulus is. A number with
// digits after the point is a whole number of units 10^-places; digits after these places must be zeros.
// Thread safety: plain data.
#pragma once

#include <optional>

#include "common.hpp"

namespace core {

struct DecimalMultiple {
    enum class Form : uint32_t {
        Whole,     ///< digits
        Number,    ///< digits, then optionally a point and at least one digit
        Fraction,  ///< digits after the point
    };
    static constexpr uint64_t kMaxModulus = uint64_t{1} << 60;
    static constexpr uint32_t kPacked = 36;

    uint64_t modulus;  ///< in units of 10^-places, at least 1
    uint64_t residue;  ///< the digits read so far, as a whole number, modulo `modulus`
    uint32_t low;      ///< minimum number of further digits before the point; 0 or 1 in a fraction
    uint32_t high;     ///< maximum number, or `kInfinite`; always `kInfinite` in a fraction
    uint32_t places;   ///< remaining decimal places; 0 for whole numbers
    Form form;
    uint32_t zeros;  ///< maximum number of digits after these places, or `kInfinite`

    bool operator==(const DecimalMultiple&) const = default;

    /// As `grammars.ir.DecimalMultiple.packed` writes it: the fields in order, little-endian.
    /// Throws std::invalid_argument where a number is out of range.
    static DecimalMultiple read(std::span<const uint8_t> bytes);

    /// Whether the digits read so far are a multiple.
    bool complete() const { return low == 0 && ends(0, places); }
    /// Bytes of the shortest completion; `kInfinite` if there is none.
    uint32_t min_length() const;
    /// The state after a byte; it may have no completion.
    std::optional<DecimalMultiple> after(uint8_t byte) const;

    uint64_t hash() const;
    std::string describe() const;

private:
    bool ends(uint32_t digits, uint32_t skipped) const;
};

}  // namespace core
