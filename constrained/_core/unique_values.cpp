#include "unique_values.hpp"

#include <algorithm>

namespace core {

namespace {

bool white(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

/// The end of a string that begins at the first byte, behind its quote; npos if it has none yet.
size_t end_of_string(std::string_view text) {
    for (size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '"') return i + 1;
        if (text[i] == '\\') ++i;
    }
    return std::string_view::npos;
}

/// The code points of a string, from its first quote to its last one or to the end of the text. A character that is not
/// whole is left out, a high surrogate at the end too: another one may follow. A lone surrogate is kept.
std::vector<uint32_t> code_points(std::string_view text) {
    std::vector<uint32_t> found;
    const auto put = [&](uint32_t unit) {
        const bool low = unit >= 0xDC00 && unit < 0xE000;
        if (low && !found.empty() && found.back() >= 0xD800 && found.back() < 0xDC00) {
            found.back() = 0x10000 + ((found.back() - 0xD800) << 10) + (unit - 0xDC00);
        } else {
            found.push_back(unit);
        }
    };
    bool whole = false;
    for (size_t i = 1; i < text.size();) {
        const auto lead = static_cast<uint8_t>(text[i]);
        if (lead == '"') {
            whole = true;
            break;
        }
        if (lead != '\\') {
            const size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
            if (i + size > text.size()) break;
            uint32_t character = size == 1 ? lead : lead & (0x7F >> size);
            for (size_t j = 1; j < size; ++j) character = character << 6 | (static_cast<uint8_t>(text[i + j]) & 0x3F);
            found.push_back(character);
            i += size;
            continue;
        }
        if (i + 1 >= text.size()) break;
        const char kind = text[i + 1];
        if (kind != 'u') {
            constexpr std::string_view kinds = "bfnrt", meant = "\b\f\n\r\t";
            const size_t at = kinds.find(kind);
            found.push_back(static_cast<uint8_t>(at == kinds.npos ? kind : meant[at]));
            i += 2;
            continue;
        }
        if (i + 6 > text.size()) break;
        uint32_t unit = 0;
        for (size_t j = i + 2; j < i + 6; ++j) unit = unit << 4 | (text[j] <= '9' ? text[j] - '0' : (text[j] | 0x20) - 'a' + 10);
        put(unit);
        i += 6;
    }
    if (!whole && !found.empty() && found.back() >= 0xD800 && found.back() < 0xDC00) found.pop_back();
    return found;
}

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
    texts_.push_back({0, 0, 0, Place::Outside});  // kNoText
    texts_.push_back({1, 0, 0, Place::Outside});  // kAnyText
    sets_.push_back({kNone.value, UINT32_MAX});
}

// ---------------------------------------------------------------- texts

JsonTextId UniqueValues::append(JsonTextId text, uint8_t byte) {
    const Text before = texts_[text.value];
    if (text == kAnyText || (before.place == Place::Outside && white(byte))) return text;
    return {text_index_.find_or_insert(
        combine(text.value, byte),
        [&](uint32_t id) { return id > kAnyText.value && texts_[id].parent == text.value && texts_[id].byte == byte; },
        [&] {
            Place place = Place::String;
            if (before.place == Place::Outside) place = byte == '"' ? Place::String : Place::Outside;
            if (before.place == Place::String) place = byte == '"' ? Place::Outside : byte == '\\' ? Place::Escape : Place::String;
            texts_.push_back({text.value, before.length + 1, byte, place});
            return static_cast<uint32_t>(texts_.size() - 1);
        })};
}

std::string UniqueValues::text_after(JsonTextId text, uint32_t start) const {
    std::string found(length(text) - start, '\0');
    for (uint32_t id = text.value; texts_[id].length > start; id = texts_[id].parent) found[texts_[id].length - start - 1] = static_cast<char>(texts_[id].byte);
    return found;
}

// ---------------------------------------------------------------- values

uint32_t UniqueValues::intern(Kind kind, std::vector<uint32_t> made) {
    return value_index_.find_or_insert(
        hash_words(made, static_cast<uint64_t>(kind)),
        [&](uint32_t id) { return values_[id].kind == kind && std::ranges::equal(words(values_[id]), made); },
        [&] {
            values_.push_back({kind, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(made.size())});
            words_.insert(words_.end(), made.begin(), made.end());
            return static_cast<uint32_t>(values_.size() - 1);
        });
}

uint32_t UniqueValues::scalar(std::string_view text) {
    const char first = text.front();
    if (first == '"') return intern(Kind::String, code_points(text));
    if (first == '-' || (first >= '0' && first <= '9')) return intern(Kind::Number, normal_number(text));
    return intern(Kind::Literal, {static_cast<uint8_t>(first)});
}

/// Sorts names and values, and keeps the last value of each name.
void UniqueValues::settle(std::vector<uint32_t>& members) {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    for (size_t i = 0; i < members.size(); i += 2) pairs.emplace_back(members[i], members[i + 1]);
    std::ranges::stable_sort(pairs, {}, &std::pair<uint32_t, uint32_t>::first);
    members.clear();
    for (size_t i = 0; i < pairs.size(); ++i) {
        if (i + 1 < pairs.size() && pairs[i + 1].first == pairs[i].first) continue;
        members.push_back(pairs[i].first);
        members.push_back(pairs[i].second);
    }
}

UniqueValues::Reading UniqueValues::read(std::string_view text) {
    Reading made;
    const auto done = [&](uint32_t value) {
        if (made.open.empty()) {
            made.whole = value;
            return;
        }
        Open& open = made.open.back();
        if (open.kind == Kind::Object) open.parts.push_back(std::exchange(open.name, UINT32_MAX));
        open.parts.push_back(value);
    };
    for (size_t i = 0; i < text.size() && made.whole == UINT32_MAX;) {
        const char first = text[i];
        if (first == '{' || first == '[') {
            made.open.push_back({first == '{' ? Kind::Object : Kind::Array, {}});
            ++i;
        } else if (first == '}' || first == ']') {
            if (made.open.empty()) break;
            Open closed = std::move(made.open.back());
            made.open.pop_back();
            if (closed.kind == Kind::Object) settle(closed.parts);
            done(intern(closed.kind, std::move(closed.parts)));
            ++i;
        } else if (first == ',' || first == ':') {
            ++i;
        } else {
            const std::string_view rest = text.substr(i);
            const size_t size = first == '"' ? end_of_string(rest) : rest.find_first_of(",:]}");
            if (size == rest.npos) {
                made.scalar = rest;
                break;
            }
            const uint32_t value = scalar(rest.substr(0, size));
            if (!made.open.empty() && made.open.back().kind == Kind::Object && made.open.back().name == UINT32_MAX) {
                made.open.back().name = value;
            } else {
                done(value);
            }
            i += size;
        }
    }
    return made;
}

JsonValueId UniqueValues::value(JsonTextId text, uint32_t start) { return {read(text_after(text, start)).whole}; }

bool UniqueValues::may_become(JsonTextId text, uint32_t start, JsonSetId set) {
    if (set == kNone) return false;
    if (length(text) <= start) return true;
    const std::string held = text_after(text, start);
    Reading reading = read(held);
    for (Open& open : reading.open) {
        if (open.kind == Kind::Object) settle(open.parts);
    }
    if (reading.scalar.starts_with('"')) reading.code_points = code_points(reading.scalar);
    for (; set != kNone; set = {sets_[set.value].rest}) {
        if (may_become(reading, sets_[set.value].value)) return true;
    }
    return false;
}

/// The value of a member of an object; UINT32_MAX if it has none.
uint32_t UniqueValues::member(const Value& object, uint32_t name) const {
    const auto parts = words(object);
    size_t low = 0, high = parts.size() / 2;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (parts[2 * middle] < name) low = middle + 1;
        else high = middle;
    }
    return low < parts.size() / 2 && parts[2 * low] == name ? parts[2 * low + 1] : UINT32_MAX;
}

