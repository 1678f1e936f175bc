// Classification of tokens by terminal residual: inner tokens stay inside the terminal, boundary tokens leave it.
//
// Invariant: an entry depends on the residual and the vocabulary alone, so all schemas and requests share it.
// Ways to build an entry; the cheapest applicable one is used:
//   from_relaxed  bounds so high that only long tokens reach them: the entry without bounds, corrected at these tokens
//   from_star     languages that cannot die inside C*, such as strings: the tokens of C*, plus a check of those that leave
//   from_search   residuals with few first bytes, such as literals: these bytes are looked up in the trie; and the
//                 substrings of a document, see `substring_subtree`
//   from_walked   a residual that few first bytes tell from one that was walked, such as free text behind half of a trigger:
//                 the entry of that one, corrected behind these bytes
//   from_walk     any other residual: one walk over the vocabulary
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <unordered_map>

#include "boundary_trie.hpp"
#include "star_tokens.hpp"
#include "byte_class_trie.hpp"
#include "regex.hpp"
#include "row_builder.hpp"
#include "trie.hpp"

namespace core {

struct LexiconEntry {
    TokenSet inner_tokens;              ///< inner tokens: they may end the terminal only with their last byte
    const TokenSet* star_tokens = nullptr;  ///< more inner tokens, shared with other entries
    uint32_t max_remaining = 0;    ///< bound on the minimum rest of the terminal after an inner token, in bytes
    std::vector<uint32_t> boundary_nodes;  ///< trie nodes with children where the terminal may end, ascending

    /// Children of the boundary nodes with the same byte: how boundary tokens continue after the terminal.
    struct BoundaryGroup {
        uint8_t byte;
        uint32_t begin, end;  ///< in `boundary_children`
    };
    std::vector<BoundaryGroup> boundary_groups;  ///< ascending by byte
    std::vector<uint32_t> boundary_children = {};
    std::span<const uint32_t> children(const BoundaryGroup& group) const {
        return std::span(boundary_children).subspan(group.begin, group.end - group.begin);
    }
    bool used = true;            ///< since the last `TokenLexicon::trim`
    uint8_t followed = 0;        ///< how often beyond its boundary, up to 2: see `TokenLexicon::boundary_trie`
    std::shared_ptr<const BoundaryTrie> boundary_trie = nullptr;

    size_t bytes() const;
};

class TokenLexicon {
public:
    TokenLexicon(const TokenBytes& tokens, const Trie& trie, const ByteClassTrie& byte_class_trie, RegexStore& regexes);
    ~TokenLexicon();

    struct Lookup {
        const LexiconEntry& entry;
        RegexId key;            ///< the representative of all residuals with this entry
        uint32_t extra_length;  ///< to add to `max_remaining`: what the representative leaves out
    };
    Lookup at(RegexId residual);

    /// Adds the tokens of a trie subtree that enter the terminal with the last byte of `node` to the row, and where they leave
    /// it to `exits`. The residual must be able to begin with that byte. Returns a bound on the minimum rest of the terminal
    /// after one of these tokens.
    uint32_t classify_subtree(RegexId residual, uint32_t node, RowBuilder& row, std::vector<uint32_t>& exits);
    /// What follows the terminal in the boundary tokens of an entry, by its `Lookup::key`. Made when the entry is asked for it a
    /// second time; nullptr before, and where it would not save anything.
    const BoundaryTrie* boundary_trie(RegexId key);
    /// Completes an entry; its boundary nodes ascend.
    void finish(LexiconEntry& entry) const;
    LexiconEntry empty_entry() const { return {TokenSet(vocabulary_size_), nullptr, 0, {}, {}}; }

    /// Above `limit` bytes, evicts the entries not used since the last call, and all if that does not suffice.
    /// Invalidates all references to entries.
    void trim(size_t limit);

    size_t size() const { return count_; }
    size_t bytes() const { return bytes_; }

private:
    /// The representative of a residual, and what to add to the representative's `max_remaining`.
    struct Standing {
        RegexId key = RegexStore::kEmptyLanguage;
        uint32_t extra_length = 0;
    };
    void drop_entries();
    Standing representative(RegexId residual);
    std::unique_ptr<LexiconEntry> make(RegexId key);
    std::unique_ptr<LexiconEntry> from_walked(RegexId residual);
    std::unique_ptr<LexiconEntry> from_walk(RegexId residual);
    std::unique_ptr<LexiconEntry> from_search(RegexId residual);
    void walk_into(LexiconEntry& entry, RegexId residual);
    void search_subtree(LexiconEntry& entry, uint32_t top, RegexId residual);
    void substring_subtree(LexiconEntry& entry, uint32_t top, RegexId residual);
    uint32_t spell_subtree(LexiconEntry& entry, uint32_t node, RegexId residual, size_t read);
    const LexiconEntry& known_subtree(uint32_t top, RegexId residual);
    std::unique_ptr<LexiconEntry> from_star(RegexId residual, const RegexStore::StarOf& star);
    bool worth_star_tokens(const RegexStore::StarOf& star);
    StarTokens& star_tokens(RegexId part);
    void index_boundary(LexiconEntry& entry) const;
    std::unique_ptr<LexiconEntry> from_base(RegexId residual, RegexId base, bool relaxed = false);
    std::unique_ptr<LexiconEntry> from_relaxed(RegexId residual);
    const ByteSet& uniform_classes(RegexId residual);

    using Run = std::span<const uint32_t>;
    struct ResidualWalk;

    const TokenBytes& tokens_;
    const Trie& trie_;
    const ByteClassTrie& byte_class_trie_;
    RegexStore& regexes_;
    TokenSet all_;  // every token of the trie
    uint32_t vocabulary_size_;
    LexiconEntry subtree_entry_;                       // of `classify_subtree`
    ChunkedArray<Standing> representatives_;           // by residual; `kEmptyLanguage` if not computed
    std::array<RegexId, 4> walked_{};  // the last residuals that were walked; the oldest is replaced
    size_t walks_ = 0;
    ChunkedArray<LexiconEntry*> entries_;  // by representative; owned
    size_t count_ = 0;
    std::unordered_map<uint32_t, std::unique_ptr<StarTokens>> star_tokens_;  // by C
    std::unordered_map<uint64_t, LexiconEntry> subtree_entries_;               // by trie node and residual
    size_t subtree_bytes_ = 0;                                     // of `bytes_`
    std::vector<std::optional<ByteSet>> uniform_;  // by partition
    size_t bytes_ = 0;
};

}  // namespace core
