#include "json_values.hpp"

#include <algorithm>
#include <cstring>

namespace core {

namespace {

uint32_t hexadecimal(char digit) {
    if (digit <= '9') return static_cast<uint32_t>(digit - '0');
    return static_cast<uint32_t>((digit | 0x20) - 'a') + 10;
}

/// The characters of a JSON string; a lone surrogate is kept. The result is unspecified for other texts.
std::u32string decode(std::string_view text) {
    std::u32string found;
    const auto put = [&](char32_t unit) {
        const bool low = unit >= 0xDC00 && unit < 0xE000;
        if (low && !found.empty() && found.back() >= 0xD800 && found.back() < 0xDC00) {
            found.back() = 0x10000 + ((found.back() - 0xD800) << 10) + (unit - 0xDC00);
        } else {
            found.push_back(unit);
        }
    };
    for (size_t i = 1; i < text.size() && text[i] != '"';) {
        const auto lead = static_cast<uint8_t>(text[i]);
        if (lead == '\\' && i + 1 < text.size()) {
            const char kind = text[i + 1];
            i += 2;
            if (kind == 'u') {
                char32_t unit = 0;
                for (const size_t end = std::min(i + 4, text.size()); i < end; ++i) unit = unit << 4 | hexadecimal(text[i]);
                put(unit);
            } else {
                constexpr std::string_view kinds = "bfnrt", meant = "\b\f\n\r\t";
                const size_t at = kinds.find(kind);
                found.push_back(static_cast<char32_t>(at == kinds.npos ? kind : meant[at]));
            }
            continue;
        }
        const int more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        char32_t character = more == 0 ? lead : lead & (0x3F >> more);
        for (int j = 1; j <= more && i + j < text.size(); ++j) character = character << 6 | (static_cast<uint8_t>(text[i + j]) & 0x3F);
        found.push_back(character);
        i += 1 + more;
    }
    return found;
}

/// The characters with which every string begins that begins with this text: without one that is not written to its end; and
/// how many bytes they are.
std::pair<std::u32string, size_t> first_characters(std::string_view text) {
    size_t at = 1;
    while (at < text.size() && text[at] != '"') {
        const auto lead = static_cast<uint8_t>(text[at]);
        const bool unit = lead == '\\' && at + 1 < text.size() && text[at + 1] == 'u';
        const size_t size = unit ? 6 : lead == '\\' ? 2 : lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (at + size > text.size()) break;
        at += size;
    }
    std::u32string found = decode(text.substr(0, at));
    if (!found.empty() && found.back() >= 0xD800 && found.back() < 0xDC00) found.pop_back(), at = 0;  // it may be half of one
    return {std::move(found), at};
}

/// Sign, digits before and after the point, without redundant zeros.
struct Number {
    bool negative;
    std::string whole, fraction;

    explicit Number(std::string_view text) {
        negative = text.front() == '-';
        if (negative) text.remove_prefix(1);
        const size_t point = text.find('.');
        whole = text.substr(0, point);
        if (point != text.npos) fraction = text.substr(point + 1);
        while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
        if (whole == "0" && fraction.empty()) negative = false;
    }
    std::string plain() const { return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction); }
};

bool is_number(std::string_view text) { return text.front() == '-' || (text.front() >= '0' && text.front() <= '9'); }

std::string key_of(const std::u32string& characters) {
    std::string key(1, '"');
    key.append(reinterpret_cast<const char*>(characters.data()), characters.size() * sizeof(char32_t));
    return key;
}

/// A key that is equal for all texts of a value: a quote and the code points, or the normalised number.
std::string canonical(const std::string& text) {
    if (is_number(text)) return Number(text).plain();
    return text.front() == '"' ? key_of(decode(text)) : text;
}

std::u32string characters(std::string_view canonical) {
    std::u32string found((canonical.size() - 1) / sizeof(char32_t), U'\0');
    std::memcpy(found.data(), canonical.data() + 1, canonical.size() - 1);
    return found;
}

}  // namespace

