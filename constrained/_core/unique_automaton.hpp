// The token automaton of a grammar with arrays whose items must differ as JSON values
// (`constrained.grammars.ir.Mark`).
//
// An automaton of the grammar with its marks runs inside (`inner_`), in a shard whose alphabet has the marks. A *reading* is a
// state of it and the history of the items; a state is a set of readings, one as long as the grammar is unambiguous. A mark
// that can follow is passed at once; a reading in which an item equals an earlier one ends there.
// An item that differs from all earlier ones already can be completed in any way, so the inner state says all about it: its
// length, its mask. One that may still become equal needs a search (`prove`).
// Invariants
//  * Every reading of a state has a completion, which is as long as its length says. Where the shortest completion of the inner automaton
//    begins a further item, it is one that an earlier item cannot equal (`constrained.grammars.json_schema.emit.arrays`).
//  * A search that runs out of fuel counts as a proof that there is no completion, so an allowed text can always be completed.
//  * A state id that `next` gave out is valid for the lifetime of the automaton; contents are collected as those of
//    `Automaton`. A state whose completion needed a search is kept, with the readings on the way, so that the text it belongs to
//    can be completed as it was promised.
// Thread safety: see `BaseAutomaton`.
#pragma once

#include <memory>

#include "automaton.hpp"
#include "item_history.hpp"

namespace core {

class UniqueAutomaton : public BaseAutomaton {
public:
    /// `shard`: with marks. `fuel`, `limit`: see `Automaton`. A call that leads far beyond the limit (`kSearchRoom`) has no more
    /// searches: items that may be equal to earlier ones end.
    UniqueAutomaton(std::shared_ptr<Shard> shard, const FlatGrammar& grammar, uint32_t fuel, size_t limit);

    /// Whether a search for a completion ran out of fuel.
    bool search_exhausted() const { return search_exhausted_; }

private:
    static constexpr uint32_t kSearchFuel = 1u << 14;       // bytes that one search may try
    static constexpr uint32_t kLaterSearches = 64;          // part of it that further ones of a call have after one gave up
    static constexpr uint32_t kSearchStep = 4;              // work of one byte, besides what it makes
    static constexpr uint64_t kSpaceCost = uint64_t{1} << 32;  // of white space, as bytes: more than all else
    static constexpr size_t kBytesInStep = 4;               // of a token that is read, besides the states that it makes
    static constexpr size_t kSearchRoom = size_t{64} << 20;  // bytes of states beyond four times the limit

    enum class Verdict : uint8_t { Open, Live, Dead };
    struct Reading {
        uint32_t inner;
        HistoryId history;
        Verdict verdict = Verdict::Open;
        uint8_t nearer = 0;  // the first byte of its completion, if a search found it
        uint32_t length = kInfinite;
    };
    struct State {
        uint32_t at = 0, count = 0;  // in `held_`
        bool has_first = false;
        bool searched = false;  // no reading that differs has a completion as short as the state
        ByteSet first;
        uint32_t without_values = kUnset;  // see `equivalent_state`
    };
    /// Tokens that may pass a mark, see unique_touching.cpp.
    using Touching = std::vector<uint32_t>;
    using Place = std::pair<uint32_t, uint32_t>;  // a node of the separators' trie and its depth
    struct TouchingMemo {
        std::unordered_map<uint32_t, Touching> tokens;            // by inner state
        std::unordered_map<uint64_t, std::vector<Place>> places;  // by lexicon entry and continuation
        void clear() { tokens.clear(), places.clear(); }
    };

    uint32_t reading(uint32_t inner, HistoryId history);
    bool tracked(uint32_t reading) const { return histories_.has_values(readings_[reading].history); }
    bool differs(uint32_t reading) const { return histories_.differs(readings_[reading].history); }
    bool live(uint32_t reading);
    void prove(uint32_t reading);
    void follow(uint32_t reading, uint8_t byte, std::vector<uint32_t>& next);
    uint32_t intern(std::vector<uint32_t>& readings);
    State& state_of(uint32_t id) { return states_[heads_[id].content]; }
    const State& state_of(uint32_t id) const { return states_[heads_[id].content]; }
    std::span<const uint32_t> held(uint32_t id) const { return {held_.data() + state_of(id).at, state_of(id).count}; }
    void store_content(uint32_t id, std::span<const uint32_t> readings);
    void keep_way(uint32_t reading, std::vector<uint32_t>& kept);
    void forget_memos();
    const Touching& touching(uint32_t inner_state);
    const std::vector<Place>& first_touches(const Trie& trie, const Item& item);
    std::vector<uint32_t> past_marks(uint8_t byte, uint32_t inner_state);
    void walk_close(uint32_t state, std::vector<uint32_t>& dead, std::vector<uint32_t>& close, uint32_t& worst);
    std::vector<uint32_t> apart(uint32_t state);

    uint32_t byte_next(uint32_t state, uint8_t byte) final;
    ByteSet first_bytes(uint32_t state) final;
    void compute_mask(uint32_t state) final;
    bool share_mask(uint32_t state);
    std::pair<uint8_t, uint32_t> step_nearer(uint32_t state) final;
    const TokenSet* within_budget(uint32_t state, uint32_t budget) final;
    void keep_within(uint32_t state, uint32_t budget, std::span<const uint32_t> places, uint32_t* out) final;
    bool reads_heads(uint32_t state) const final;
    uint32_t counting_cost(uint32_t state) const final;
    std::vector<uint32_t> head_exits(uint32_t state) final;
    uint32_t equivalent_state(uint32_t state, uint32_t reach) final;
    size_t permanent_bytes() const final;
    size_t content_bytes() const final;
    size_t memo_bytes() const final;
    void begin_call(uint32_t state) final;
    void collect(const std::vector<uint32_t>& kept) final;
    uint32_t next_again(uint32_t state, uint32_t token) final;

    std::unique_ptr<Automaton> inner_;
    ItemHistories histories_{shard_->work};
    std::vector<Reading> readings_;
    InternTable reading_index_;
    StableArray<State> states_;  // by `Head::content`
    std::vector<uint32_t> held_;
    Memo bytes_{kMemoLimit};  // (state, byte) -> state
    const MarkTables& mark_tables_;
    TouchingMemo touching_;
    size_t touching_bytes_ = 0;
    bool search_exhausted_ = false;
    uint32_t search_fuel_ = kSearchFuel;  // of the next search of this call
};

}  // namespace core
