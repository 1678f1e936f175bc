#include "value_texts.hpp"

#include <ranges>

namespace core {

namespace {

using Kind = UniqueValues::Kind;

bool white(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }
bool is_high(uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

/// `Text::pending`: a part of a code point that is not whole.
struct Pending {
    enum Of : uint32_t { None, Escape, Unicode, Utf8 } of = None;  // after a backslash; digits after \u; bytes
    uint32_t left = 0;   // digits or bytes that follow
    uint32_t size = 0;   // Utf8: all bytes
    uint32_t value = 0;  // of what is read

    explicit Pending(uint32_t packed) : of(static_cast<Of>(packed >> 30)), left(packed >> 27 & 7), size(packed >> 24 & 7), value(packed & 0xFFFFFF) {}
    Pending(Of of, uint32_t left, uint32_t size, uint32_t value) : of(of), left(left), size(size), value(value) {}
    uint32_t packed() const { return of << 30 | left << 27 | size << 24 | value; }
};

uint32_t utf8_size(uint32_t point) { return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4; }

/// The byte of a code point before `left` further ones.
uint8_t utf8_byte_of(uint32_t point, uint32_t left) {
    const uint32_t size = utf8_size(point);
    if (size == 1) return static_cast<uint8_t>(point);
    const uint32_t bits = point >> (6 * left);
    return static_cast<uint8_t>(left + 1 == size ? (0xF00 >> size & 0xFF) | bits : 0x80 | (bits & 0x3F));
}

uint32_t hex_value(uint8_t digit) { return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10; }

/// Sign and digits of a number's normal form, and its power of ten as it is written.
struct NumberDigits {
    bool negative;
    std::span<const uint32_t> digits, power;

    explicit NumberDigits(std::span<const uint32_t> normal) : negative(normal[0] == '-'), digits(normal.subspan(negative)) {
        const size_t mark = std::ranges::find(digits, uint32_t{'e'}) - digits.begin();
        power = digits.subspan(std::min(mark + 1, digits.size()));
        digits = digits.first(mark);
    }
    bool zero() const { return digits[0] == '0'; }
    /// Whether there are at most so many decimal places; it may say no where a power is very long.
    bool ends_within(size_t places) const {
        if (power.empty() || power[0] != '-') return power.empty() || power.back() != '-';
        size_t needed = 0;
        for (const uint32_t digit : power.subspan(1)) {
            if (digit < '0' || digit > '9' || needed > places) return false;
            needed = 10 * needed + (digit - '0');
        }
        return needed <= places;
    }
};

ByteSet these(std::string_view of) {
    ByteSet made;
    for (const char byte : of) made.set(static_cast<uint8_t>(byte));
    return made;
}

}  // namespace

ValueTexts::ValueTexts(UniqueValues& values) : values_(values) {
    texts_.id({.pending = UINT32_MAX});  // kAnyText
}

// ---------------------------------------------------------------- reading

JsonTextId ValueTexts::append(JsonTextId id, uint8_t byte) {
    if (id == kAnyText) return id;
    Text text = texts_[id.value];
    if (text.begun == Begun::String) return {texts_.id(read_string(text, byte))};
    if (white(byte)) return id;
    if (ends_before(id, byte)) {
        text = texts_[ended(id).value];
    } else if (text.begun == Begun::Number) {
        text.units = with_unit(text.units, byte);
        return {texts_.id(text)};
    } else if (text.begun == Begun::Word) {
        return id;
    }
    switch (byte) {
        case '{':
        case '[':
            text.open = opens_.id({.around = text.open, .kind = byte == '{' ? Kind::Object : Kind::Array, .depth = opens_[text.open].depth + 1});
            text.begun = Begun::Nothing, text.units = 0;
            break;
        case ':': {
            Open open = opens_[text.open];
            if (text.begun != Begun::Value || text.open == 0) return id;
            open.name = text.units;
            text = {.open = opens_.id(open)};
            break;
        }
        case ',': text = with_value_inside(text); break;
        case '}':
        case ']': text = closed(with_value_inside(text)); break;
        case '"': text = {.open = text.open, .begun = Begun::String}; break;
        default: {
            const bool number = byte == '-' || (byte >= '0' && byte <= '9');
            text = {.open = text.open, .begun = number ? Begun::Number : Begun::Word, .units = number ? with_unit(0, byte) : byte};
        }
    }
    return {texts_.id(text)};
}

bool ValueTexts::ends_before(JsonTextId text, uint8_t byte) const {
    const Begun begun = texts_[text.value].begun;
    return (begun == Begun::Number || begun == Begun::Word) && (byte == ',' || byte == ':' || byte == ']' || byte == '}');
}

JsonTextId ValueTexts::ended(JsonTextId id) {
    Text text = texts_[id.value];
    const JsonValueId value = text.begun == Begun::Number ? values_.number(characters(text.units)) : values_.literal(static_cast<uint8_t>(text.units));
    text.begun = Begun::Value, text.units = value.value;
    return {texts_.id(text)};
}

/// A character is read as a whole; an escape as the code unit that it means, two of which may be a pair. A lone surrogate is kept.
ValueTexts::Text ValueTexts::read_string(Text text, uint8_t byte) {
    Pending pending(std::exchange(text.pending, 0));
    switch (pending.of) {
        case Pending::Utf8:
            pending.value = pending.value << 6 | (byte & 0x3F);
            if (--pending.left > 0) text.pending = pending.packed();
            else text.units = with_unit(text.units, pending.value);
            return text;
        case Pending::Escape: {
            constexpr std::string_view kinds = "bfnrt", meant = "\b\f\n\r\t";
            const size_t at = kinds.find(static_cast<char>(byte));
            if (byte == 'u') text.pending = Pending(Pending::Unicode, 4, 0, 0).packed();
            else put(text, static_cast<uint8_t>(at == kinds.npos ? static_cast<char>(byte) : meant[at]));
            return text;
        }
        case Pending::Unicode:
            pending.value = (pending.value << 4 | (hex_value(byte) & 0xF)) & 0xFFFF;
            if (--pending.left > 0) text.pending = pending.packed();
            else put(text, pending.value);
            return text;
        case Pending::None: break;
    }
    if (byte == '"') return {.open = text.open, .begun = Begun::Value, .units = values_.string(units_of(text.units)).value};
    if (byte == '\\') {
        text.pending = Pending(Pending::Escape, 1, 0, 0).packed();
    } else if (byte < 0x80) {
        text.units = with_unit(text.units, byte);
    } else {
        const uint32_t size = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
        text.pending = Pending(Pending::Utf8, size - 1, size, byte & (0x7Fu >> size)).packed();
    }
    return text;
}

void ValueTexts::put(Text& text, uint32_t unit) {
    const Unit last = units_[text.units];
    const bool pair = is_low(unit) && is_high(last.unit);
    text.units = pair ? with_unit(last.before, 0x10000 + ((last.unit - 0xD800) << 10) + (unit - 0xDC00)) : with_unit(text.units, unit);
}

/// The text in which a whole value belongs to the container that is open.
ValueTexts::Text ValueTexts::with_value_inside(Text text) {
    if (text.begun != Begun::Value || text.open == 0) return text;
    Open open = opens_[text.open];
    if (open.kind == Kind::Array) open.parts = with_part(open.parts, kNoName, text.units);
    else if (open.name != kNoName) open.parts = with_member(open.parts, std::exchange(open.name, kNoName), text.units);
    return {.open = opens_.id(open)};
}

uint32_t ValueTexts::with_member(uint32_t parts, uint32_t name, uint32_t value) {
    std::vector<Part> above;
    for (; parts != 0 && parts_[parts].name > name; parts = parts_[parts].rest) above.push_back(parts_[parts]);
    if (parts != 0 && parts_[parts].name == name) parts = parts_[parts].rest;
    parts = with_part(parts, name, value);
    for (const Part& part : std::views::reverse(above)) parts = with_part(parts, part.name, part.value);
    return parts;
}

ValueTexts::Text ValueTexts::closed(Text text) {
    if (text.open == 0) return text;
    const Open open = opens_[text.open];
    std::vector<uint32_t> made;
    for (uint32_t at = open.parts; at != 0; at = parts_[at].rest) {
        made.push_back(parts_[at].value);
        if (open.kind == Kind::Object) made.push_back(parts_[at].name);
    }
    std::ranges::reverse(made);
    const JsonValueId value = open.kind == Kind::Object ? values_.object(std::move(made)) : values_.array(std::move(made));
    return {.open = open.around, .begun = Begun::Value, .units = value.value};
}

std::vector<uint32_t> ValueTexts::units_of(uint32_t units) const {
    std::vector<uint32_t> made(units_[units].count);
    for (; units != 0; units = units_[units].before) made[units_[units].count - 1] = units_[units].unit;
    return made;
}

std::string ValueTexts::characters(uint32_t units) const {
    const std::vector<uint32_t> made = units_of(units);
    return {made.begin(), made.end()};
}

// ---------------------------------------------------------------- items

JsonTextId ValueTexts::in_array(JsonTextId text) { return append(text, '['); }

JsonTextId ValueTexts::without_items(JsonTextId text) {
    Open open = opens_[texts_[text.value].open];
    open.parts = 0;
    return {texts_.id({.open = opens_.id(open)})};
}

std::optional<JsonValueId> ValueTexts::last_item(JsonTextId id) const {
    const Text& text = texts_[id.value];
    if (text.begun == Begun::Value) {
        const JsonValueId array{text.units};
        if (values_.kind(array) != Kind::Array || values_.words(array).empty()) return std::nullopt;
        return JsonValueId{values_.words(array).back()};
    }
    const uint32_t parts = opens_[text.open].parts;
    if (text.begun != Begun::Nothing || parts == 0) return std::nullopt;
    return JsonValueId{parts_[parts].value};
}

// ---------------------------------------------------------------- what an item may become

ValueTexts::Place ValueTexts::place(JsonTextId id, uint32_t depth) const {
    Place place(*this);
    place.text_ = texts_[id.value];
    for (uint32_t at = place.text_.open; opens_[at].depth > depth; at = opens_[at].around) place.way_.push_back(opens_[at]);
    std::ranges::reverse(place.way_);
    if (place.text_.begun == Begun::String) place.in_pair_ = is_high(units_[place.text_.units].unit);
    if (place.text_.begun != Begun::Number) return place;
    Place::Digits& digits = place.digits_;
    for (const char byte : characters(place.text_.units)) {
        if (digits.in_exponent) break;
        if (byte == '-') digits.negative = true;
        else if (byte == '.') digits.in_fraction = true;
        else if (byte == 'e' || byte == 'E') digits.in_exponent = true;
        else if (byte != '0' || !digits.text.empty()) digits.text.push_back(byte);
        digits.places += digits.in_fraction && byte != '.';
    }
    return place;
}

std::optional<ValueTexts::Place::Found> ValueTexts::Place::find(JsonValueId value) const {
    const UniqueValues& values = texts_.values_;
    Found found{value, value};
    for (const Open& open : way_) {
        if (!found.here || values.kind(*found.here) != open.kind) return std::nullopt;
        found.around = *found.here;
        found.here = std::nullopt;
        if (open.kind == Kind::Array) {
            const auto items = values.words(found.around);
            const uint32_t at = texts_.parts_[open.parts].count;
            if (at < items.size()) found.here = JsonValueId{items[at]};
        } else if (open.name != kNoName) {
            found.here = values.member(found.around, {open.name});
        }
    }
    return found;
}

bool ValueTexts::Place::possible(JsonValueId value) const {
    const UniqueValues& values = texts_.values_;
    const auto found = find(value);
    if (!found) return false;
    const bool object = !way_.empty() && way_.back().kind == Kind::Object;
    if (object && way_.back().name == kNoName) {
        if (text_.begun == Begun::Value) return values.member(found->around, {text_.units}).has_value();
        if (text_.begun == Begun::Nothing) return true;
        const auto members = values.words(found->around);
        for (size_t i = 0; i < members.size(); i += 2) {
            if (name_begins({members[i]})) return true;
        }
        return false;
    }
    if (text_.begun == Begun::Nothing) return !object || found->here;
    if (!found->here) return false;
    const JsonValueId here = *found->here;
    switch (text_.begun) {
        case Begun::String: return values.kind(here) == Kind::String && string_begins(here);
        case Begun::Number: return values.kind(here) == Kind::Number && number_begins(here);
        case Begun::Word: return values.kind(here) == Kind::Literal && values.words(here)[0] == text_.units;
        default: return here.value == text_.units;
    }
}

/// Of the code points the last two are compared, because the others were: one of a pair is known when its second half is.
bool ValueTexts::Place::string_begins(JsonValueId string) const {
    const auto whole = texts_.values_.words(string);
    uint32_t units = text_.units;
    if (in_pair_) units = texts_.units_[units].before;
    if (texts_.units_[units].count > whole.size()) return false;
    for (int compared = 0; compared < 2 && units != 0; ++compared, units = texts_.units_[units].before) {
        if (whole[texts_.units_[units].count - 1] != texts_.units_[units].unit) return false;
    }
    return in_pair_ || Pending(text_.pending).of != Pending::Utf8 || utf8_byte(string);
}

/// The byte that follows in the code point that has begun; none if it is another one.
std::optional<uint32_t> ValueTexts::Place::utf8_byte(JsonValueId string) const {
    const auto whole = texts_.values_.words(string);
    const Pending pending(text_.pending);
    const uint32_t at = texts_.units_[text_.units].count;
    if (at >= whole.size() || utf8_size(whole[at]) != pending.size || whole[at] >> (6 * pending.left) != pending.value) return std::nullopt;
    return utf8_byte_of(whole[at], pending.left - 1);
}

bool ValueTexts::Place::name_begins(JsonValueId name) const {
    if (!string_begins(name)) return false;
    const auto whole = texts_.values_.words(name);
    uint32_t units = text_.units;
    if (in_pair_) units = texts_.units_[units].before;
    for (; units != 0; units = texts_.units_[units].before) {
        if (whole[texts_.units_[units].count - 1] != texts_.units_[units].unit) return false;
    }
    return true;
}

/// An exponent may move the digits anywhere, but it cannot change them.
bool ValueTexts::Place::number_begins(JsonValueId number) const {
    const NumberDigits whole(texts_.values_.words(number));
    if (digits_.text.empty()) return digits_.in_exponent ? whole.zero() : whole.zero() || whole.negative == digits_.negative;
    if (whole.zero() || whole.negative != digits_.negative) return false;
    if (digits_.in_exponent && whole.digits.size() > digits_.text.size()) return false;
    for (size_t i = 0; i < digits_.text.size(); ++i) {
        if (static_cast<uint32_t>(digits_.text[i]) != (i < whole.digits.size() ? whole.digits[i] : '0')) return false;
    }
    return true;
}

bool ValueTexts::Place::zeros_say_nothing(JsonValueId value, bool exponents) const {
    if (text_.begun != Begun::Number || !digits_.in_fraction || digits_.in_exponent) return false;
    const auto found = find(value);
    if (!found || !found->here || texts_.values_.kind(*found->here) != Kind::Number) return false;
    const NumberDigits whole(texts_.values_.words(*found->here));
    if (whole.zero()) return true;
    return exponents ? !digits_.text.empty() && whole.digits.size() <= digits_.text.size() : whole.ends_within(digits_.places);
}

ByteSet ValueTexts::Place::next_bytes(JsonValueId value) const {
    static const ByteSet structure = these(" \n\t\r,:]}"), string = these("\""), number = these("-0123456789"), array = these("["), object = these("{");
    const UniqueValues& values = texts_.values_;
    const auto found = find(value);
    if (!found) return {};
    const bool name = !way_.empty() && way_.back().kind == Kind::Object && way_.back().name == kNoName;
    if (text_.begun == Begun::Nothing) {
        if (name) return structure | string;
        if (!found->here) return structure;
        switch (values.kind(*found->here)) {
            case Kind::Literal: return structure | ByteSet().set(values.words(*found->here)[0]);
            case Kind::Number: return structure | number;
            case Kind::String: return structure | string;
            case Kind::Array: return structure | array;
            case Kind::Object: return structure | object;
        }
    }
    if (text_.begun != Begun::String) return ~ByteSet();
    if (!name) return found->here ? next_of_string(*found->here) : ByteSet();
    ByteSet made;
    const auto members = values.words(found->around);
    for (size_t i = 0; i < members.size(); i += 2) {
        if (name_begins({members[i]})) made |= next_of_string({members[i]});
    }
    return made;
}

/// Of a string that the text may become.
ByteSet ValueTexts::Place::next_of_string(JsonValueId string) const {
    const Pending pending(text_.pending);
    if (in_pair_ || pending.of == Pending::Escape || pending.of == Pending::Unicode) return ~ByteSet();
    ByteSet made;
    if (pending.of == Pending::Utf8) {
        if (const auto byte = utf8_byte(string)) made.set(*byte);
        return made;
    }
    const auto whole = texts_.values_.words(string);
    const uint32_t at = texts_.units_[text_.units].count;
    if (at >= whole.size()) return made.set('"');
    return made.set('\\').set(utf8_byte_of(whole[at], utf8_size(whole[at]) - 1));
}

}  // namespace core