JsonValues::JsonValues(RegexStore& regexes) : regexes_(regexes) {
    texts_.push_back({0, 0, Kind::Empty, 0, 0, 0});  // kUntracked
    texts_.push_back({0, 0, Kind::Empty, 0, 0, 1});  // kStart
    texts_.push_back({0, 0, Kind::Empty, 0, 0, 0});  // kAnyScalar
    seen_.emplace_back();
    seen_index_[{}] = kNone.value;
}

// ---------------------------------------------------------------- texts

/// A text and one more byte. Of a string that is open, the quote that closes it counts; of a number, what its value needs: no
/// zeros at the end of a fraction, and no sign as long as it may be zero.
JsonValues::Text JsonValues::longer(uint32_t parent, const Text& before, uint8_t byte) {
    Text made{.parent = parent, .byte = byte, .kind = before.kind, .escape = 0, .read = before.read + 1, .least = before.least};
    switch (before.kind) {
        case Kind::Empty:
            made.kind = byte == '"' ? Kind::String : byte == '-' || (byte >= '0' && byte <= '9') ? Kind::Whole : Kind::Word;
            made.least = byte == '"' ? 2 : 1;
            break;
        case Kind::String:
            if (before.escape == 5) {  // the letter after a backslash
                made.escape = byte == 'u' ? 4 : 0;
            } else if (before.escape > 0) {
                made.escape = before.escape - 1;
            } else if (byte != '"') {
                ++made.least;  // an escape represents at least one byte
                if (byte == '\\') made.escape = 5;
            }
            break;
        case Kind::Whole:
            if (byte == '.') {
                made.kind = Kind::Fraction;
            } else if (before.byte != '-' || byte != '0') {
                made.least = made.read;
            }
            break;
        case Kind::Fraction:
            if (byte != '0') made.least = made.read;
            break;
        case Kind::Word: made.least = made.read;
    }
    return made;
}

ScalarPrefixId JsonValues::append(ScalarPrefixId text, uint8_t byte) {
    return {text_index_.find_or_insert(
        combine(text.value, byte), [&](uint32_t id) { return texts_[id].parent == text.value && texts_[id].byte == byte; },
        [&] {
            texts_.push_back(longer(text.value, texts_[text.value], byte));
            return static_cast<uint32_t>(texts_.size() - 1);
        })};
}

ScalarPrefixId JsonValues::complete(ScalarPrefixId text, RegexId rest) {
    while (regexes_.min_length(rest) > 0) {
        const Step step = first_step(rest);
        text = append(text, step.byte);
        rest = step.rest;
    }
    return text;
}

JsonValues::Step JsonValues::first_step(RegexId rest) {
    if (const auto known = first_steps_.find(rest.value); known != first_steps_.end()) return known->second;
    const uint32_t left = regexes_.min_length(rest);
    const ByteSet possible = regexes_.first(rest);
    uint32_t tried = 0;
    for (size_t byte = possible._Find_first(); byte < possible.size(); byte = possible._Find_next(byte), ++tried) {
        const RegexId next = regexes_.step(rest, static_cast<uint8_t>(byte));
        if (regexes_.min_length(next) >= left) continue;  // exactly one less unless the length is a bound
        regexes_.work().spend(1 + tried / kBytesTriedInStep);
        return first_steps_[rest.value] = {static_cast<uint8_t>(byte), next};
    }
    throw TooLarge("the shortest of the distinct items or keys was not found");
}

std::string JsonValues::bytes_of(ScalarPrefixId text) const {
    std::string found;
    for (; text != kStart; text = {texts_[text.value].parent}) found.push_back(static_cast<char>(texts_[text.value].byte));
    std::reverse(found.begin(), found.end());
    return found;
}

// ---------------------------------------------------------------- values

/// The id of the value of a text.
uint32_t JsonValues::value(const std::string& text) {
    const auto [at, fresh] = value_index_.try_emplace(canonical(text), static_cast<uint32_t>(values_.size()));
    if (fresh) {
        values_.push_back(at);
        bytes_ += at->first.size() + 64;
    }
    return at->second;
}

