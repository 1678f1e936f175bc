// The token automaton: built lazily, memoised, states interned by content.
//
// A state is an interned set of items (terminal residual, continuation), with a flag that the text may end there.
// Invariants
//  * Every item can be completed, so `kDead` is the only dead end.
//  * The continuations of terminals that may end here are part of the state (epsilon closure).
//  * A state id that `next` gave out is valid for the lifetime of the automaton. Memos are evicted at the start of a call when
//    they exceed the memory limit, and so are the contents of states (collection.cpp).
// Thread safety: see `BaseAutomaton`.
#pragma once

#include <functional>
#include <string>

#include "base_automaton.hpp"
#include "place_set.hpp"

namespace core {

class Automaton : public BaseAutomaton {
    friend class UniqueAutomaton;  // runs one inside

public:
    /// `fuel`: steps to decide whether a terminal is empty (see `read_grammar`). `limit`: bytes, see `trim`.
    Automaton(std::shared_ptr<Shard> shard, const FlatGrammar& grammar, uint32_t fuel, size_t limit);

private:
    static constexpr uint32_t kManyShared = 1u << 20;  // parts: an expression has so many only if it has most of them in several places
    static constexpr uint32_t kManyParts = 2048, kLongCompletion = 2048;  // beyond them a constraint is tried first
    // In `follow`, states with at most this many items are stepped as a whole, where at most `kFewBelow` tokens lie below.
    static constexpr uint32_t kFewItems = 4, kFewBelow = BoundaryTrie::kFewBelow;
    static constexpr size_t kManyCases = 32;  // see `reads_many_heads`
    static constexpr size_t kItemsInStep = 2;  // looked at once, or merged, in a step of work
    static constexpr uint32_t kCrossing = 1u << 31;  // in the parts of a mask: a body in place of a continuation

    struct State {
        uint32_t items_at = 0, items_count = 0;
        bool has_first = false;
        bool tracks_distinct = false;  // some continuation depends on the bytes of its terminal
        uint32_t key_erased_state = kUnset;  // see `equivalent_state`
        uint32_t least_reach = 0, reach = kUnset;  // of `key_erased_state`: a lower bound, and itself
        uint32_t ahead = kUnset;          // in `aheads_`
        ByteSet first;  // bytes that may come next
    };

    struct CachedMask {
        uint32_t parts_at, parts_count;  // in `mask_parts_`: the inputs of the mask, see `compute_mask`
        uint32_t mask;
        uint32_t max_remaining;  // after boundary tokens
    };

    /// What is known of all states after a state that reads heads.
    struct Ahead {
        uint32_t assumed;  // the state if all heads differ
        uint32_t reach;    // with a byte after which no head can matter, none does for so many bytes more
        ByteSet needed;    // bytes after which one may
    };

