#include "unique_values.hpp"

#include <string>

namespace core {

namespace {

/// The sign, the digits without zeros at both ends, and the power of ten of the last digit; the same for equal numbers. An
/// exponent of more than 18 digits is taken as it is written.
std::vector<uint32_t> normal_number(std::string_view text) {
    const bool negative = text.front() == '-';
    if (negative) text.remove_prefix(1);
    const size_t mark = text.find_first_of("eE");
    std::string_view exponent = mark == text.npos ? std::string_view() : text.substr(mark + 1);
    text = text.substr(0, mark);
    std::string digits;
    int64_t power = 0;
    const size_t point = text.find('.');
    for (size_t i = 0; i < text.size(); ++i) {
        if (i != point) digits.push_back(text[i]);
    }
    if (point != text.npos) power -= static_cast<int64_t>(text.size() - point - 1);
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
    while (!digits.empty() && digits.back() == '0') digits.pop_back(), ++power;
    std::string made = digits.empty() ? "0" : (negative ? "-" : "") + digits;
    if (!digits.empty()) {
        const bool down = !exponent.empty() && exponent.front() == '-';
        if (!exponent.empty() && (down || exponent.front() == '+')) exponent.remove_prefix(1);
        exponent.remove_prefix(std::min(exponent.find_first_not_of('0'), exponent.size()));
        std::string shift;
        if (exponent.size() > 18) {
            shift = std::string(exponent) + (down ? "-" : "+");
        } else if (!exponent.empty()) {
            const int64_t value = std::stoll(std::string(exponent));
            power += down ? -value : value;
        }
        made += "e" + std::to_string(power) + shift;
    }
    return {made.begin(), made.end()};
}

}  // namespace

UniqueValues::UniqueValues() {
    for (int fixed = 0; fixed < 2; ++fixed) lists_.push_back({0, 0});  // kEmpty, kWhole
}

// ---------------------------------------------------------------- values

JsonValueId UniqueValues::intern(Kind kind, std::vector<uint32_t> made) {
    return {value_index_.find_or_insert(
        hash_words(made, static_cast<uint64_t>(kind)), [&](uint32_t id) { return values_[id].kind == kind && std::ranges::equal(words({id}), made); },
        [&] {
            values_.push_back({kind, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(made.size())});
            words_.insert(words_.end(), made.begin(), made.end());
            return static_cast<uint32_t>(values_.size() - 1);
        })};
}

JsonValueId UniqueValues::number(std::string_view text) { return intern(Kind::Number, normal_number(text)); }

std::optional<JsonValueId> UniqueValues::member(JsonValueId object, JsonValueId name) const {
    const auto parts = words(object);
    size_t low = 0, high = parts.size() / 2;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (parts[2 * middle] < name.value) low = middle + 1;
        else high = middle;
    }
    if (low == parts.size() / 2 || parts[2 * low] != name.value) return std::nullopt;
    return JsonValueId{parts[2 * low + 1]};
}

// ---------------------------------------------------------------- sets and lists

bool UniqueValues::contains(JsonSetId set, JsonValueId value) const {
    for (uint32_t at = set.value; at != kNone.value; at = sets_[at].rest) {
        if (sets_[at].value == value.value) return true;
    }
    return false;
}

JsonSetId UniqueValues::add(JsonSetId set, JsonValueId value) { return {sets_.id({set.value, value.value})}; }

JsonListId UniqueValues::intern_list(std::span<const uint32_t> values) {
    if (values.empty()) return kEmpty;
    return {list_index_.find_or_insert(
        hash_words(values, 0), [&](uint32_t id) { return std::ranges::equal(listed({id}), values); },
        [&] {
            lists_.push_back({static_cast<uint32_t>(listed_.size()), static_cast<uint32_t>(values.size())});
            listed_.insert(listed_.end(), values.begin(), values.end());
            return static_cast<uint32_t>(lists_.size() - 1);
        })};
}

size_t UniqueValues::bytes() const {
    return values_.capacity() * sizeof(Value) + 4 * (words_.capacity() + listed_.capacity()) + value_index_.bytes() + sets_.bytes() +
           lists_.capacity() * sizeof(List) + list_index_.bytes();
}

}  // namespace core
