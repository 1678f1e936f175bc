// The tokens that may be read from each position of a document.
//
// A token that may be read after a prefix is one that may be read from some occurrence of it. So each position has a list of
// tokens, and a prefix has the union of its occurrences' lists. Both are short: positions from which the document goes on
// alike, as far as tokens reach, share a list, and the tokens of a document are a few thousand. The unions are bitmaps that
// stay in the nearest cache.
// Invariants
//  * A node is numbered after its parent.
//  * Ranks of tokens are in the order of their ids.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <unordered_map>

#include "mask_store.hpp"
#include "substring_index.hpp"
#include "trie.hpp"

namespace core {

class DocumentTokens {
public:
    /// `index` must allow texts to end between any two symbols. Keeps references to both.
    DocumentTokens(const SubstringIndex& index, const Trie& trie);

    /// Reads on from all occurrences of a prefix; what follows tells of the last call.
    void read_after(std::span<const SubstringIndex::Cursor> cursors);
    /// The tokens that end inside the document.
    void add_tokens(TokenSet& to) const;
    /// Calls `visit` with the trie nodes that are reached between two symbols and have children.
    template <class Visit>
    void for_each_open(Visit&& visit) const {
        reached_.for_each([&](uint32_t node) {
            if (nodes_[node].open) visit(nodes_[node].trie_node);
        });
    }
    /// Calls `visit` with the children of these for a byte.
    template <class Visit>
    void for_each_leaving(uint8_t byte, Visit&& visit) {
        for (const auto& [node, child] : leaving(byte)) {
            if (reached_[node]) visit(child);
        }
    }

    size_t bytes() const;

private:
    static constexpr uint32_t kNone = UINT32_MAX;
    static constexpr uint32_t kFrequent = 1024;

    /// A set of numbers below a bound.
    struct Bitmap {
        std::vector<uint64_t> words;

        void reset(size_t bound) { words.assign(bound / 64 + 1, 0); }
        void set(uint32_t at) { words[at / 64] |= uint64_t{1} << (at % 64); }
        bool operator[](uint32_t at) const { return words[at / 64] >> (at % 64) & 1; }
        template <class Visit>
        void for_each(Visit&& visit) const {
            for (size_t i = 0; i < words.size(); ++i) {
                for (uint64_t word = words[i]; word; word &= word - 1) visit(static_cast<uint32_t>(i * 64 + std::countr_zero(word)));
            }
        }
    };
    /// A node of the vocabulary's trie that is reached from some position.
    struct Node {
        uint32_t parent : 31;  // in `nodes_`
        uint32_t open : 1;     // reached between two symbols, and longer tokens go through it
        uint32_t trie_node;
        uint32_t token = kNone;  // rank of a token that ends here
    };

    class Reading;

    void rank_tokens();
    void join_frequent();
    std::span<const uint32_t> ends(uint32_t list) const { return std::span(ends_).subspan(lists_[list], lists_[list + 1] - lists_[list]); }
    void mark_lists(const SubstringIndex::Cursor& cursor);
    std::span<const std::pair<uint32_t, uint32_t>> leaving(uint8_t byte);

    const SubstringIndex& index_;
    const Trie& trie_;
    std::vector<Node> nodes_;       // the root first
    std::vector<uint32_t> list_of_; // by position
    std::vector<uint32_t> lists_;   // where each begins in `ends_`; those of positions where texts may begin come first
    std::vector<uint32_t> ends_;    // nodes behind which nothing can be read; all nodes are these and their ancestors
    uint32_t first_lists_ = 0;      // how many these are
    std::vector<uint32_t> tokens_;  // by rank
    std::vector<std::pair<uint32_t, uint32_t>> more_tokens_;           // (node, rank) where several tokens have the same bytes
    std::unordered_map<uint32_t, std::vector<uint32_t>> after_symbol_;  // of symbols with `kFrequent` occurrences: the lists behind them
    std::unordered_map<uint8_t, std::vector<std::pair<uint32_t, uint32_t>>> leaving_;  // by byte: open nodes with this child, and it
    Bitmap marked_, reached_, read_;  // of the last call: lists, nodes, ranks of tokens
};

}  // namespace core