    uint32_t intern(std::vector<Item>& items, bool accepts);
    uint32_t length_of(const Item& item);
    uint32_t closure(ContinuationId after);
    uint32_t depth(uint32_t node);
    bool may_equal(uint32_t node, uint32_t least);
    bool distinct_head_irrelevant(const LexiconEntry& entry, ContinuationId after);
    uint32_t byte_next(uint32_t state, uint8_t byte) final;
    uint32_t bytes_next(uint32_t state, std::span<const uint8_t> bytes) final;
    uint32_t intern_read(std::vector<Item>& next);
    const ByteSet& first(uint32_t state);
    ByteSet first_bytes(uint32_t state) final { return first(state); }
    void compute_mask(uint32_t state) final;
    void forget_dropped_masks();
    std::pair<uint32_t, uint32_t> build_mask(uint32_t state);
    /// What follows the terminal of an item.
    struct Behind {
        ContinuationId after;  // where the bytes of the terminal matter, they are read into it
        uint32_t state;        // where they do not
        uint32_t least;        // they may matter from so many bytes behind the terminal on
    };
    /// The boundary tokens of an item inside the body of an entry, see crossing.cpp.
    struct Crossing {
        const LexiconEntry& entry;  // its nodes: where the body may end
        ExprId body;
        ContinuationId after;  // of the item, whatever its head
        uint32_t rest;         // minimum length of what follows the body
    };
    Behind behind(const Item& item);
    uint32_t state_before(const Behind& behind, uint32_t node, uint32_t begin);
    std::optional<Crossing> crossing(const Item& item, const LexiconEntry& left, RegexId key);
    void follow(const Item& left, const LexiconEntry& entry, const BoundaryTrie* together, RowBuilder& row, uint32_t& worst, std::vector<uint32_t>* ends);
    void follow_together(uint32_t state, const BoundaryTrie& boundary, RowBuilder& row, uint32_t& worst, std::vector<uint32_t>* ends);
    bool may_be_nearer(uint32_t state, uint8_t byte);
    const TokenSet* within_budget(uint32_t state, uint32_t budget) final;
    std::pair<uint8_t, uint32_t> step_nearer(uint32_t state) final;
    uint32_t step_cost(uint32_t state, uint32_t length) const final;
    uint32_t counting_cost(uint32_t state) const final;
    uint32_t forks_of(uint32_t state) const final;
    bool needs_search(uint32_t state) const;
    bool reads_heads(uint32_t state) const final;
    bool forgets(uint32_t state) const;
    bool reads_many_heads(uint32_t state) const final;
    std::vector<uint32_t> head_exits(uint32_t state) final;
    uint32_t equivalent_state(uint32_t state, uint32_t reach) final;
    uint32_t equivalent_next(uint32_t state, uint8_t byte, uint32_t reach) final;
    const Ahead& ahead(uint32_t state);
    size_t permanent_bytes() const final;
    size_t memo_bytes() const final;
    size_t mask_keys() const final { return cached_masks_.size(); }
    void begin_call(uint32_t state) final {
        collect_if_large(state);
        trim();
        restore(state);
    }
    void trim();
    void forget_memos();
    size_t content_bytes() const final;
    void collect(const std::vector<uint32_t>& kept) final;
    State& state_of(uint32_t id) { return states_[heads_[id].content]; }
    const State& state_of(uint32_t id) const { return states_[heads_[id].content]; }
    std::span<const Item> items(uint32_t id) const {
        const State& state = state_of(id);
        return {items_.data() + state.items_at, state.items_count};
    }
    static uint64_t hash_of(std::span<const Item> items, bool accepts);
    bool has_content(uint32_t id, std::span<const Item> items, bool accepts) const;
    void store_content(uint32_t id, std::span<const Item> items);

    bool looks_costly(const FlatGrammar& grammar) const;

    JsonValues values_;
    StableArray<State> states_;  // by `Head::content`
    Memo bytes_{kMemoLimit};   // (state, byte) -> state; with `kKeyErased`: -> `equivalent_next`, within the reach of `Ahead`
    static constexpr uint64_t kKeyErased = uint64_t{1} << 63;
    std::vector<Ahead> aheads_;
    std::unordered_map<uint64_t, LexiconEntry> crossings_;  // by lexicon entry and body
    size_t crossings_bytes_ = 0;
    std::vector<CachedMask> cached_masks_;
    InternTable cached_mask_index_;
    std::vector<uint32_t> mask_parts_, parts_;  // of `cached_masks_`; of the mask that is looked up
    uint32_t first_mask_ = 0;  // the lowest mask id when `cached_masks_` was cleared
    std::vector<Item> next_, closure_items_;                  // of `byte_next` and of `closure`
    std::vector<std::pair<uint32_t, uint32_t>> follow_work_, together_work_;  // of `follow`
    PlaceSet follow_seen_;                                                     // of `follow`
    std::vector<uint32_t> exits_;                             // of `follow`
    std::vector<uint32_t> levels_;                            // first trie node of each depth, see `depth`
};

}  // namespace core
