// The rest of a decimal number that is a multiple of another one, and of none of some others.
//
// The remainder represents the digits read so far, and there are few of them (`Moduli::kMost`). A number with
// digits after the point is a whole number of units 10^-places; digits after these places must be zeros, or must not all be.
// What is excluded is told apart by the same remainder: which numbers end a text is arithmetic, and no search.
// Thread safety: plain data.
#pragma once

#include <optional>

#include "common.hpp"

namespace core {

/// What a number must be a multiple of, and what it must not be a multiple of, in units of 10^-places.
struct Moduli {
    static constexpr uint64_t kMost = 4096;   ///< of their common multiple

    uint64_t modulus;                ///< at least 1
    std::vector<uint64_t> excluded;  ///< none of which divides `modulus`
    uint64_t common;                 ///< the least common multiple of all: so many remainders are told apart
    uint32_t tens;                   ///< of none of them 2 or 5 is a factor more often
};

struct DecimalMultiple {
    enum class Form : uint32_t {
        Whole,     ///< digits
        Number,    ///< digits, then optionally a point and at least one digit
        Fraction,  ///< digits after the point
    };
    static constexpr uint32_t kRemaindersInStep = 8;  ///< that are computed in a step of work
    static constexpr uint32_t kPacked = 36;        ///< bytes of one that excludes nothing
    static constexpr uint32_t kPackedExcluded = 8;  ///< and of each excluded modulus

    const Moduli* of;  ///< not owned; equal ones are one object
    uint64_t residue;  ///< the digits read so far, as a whole number, modulo `of->common`
    uint32_t low;      ///< minimum number of further digits before the point; 0 or 1 in a fraction
    uint32_t high;     ///< maximum number, or `kInfinite`; always `kInfinite` in a fraction
    uint32_t places;   ///< remaining decimal places; 0 for whole numbers; `kInfinite` behind such a digit
    Form form;
    uint32_t zeros;  ///< maximum number of digits after these places, or `kInfinite`
    uint32_t beyond;  ///< 1: one of them, which may be any digits, is not zero; no modulus is told apart then

    bool operator==(const DecimalMultiple&) const = default;

    /// What `constrained.grammars.ir.DecimalMultiple.packed` begins and ends with. Throws std::invalid_argument where a number is out of range.
    static Moduli read_moduli(std::span<const uint8_t> bytes);
    /// As it is written there: the fields in order, little-endian.
    static DecimalMultiple read(std::span<const uint8_t> bytes, const Moduli& of);
    /// Whether so many bytes may be a packed multiple.
    static bool may_be_packed(size_t size) {
        return size >= kPacked && (size - kPacked) % kPackedExcluded == 0;
    }

    // Each of the following adds to `remainders` how many of them it computed.

    /// Whether the digits read so far are such a number.
    bool complete(uint64_t& remainders) const { return low == 0 && beyond == 0 && ends(0, places, remainders); }
    /// Bytes of the shortest completion, 0 where it is complete; `kInfinite` if there is none.
    uint32_t min_length(uint64_t& remainders) const;

    /// The state after a byte; it may have no completion.
    std::optional<DecimalMultiple> after(uint8_t byte) const;

    uint64_t hash() const;
    std::string describe() const;

private:
    bool ends(uint32_t digits, uint32_t skipped, uint64_t& remainders) const;
    bool ends_behind_point(uint32_t digits, uint64_t& remainders) const;
};

}  // namespace core
