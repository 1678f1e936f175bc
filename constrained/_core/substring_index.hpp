// The substrings of a document, each symbol of which has one or more spellings.
//
// The document is a sequence of symbols: characters, or classes of characters that a comparison does not tell apart. A text
// of the language spells some consecutive symbols; where runs of white space are relaxed, a whole run may also be spelled
// as one space. What may follow a prefix is determined by where the prefix occurs: a suffix array (Manber and Myers 1993)
// keeps these occurrences together, so they are one interval, or a few where a run was spelled as one space.
// Invariants
//  * Spellings are prefix-free, so a text has one sequence of symbols.
//  * An interval of one occurrence is kept as the position of its next symbol: prefixes of one future share a state.
//  * Symbols below `spaces` are white space; symbols from `words` on belong to words.
// Thread safety: immutable after construction.
#pragma once

#include <algorithm>
#include <bitset>
#include <span>

#include "common.hpp"

namespace core {

class SubstringIndex {
public:
    /// Occurrences of a prefix: the suffixes at ranks `lo` to `hi` after `depth` symbols; with `hi` 0 a single
    /// occurrence, whose next symbol is at position `lo`.
    struct Cursor {
        uint32_t lo = 0, hi = 0, depth = 0;
        bool operator==(const Cursor&) const = default;
        auto operator<=>(const Cursor&) const = default;
    };
    struct Spelling {
        uint32_t symbol, offset, length;
    };
    static constexpr uint32_t kRoot = 0;  ///< of the trie of spellings: between two symbols

    /// `packed`: as `constrained.grammars.ir.Substring.packed`. Spellings with a byte outside of the alphabet are removed.
    /// Throws std::invalid_argument where it is malformed.
    SubstringIndex(std::span<const uint8_t> packed, const std::bitset<256>& alphabet);

    bool same(std::span<const uint8_t> packed) const { return std::ranges::equal(packed_, packed); }
    /// Symbols that a text must have at least.
    uint32_t least() const { return least_; }
    /// The occurrences of the empty prefix; false if there are none.
    bool start(std::vector<Cursor>& out) const;
    /// Bound on the bytes of the shortest completion within this many symbols.
    uint32_t bound(uint32_t missing) const { return longest_spelling_ * (1 + missing) + longest_word_; }
    /// Bytes of the shortest completion after a cursor.
    uint32_t min_length(const Cursor& cursor, uint32_t missing) const;
    /// Whether a text may end after one of the occurrences, apart from its length.
    bool may_end(const Cursor& cursor) const;

    uint32_t size() const { return static_cast<uint32_t>(text_.size()); }
    /// Calls `visit(position)` for the next symbol of each occurrence.
    template <class Visit>
    void for_each_position(const Cursor& cursor, Visit&& visit) const {
        if (cursor.hi == 0) return visit(cursor.lo);
        for (uint32_t rank = cursor.lo; rank < cursor.hi; ++rank) visit(position(rank, cursor.depth));
    }
    /// Calls `visit(symbol, cursor, more)` for each symbol that may come next and the occurrences after it; a symbol may be
    /// visited more than once. Without `more` nothing can follow these occurrences.
    template <class Visit>
    void expand(const Cursor& cursor, Visit&& visit) const {
        if (cursor.hi == 0) {
            if (cursor.lo == size()) return;
            step_single(cursor.lo, visit);
            return;
        }
        const bool jumps = spaces_ > 0 && may_jump(cursor);
        uint32_t at = cursor.lo;
        if (at < cursor.hi && position(at, cursor.depth) == size()) ++at;  // the shortest suffix ends here
        while (at < cursor.hi) {
            const uint32_t symbol = text_[position(at, cursor.depth)];
            const uint32_t end = group_end(at, cursor.hi, cursor.depth, symbol);
            if (symbol >= symbols_) break;  // no spelling
            emit(symbol, {at, end, cursor.depth + 1}, visit);
            at = end;
        }
        if (jumps) jump(cursor, visit);
    }

    std::span<const Spelling> spellings(uint32_t symbol) const {
        return std::span(spellings_).subspan(spellings_of_[symbol], spellings_of_[symbol + 1] - spellings_of_[symbol]);
    }
    std::span<const uint8_t> bytes_of(const Spelling& spelling) const { return std::span(blob_).subspan(spelling.offset, spelling.length); }

    // The trie of spellings, for prefixes that end inside one.
    /// The node after a byte; `kNone` if no spelling continues like this.
    uint32_t child(uint32_t node, uint8_t byte) const;
    /// The symbol whose spelling ends at a node; `kNone` inside a spelling.
    uint32_t symbol_at(uint32_t node) const { return nodes_[node].symbol; }
    uint32_t depth(uint32_t node) const { return nodes_[node].depth; }
    /// Whether a spelling goes through a node.
    bool below(const Spelling& spelling, uint32_t node) const {
        const uint32_t rank = ranks_[&spelling - spellings_.data()];
        return rank >= nodes_[node].begin && rank < nodes_[node].end;
    }
    static constexpr uint32_t kNone = UINT32_MAX;