bool UniqueValues::may_become(const Reading& reading, uint32_t value) const {
    if (reading.whole != UINT32_MAX) return reading.whole == value;
    for (size_t depth = 0; depth < reading.open.size(); ++depth) {
        const Open& open = reading.open[depth];
        const Value& whole = values_[value];
        if (whole.kind != open.kind) return false;
        const bool inside = depth + 1 < reading.open.size() || !reading.scalar.empty();
        if (open.kind == Kind::Array) {
            const auto items = words(whole);
            if (items.size() < open.parts.size() + inside || !std::equal(open.parts.begin(), open.parts.end(), items.begin())) return false;
            if (!inside) return true;
            value = items[open.parts.size()];
            continue;
        }
        for (size_t i = 0; i < open.parts.size(); i += 2) {
            if (open.parts[i] != open.name && member(whole, open.parts[i]) != open.parts[i + 1]) return false;
        }
        if (open.name == UINT32_MAX) {
            if (!inside) return true;
            const auto members = words(whole);
            for (size_t i = 0; i < members.size(); i += 2) {
                if (scalar_may_become(reading, values_[members[i]])) return true;
            }
            return false;
        }
        value = member(whole, open.name);
        if (value == UINT32_MAX) return false;
        if (!inside) return true;
    }
    return reading.scalar.empty() || scalar_may_become(reading, values_[value]);
}

bool UniqueValues::scalar_may_become(const Reading& reading, const Value& value) const {
    const char first = reading.scalar.front();
    const auto whole = words(value);
    if (first == '"') {
        const std::vector<uint32_t>& begun = reading.code_points;
        return value.kind == Kind::String && begun.size() <= whole.size() && std::equal(begun.begin(), begun.end(), whole.begin());
    }
    if (first == '-' || (first >= '0' && first <= '9')) return value.kind == Kind::Number;
    return value.kind == Kind::Literal && whole[0] == static_cast<uint8_t>(first);
}

// ---------------------------------------------------------------- sets

bool UniqueValues::contains(JsonSetId set, JsonValueId value) const {
    for (; set != kNone; set = {sets_[set.value].rest}) {
        if (sets_[set.value].value == value.value) return true;
    }
    return false;
}

JsonSetId UniqueValues::add(JsonSetId set, JsonValueId value) {
    return {set_index_.find_or_insert(
        combine(set.value, value.value), [&](uint32_t id) { return sets_[id].rest == set.value && sets_[id].value == value.value; },
        [&] {
            sets_.push_back({set.value, value.value});
            return static_cast<uint32_t>(sets_.size() - 1);
        })};
}

size_t UniqueValues::bytes() const {
    return texts_.capacity() * sizeof(Text) + text_index_.bytes() + values_.capacity() * sizeof(Value) + 4 * words_.capacity() + value_index_.bytes() +
           sets_.capacity() * sizeof(Set) + set_index_.bytes();
}

}  // namespace core