RegexId JsonValues::text(std::string_view text) {
    return regexes_.literal({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

/// All spellings of a value.
RegexId JsonValues::spelled(uint32_t value) {
    const auto [known, fresh] = spellings_.try_emplace(value, RegexStore::kEmptyLanguage);
    if (!fresh) return known->second;
    const Provisional entry(spellings_, value);
    return known->second = spell(values_[value]->first);
}

RegexId JsonValues::spell(const std::string& canonical) {
    if (canonical.front() == '"') return spelled_string(characters(canonical));
    if (!is_number(canonical)) return text(canonical);
    const Number number(canonical);
    const RegexId zeros = regexes_.repeat(this->text("0"), number.fraction.empty() ? 1 : 0, kInfinite);
    const RegexId fraction = regexes_.concat(this->text("." + number.fraction), zeros);
    const bool zero = number.whole == "0" && number.fraction.empty();
    const RegexId sign = zero ? regexes_.repeat(this->text("-"), 0, 1) : this->text(number.negative ? "-" : "");
    const RegexId tail = number.fraction.empty() ? regexes_.repeat(fraction, 0, 1) : fraction;
    return regexes_.concat(sign, regexes_.concat(this->text(number.whole), tail));
}

RegexId JsonValues::spelled_string(const std::u32string& characters) {
    RegexId whole = text("\"");
    for (size_t i = characters.size(); i-- > 0;) whole = regexes_.concat(spelled_character(characters[i]), whole);
    return regexes_.concat(text("\""), whole);
}

RegexId JsonValues::spelled_character(char32_t character) {
    const auto at = characters_.find(character);
    if (at != characters_.end()) return at->second;
    std::vector<RegexId> ways;
    const auto point = static_cast<int32_t>(character);
    const bool surrogate = point >= 0xD800 && point < 0xE000;
    if (point >= 0x20 && point != '"' && point != '\\' && !surrogate) ways.push_back(regexes_.chars(std::array{point, point}));
    constexpr std::string_view kinds = "bfnrt\"\\/", meant = "\b\f\n\r\t\"\\/";
    for (size_t i = 0; i < kinds.size(); ++i) {
        if (meant[i] == point) ways.push_back(text(std::string("\\") + kinds[i]));
    }
    if (point < 0x10000) {
        ways.push_back(escaped_unit(point));
    } else {
        const uint32_t offset = point - 0x10000;
        ways.push_back(regexes_.concat(escaped_unit(0xD800 + (offset >> 10)), escaped_unit(0xDC00 + (offset & 0x3FF))));
    }
    return characters_[character] = regexes_.union_of(std::move(ways));
}

RegexId JsonValues::escaped_unit(uint32_t unit) {
    RegexId whole = RegexStore::kEpsilon;
    for (int i = 0; i < 4; ++i, unit >>= 4) {
        ByteSet digit;
        digit.set("0123456789abcdef"[unit & 15]).set("0123456789ABCDEF"[unit & 15]);
        whole = regexes_.concat(regexes_.set(digit), whole);
    }
    return regexes_.concat(text("\\u"), whole);
}

// ---------------------------------------------------------------- sets of values

ValueSetId JsonValues::add(ValueSetId seen, ScalarPrefixId text) {
    const auto [known, fresh] = added_.try_emplace({seen, text}, ValueSetId{});
    if (!fresh) return known->second;
    const Provisional entry(added_, known->first);
    std::vector<uint32_t> values = seen_[seen.value];
    const uint32_t number = value(bytes_of(text));
    const auto at = std::lower_bound(values.begin(), values.end(), number);
    if (at == values.end() || *at != number) values.insert(at, number);
    const auto [found, made] = seen_index_.try_emplace(values, static_cast<uint32_t>(seen_.size()));
    if (made) {
        bytes_ += 8 * values.size() + 96;
        seen_.push_back(std::move(values));
    }
    return known->second = {found->second};
}

RegexId JsonValues::excluding(RegexId language, ValueSetId seen) {
    if (seen == kNone) return language;
    const auto [known, fresh] = excluding_.try_emplace({language, seen}, RegexStore::kEmptyLanguage);
    if (!fresh) return known->second;
    const Provisional entry(excluding_, known->first);
    std::vector<RegexId> excluded;
    for (const uint32_t number : seen_[seen.value]) excluded.push_back(spelled(number));
    const RegexId made = regexes_.intersect({language, regexes_.complement(regexes_.union_of(std::move(excluded)))});
    return known->second = made;
}

/// Appends the next shortest value of the language. Returns false if there is none.
bool JsonValues::rank(Ranking& ranking, RegexId language) {
    if (ranking.whole) return false;
    const RegexId left = excluding(language, ranking.held);
    const uint32_t length = regexes_.min_length(left);
    if (length == kInfinite) {
        ranking.whole = true;
        return false;
    }
    regexes_.work().spend(uint64_t{kStepsOfByte} * length);
    const ScalarPrefixId text = complete(kStart, left);
    ranking.values.emplace_back(value(bytes_of(text)), length);
    ranking.held = add(ranking.held, text);
    return true;
}

std::vector<uint32_t> JsonValues::shortest_lengths(RegexId language, ValueSetId seen, size_t count, ScalarPrefixId excluded_text) {
    if (excluded_text == kAnyScalar) {
        std::vector<uint32_t> lengths = shortest_lengths(language, seen, count + 1);
        if (!lengths.empty()) lengths.erase(lengths.begin());
        return lengths;
    }
    const auto other = number_of(excluded_text);
    const Free& free = free_values(language, seen, count + (other != value_index_.end()));
    std::vector<uint32_t> lengths;
    regexes_.work().spend(std::min(count, free.values.size()) / kCopiedInStep);
    for (size_t i = 0; i < free.values.size() && lengths.size() < count; ++i) {
        const auto [number, length] = free.values[i];
        if (other == value_index_.end() || other->second != number) lengths.push_back(length);
    }
    return lengths;
}

std::optional<uint64_t> JsonValues::shortest_sum(RegexId language, ValueSetId seen, size_t count, ScalarPrefixId excluded_text) {
    if (count == 0) return 0;
    size_t without = 0;  // the place of the excluded value, from 1 on
    if (excluded_text == kAnyScalar) {
        without = 1;
    } else if (const auto other = number_of(excluded_text); other != value_index_.end()) {
        const Free& free = free_values(language, seen, count);
        const size_t known = std::min(count, free.values.size());
        for (size_t i = 0; i < known && without == 0; ++i) {
            if (free.values[i].first == other->second) without = i + 1;
        }
    }
    const size_t taken = count + (without > 0);
    const Free& free = free_values(language, seen, taken);
    if (free.values.size() < taken) return std::nullopt;
    return free.sums[taken] - (without > 0 ? free.values[without - 1].second : 0);
}

bool JsonValues::may_be_among(ScalarPrefixId text, RegexId language, ValueSetId seen, size_t count) {
    const bool string = texts_[text.value].kind == Kind::String;
    const uint32_t least = texts_[text.value].least;
    Free& free = free_values(language, seen, std::min<size_t>(count, 1));
    if (free.values.size() >= count && count > 0 && least > free.values[count - 1].second) return false;
    if (free.begun != text) free.begun = text, free.place = 0;
    const size_t before = free.place;
    for (; free.place < count; ++free.place) {
        if (free.place >= free.values.size()) free_values(language, seen, free.place + 1);  // no more than it takes
        if (free.place >= free.values.size()) break;
        const auto [number, length] = free.values[free.place];
        if (string ? begins(number, begun(text)) : length >= least) break;
    }
    regexes_.work().spend((free.place - before) / kComparedInStep);
    return free.place < std::min(count, free.values.size());
}

ByteSet JsonValues::may_stay_among(ScalarPrefixId text, RegexId language, ValueSetId seen, size_t count) {
    if (texts_[text.value].kind != Kind::String) return ByteSet().set();
    const Begun& begun = this->begun(text);
    if (!begun.whole) return ByteSet().set();
    const Free& free = free_values(language, seen, count);
    const auto listed = std::span(free.values).first(std::min(count, free.values.size()));
    regexes_.work().spend(listed.size() / kComparedInStep);
    ByteSet bytes;
    for (const auto& [number, length] : listed) {
        if (!begins(number, begun)) continue;
        bytes.set('"').set('\\');
        const std::u32string rest = characters(values_[number]->first.substr(begun.characters.size() - 1));
        if (rest.empty()) continue;
        if (rest[0] < 0x80) bytes.set(rest[0]);
        else bytes |= ~ByteSet() << 0x80;
    }
    return bytes;
}

std::optional<uint32_t> JsonValues::first_length(RegexId language, ValueSetId seen) {
    const Free& free = free_values(language, seen, 1);
    return free.values.empty() ? std::nullopt : std::optional(free.values[0].second);
}

std::optional<uint32_t> JsonValues::length_among(ScalarPrefixId text, RegexId language, ValueSetId seen, size_t count) {
    const Free& free = free_values(language, seen, count);
    const auto listed = std::span(free.values).first(std::min(count, free.values.size()));
    if (listed.empty() || texts_[text.value].least > listed.back().second) return std::nullopt;
    const auto number = number_of(text);
    if (number == value_index_.end()) return std::nullopt;
    regexes_.work().spend(listed.size() / kRankedInStep);
    const auto at = std::ranges::find(listed, number->second, [](const auto& value) { return value.first; });
    return at == listed.end() ? std::nullopt : std::optional(at->second);
}

const JsonValues::Begun& JsonValues::begun(ScalarPrefixId text) {
    if (begun_.text == text) return begun_;
    begun_.text = kUntracked;  // an allocation below may throw
    const std::string bytes = bytes_of(text);
    const auto [found, read] = first_characters(bytes);
    begun_.characters = key_of(found);
    begun_.whole = read == bytes.size();
    begun_.text = text;
    return begun_;
}

/// The number of the value of a text; the end if it has none, because then it is in no ranking.
JsonValues::Numbers::iterator JsonValues::number_of(ScalarPrefixId excluded_text) {
    if (excluded_text == kUntracked) return value_index_.end();
    return value_index_.find(canonical(bytes_of(excluded_text)));
}

/// At least `count` of these values, if there are so many.
JsonValues::Free& JsonValues::free_values(RegexId language, ValueSetId seen, size_t count) {
    if (free_.size() >= kFree && !free_.contains({language, seen})) free_.clear();
    Free& free = free_[{language, seen}];
    Ranking& ranking = rankings_[language];
    const size_t ranked = free.ranked;
    for (; free.values.size() < count && (free.ranked < ranking.values.size() || rank(ranking, language)); ++free.ranked) {
        const auto value = ranking.values[free.ranked];
        if (std::ranges::binary_search(seen_[seen.value], value.first)) continue;
        free.values.push_back(value);
        free.sums.push_back(free.sums.back() + value.second);
    }
    regexes_.work().spend(1 + (free.ranked - ranked) / kRankedInStep);
    return free;
}

/// Explores the residuals: each either cannot die in a loop that only the quote leaves, or has a successor before the quote.
bool JsonValues::always_extensible(RegexId language) {
    const auto [known, fresh] = always_extensible_.try_emplace(language, false);
    if (!fresh) return known->second;
    const Provisional entry(always_extensible_, language);
    const ByteSet quote = ByteSet().set('"');
    if (regexes_.first(language) != quote) return false;
    std::vector<RegexId> seen{regexes_.step(language, '"')};
    for (size_t i = 0; i < seen.size(); ++i) {
        if (const auto star = regexes_.star_of(seen[i]); star && star->exit_bytes == quote) continue;
        if (seen.size() > kFewResiduals || regexes_.nullable(seen[i])) return false;
        bool extensible = false;
        const ByteSet possible = regexes_.first(seen[i]);
        for (size_t byte = possible._Find_first(); byte < possible.size(); byte = possible._Find_next(byte)) {
            const RegexId next = regexes_.step(seen[i], static_cast<uint8_t>(byte));
            if (next == RegexStore::kEpsilon) continue;
            extensible = true;
            if (std::ranges::find(seen, next) == seen.end()) seen.push_back(next);
        }
        if (!extensible) return false;
    }
    return known->second = true;
}

size_t JsonValues::bytes() const {
    return texts_.capacity() * sizeof(Text) + text_index_.bytes() + bytes_ + 64 * (added_.size() + excluding_.size() + spellings_.size() + first_steps_.size());
}

}  // namespace core