    size_t bytes() const;

private:
    struct Node {
        uint32_t depth, begin, end, symbol, first_child, last_child;
        uint8_t byte;
    };

    uint32_t position(uint32_t rank, uint32_t depth) const { return suffixes_[rank] + depth; }
    /// Symbol at a position of the text; smaller than all symbols at its end.
    int64_t at(uint32_t position) const { return position == size() ? -1 : int64_t{text_[position]}; }
    /// The first rank from `lo` on whose suffix continues with a symbol above `symbol`.
    uint32_t group_end(uint32_t lo, uint32_t hi, uint32_t depth, uint32_t symbol) const {
        if (depth == 0 && lo == buckets_[symbol]) return buckets_[symbol + 1];
        uint32_t step = 1;
        while (lo + step < hi && at(position(lo + step, depth)) <= symbol) lo += step, step *= 2;
        return above(lo + 1, std::min(lo + step, hi), depth, symbol);
    }
    uint32_t above(uint32_t lo, uint32_t hi, uint32_t depth, int64_t symbol) const {
        while (lo < hi) {
            const uint32_t middle = lo + (hi - lo) / 2;
            at(position(middle, depth)) <= symbol ? lo = middle + 1 : hi = middle;
        }
        return lo;
    }
    /// Whether the next run of white space begins here.
    bool may_jump(const Cursor& cursor) const {
        return cursor.depth == 0 || text_[position(cursor.lo, cursor.depth) - 1] >= spaces_;
    }
    template <class Visit>
    void emit(uint32_t symbol, Cursor cursor, Visit&& visit) const {
        if (cursor.hi - cursor.lo == 1) cursor = {position(cursor.lo, cursor.depth), 0, 0};
        visit(symbol, cursor, cursor.hi != 0 || follows(cursor.lo));
    }
    bool follows(uint32_t position) const { return position < size() && text_[position] < symbols_; }
    template <class Visit>
    void step_single(uint32_t at, Visit&& visit) const {
        const uint32_t symbol = text_[at];
        if (symbol >= symbols_) return;
        visit(symbol, Cursor{at + 1, 0, 0}, follows(at + 1));
        if (symbol >= spaces_ || (at > 0 && text_[at - 1] < spaces_)) return;
        uint32_t end = at + 1;
        while (end < size() && text_[end] < spaces_) ++end;
        visit(space_, Cursor{end, 0, 0}, follows(end));
    }
    /// The occurrences after a run of white space that is spelled as one space.
    template <class Visit>
    void jump(const Cursor& cursor, Visit&& visit) const {
        std::vector<Cursor> work{cursor};
        while (!work.empty()) {
            const Cursor before = work.back();
            work.pop_back();
            uint32_t rank = before.lo;
            if (position(rank, before.depth) == size()) ++rank;
            while (rank < before.hi) {
                const uint32_t symbol = text_[position(rank, before.depth)];
                if (symbol >= spaces_) break;
                const uint32_t end = group_end(rank, before.hi, before.depth, symbol);
                if (end - rank == 1) {
                    uint32_t next = position(rank, before.depth) + 1;
                    while (cursor.depth > 0 && next < size() && text_[next] < spaces_) ++next;
                    if (next == size() || text_[next] >= spaces_) visit(space_, Cursor{next, 0, 0}, follows(next));
                } else {
                    const Cursor inside{rank, end, before.depth + 1};
                    // Symbols of white space come first: what follows the run is the end of the interval.
                    const uint32_t after = above(rank, end, inside.depth, int64_t{spaces_} - 1);
                    if (after < end) emit(space_, {after, end, inside.depth}, visit);
                    if (position(rank, inside.depth) == size()) visit(space_, Cursor{size(), 0, 0}, false);
                    // A run is left at its last symbol wherever a text begins inside it: no need to go through it.
                    if (cursor.depth > 0 && rank < after) work.push_back({rank, after, inside.depth});
                }
                rank = end;
            }
        }
    }
    uint32_t word_end(uint32_t position) const { return word_ends_.empty() ? position : word_ends_[position]; }
    void sort_suffixes();
    void build_spellings(std::vector<std::pair<uint32_t, std::vector<uint8_t>>> spellings);
    void remove_unspelled();

    std::vector<uint8_t> packed_;
    std::vector<uint32_t> text_;
    std::vector<uint32_t> suffixes_;
    std::vector<uint32_t> buckets_;      // first rank of each symbol
    std::vector<uint32_t> starts_;       // bytes of the shortest spelling of the text before each position
    std::vector<uint32_t> word_ends_;    // by position: the nearest place at or after it that is not inside a word
    std::vector<uint8_t> blob_;
    std::vector<Spelling> spellings_;    // by symbol
    std::vector<uint32_t> spellings_of_; // first spelling of each symbol
    std::vector<uint32_t> ranks_;        // of each spelling, in the order of their bytes
    std::vector<Node> nodes_;
    uint32_t symbols_ = 0, spaces_ = 0, words_ = 0, space_ = 0, least_ = 0;
    bool whole_words_ = false;
    uint32_t longest_spelling_ = 0, longest_word_ = 0;
};

}  // namespace core
