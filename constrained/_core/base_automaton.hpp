// Base class of the two automata: numbered states with memoised successors and masks, and the first symbols of a
// continuation. A subclass defines the content of a state, how it reads a byte and how it computes a mask.
//
// Invariants
//  * `heads_` and the state array of the subclass have the same numbering; `count_` is published after both are written.
//  * `length` and `max_remaining` of a state do not change after its mask is published.
// Thread safety: `find_*`, `accepts` and `has_state` are lock-free; every other public function takes the shard's lock.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "rule_exprs.hpp"
#include "flat_grammar.hpp"
#include "gss.hpp"
#include "vocabulary.hpp"

namespace core {

class BaseAutomaton {
    friend class UniqueAutomaton;  // runs another automaton inside

public:
    static constexpr uint32_t kDead = 0;
    static constexpr uint32_t kFinished = 1;  ///< after EOS: complete, only EOS may follow

    virtual ~BaseAutomaton() = default;
    BaseAutomaton(const BaseAutomaton&) = delete;
    BaseAutomaton& operator=(const BaseAutomaton&) = delete;

    uint32_t start() const { return start_; }
    /// A rule that begins with itself; UINT32_MAX: there is none.
    uint32_t left_recursive() const { return left_recursive_; }
    uint32_t find_next(uint32_t state, uint32_t token) const {
        const ReadEpoch::ReadGuard guard(shard_->epoch);
        return tokens_.find(token_key(state, token));
    }
    uint32_t next(uint32_t state, uint32_t token);
    /// From now on a call that takes more than this many steps throws TooMuchWork; `Work::kUnlimited`: none does.
    void limit_work(uint64_t steps) { work_limit_ = steps; }
    /// Steps of the last call that was not answered by what is known; of any automaton in this shard.
    uint64_t last_work() {
        const std::lock_guard guard(shard_->lock);
        return shard_->work.spent();
    }
    /// Whether later masks may take much more work than the first ones, as far as the grammar shows it.
    bool needs_trial() const { return needs_trial_; }
    /// `Gss::forks` of what may follow a state, at most.
    uint32_t forks(uint32_t state) {
        const Call call(*this, state);
        return forks_of(state);
    }
    bool accepts(uint32_t state) const { return heads_[state].accepts; }
    uint32_t find_mask_id(uint32_t state) const {
        const uint32_t mask = heads_[state].mask.load(std::memory_order_acquire);
        return shard_->masks.holds(mask) ? mask : kUnset;
    }
    uint32_t mask_id(uint32_t state);
    bool find_mask_bits(uint32_t state, uint32_t* out) const {
        return shard_->masks.copy(heads_[state].mask.load(std::memory_order_acquire), out);
    }
    void fill_mask(uint32_t state, uint32_t* out) {
        while (!shard_->masks.copy(mask_id(state), out)) continue;  // another thread may evict it in between
    }
    void fill_mask_within(uint32_t state, uint32_t budget, uint32_t* out);
    /// Whether the last `fill_mask_within` may have left out tokens after which the budget suffices. For one thread.
    bool mask_may_lack() const { return fuel_left_ == 0; }
    /// Whether `fill_mask_within` may differ from `fill_mask`, which must have been called for the state.
    bool limit_may_exclude(uint32_t state, uint32_t budget) const {
        return budget == 0 || heads_[state].max_remaining > budget - 1;
    }
    std::string forced(uint32_t state);
    /// The bytes that may come next.
    ByteSet allowed_bytes(uint32_t state);
    uint32_t shortest_completion(uint32_t state);
    /// Whether that is the fewest tokens of all completions, here and in every state that can follow.
    bool counts_exactly(uint32_t state);
    /// Counts exactly in a state and all that can follow, also where many texts do; false if they are too many for that, and then
    /// nothing changes. For an automaton that has given out no other state. Its collections may follow: what is counted anew is
    /// counted as thoroughly.
    bool count_thoroughly(uint32_t state);
    /// Whether this is a state that the automaton gave out.
    bool has_state(uint32_t state) const {
        return state < count_.load(std::memory_order_acquire) && heads_[state].published.load(std::memory_order_acquire);
    }
    /// How often states were dropped, see collection.cpp. Under the lock.
    size_t collections() const { return collections_; }
    Shard& shard() const { return *shard_; }

