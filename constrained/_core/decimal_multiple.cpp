#include "decimal_multiple.hpp"

#include <numeric>
#include <stdexcept>

namespace core {

namespace {

constexpr uint64_t kPowersOfTen[] = {1, 10, 100, 1000, 10'000};
constexpr uint32_t kEnough = 4;  // digits that can reach any remainder
static_assert(kPowersOfTen[kEnough] >= Moduli::kMost);

/// m / gcd(m, 10^n): k * 10^n is a multiple of m iff k is a multiple of this.
uint64_t without_tens(uint64_t m, uint32_t n) {
    for (uint32_t i = 0; i < n && m % 2 == 0; ++i) m /= 2;
    for (uint32_t i = 0; i < n && m % 5 == 0; ++i) m /= 5;
    return m;
}

/// How often 2 or 5 is a factor, whichever is more often one.
uint32_t tens_of(uint64_t m) {
    uint32_t twos = 0, fives = 0;
    for (; m % 2 == 0; m /= 2) ++twos;
    for (; m % 5 == 0; m /= 5) ++fives;
    return std::max(twos, fives);
}

uint64_t number_at(std::span<const uint8_t> bytes, size_t at, size_t size) {
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | bytes[at + i];
    return value;
}

}  // namespace

Moduli DecimalMultiple::read_moduli(std::span<const uint8_t> bytes) {
    const auto refuse = [] { throw std::invalid_argument("malformed grammar: a multiple out of range"); };
    Moduli made{number_at(bytes, 0, 8), {}, 0, 0};
    for (size_t at = kPacked; at + kPackedExcluded <= bytes.size(); at += kPackedExcluded) made.excluded.push_back(number_at(bytes, at, 8));
    if (made.modulus == 0 || made.modulus > Moduli::kMost) refuse();
    made.common = made.modulus;
    made.tens = tens_of(made.modulus);
    for (const uint64_t one : made.excluded) {
        if (one == 0 || one > Moduli::kMost || made.modulus % one == 0) refuse();
        made.common = std::lcm(made.common, one);
        if (made.common > Moduli::kMost) refuse();
        made.tens = std::max(made.tens, tens_of(one));
    }
    return made;
}

DecimalMultiple DecimalMultiple::read(std::span<const uint8_t> bytes, const Moduli& of) {
    const auto small = [&](size_t at) { return static_cast<uint32_t>(number_at(bytes, at, 4)); };
    const DecimalMultiple made{&of, number_at(bytes, 8, 8), small(16), small(20), small(24), static_cast<Form>(small(28) % 4), small(32), small(28) / 4};
    if (made.residue >= of.common || made.form > Form::Fraction || made.beyond > (of.common == 1)) {
        throw std::invalid_argument("malformed grammar: a multiple out of range");
    }
    return made;
}

/// Whether `digits` more digits, followed by `skipped` zeros, can make such a number.
bool DecimalMultiple::ends(uint32_t digits, uint32_t skipped, uint64_t& remainders) const {
    const uint64_t m = without_tens(of->modulus, skipped);
    const auto excluded = [&](uint64_t number) {
        remainders += 1 + of->excluded.size();
        return std::ranges::any_of(of->excluded, [&](uint64_t one) { return number % without_tens(one, skipped) == 0; });
    };
    if (digits >= kEnough) return !excluded(m);  // m itself is among the remainders
    const uint64_t begin = residue * kPowersOfTen[digits], end = begin + kPowersOfTen[digits];
    for (uint64_t number = (begin + m - 1) / m * m; number < end; number += m) {
        if (!excluded(number)) return true;
    }
    ++remainders;
    return false;
}

/// Whether so many digits before and behind the point together can make such a number. With few behind it, more numbers are multiples:
/// that is best, unless all of these are excluded.
bool DecimalMultiple::ends_behind_point(uint32_t digits, uint64_t& remainders) const {
    const uint32_t most = std::min(places, digits - low);
    for (uint32_t behind = digits > high ? std::max(1u, digits - high) : 1; behind <= most; ++behind) {
        if (ends(digits, places - behind, remainders)) return true;
        if (of->excluded.empty()) return false;
        if (places - behind > of->tens) behind = std::max(behind, std::min(most, places - of->tens) - 1);  // all the same as far as there
    }
    return false;
}

uint32_t DecimalMultiple::min_length(uint64_t& remainders) const {
    if (beyond) {
        if (zeros == 0 || low > high || form == Form::Whole) return kInfinite;
        return add_lengths(places, form == Form::Fraction ? 1 : add_lengths(low, 2));
    }
    // Behind these digits more of them help again only where some of the places are read that 2 or 5 in a modulus stands for.
    const uint64_t surely = uint64_t{low} + kEnough, later = uint64_t{places} - std::min(places, of->tens);
    const auto next = [&](uint64_t digits, uint64_t jump) { return digits >= surely ? std::max(digits + 1, jump) : digits + 1; };
    if (form == Form::Fraction) {
        for (uint64_t digits = low; digits <= places; digits = next(digits, later)) {
            if (ends(bounded_length(digits), places - static_cast<uint32_t>(digits), remainders)) return bounded_length(digits);
        }
        return low > places && zeros > 0 && ends(0, 0, remainders) ? low : kInfinite;
    }
    const uint32_t behind = form == Form::Number ? places : 0;
    const uint64_t most = std::min<uint64_t>(std::min<uint64_t>(high, surely) + behind, kLongest);
    for (uint64_t all = low; all <= most; all = next(all, low + later)) {
        const auto digits = static_cast<uint32_t>(all);  // before and after the point together
        if (digits <= high && ends(digits, places, remainders)) return digits;
        if (form == Form::Number && digits > low && ends_behind_point(digits, remainders)) return digits + 1;
    }
    return kInfinite;
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
            if (zeros == 0 || (byte != '0' && beyond == 0)) return std::nullopt;
            if (zeros != kInfinite) --rest.zeros;
            if (byte != '0') rest.beyond = 0, rest.places = std::exchange(rest.zeros, 0);  // any digits follow
            return rest;
        }
        if (places != kInfinite) --rest.places;
    } else {
        if (high == 0) return std::nullopt;
        if (low > 0) --rest.low;
        if (high != kInfinite) --rest.high;
    }
    rest.residue = (residue * 10 + (byte - '0')) % of->common;
    return rest;
}

uint64_t DecimalMultiple::hash() const {
    uint64_t value = combine(combine(of->modulus, of->excluded.size()), residue);
    value = combine(value, uint64_t{low} << 32 | high);
    return combine(combine(value, uint64_t{places} << 3 | uint64_t{beyond} << 2 | static_cast<uint64_t>(form)), zeros);
}

std::string DecimalMultiple::describe() const {
    if (beyond) return "beyond " + std::to_string(places);
    return "%" + std::to_string(of->modulus) + "=" + std::to_string(residue % of->modulus);
}

}  // namespace core
