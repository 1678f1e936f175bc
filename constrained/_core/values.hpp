// JSON scalars by value: what was read so far, which values were seen, and every other text than theirs.
//
// Invariants
//  * Two texts are the same value iff JSON says so: strings by their characters, however they are escaped; numbers by
//    their exact decimal value; anything else by its text.
//  * `without` excludes every spelling of the seen values but numbers with an exponent: languages of numbers that must
//    differ have none.
// Not thread-safe: guarded by the vocabulary's lock.
#pragma once

#include <map>
#include <string>

#include "regex.hpp"

namespace core {

using TextId = Id<struct TextTag>;  ///< bytes read of a scalar
using SeenId = Id<struct SeenTag>;  ///< a set of values

class Values {
public:
    static constexpr TextId kNoText{0};  ///< nobody keeps what is read
    static constexpr TextId kStart{1};   ///< nothing was read yet
    static constexpr TextId kAnyText{2};  ///< whatever is read: what is asked of it holds for every text
    static constexpr SeenId kNone{0};

    explicit Values(RegexStore& regexes);

    TextId append(TextId text, uint8_t byte);
    /// The text and the first of the shortest texts of `rest`, which is not empty, behind it.
    TextId complete(TextId text, RegexId rest);
    /// No text of a value that begins so is shorter.
    uint32_t least_length(TextId text) const { return texts_[text.value].least; }

    /// The set with the value of a complete text.
    SeenId add(SeenId seen, TextId text);
    /// The texts of a language whose value is not in the set.
    RegexId without(RegexId language, SeenId seen);
    /// Lengths of so many different values of a language that are not in the set, the shortest first; fewer if there
    /// are no more. The value of a complete text is left out, too (of `kAnyText`: the shortest, so that each length is
    /// a bound on what it is without another value; of `kNoText`: none).
    std::vector<uint32_t> shortest(RegexId language, SeenId seen, size_t count, TextId besides = kNoText);
    /// Whether no set of seen values keeps a text from going on before its closing quote (a sufficient test).
    bool endless(RegexId language);

    size_t bytes() const;

private:
    struct Text {
        uint32_t parent;
        uint8_t byte;
        uint8_t escape;  // bytes of an escape that are still to come
        uint32_t least;
    };
    /// The values of a language, the shortest first: taking some out does not change the order of the others, so one
    /// list serves every set of seen values.
    struct Ranking {
        std::vector<std::pair<uint32_t, uint32_t>> values;  // number, length
        SeenId held = kNone;
        bool whole = false;
    };

    using Numbers = std::map<std::string, uint32_t>;  // canonical text -> number

    std::string bytes_of(TextId text) const;
    uint32_t value(const std::string& text);
    bool rank(Ranking& ranking, RegexId language);
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
    std::map<std::pair<SeenId, TextId>, SeenId> added_;
    std::map<std::pair<RegexId, SeenId>, RegexId> without_;
    std::map<RegexId, Ranking> rankings_;
    std::map<RegexId, bool> endless_;
    size_t bytes_ = 0;
};

}  // namespace core