    struct Size {
        size_t states, continuations, expressions, mask_keys, rules;
        size_t bytes, memo_bytes, collections, published;
    };
    Size size();
    /// Whether a new text should have a new automaton of the same grammar: this one has given out many states, whose numbers
    /// stay, or some in a shard that is full, or its states take much memory and cannot be dropped.
    bool outgrown();

protected:
    static constexpr uint32_t kUnset = UINT32_MAX;
    static constexpr size_t kMemoLimit = size_t{1} << 22;
    static constexpr uint32_t kLongForced = 1u << 14;
    /// Bounds of a state whose completions are counted exactly: states, first bytes of a state, then all bytes, each times
    /// the `counting_cost` of its state, and all trie nodes that lead from one state to another.
    struct CountingBounds {
        size_t states, first_bytes, bytes, nodes;
    };
    static constexpr CountingBounds kFewTexts{1u << 11, 64, 1u << 11, 1u << 14};
    static constexpr CountingBounds kThorough{1u << 12, 256, 1u << 22, 1u << 26};
    static constexpr uint32_t kPlainCost = 4;  // `counting_cost` where it is not less
    static constexpr size_t kManyStates = 1u << 17, kSomeStates = 1u << 12;  // given out, see `outgrown`
    static constexpr size_t kFewTokens = 64;  // stepped one by one within a budget
    static constexpr uint32_t kLongText = 1u << 16;
    static constexpr uint32_t kMaskFuel = 1u << 15;  // bytes of completions that one mask within a budget may spell
    static constexpr uint32_t kSpelledInStep = 8;    // of them, in a step of work

    struct Item {
        RegexId residual;
        ContinuationId after;
        auto operator<=>(const Item&) const = default;
    };
    /// A way to begin a continuation: a terminal or a call of a rule, and what follows it.
    struct Opening {
        bool call;
        uint32_t symbol;
        ContinuationId rest;
        auto operator<=>(const Opening&) const = default;
    };
    /// The ways to begin a continuation, ascending, each symbol once; rules are not entered.
    struct Openings {
        bool accepts = false;  // the text may end
        std::vector<Opening> ways;
    };
    /// A call of a rule that is to be entered.
    struct Pending {
        uint32_t rank, rule;
        ContinuationId then;
        bool operator<(const Pending& other) const { return std::tie(rank, rule) > std::tie(other.rank, other.rule); }
    };
    /// What can follow a state, see `few_texts_follow`.
    enum class Rest : uint8_t { Unknown, Few, Many };
    /// The lock-free part of a state.
    struct Head {
        uint32_t length = kInfinite;  // bytes of its canonical completion
        uint32_t max_remaining = 0;    // bound on `length` after any allowed token; valid once `mask` is set
        bool accepts = false;
        std::atomic<uint32_t> mask{kUnset};
        std::atomic<uint32_t> completion{kUnset};
        uint32_t content = kUnset;  // see collection.cpp; kUnset if it was dropped
        uint32_t before = kUnset, token = kUnset;  // the state and the token that first led here, if `published`
        std::atomic<bool> published{false};         // `next` gave it out: its id stays
        uint32_t nearer = kUnset;  // the next state of the canonical completion, under the lock; kDead: see `completion`
        uint8_t nearer_byte = 0;
        Rest rest = Rest::Unknown;
    };

    /// `limit`: bytes above which memos are evicted, and contents of states collected.
    BaseAutomaton(std::shared_ptr<Shard> shard, size_t limit) : limit_(limit), shard_(std::move(shard)), scratch_(shard_->size) {}
    /// `kDead` and `kFinished`; under the lock, before any other state.
    void push_fixed_states();

    void publish_state(uint32_t state, uint32_t before, uint32_t token);
    void note_use(uint32_t state) { recent_[recent_count_++ % recent_.size()] = state; }
    std::vector<uint32_t> recent_states(size_t most) const;
    bool given_out(uint32_t state) const { return heads_[state].published.load(std::memory_order_relaxed); }
    uint32_t new_id();
    void collect_if_large(uint32_t used);
    void forget_contents(std::span<const uint32_t> kept);
    void restore(uint32_t state);
    static uint64_t token_key(uint32_t state, uint32_t token) { return (uint64_t{state} << 32 | token) + 1; }

