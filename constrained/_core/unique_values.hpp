// JSON values by content, and texts that are read as values: what arrays of different items are compared with.
//
// Invariants
//  * Equal ids mean equal values, as JSON Schema compares them: numbers by their exact decimal value, strings by their code
//    points, objects whatever the order of their members. Of members with one name, the last one counts.
//  * A text is kept without the white space between its tokens, as a node of a trie: texts with a common beginning share it.
//  * No function recurses over the depth of a value.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "survivors.hpp"

namespace core {

using JsonValueId = Id<struct JsonValueTag>;
using JsonTextId = Id<struct JsonTextTag>;
using JsonSetId = Id<struct JsonSetTag>;

class UniqueValues {
public:
    static constexpr JsonTextId kNoText{0}, kAnyText{1};  ///< the empty text; a text that nobody asks for
    static constexpr JsonSetId kNone{0};

    UniqueValues();

    JsonTextId append(JsonTextId text, uint8_t byte);
    /// Bytes without white space.
    uint32_t length(JsonTextId text) const { return texts_[text.value].length; }
    /// The value that a text begins with after `start` bytes; one token follows it.
    JsonValueId value(JsonTextId text, uint32_t start);
    /// Whether what a text has after `start` bytes may become a value of the set, if no name comes twice.
    bool may_become(JsonTextId text, uint32_t start, JsonSetId set);

    bool contains(JsonSetId set, JsonValueId value) const;
    JsonSetId add(JsonSetId set, JsonValueId value);

    Survivors no_texts_kept() const { return Survivors(texts_.size()); }
    Survivors no_sets_kept() const { return Survivors(sets_.size()); }
    /// Keeps the marked texts and sets and what they consist of, and gives them and the values new numbers.
    void collect(Survivors& texts, Survivors& sets);
    size_t bytes() const;

private:
    enum class Place : uint8_t { Outside, String, Escape };
    enum class Kind : uint32_t { Literal, Number, String, Array, Object };
    struct Text {
        uint32_t parent, length;
        uint8_t byte;
        Place place;
    };
    struct Value {
        Kind kind;
        uint32_t at, count;  // in `words_`. Literal: its first letter; Number: characters; String: code points; Array: items;
                             // Object: names and values in turn, ascending by the number of the name
    };
    struct Set {
        uint32_t rest, value;  // the set without the value that was added last
    };
    /// A container that has begun.
    struct Open {
        Kind kind;
        std::vector<uint32_t> parts;  // as the words of a value, in the order of the text
        uint32_t name = UINT32_MAX;   // of the member that has begun
    };
    /// A text that may end in the middle.
    struct Reading {
        std::vector<Open> open;
        std::string_view scalar;  // that has begun
        std::vector<uint32_t> code_points;  // of it, if it is a string
        uint32_t whole = UINT32_MAX;
    };

    std::string text_after(JsonTextId text, uint32_t start) const;
    Reading read(std::string_view text);
    static void settle(std::vector<uint32_t>& members);
    bool may_become(const Reading& reading, uint32_t value) const;
    bool scalar_may_become(const Reading& reading, const Value& value) const;
    uint32_t member(const Value& object, uint32_t name) const;
    uint32_t intern(Kind kind, std::vector<uint32_t> words);
    uint32_t scalar(std::string_view text);
    std::span<const uint32_t> words(const Value& value) const { return {words_.data() + value.at, value.count}; }

    std::vector<Text> texts_;
    InternTable text_index_;
    std::vector<Value> values_;
    std::vector<uint32_t> words_;
    InternTable value_index_;
    std::vector<Set> sets_;
    InternTable set_index_;
};

}  // namespace core
