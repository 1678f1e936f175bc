// Which tokens go on inside one terminal, and where they leave it: by content of the terminal's residual.
//
// Invariant: an entry depends on the residual and the vocabulary alone, so it is shared by every schema and request.
// Five ways to the same entry, the cheapest that applies:
//   from_ladder   X{m,n} and what follows: the tokens of X*, picked by how many copies they begin (`Ladder`)
//   from_base     any text but some words: the entry of any text, changed on the paths of those words
//   from_relaxed  bounds so high that only long tokens reach them: the entry without them, changed at those tokens
//   from_search   residuals that few bytes can go on, such as literals: those bytes are looked up in the trie
//   from_walk     anything: one walk over the vocabulary
// Not thread-safe: guarded by the vocabulary's lock.
#pragma once

#include <map>
#include <unordered_map>

#include "quotient.hpp"
#include "regex.hpp"
#include "rows.hpp"
#include "trie.hpp"

namespace core {

struct LexEntry {
    TokenSet within;              ///< tokens that stay inside the terminal, ending it at most with their last byte
    uint32_t worst_length = 0;    ///< bound on the shortest rest of the terminal after one of them, in bytes
    std::vector<uint32_t> exits;  ///< trie nodes with children at which the terminal may have ended, ascending

    /// Children of the exits with the same byte: where a token goes on after the terminal.
    struct Onward {
        uint8_t byte;
        std::vector<uint32_t> nodes;
    };
    std::vector<Onward> onward;  ///< ascending by byte
};

/// The tokens of X* followed by a tail, by the number of copies of X that they begin.
struct Ladder {
    using Run = std::span<const uint32_t>;
    bool valid = false;              ///< copies of X can be counted byte by byte
    uint32_t top = 0;                ///< most copies that a token begins, or that come before an exit
    std::vector<std::vector<Run>> begun;           ///< tokens that end among the copies, by copies begun
    std::vector<std::pair<Run, uint32_t>> after;   ///< tokens that end in the tail, with the copies before it
    std::vector<std::pair<uint32_t, uint32_t>> exits;  ///< as in LexEntry, with the copies before
    std::vector<TokenSet> up_to;     ///< tokens that end among the copies having begun at most so many 
    uint32_t worst_rest = 0;         ///< bound on the rest of a begun copy, or of the tail, in bytes
};

class Lexicon {
public:
    Lexicon(const Trie& trie, const Quotient& quotient, RegexStore& regexes, uint32_t vocabulary_size);

    struct Found {
        const LexEntry& entry;
        RegexId key;            ///< the residual that stands for all that have this entry
        uint32_t extra_length;  ///< to add to `worst_length`: copies that must follow but were not looked at
    };
    Found at(RegexId residual);

    size_t size() const { return count_; }
    size_t bytes() const { return bytes_; }

private:
    RegexId representative(RegexId residual);
    std::unique_ptr<LexEntry> make(RegexId key);
    std::unique_ptr<LexEntry> from_walk(RegexId residual);
    std::unique_ptr<LexEntry> from_search(RegexId residual);
    void index_exits(LexEntry& entry) const;
    std::unique_ptr<LexEntry> from_base(RegexId residual, RegexId base, uint32_t agree = 0);
    std::unique_ptr<LexEntry> from_relaxed(RegexId residual);
    std::unique_ptr<LexEntry> from_ladder(Ladder& ladder, const RegexStore::Counter& counter);
    Ladder& ladder(RegexId part, RegexId tail);
    const ByteSet& uniform_atoms(RegexId residual);

    struct ResidualMachine;
    struct CountingMachine;

    const Trie& trie_;
    const Quotient& quotient_;
    RegexStore& regexes_;
    TokenSet all_;  // every token of the trie
    uint32_t vocabulary_size_;
    std::vector<RegexId> representatives_;             // by residual; kNothing until it is asked for
    std::vector<std::unique_ptr<LexEntry>> entries_;   // by representative
    size_t count_ = 0;
    std::map<std::pair<RegexId, RegexId>, Ladder> ladders_;
    std::vector<std::optional<ByteSet>> uniform_;  // by partition
    size_t bytes_ = 0;
};

}  // namespace core