    uint32_t token_next(uint32_t state, uint32_t token);
    uint32_t completion(uint32_t state);
    uint32_t nearer(uint32_t state);
    bool few_texts_follow(uint32_t state);
    bool count_exactly(uint32_t state);
    void count_exactly_on(std::span<const uint32_t> way);
    void add_canonical_tokens(uint32_t state, uint32_t budget, uint32_t* out);
    bool completes_within(uint32_t state, uint32_t budget);
    bool affordable(uint32_t state);
    void add_eos(TokenSet& tokens) const {
        for (const uint32_t token : shard_->eos) tokens.add(token);
    }
    void publish_mask(uint32_t state, uint32_t mask, uint32_t max_remaining);
    void merge_items(std::vector<Item>& items);
    /// The union of the continuations of these items or openings.
    template <class Part>
    ContinuationId joined(std::span<const Part> parts, ContinuationId Part::*of) {
        if (parts.size() == 1) return parts[0].*of;
        if (parts.size() == 2) return gss_.join(parts[0].*of, parts[1].*of);
        std::vector<ContinuationId> all;
        for (const Part& part : parts) all.push_back(part.*of);
        return gss_.join(std::move(all));
    }
    void opening(ContinuationId after, Openings& made);
    void open_frames(ContinuationId after, Openings& made);
    size_t opening_bytes() const;
    /// Calls on_symbol(symbol, rest) for every symbol that `after` may begin with; returns whether the text may end there.
    /// Enters rules in the order of their ranks, each once for all its callers.
    template <class OnSymbol>
    bool collect_first(ContinuationId after, OnSymbol&& on_symbol);

    /// A call that begins with a state: holds the lock, and counts its work.
    class Call {
    public:
        Call(BaseAutomaton& automaton, uint32_t state)
            : lock_(automaton.shard_->lock), counted_(automaton.shard_->work, automaton.work_limit_) {
            automaton.begin_call(state);
        }

    private:
        std::lock_guard<std::mutex> lock_;
        Work::Counted counted_;  // ends with the call, also if `begin_call` throws
    };

    // Called under the lock.
    /// Drops what is over the limits, and makes sure that the state has its content.
    virtual void begin_call(uint32_t) {}
    virtual uint32_t byte_next(uint32_t state, uint8_t byte) = 0;
    /// The state after these bytes, all of which are in the alphabet.
    virtual uint32_t bytes_next(uint32_t state, std::span<const uint8_t> bytes);
    virtual ByteSet first_bytes(uint32_t state) = 0;
    virtual void compute_mask(uint32_t state) = 0;
    /// The byte of the canonical completion, and the state after it; kDead if `length` is only a bound.
    virtual std::pair<uint8_t, uint32_t> step_nearer(uint32_t state) = 0;
    virtual const TokenSet* within_budget(uint32_t, uint32_t) { return nullptr; }
    /// Adds the tokens at these places of the trie's order, all of which the state allows, if the budget suffices after them.
    virtual void keep_within(uint32_t state, uint32_t budget, std::span<const uint32_t> places, uint32_t* out);
    bool keep_many_within(uint32_t state, uint32_t budget, std::span<const uint32_t> places, uint32_t* out);
    virtual uint32_t forks_of(uint32_t) const { return 0; }
    /// The state whose canonical completion and count a state has.
    uint32_t standing(uint32_t state) { return reads_heads(state) ? equivalent_state(state, 0) : state; }
    /// Places of the trie's order that are below a node, and the state before them.
    struct PlacesBelow {
        uint32_t node, state, depth;
        bool past_exit;  // a head may have ended
        std::span<const uint32_t> places;
    };
    /// Whether `equivalent_state` may return another state for it.
    virtual bool reads_heads(uint32_t) const { return false; }
    /// Whether each byte of a head is read in many cases: it is not read where the head does not matter.
    virtual bool reads_many_heads(uint32_t) const { return false; }
    /// Trie nodes with children where a terminal of the state whose bytes matter later may end.
    virtual std::vector<uint32_t> head_exits(uint32_t) { return {}; }
    /// A state with the same canonical completion, also after up to `reach` more bytes or any that end no head: it forgets
    /// heads that cannot matter.
    virtual uint32_t equivalent_state(uint32_t state, uint32_t) { return state; }
    /// `equivalent_state` of the state after a byte.
    virtual uint32_t equivalent_next(uint32_t state, uint8_t byte, uint32_t reach) {
        const uint32_t next = byte_next(state, byte);
        return reads_heads(next) ? equivalent_state(next, reach) : next;
    }
    /// Longer completions are not spelled out, because each byte costs a state; they count one token per byte.
    /// Where values must differ, each value is a set of its own.
    uint32_t longest_spelled() const { return exprs_.tracks_distinct() ? kLongText / 16 : kLongText; }
    // What a byte costs, by the content of the state alone and not by what is known already, so that what is left out for
    // its cost does not depend on earlier calls. One is about a microsecond.
    /// Fuel for reading the next byte of a completion of this length.
    virtual uint32_t step_cost(uint32_t, uint32_t) const { return 1; }
    /// How often each byte that may follow counts towards `CountingBounds::bytes`; kInfinite: the texts are not counted, because a byte
    /// may cost much, or a text may repeat a value that `equivalent_state` has forgotten (then only the canonical completion is the same).
    virtual uint32_t counting_cost(uint32_t) const { return kPlainCost; }
    virtual size_t permanent_bytes() const = 0;
    /// Bytes of states and their parts, which a collection can drop.
    virtual size_t content_bytes() const = 0;
    /// Whether much stays whatever is collected, because states that were given out cannot be computed again.
    bool over_limit() const { return contents_stay_ && content_bytes() > limit_; }
    /// Drops the contents of all states but these, ascending, and those that it cannot compute again.
    virtual void collect(const std::vector<uint32_t>& kept) = 0;
    /// The state after a token that once led to one whose content was dropped.
    virtual uint32_t next_again(uint32_t state, uint32_t token) { return token_next(state, token); }
    virtual size_t memo_bytes() const { return tokens_.bytes(); }
    virtual size_t mask_keys() const { return 0; }

