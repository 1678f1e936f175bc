// The token automaton: lazily built, memoised, addressed by content.
//
// A state is an interned set of items (terminal residual, continuation) and whether the text may end there.
// Invariants
//  * Every item can be completed, so no state but `kDead` is a dead end.
//  * What follows a terminal that may already have ended is part of the state (closed under empty steps).
//  * A state id is valid as long as the automaton. What the memos hold can be computed again at any time; when it takes
//    too much memory it is dropped, at the beginning of a call.
// Thread safety: a hit in a memo takes no lock; everything else runs under the lane's lock.
#pragma once

#include <functional>
#include <string>

#include "expr.hpp"
#include "grammar.hpp"
#include "stack.hpp"
#include "vocabulary.hpp"

namespace core {

class Automaton;

/// Thrown out of whatever is asked when it comes to rules without a body. Nothing has changed by then: get the bodies
/// (`Automaton::supply`), and ask again.
struct Needed {
    Automaton* automaton;
    std::vector<uint32_t> rules;
};

class Automaton {
public:
    static constexpr uint32_t kDead = 0;
    static constexpr uint32_t kFinished = 1;  ///< after EOS: complete, only EOS may follow

    /// `fuel`: steps to decide whether a terminal is empty (see `read_grammar`). `limit`: bytes, see `trim`.
    Automaton(std::shared_ptr<Lane> vocabulary, const FlatGrammar& grammar, uint32_t fuel, size_t limit);

    /// kDead when no text satisfies the grammar.
    uint32_t start() const { return start_; }
    /// Index of a left-recursive rule, or UINT32_MAX. Such an automaton must not be used.
    uint32_t left_recursive() const { return exprs_.left_recursive(); }

    /// The memoised successor, or `Memo::kMissing`.
    uint32_t find_next(uint32_t state, uint32_t token) const {
        const Readers::Inside inside(vocabulary_->readers);
        return tokens_.find(token_key(state, token));
    }
    uint32_t next(uint32_t state, uint32_t token);
    bool accepts(uint32_t state) const { return states_[state].accepts; }
    /// The row if it was computed before and is still held, or UINT32_MAX.
    uint32_t find_row(uint32_t state) const {
        const uint32_t row = states_[state].row.load(std::memory_order_acquire);
        return vocabulary_->rows.holds(row) ? row : kUnset;
    }
    uint32_t row_id(uint32_t state);
    /// Writes the row, `vocabulary().rows.words()` words, if that needs no lock.
    bool find_mask(uint32_t state, uint32_t* out) const {
        return vocabulary_->rows.copy(states_[state].row.load(std::memory_order_acquire), out);
    }
    /// Writes the row.
    void fill_mask(uint32_t state, uint32_t* out) {
        while (!vocabulary_->rows.copy(row_id(state), out)) continue;  // others may drop it in between
    }
    /// Only tokens after which the text can be completed with at most `budget - 1` more.
    void fill_mask_within(uint32_t state, uint32_t budget, uint32_t* out);
    std::string forced(uint32_t state);
    /// Tokens of the canonical completion: the first of the shortest in byte order, in the fewest tokens that spell it.
    uint32_t shortest_completion(uint32_t state);

    /// Adds bodies of rules that were to come later, see `read_later`.
    void add_rules(const FlatGrammar& grammar, std::span<const uint32_t> rules) {
        const std::lock_guard guard(vocabulary_->lock);
        read_later(grammar, rules, vocabulary_->regexes, exprs_);
    }
    /// Gets the bodies of rules and adds them. Set by who knows them; called without the lane's lock.
    std::function<void(const std::vector<uint32_t>& rules)> supply;

    bool knows(uint32_t state) const { return state < count_.load(std::memory_order_acquire); }
    Lane& vocabulary() const { return *vocabulary_; }

    struct Size {
        size_t states, continuations, expressions, row_keys, rules;
        size_t bytes;  // of everything
        size_t memo_bytes;  // of what may be dropped
    };
    Size size();

private:
    static constexpr uint32_t kUnset = UINT32_MAX;
    static constexpr size_t kMemoLimit = size_t{1} << 22;
    // Bytes that are spelled out to answer a question about them: each costs a state. A longer completion is counted in
    // bytes, a longer forced text is cut.
    static constexpr uint32_t kLongText = 1u << 16;
    static constexpr uint32_t kLongForced = 1u << 14;

    static constexpr uint32_t kFewItems = 4;  // of a state that is stepped while tokens are followed

    struct Item {
        RegexId residual;
        ContId after;
        bool operator==(const Item&) const = default;
    };
    struct State {
        uint32_t items_at = 0, items_count = 0;
        uint32_t min_length = 0;    // bytes of the shortest completion
        uint32_t worst_length = 0;  // bound on min_length after any allowed token; valid once `row` is set
        bool accepts = false;
        bool has_first = false;
        ByteSet first;  // bytes that may come next
        std::atomic<uint32_t> row{kUnset};
        std::atomic<uint32_t> completion{kUnset};
    };

    struct MadeRow {
        std::vector<uint32_t> parts;  // what the row depends on, see `compute_row`
        uint32_t row;
        uint32_t worst_length;  // of tokens that leave a terminal
    };

    static uint64_t token_key(uint32_t state, uint32_t token) { return (uint64_t{state} << 32 | token) + 1; }

    uint32_t intern(std::vector<Item>& items, bool accepts);
    uint32_t length_of(const Item& item);
    uint32_t closure(ContId after);
    uint32_t depth(uint32_t node);
    bool may_equal(uint32_t node, uint32_t least);
    bool all_alike(const LexEntry& entry, ContId after);
    uint32_t byte_next(uint32_t state, uint8_t byte);
    uint32_t token_next(uint32_t state, uint32_t token);
    const ByteSet& first(uint32_t state);
    void compute_row(uint32_t state);
    void forget_dropped_rows();
    MadeRow make_row(uint32_t state, std::vector<uint32_t> parts);
    void walk_exits(const Item& item, const LexEntry& entry, TokenSet& tokens, uint32_t& worst);
    void walk(uint32_t state, uint32_t node, TokenSet& tokens, uint32_t& worst);
    void follow(uint32_t state, const LexEntry& left, TokenSet& tokens, uint32_t& worst);
    const TokenSet& within_budget(uint32_t state, uint32_t budget);
    uint32_t completion(uint32_t state);
    size_t kept_bytes() const;
    size_t memo_bytes() const;
    void trim();
    std::span<const Item> items(const State& state) const { return {items_.data() + state.items_at, state.items_count}; }

    std::shared_ptr<Lane> vocabulary_;
    const size_t limit_;
    Values values_;
    ExprStore exprs_;
    StackStore stacks_{exprs_};
    StableArray<State> states_;
    std::atomic<uint32_t> count_{0};
    std::vector<Item> items_;
    InternTable index_;
    Memo tokens_{kMemoLimit};  // (state, token) -> state
    Memo bytes_{kMemoLimit};   // (state, byte) -> state
    std::vector<MadeRow> made_rows_;
    InternTable row_index_;
    size_t made_bytes_ = 0;
    uint32_t first_row_ = 0;  // when `made_rows_` was begun
    TokenSet scratch_;
    std::vector<Item> next_;                                  // of `byte_next`
    std::vector<std::pair<uint32_t, uint32_t>> walk_work_;    // of `walk`
    std::vector<std::pair<uint32_t, uint32_t>> follow_work_;  // of `follow`
    std::vector<uint32_t> levels_;                            // first trie node of each depth, see `depth`
    LexEntry below_;                                          // of `follow`
    uint32_t start_ = kDead;
};

}  // namespace core
