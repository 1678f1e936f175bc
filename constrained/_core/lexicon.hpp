// Which tokens go on inside one terminal, and where they leave it: by content of the terminal's residual.
//
// Invariant: an entry depends on the residual and the vocabulary alone, so it is shared by every schema and request.
// Six ways to the same entry, the cheapest that applies:
//   from_counter  C{m,n} and what follows: the tokens of C*, picked by how many copies they begin (`Loop`)
//   from_base     any text but some words: the entry of any text, changed on the paths of those words
//   from_relaxed  bounds so high that only long tokens reach them: the entry without them, changed at those tokens
//   from_loop     what cannot die inside a loop, such as strings: the tokens of the loop, and a look at those that leave
//   from_search   residuals that few bytes can go on, such as literals: those bytes are looked up in the trie
//   from_walk     anything: one walk over the vocabulary
// Not thread-safe: guarded by the vocabulary's lock.
#pragma once

#include <unordered_map>

#include "loop.hpp"
#include "quotient.hpp"
#include "regex.hpp"
#include "rows.hpp"
#include "trie.hpp"

namespace core {

struct LexEntry {
    TokenSet within;              ///< tokens that stay inside the terminal, ending it at most with their last byte
    const TokenSet* loop = nullptr;  ///< more of these, shared with other entries
    uint32_t worst_length = 0;    ///< bound on the shortest rest of the terminal after one of them, in bytes
    std::vector<uint32_t> exits;  ///< trie nodes with children at which the terminal may have ended, ascending

    /// Children of the exits with the same byte: where a token goes on after the terminal.
    struct Onward {
        uint8_t byte;
        std::vector<uint32_t> nodes;
    };
    std::vector<Onward> onward;  ///< ascending by byte
    bool used = true;            ///< since `Lexicon::trim` last looked

    size_t bytes() const;
};

class Lexicon {
public:
    Lexicon(const TokenBytes& tokens, const Trie& trie, const Quotient& quotient, RegexStore& regexes);

    struct Found {
        const LexEntry& entry;
        RegexId key;            ///< the residual that stands for all that have this entry
        uint32_t extra_length;  ///< to add to `worst_length`, for what was not looked at
    };
    Found at(RegexId residual);

    /// Adds the tokens at a trie node and below it that read its last byte and the rest inside the terminal, and where
    /// they leave it: tokens that come to the terminal in their middle. The byte is one that the residual can begin with.
    void below(RegexId residual, uint32_t node, LexEntry& into);
    LexEntry nothing() const { return {TokenSet(vocabulary_size_), nullptr, 0, {}, {}}; }

    /// Forgets what was not used for a while if there is more than `limit` bytes, and everything if that does not help.
    /// Entries that were found before must not be used any more.
    void trim(size_t limit);

    size_t size() const { return count_; }
    size_t bytes() const { return bytes_; }

private:
    /// For a residual: the one that stands for it, and what to add to that one's `worst_length`.
    struct Standing {
        RegexId key = RegexStore::kNothing;
        uint32_t extra_length = 0;
    };
    Standing representative(RegexId residual);
    Standing without_words(RegexId residual);
    std::unique_ptr<LexEntry> make(RegexId key);
    std::unique_ptr<LexEntry> from_walk(RegexId residual);
    std::unique_ptr<LexEntry> from_search(RegexId residual);
    void walk_into(LexEntry& entry, RegexId residual);
    void search_below(LexEntry& entry, uint32_t top, RegexId residual);
    uint32_t spell_below(LexEntry& entry, uint32_t node, RegexId residual, size_t read);
    const LexEntry& known_below(uint32_t top, RegexId residual);
    bool copy_below(LexEntry& entry, uint32_t top, RegexId residual, RegexId base);
    std::unique_ptr<LexEntry> from_loop(RegexId residual, const RegexStore::Carried& carried);
    std::unique_ptr<LexEntry> from_counter(const RegexStore::Counter& counter);
    bool counts(const RegexStore::Counter& counter);
    bool worth_a_loop(const RegexStore::Carried& carried);
    Loop& loop(RegexId part);
    void index_exits(LexEntry& entry) const;
    std::unique_ptr<LexEntry> from_base(RegexId residual, RegexId base, uint32_t agree = 0);
    std::unique_ptr<LexEntry> from_relaxed(RegexId residual);
    const ByteSet& uniform_atoms(RegexId residual);

    struct ResidualMachine;

    const TokenBytes& tokens_;
    const Trie& trie_;
    const Quotient& quotient_;
    RegexStore& regexes_;
    TokenSet all_;  // every token of the trie
    uint32_t vocabulary_size_;
    std::vector<Standing> representatives_;            // by residual; of kNothing until it is asked for
    std::vector<std::unique_ptr<LexEntry>> entries_;   // by representative
    size_t count_ = 0;
    std::unordered_map<uint32_t, std::unique_ptr<Loop>> loops_;  // by C
    std::unordered_map<uint64_t, LexEntry> below_;               // by trie node and residual
    size_t below_bytes_ = 0;                                     // of `bytes_`
    std::vector<std::optional<ByteSet>> uniform_;  // by partition
    size_t bytes_ = 0;
};

}  // namespace core
