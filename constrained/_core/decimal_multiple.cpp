#include "decimal_multiple.hpp"

#include <numeric>
#include <stdexcept>

namespace core {

namespace {

using Wide = Moduli::Wide;

constexpr uint32_t kEnough = 19;  // digits that can reach any remainder: 10^19 > Moduli::kMost
// Digits that can reach any remainder so often that one of the numbers is not excluded: among 10^5 multiples in a row one is no multiple
// of any of 64 others, because each of these has a prime factor of its own (Jacobsthal's function of 64 primes is below 2000).
constexpr uint32_t kSurely = kEnough + 5;

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

constexpr auto kPowersOfTen = [] {
    std::array<Wide, kSurely + 1> made{1};
    for (size_t i = 1; i < made.size(); ++i) made[i] = made[i - 1] * 10;
    return made;
}();

uint64_t number_at(std::span<const uint8_t> bytes, size_t at, size_t size) {
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | bytes[at + i];
    return value;
}

}  // namespace

Moduli DecimalMultiple::read_moduli(std::span<const uint8_t> bytes) {
    const auto refuse = [] { throw std::invalid_argument("malformed grammar: a multiple out of range"); };
    Moduli made{number_at(bytes, 0, 8), {}, 0, 0};
    for (size_t at = kPacked + kPackedHigher; at + kPackedExcluded <= bytes.size(); at += kPackedExcluded) made.excluded.push_back(number_at(bytes, at, 8));
    if (made.modulus == 0 || made.modulus > Moduli::kMost || made.excluded.size() > Moduli::kMostExcluded) refuse();
    made.common = made.modulus;
    made.tens = tens_of(made.modulus);
    for (const uint64_t one : made.excluded) {
        if (one == 0 || one > Moduli::kMost || made.modulus % one == 0) refuse();
        const uint64_t factor = one / std::gcd(one, static_cast<uint64_t>(made.common % one));
        if (made.common > (Wide{1} << Moduli::kMostBits) / factor) refuse();
        made.common *= factor;
        made.tens = std::max(made.tens, tens_of(one));
    }
    return made;
}

DecimalMultiple DecimalMultiple::read(std::span<const uint8_t> bytes, const Moduli& of) {
    const auto small = [&](size_t at) { return static_cast<uint32_t>(number_at(bytes, at, 4)); };
    const uint64_t higher = bytes.size() > kPacked ? number_at(bytes, kPacked, 8) : 0;
    const DecimalMultiple made{&of, number_at(bytes, 8, 8), higher, small(16), small(20), small(24), static_cast<Form>(small(28) % 4), small(32), small(28) / 4};
    if ((Wide{higher} << 64 | made.residue) >= of.common || made.form > Form::Fraction || made.beyond > (of.common == 1)) {
        throw std::invalid_argument("malformed grammar: a multiple out of range");
    }
    return made;
}

/// Whether `digits` more digits, followed by `skipped` zeros, can make such a number.
bool DecimalMultiple::ends(uint32_t digits, uint32_t skipped, uint64_t& remainders) const {
    const uint64_t m = without_tens(of->modulus, skipped);
    const std::vector<uint64_t>& excluded = of->excluded;
    if (digits >= (excluded.empty() ? kEnough : kSurely)) {
        remainders += 1 + excluded.size();
        return std::ranges::none_of(excluded, [&](uint64_t one) { return m % without_tens(one, skipped) == 0; });
    }
    return least_ending(digits, skipped, remainders).has_value();
}

/// The least of these digits, as a whole number.
std::optional<Wide> DecimalMultiple::least_ending(uint32_t digits, uint32_t skipped, uint64_t& remainders) const {
    const uint64_t m = without_tens(of->modulus, skipped);
    const std::vector<uint64_t>& excluded = of->excluded;
    // The multiples of m among the next 10^digits whole numbers: the first one, then every m-th.
    const Wide read = Wide{residue_high} << 64 | residue, free = kPowersOfTen[std::min(digits, kSurely)];
    const auto begin = [&](uint64_t modulus) {
        ++remainders;
        Wide begun = read % modulus, power = 10 % modulus;
        for (uint32_t left = digits; left > 0; left /= 2, power = power * power % modulus) {
            if (left % 2 == 1) begun = begun * power % modulus;
        }
        return static_cast<uint64_t>(begun);
    };
    const uint64_t begun = begin(m), first = begun == 0 ? 0 : m - begun;
    if (first >= free) return std::nullopt;
    if (excluded.empty()) return first;
    struct Excluded {
        uint64_t modulus, remainder, step;
    };
    std::array<Excluded, Moduli::kMostExcluded> apart;
    const auto all = std::span(apart).first(excluded.size());
    for (size_t i = 0; i < all.size(); ++i) {
        const uint64_t one = without_tens(excluded[i], skipped);
        if (m % one == 0) return std::nullopt;
        all[i] = {one, (begin(one) + first % one) % one, m % one};
    }
    for (Wide number = first; number < free; number += m) {
        if (std::ranges::none_of(all, [](const Excluded& one) { return one.remainder == 0; })) return number;
        remainders += all.size();
        for (Excluded& one : all) one.remainder = (one.remainder + one.step) % one.modulus;
    }
    return std::nullopt;
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

uint32_t DecimalMultiple::min_length(uint64_t& remainders, uint32_t least) const {
    if (beyond) {
        if (zeros == 0 || low > high || form == Form::Whole) return kInfinite;
        return add_lengths(places, form == Form::Fraction ? 1 : add_lengths(low, 2));
    }
    // Behind these digits more of them help again only where some of the places are read that 2 or 5 in a modulus stands for.
    const uint64_t surely = uint64_t{low} + kSurely, later = uint64_t{places} - std::min(places, of->tens);
    const auto next = [&](uint64_t digits, uint64_t jump) { return digits >= surely ? std::max(digits + 1, jump) : digits + 1; };
    if (form == Form::Fraction) {
        for (uint64_t digits = std::max(low, least); digits <= places; digits = next(digits, later)) {
            if (ends(bounded_length(digits), places - static_cast<uint32_t>(digits), remainders)) return bounded_length(digits);
        }
        return low > places && zeros > 0 && ends(0, 0, remainders) ? low : kInfinite;
    }
    const uint32_t behind = form == Form::Number ? places : 0;
    const uint64_t most = std::min<uint64_t>(std::min<uint64_t>(high, surely) + behind, kLongest);
    for (uint64_t all = std::max(low, least == 0 ? 0 : least - 1); all <= most; all = next(all, low + later)) {
        const auto digits = static_cast<uint32_t>(all);  // before and after the point together
        if (digits <= high && ends(digits, places, remainders)) return digits;
        if (form == Form::Number && digits > low && ends_behind_point(digits, remainders)) return digits + 1;
    }
    return kInfinite;
}

std::string DecimalMultiple::shortest(uint64_t& remainders) const {
    const uint32_t length = min_length(remainders);
    if (beyond) return (form == Form::Fraction ? "" : std::string(low, '0') + '.') + std::string(places, '0') + '1';
    std::string least;
    const auto consider = [&](uint32_t digits, uint32_t behind, uint32_t skipped) {
        const auto ending = least_ending(digits, skipped, remainders);
        if (!ending) return;
        std::string text(digits, '0');
        size_t at = digits;
        for (Wide value = *ending; value > 0; value /= 10) text[--at] = static_cast<char>('0' + static_cast<int>(value % 10));
        if (behind > 0) text.insert(digits - behind, 1, '.');
        if (least.empty() || text < least) least = text;
    };
    if (length == 0) return least;
    if (form == Form::Fraction) {
        if (length > places) return std::string(length, '0');
        consider(length, 0, places - length);
        return least;
    }
    if (length >= low && length <= high) consider(length, 0, places);
    if (form == Form::Number && length > low + 1) {
        const uint32_t digits = length - 1;
        const uint32_t most = std::min(places, digits - low), alike = std::min(most, places - std::min(places, of->tens));
        // As far as there the digits are the same, and the text with the first point is the least.
        for (uint32_t behind = std::max({1u, alike, digits > high ? digits - high : 0}); behind <= most; ++behind) consider(digits, behind, places - behind);
    }
    return least;
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
    const Wide read = ((Wide{residue_high} << 64 | residue) * 10 + (byte - '0')) % of->common;
    rest.residue = static_cast<uint64_t>(read);
    rest.residue_high = static_cast<uint64_t>(read >> 64);
    return rest;
}

uint64_t DecimalMultiple::hash() const {
    uint64_t value = combine(combine(combine(of->modulus, of->excluded.size()), residue), residue_high);
    value = combine(value, uint64_t{low} << 32 | high);
    return combine(combine(value, uint64_t{places} << 3 | uint64_t{beyond} << 2 | static_cast<uint64_t>(form)), zeros);
}

std::string DecimalMultiple::describe() const {
    const Wide read = Wide{residue_high} << 64 | residue;
    if (beyond) return "beyond " + std::to_string(places);
    return "%" + std::to_string(of->modulus) + "=" + std::to_string(static_cast<uint64_t>(read % of->modulus));
}

}  // namespace core
