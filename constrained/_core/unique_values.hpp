// JSON values by content, sets and lists of them: what arrays of different items are compared with.
//
// Invariants
//  * Equal ids mean equal values, as JSON Schema compares them: numbers by their exact decimal value, strings by their code
//    points, objects whatever the order of their members.
//  * The parts of a value have lower ids than it has.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "interned.hpp"

namespace core {

using JsonValueId = Id<struct JsonValueTag>;
using JsonSetId = Id<struct JsonSetTag>;
using JsonListId = Id<struct JsonListTag>;

class UniqueValues {
public:
    enum class Kind : uint32_t { Literal, Number, String, Array, Object };
    static constexpr JsonSetId kNone{0};
    static constexpr JsonListId kEmpty{0}, kWhole{1};  ///< no values of a set; all of them

    UniqueValues();

    JsonValueId literal(uint8_t first_letter) { return intern(Kind::Literal, {first_letter}); }
    JsonValueId number(std::string_view text);
    JsonValueId string(std::vector<uint32_t> code_points) { return intern(Kind::String, std::move(code_points)); }
    JsonValueId array(std::vector<uint32_t> items) { return intern(Kind::Array, std::move(items)); }
    /// `members`: names and values in turn, ascending by the number of the name.
    JsonValueId object(std::vector<uint32_t> members) { return intern(Kind::Object, std::move(members)); }

    Kind kind(JsonValueId value) const { return values_[value.value].kind; }
    /// Literal: its first letter; Number: the characters of its normal form; String: code points; Array: items; Object: names and
    /// values in turn, ascending by the number of the name.
    std::span<const uint32_t> words(JsonValueId value) const { return {words_.data() + values_[value.value].at, values_[value.value].count}; }
    std::optional<JsonValueId> member(JsonValueId object, JsonValueId name) const;

    /// In as many comparisons as the set has values.
    bool contains(JsonSetId set, JsonValueId value) const;
    JsonSetId add(JsonSetId set, JsonValueId value);
    /// The values of a list out of the set, `kWhole` included, for which `keep(value)` holds.
    template <class Keep>
    JsonListId filtered(JsonListId list, JsonSetId set, Keep&& keep);
    template <class Each>
    void for_each(JsonListId list, JsonSetId set, Each&& each) const;

    Survivors no_values_kept() const { return Survivors(values_.size()); }
    Survivors no_sets_kept() const { return Survivors(sets_.size()); }
    Survivors no_lists_kept() const { return Survivors(lists_.size()); }
    /// Keeps what is marked and what it consists of, and gives it new numbers.
    void collect(Survivors& values, Survivors& sets, Survivors& lists);
    size_t bytes() const;

private:
    struct Value {
        Kind kind;
        uint32_t at, count;  // in `words_`
    };
    struct Set {
        uint32_t rest, value;  // the set without the value that was added last
        bool operator==(const Set&) const = default;
        uint64_t hash() const { return combine(rest, value); }
    };
    struct List {
        uint32_t at, count;  // in `listed_`
    };

    JsonValueId intern(Kind kind, std::vector<uint32_t> words);
    JsonListId intern_list(std::span<const uint32_t> values);
    std::span<const uint32_t> listed(JsonListId list) const { return {listed_.data() + lists_[list.value].at, lists_[list.value].count}; }

    std::vector<Value> values_;
    std::vector<uint32_t> words_;
    InternTable value_index_;
    Interned<Set> sets_;
    std::vector<List> lists_;
    std::vector<uint32_t> listed_, filtered_;
    InternTable list_index_;
};

template <class Each>
void UniqueValues::for_each(JsonListId list, JsonSetId set, Each&& each) const {
    if (list != kWhole) {
        for (const uint32_t value : listed(list)) each(JsonValueId{value});
        return;
    }
    for (uint32_t at = set.value; at != kNone.value; at = sets_[at].rest) each(JsonValueId{sets_[at].value});
}

template <class Keep>
JsonListId UniqueValues::filtered(JsonListId list, JsonSetId set, Keep&& keep) {
    filtered_.clear();
    size_t all = 0;
    for_each(list, set, [&](JsonValueId value) {
        ++all;
        if (keep(value)) filtered_.push_back(value.value);
    });
    if (filtered_.size() == all) return list;
    std::ranges::sort(filtered_);
    return intern_list(filtered_);
}

}  // namespace core