    const size_t limit_;
    std::shared_ptr<Shard> shard_;
    RuleExprStore exprs_{shard_->work};
    Gss gss_{exprs_, shard_->work};
    StableArray<Head> heads_;
    std::atomic<uint32_t> count_{0};
    std::vector<uint32_t> free_ids_;
    size_t collect_above_ = 0;  // bytes of content
    std::vector<Item> items_;
    InternTable index_;
    Memo tokens_{kMemoLimit};  // (state, token) -> state
    std::unordered_map<uint32_t, Openings> openings_;  // of continuations that follow an expression that may be empty
    size_t openings_count_ = 0;
    /// Of `collect_first`.
    struct FirstSymbols {
        Openings opening;
        std::vector<Pending> calls;    // a heap, the lowest rank first
        std::vector<Pending> entered;  // descending as in the heap: rules are entered in this order, but for unit cycles
        std::vector<ContinuationId> together;
    } first_symbols_;
    TokenSet scratch_;
    std::vector<uint32_t> spelled_by_;  // by state: the last mask within a budget that spelled it, see `affordable`
    uint32_t masks_within_ = 0;         // number of these masks
    uint32_t fuel_left_ = kMaskFuel;    // of the current one
    std::array<uint32_t, 1024> recent_{};  // states that `next` gave out last, as a ring
    size_t recent_count_ = 0;
    size_t collections_ = 0;
    size_t published_count_ = 0;
    uint64_t work_limit_ = Work::kUnlimited;
    bool thorough_ = false;  // see `count_thoroughly`
    uint32_t start_ = kDead;
    // What holds for all states; the constructors set it.
    uint32_t left_recursive_ = UINT32_MAX;
    bool needs_trial_ = true;
    bool contents_stay_ = true;       // of states that were given out
    bool lengths_are_least_ = false;  // no completion has fewer bytes than the length of its state: a bound in bytes may show that it takes too many tokens
};

template <class OnSymbol>
bool BaseAutomaton::collect_first(ContinuationId after, OnSymbol&& on_symbol) {
    auto& [first, calls, entered, together] = first_symbols_;
    calls.clear(), entered.clear();
    const auto begin = [&](const Opening& one) {
        if (!one.call) return on_symbol(one.symbol, one.rest);
        calls.push_back({exprs_.rank(one.symbol), one.symbol, one.rest});
        std::ranges::push_heap(calls, std::less());
    };
    opening(after, first);
    for (const Opening& one : first.ways) begin(one);
    while (!calls.empty()) {
        Pending call = calls[0];
        together.clear();
        while (!calls.empty() && calls[0].rule == call.rule) {
            together.push_back(calls[0].then);
            std::ranges::pop_heap(calls, std::less());
            calls.pop_back();
        }
        if (together.size() > 1) call.then = gss_.join(together);
        const auto at = std::ranges::lower_bound(entered, call, [](const Pending& a, const Pending& b) { return b < a; });
        if (at == entered.end() || at->rule != call.rule) {
            entered.insert(at, call);
        } else {  // a unit cycle: enter the rule again only if its continuation grew
            call.then = gss_.join(at->then, call.then);
            if (call.then == at->then) continue;
            at->then = call.then;
        }
        for (const Move& move : exprs_.moves(exprs_.body(call.rule))) begin({move.call, move.target, gss_.push(move.rest, call.then)});
    }
    return first.accepts;
}

}  // namespace core
