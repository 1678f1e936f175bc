#include "decimal_multiple.hpp"

#include <stdexcept>

namespace core {

namespace {

constexpr uint32_t kEnough = 19;  // digits that can reach any remainder: 10^19 > kMaxModulus

/// m / gcd(m, 10^n): k * 10^n is a multiple of m iff k is a multiple of this.
uint64_t without_tens(uint64_t m, uint32_t n) {
    for (uint32_t i = 0; i < n && m % 2 == 0; ++i) m /= 2;
    for (uint32_t i = 0; i < n && m % 5 == 0; ++i) m /= 5;
    return m;
}

}  // namespace

DecimalMultiple DecimalMultiple::read(std::span<const uint8_t> bytes) {
    const auto number = [&](size_t at, size_t size) {
        uint64_t value = 0;
        for (size_t i = size; i-- > 0;) value = value << 8 | bytes[at + i];
        return value;
    };
    const auto small = [&](size_t at) { return static_cast<uint32_t>(number(at, 4)); };
    const DecimalMultiple made{number(0, 8), number(8, 8), small(16), small(20), small(24), static_cast<Form>(small(28)), small(32)};
    if (made.modulus == 0 || made.modulus > kMaxModulus || made.residue >= made.modulus || made.form > Form::Fraction) {
        throw std::invalid_argument("malformed grammar: a multiple out of range");
    }
    return made;
}

/// Whether `digits` more digits, followed by `skipped` zeros, can make a multiple.
bool DecimalMultiple::ends(uint32_t digits, uint32_t skipped) const {
    if (digits >= kEnough) return true;
    const uint64_t m = without_tens(modulus, skipped);
    uint64_t rest = residue % m, free = 1;
    for (uint32_t i = 0; i < digits; ++i) rest = rest * 10 % m, free *= 10;
    return rest == 0 || m - rest < free;
}

uint32_t DecimalMultiple::min_length() const {
    if (form == Form::Fraction) {
        for (uint32_t digits = low; digits <= places; ++digits) {
            if (ends(digits, places - digits)) return digits;
        }
        return low > places && zeros > 0 && ends(0, 0) ? low : kInfinite;
    }
    for (uint32_t digits = low;; ++digits) {  // before and after the point together
        if (digits <= high && ends(digits, places)) return digits;
        if (form == Form::Number && digits > low) {
            const uint32_t behind = digits > high ? std::max(1u, digits - high) : 1;
            if (behind <= places && ends(digits, places - behind)) return digits + 1;
        }
        const uint64_t most = high == kInfinite ? kInfinite : uint64_t{high} + (form == Form::Number ? places : 0);
        if (digits >= most) return kInfinite;
    }
}

std::optional<DecimalMultiple> DecimalMultiple::after(uint8_t byte) const {
    DecimalMultiple rest = *this;
    if (byte == '.' && form == Form::Number && low == 0) {
        rest.form = Form::Fraction;
        rest.low = 1;
        rest.high = kInfinite;
        return rest;
    }
    if (byte < '0' || byte > '9') return std::nullopt;
    if (form == Form::Fraction) {
        rest.low = 0;
        if (places == 0) {
            if (byte != '0' || zeros == 0) return std::nullopt;
            if (zeros != kInfinite) --rest.zeros;
            return rest;
        }
        --rest.places;
    } else {
        if (high == 0) return std::nullopt;
        if (low > 0) --rest.low;
        if (high != kInfinite) --rest.high;
    }
    rest.residue = (residue * 10 + (byte - '0')) % modulus;
    return rest;
}

uint64_t DecimalMultiple::hash() const {
    const uint64_t value = combine(combine(modulus, residue), uint64_t{low} << 32 | high);
    return combine(combine(value, uint64_t{places} << 2 | static_cast<uint64_t>(form)), zeros);
}

std::string DecimalMultiple::describe() const {
    return "%" + std::to_string(modulus) + "=" + std::to_string(residue);
}

}  // namespace core
