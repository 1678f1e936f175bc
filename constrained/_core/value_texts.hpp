// Beginnings of JSON texts, by what they say of the values in them.
//
// A text is the containers that are open, and what has begun inside the innermost one. It is read byte by byte, each of which costs the same
// however long the text is.
// Invariants
//  * Equal ids mean that the values of both texts are equal however they go on: white space, escapes and the order of members
//    do not matter. Of members with one name, the last one counts.
//  * What has parts has a higher id than they have. Nothing recurses over the depth of a value.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <string>

#include "byte_classes.hpp"
#include "unique_values.hpp"

namespace core {

using JsonTextId = Id<struct JsonTextTag>;

class ValueTexts {
public:
    static constexpr JsonTextId kNoText{0}, kAnyText{1};  ///< the empty text; a text that nobody asks for

    explicit ValueTexts(UniqueValues& values);

    JsonTextId append(JsonTextId text, uint8_t byte);
    /// Whether a number or a literal ends before this byte.
    bool ends_before(JsonTextId text, uint8_t byte) const;
    /// The text after that, where the value is whole.
    JsonTextId ended(JsonTextId text);
    /// Inside a further array.
    JsonTextId in_array(JsonTextId text);
    /// The same inside an array without items.
    JsonTextId without_items(JsonTextId text);
    /// Containers that are open.
    uint32_t depth(JsonTextId text) const { return opens_[texts_[text.value].open].depth; }
    /// The last item of the array that the text is directly inside of, or has just ended.
    std::optional<JsonValueId> last_item(JsonTextId text) const;

    /// Where a text is in the values that an item may become.
    class Place;
    Place place(JsonTextId text, uint32_t depth) const;

    Survivors nothing_kept() const { return Survivors(texts_.size()); }
    /// Marks the values of the marked texts, and what these consist of.
    struct Kept {
        Survivors texts, opens, parts, units;
    };
    Kept mark(Survivors texts, Survivors& values) const;
    /// Keeps what is marked, and gives it new numbers.
    void collect(Kept& kept, const Survivors& values);
    size_t bytes() const { return texts_.bytes() + opens_.bytes() + parts_.bytes() + units_.bytes(); }

private:
    static constexpr uint32_t kNoName = UINT32_MAX;

    /// What has begun inside the innermost container; Value: it is whole, and belongs to the container after the next byte that separates.
    enum class Begun : uint8_t { Nothing, String, Number, Word, Value };
    struct Text {
        uint32_t open = 0;     // in `opens_`
        Begun begun = Begun::Nothing;
        uint32_t units = 0;    // in `units_`: code points, or characters of a number; Word: its first letter; Value: its number
        uint32_t pending = 0;  // of a string: what is read of its next code point
        bool operator==(const Text&) const = default;
        uint64_t hash() const { return combine(combine(open, units), uint64_t{pending} << 3 | static_cast<uint64_t>(begun)); }
    };
    struct Open {
        uint32_t around = 0, parts = 0;
        uint32_t name = kNoName;  // of the member that has begun
        UniqueValues::Kind kind = UniqueValues::Kind::Array;
        uint32_t depth = 0;
        bool operator==(const Open&) const = default;
        uint64_t hash() const { return combine(combine(around, parts), uint64_t{name} << 3 | static_cast<uint64_t>(kind)); }
    };
    /// A list: the items of an array, which have no names, the last one first; or members, descending by the number of the name.
    struct Part {
        uint32_t rest = 0, name = kNoName, value = 0, count = 0;
        bool operator==(const Part&) const = default;
        uint64_t hash() const { return combine(combine(rest, name), value); }
    };
    struct Unit {
        uint32_t before = 0, unit = 0, count = 0;
        bool operator==(const Unit&) const = default;
        uint64_t hash() const { return combine(before, unit); }
    };

    uint32_t with_part(uint32_t rest, uint32_t name, uint32_t value) { return parts_.id({rest, name, value, parts_[rest].count + 1}); }
    uint32_t with_unit(uint32_t before, uint32_t unit) { return units_.id({before, unit, units_[before].count + 1}); }
    uint32_t with_member(uint32_t parts, uint32_t name, uint32_t value);
    std::vector<uint32_t> units_of(uint32_t units) const;
    std::string characters(uint32_t units) const;
    Text read_string(Text text, uint8_t byte);
    void put(Text& text, uint32_t unit);
    Text with_value_inside(Text text);
    Text closed(Text text);

    UniqueValues& values_;
    Interned<Text> texts_;
    Interned<Open> opens_;
    Interned<Part> parts_;
    Interned<Unit> units_;
};

/// Where a text is in the values that an item may become: the item of an array at some depth that has begun. It says which values are still possible if they
/// were before the last byte.
class ValueTexts::Place {
public:
    /// Whether the text may become the value; it may say so of one that is ruled out by the rest of an escape or of a number.
    bool possible(JsonValueId value) const;
    /// Bytes after which it may still become the value, at least.
    ByteSet next_bytes(JsonValueId value) const;
    /// Whether the text ends in the fraction of a number, and further zeros there say nothing: any other digit behind them excludes the
    /// value. `exponents`: one may follow.
    bool zeros_say_nothing(JsonValueId value, bool exponents) const;
    /// Parts that are looked at for each value, and once.
    size_t work_each() const { return 1 + way_.size(); }
    size_t work_once() const { return 1 + (text_.begun == Begun::Number ? texts_.units_[text_.units].count : 0); }

private:
    friend class ValueTexts;
    struct Found {
        JsonValueId around;               // the innermost container; with no `way_` the value itself
        std::optional<JsonValueId> here;  // the part of it that has begun, or will; none: a name of a member
    };
    /// Significant digits, and what is known besides.
    struct Digits {
        bool negative = false, in_fraction = false, in_exponent = false;
        size_t places = 0;  // behind the point
        std::string text;
    };

    explicit Place(const ValueTexts& texts) : texts_(texts) {}
    std::optional<Found> find(JsonValueId value) const;
    bool string_begins(JsonValueId string) const;
    bool name_begins(JsonValueId name) const;
    bool number_begins(JsonValueId number) const;
    std::optional<uint32_t> utf8_byte(JsonValueId string) const;
    ByteSet next_of_string(JsonValueId string) const;

    const ValueTexts& texts_;
    Text text_;
    std::vector<Open> way_;  // the open containers inside the item, from the outermost one on
    bool in_pair_ = false;   // the string ends with a high surrogate, whose second half may follow
    Digits digits_;
};

}  // namespace core
