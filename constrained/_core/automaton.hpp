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

#include "base_automaton.hpp"

namespace core {

class Automaton : public BaseAutomaton {
public:
    /// `fuel`: steps to decide whether a terminal is empty (see `read_grammar`). `limit`: bytes, see `trim`.
    Automaton(std::shared_ptr<Lane> vocabulary, const FlatGrammar& grammar, uint32_t fuel, size_t limit);

    /// Adds bodies of rules that were to come later, see `read_later`.
    void add_rules(const FlatGrammar& grammar, std::span<const uint32_t> rules) {
        const std::lock_guard guard(vocabulary_->lock);
        read_later(grammar, rules, vocabulary_->regexes, exprs_);
    }
private:
    // Bytes that are spelled out to answer a question about them: each costs a state. A longer completion is counted in
    // bytes, a longer forced text is cut.
    static constexpr uint32_t kLongText = 1u << 16;

    static constexpr uint32_t kFewItems = 4;  // of a state that is stepped while tokens are followed

    struct State {
        uint32_t items_at = 0, items_count = 0;
        bool has_first = false;
        ByteSet first;  // bytes that may come next
    };

    struct MadeRow {
        std::vector<uint32_t> parts;  // what the row depends on, see `compute_row`
        uint32_t row;
        uint32_t worst_length;  // of tokens that leave a terminal
    };

    uint32_t intern(std::vector<Item>& items, bool accepts);
    uint32_t length_of(const Item& item);
    uint32_t closure(ContId after);
    uint32_t depth(uint32_t node);
    bool may_equal(uint32_t node, uint32_t least);
    bool all_alike(const LexEntry& entry, ContId after);
    uint32_t byte_next(uint32_t state, uint8_t byte) final;
    const ByteSet& first(uint32_t state);
    ByteSet first_bytes(uint32_t state) final { return first(state); }
    void compute_row(uint32_t state) final;
    void forget_dropped_rows();
    MadeRow make_row(uint32_t state, std::vector<uint32_t> parts);
    void walk_exits(const Item& item, const LexEntry& entry, TokenSet& tokens, uint32_t& worst);
    void walk(uint32_t state, uint32_t node, TokenSet& tokens, uint32_t& worst);
    void follow(uint32_t state, const LexEntry& left, TokenSet& tokens, uint32_t& worst);
    const TokenSet* within_budget(uint32_t state, uint32_t budget) final;
    uint32_t completion(uint32_t state) final;
    size_t kept_bytes() const final;
    size_t memo_bytes() const final;
    size_t row_keys() const final { return made_rows_.size(); }
    void begin_call() final { trim(); }
    void trim();
    std::span<const Item> items(const State& state) const { return {items_.data() + state.items_at, state.items_count}; }

    const size_t limit_;
    Values values_;
    StableArray<State> states_;
    Memo bytes_{kMemoLimit};   // (state, byte) -> state
    std::vector<MadeRow> made_rows_;
    InternTable row_index_;
    size_t made_bytes_ = 0;
    uint32_t first_row_ = 0;  // when `made_rows_` was begun
    std::vector<Item> next_;                                  // of `byte_next`
    std::vector<std::pair<uint32_t, uint32_t>> walk_work_;    // of `walk`
    std::vector<std::pair<uint32_t, uint32_t>> follow_work_;  // of `follow`
    std::vector<uint32_t> levels_;                            // first trie node of each depth, see `depth`
    LexEntry below_;                                          // of `follow`
};

}  // namespace core
