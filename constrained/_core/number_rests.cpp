#include "number_rests.hpp"

#include <numeric>

namespace core {

void NumberRests::add(NumberRest rest, uint32_t before) {
    rest.length = rest.number.min_length(remainders_, before == 0 ? 0 : before - 1);
    const uint32_t length = add_lengths(rest.length, rest.behind);
    if (length == kInfinite) return;
    rests_.push_back(rest);
    length_ = std::min(length_, length);
}

NumberRests NumberRests::after(uint8_t byte) const {
    NumberRests made;
    for (const NumberRest& rest : rests_) {
        if (const auto left = rest.number.after(byte)) made.add({*left, rest.tail, rest.item, rest.after, rest.behind, 0}, rest.length);
    }
    return made;
}

bool NumberRests::many() const {
    uint64_t common = 1;
    const Moduli* last = nullptr;
    for (const NumberRest& rest : rests_) {
        if (rest.number.of->common > kMany) return true;
        if (std::exchange(last, rest.number.of) == rest.number.of) continue;
        common = std::lcm(common, static_cast<uint64_t>(rest.number.of->common));
        if (common > kMany) return true;
    }
    return false;
}

NumberRests NumberRests::skip(std::vector<uint8_t>& text) const {
    NumberRests left;  // without those that cannot be completed
    std::string least;
    for (const NumberRest& rest : rests_) {
        if (add_lengths(rest.length, rest.behind) != length_) continue;
        const std::string shortest = rest.number.shortest(left.remainders_);
        if (least.empty() || shortest < least) least = shortest;
    }
    std::vector<NumberRest> at = rests_, next;
    uint32_t read = 0;
    for (const char byte : least) {
        next.clear();
        for (NumberRest& rest : at) {
            if (const auto left = rest.number.after(static_cast<uint8_t>(byte))) rest.number = *left, next.push_back(rest);
        }
        at.swap(next);
        text.push_back(static_cast<uint8_t>(byte));
        const uint32_t needed = length_ - ++read;
        if (std::ranges::any_of(at, [&](const NumberRest& rest) { return rest.behind == needed && rest.number.complete(left.remainders_); })) break;
    }
    for (const NumberRest& rest : at) left.add(rest, 0);
    return left;
}

}  // namespace core
