// JSON scalars compared by value: prefixes read so far, sets of values, and languages without the values of a set.
//
// Invariants
//  * Two texts have the same value as in JSON: strings by their characters, however escaped; numbers by their exact decimal
//    value; everything else by its text.
//  * `excluding` removes every spelling of the values in the set except numbers with an exponent: languages of distinct
//    numbers have no exponents.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <array>
#include <map>
#include <string>
#include <unordered_map>

#include "regex.hpp"
#include "survivors.hpp"

namespace core {

using ScalarPrefixId = Id<struct ScalarPrefixTag>;  ///< the bytes of a scalar so far
using ValueSetId = Id<struct ValueSetTag>;  ///< a set of values

class JsonValues {
public:
    static constexpr ScalarPrefixId kUntracked{0};  ///< the bytes do not matter
    static constexpr ScalarPrefixId kStart{1};   ///< the empty prefix
    static constexpr ScalarPrefixId kAnyScalar{2};  ///< any scalar: results hold for every text
    static constexpr ValueSetId kNone{0};

    explicit JsonValues(RegexStore& regexes);

    ScalarPrefixId append(ScalarPrefixId text, uint8_t byte);
    /// The prefix followed by the first shortest text of `rest`, which must not be empty.
    ScalarPrefixId complete(ScalarPrefixId text, RegexId rest);
    /// Lower bound of the length of all spellings of the values with this prefix, also where it is all of the text.
    uint32_t min_text_length(ScalarPrefixId text) const { return texts_[text.value].least; }

    /// The set with the value of a complete text.
    ValueSetId add(ValueSetId seen, ScalarPrefixId text);
    /// The texts of the language whose value is not in the set.
    RegexId excluding(RegexId language, ValueSetId seen);
    /// Ascending lengths of the `count` shortest values of a language that are not in the set; fewer if there are no more.
    /// The value of `excluded_text` is left out too (`kAnyScalar`: the shortest value, so that each length is an upper
    /// bound for every excluded value; `kUntracked`: none).
    std::vector<uint32_t> shortest_lengths(RegexId language, ValueSetId seen, size_t count, ScalarPrefixId excluded_text = kUntracked);
    /// The sum of these lengths; none if there are fewer values.
    std::optional<uint64_t> shortest_sum(RegexId language, ValueSetId seen, size_t count, ScalarPrefixId excluded_text);
    /// Whether a text with this prefix may have one of the `count` shortest values of a language that are not in the set.
    bool may_be_among(ScalarPrefixId text, RegexId language, ValueSetId seen, size_t count);
    /// The bytes behind which it still may, and perhaps others.
    ByteSet may_stay_among(ScalarPrefixId text, RegexId language, ValueSetId seen, size_t count);
    /// The first shortest text of a language whose value is not in the set, and its length.
    ScalarPrefixId first_shortest(RegexId language, ValueSetId seen) { return complete(kStart, excluding(language, seen)); }
    std::optional<uint32_t> first_length(RegexId language, ValueSetId seen);
    /// The length of the value of this text, all of it, if it is one of them.
    std::optional<uint32_t> length_among(ScalarPrefixId text, RegexId language, ValueSetId seen, size_t count);
    /// Whether, whatever values are excluded, every text can be extended before its closing quote (a sufficient test).
    bool always_extensible(RegexId language);

    size_t bytes() const;

    /// What a collection keeps.
    struct Kept {
        Survivors texts, sets;
    };
    Kept nothing_kept() const { return {Survivors(texts_.size()), Survivors(seen_.size())}; }
    /// Keeps the marked texts and sets, and gives all of them new numbers.
    void collect(Kept& kept);

private:
    static constexpr size_t kFewResiduals = 256;  // of a language that is explored
    enum class Kind : uint8_t { Empty, String, Whole, Fraction, Word };  // of a number: before or behind its point
    struct Text {
        uint32_t parent;
        uint8_t byte;
        Kind kind;
        uint8_t escape;  // remaining bytes of an escape
        uint32_t read;   // bytes
        uint32_t least;  // see `min_text_length`
    };
    /// The values of a language by ascending length. Excluding values does not change the order of the others, so one list
    /// serves every set of values.
    struct Ranking {
        std::vector<std::pair<uint32_t, uint32_t>> values;  // number, length
        ValueSetId held = kNone;
        bool whole = false;
    };

    /// The shortest values of a language that are not in a set, as far as they were asked for.
    struct Free {
        size_t ranked = 0;  // values of the ranking that were read
        std::vector<std::pair<uint32_t, uint32_t>> values;  // number, length
        std::vector<uint64_t> sums{0};                      // of the lengths, by number of values
        ScalarPrefixId begun = kUntracked;  // the text that was asked for last: no value before `place` begins as it does
        size_t place = 0;
    };
    /// What is read of a string so far.
    struct Begun {
        ScalarPrefixId text = kUntracked;
        std::string characters;  // as in `canonical`, without one that is not written to its end
        bool whole = false;      // there is no such one
    };
    /// The first byte of the first shortest text of a language, and the residual after it.
    struct Step {
        uint8_t byte;
        RegexId rest;
    };

    using Numbers = std::map<std::string, uint32_t>;  // canonical text -> number

    static Text longer(uint32_t parent, const Text& before, uint8_t byte);
    void collect_texts(Survivors& texts);
    void collect_sets(Survivors& sets);

    std::string bytes_of(ScalarPrefixId text) const;
    uint32_t value(const std::string& text);
    bool rank(Ranking& ranking, RegexId language);
    Free& free_values(RegexId language, ValueSetId seen, size_t count);
    const Begun& begun(ScalarPrefixId text);
    bool begins(uint32_t number, const Begun& begun) const { return values_[number]->first.starts_with(begun.characters); }
    Step first_step(RegexId rest);
    Numbers::iterator number_of(ScalarPrefixId excluded_text);
    RegexId spelled(uint32_t number);
    RegexId spell(const std::string& canonical);
    RegexId spelled_string(const std::u32string& characters);
    RegexId spelled_character(char32_t character);
    RegexId escaped_unit(uint32_t unit);
    RegexId text(std::string_view text);

    RegexStore& regexes_;
    std::vector<Text> texts_;
    InternTable text_index_;
    Numbers value_index_;
    std::vector<Numbers::const_iterator> values_;     // by number
    std::map<uint32_t, RegexId> spellings_;           // by number
    std::map<char32_t, RegexId> characters_;
    std::map<std::vector<uint32_t>, uint32_t> seen_index_;
    std::vector<std::vector<uint32_t>> seen_;  // numbers of values, ascending
    std::map<std::pair<ValueSetId, ScalarPrefixId>, ValueSetId> added_;
    std::map<std::pair<RegexId, ValueSetId>, RegexId> excluding_;
    std::map<RegexId, Ranking> rankings_;
    static constexpr size_t kFree = 256;     // a text has as many kinds of names or items, nearly always
    static constexpr uint32_t kRankedInStep = 8, kCopiedInStep = 32, kComparedInStep = 4;  // values
    static constexpr uint32_t kBytesTriedInStep = 16;
    static constexpr uint32_t kStepsOfByte = 16;  // of a value that is written for a list of the shortest ones
    std::map<std::pair<RegexId, ValueSetId>, Free> free_;  // forgotten when they are many
    Begun begun_;                                          // the text that was asked for last
    std::unordered_map<uint32_t, Step> first_steps_;       // by residual
    std::map<RegexId, bool> always_extensible_;
    size_t bytes_ = 0;
};

}  // namespace core
