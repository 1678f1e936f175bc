// The rest of a decimal number that is a multiple of another one: digits, then perhaps a point and more digits.
//
// What has been read is known by its remainder alone, so a residual is a few numbers and no table, however large the
// modulus. A number with digits after the point is judged as a whole number of units 10^-places: digits beyond those
// places can only be zeros.
#pragma once

#include <optional>

#include "common.hpp"

namespace core {

struct Multiple {
    enum class Form : uint32_t {
        Whole,     ///< digits
        Number,    ///< digits, then nothing or a point and at least one digit
        Fraction,  ///< the point was read: digits
    };
    static constexpr uint64_t kMaxModulus = uint64_t{1} << 60;
    static constexpr uint32_t kPacked = 32;

    uint64_t modulus;  ///< in units of 10^-places, at least 1
    uint64_t residue;  ///< what was read, as a whole number, modulo `modulus`
    uint32_t low;      ///< least number of digits that follow, before a point; of a fraction 0 or 1
    uint32_t high;     ///< greatest number, or `kInfinite`; always that of a fraction
    uint32_t places;   ///< places that are still to come; 0 for whole numbers
    Form form;

    bool operator==(const Multiple&) const = default;

    /// As `grammars.ir.Multiple.packed` writes it: the fields in order, little-endian.
    /// Throws std::invalid_argument where a number is out of range.
    static Multiple read(std::span<const uint8_t> bytes);

    /// Whether what was read is such a multiple already.
    bool complete() const { return low == 0 && ends(0, places); }
    /// Bytes of the shortest rest; `kInfinite` when there is none.
    uint32_t min_length() const;
    /// What is left after a byte; some of it may have no text.
    std::optional<Multiple> after(uint8_t byte) const;

    uint64_t hash() const;
    std::string describe() const;

private:
    bool ends(uint32_t digits, uint32_t skipped) const;
};

}  // namespace core
