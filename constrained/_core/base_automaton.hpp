// What the automata of grammars share: numbered states with memoised successors and masks, and what a grammar can begin
// with. A subclass says what a state is, how it reads a byte and how it builds a mask.
//
// Invariants
//  * States are numbered alike in `heads_` and in the subclass's own array; `count_` is published after both.
//  * `length` and `worst_length` of a state do not change once its mask was published.
// Thread safety: what is `find_*` takes no lock; every other public function takes the shard's.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "expr.hpp"
#include "grammar.hpp"
#include "stack.hpp"
#include "vocabulary.hpp"

namespace core {

class BaseAutomaton {
public:
    static constexpr uint32_t kDead = 0;
    static constexpr uint32_t kFinished = 1;  ///< after EOS: complete, only EOS may follow

    virtual ~BaseAutomaton() = default;
    BaseAutomaton(const BaseAutomaton&) = delete;
    BaseAutomaton& operator=(const BaseAutomaton&) = delete;

    uint32_t start() const { return start_; }
    uint32_t left_recursive() const { return exprs_.left_recursive(); }
    uint32_t find_next(uint32_t state, uint32_t token) const {
        const Readers::Inside inside(vocabulary_->readers);
        return tokens_.find(token_key(state, token));
    }
    uint32_t next(uint32_t state, uint32_t token);
    bool accepts(uint32_t state) const { return heads_[state].accepts; }
    uint32_t find_row(uint32_t state) const {
        const uint32_t row = heads_[state].row.load(std::memory_order_acquire);
        return vocabulary_->rows.holds(row) ? row : kUnset;
    }
    uint32_t row_id(uint32_t state);
    bool find_mask(uint32_t state, uint32_t* out) const {
        return vocabulary_->rows.copy(heads_[state].row.load(std::memory_order_acquire), out);
    }
    void fill_mask(uint32_t state, uint32_t* out) {
        while (!vocabulary_->rows.copy(row_id(state), out)) continue;  // others may drop it in between
    }
    void fill_mask_within(uint32_t state, uint32_t budget, uint32_t* out);
    std::string forced(uint32_t state);
    uint32_t shortest_completion(uint32_t state);
    bool knows(uint32_t state) const { return state < count_.load(std::memory_order_acquire); }
    Lane& vocabulary() const { return *vocabulary_; }

    std::function<void(const std::vector<uint32_t>& rules)> supply;

    struct Size {
        size_t states, continuations, expressions, row_keys, rules;
        size_t bytes, memo_bytes;
    };
    Size size();

protected:
    static constexpr uint32_t kUnset = UINT32_MAX;
    static constexpr size_t kMemoLimit = size_t{1} << 22;
    static constexpr uint32_t kLongForced = 1u << 14;

    struct Item {
        RegexId residual;
        ContId after;
        auto operator<=>(const Item&) const = default;
    };
    /// What is read of a state without the lock.
    struct Head {
        uint32_t length = kInfinite;  // bytes of its completion
        uint32_t worst_length = 0;    // bound on `length` after any allowed token; valid once `row` is set
        bool accepts = false;
        std::atomic<uint32_t> row{kUnset};
        std::atomic<uint32_t> completion{kUnset};
    };

    explicit BaseAutomaton(std::shared_ptr<Lane> lane) : vocabulary_(std::move(lane)), scratch_(vocabulary_->size) {}
    /// `kDead` and `kFinished`; under the lock, before any other state.
    void push_fixed_states();

    static uint64_t token_key(uint32_t state, uint32_t token) { return (uint64_t{state} << 32 | token) + 1; }

    uint32_t token_next(uint32_t state, uint32_t token);
    void add_eos(TokenSet& tokens) const {
        for (const uint32_t token : vocabulary_->eos) tokens.add(token);
    }
    void publish_row(uint32_t state, uint32_t row, uint32_t worst_length);
    void merge_items(std::vector<Item>& items);
    /// Everything that `after` may begin with: on_symbol(symbol, rest) for each. Returns whether the text may end there.
    /// Rules are entered in the order of their ranks, each once for all its callers. Throws Needed.
    template <class OnSymbol>
    bool collect_first(ContId after, OnSymbol&& on_symbol);

    // What differs; all are called under the lock.
    virtual void begin_call() {}
    virtual uint32_t byte_next(uint32_t state, uint8_t byte) = 0;
    virtual ByteSet first_bytes(uint32_t state) = 0;
    virtual void compute_row(uint32_t state) = 0;
    virtual uint32_t completion(uint32_t state) = 0;
    virtual const TokenSet* within_budget(uint32_t, uint32_t) { return nullptr; }
    virtual size_t kept_bytes() const = 0;
    virtual size_t memo_bytes() const { return tokens_.bytes(); }
    virtual size_t row_keys() const { return 0; }

    std::shared_ptr<Lane> vocabulary_;
    ExprStore exprs_;
    StackStore stacks_{exprs_};
    StableArray<Head> heads_;
    std::atomic<uint32_t> count_{0};
    std::vector<Item> items_;
    InternTable index_;
    Memo tokens_{kMemoLimit};  // (state, token) -> state
    TokenSet scratch_;
    uint32_t start_ = kDead;
};

struct Needed {
    BaseAutomaton* automaton;
    std::vector<uint32_t> rules;
};

template <class OnSymbol>
bool BaseAutomaton::collect_first(ContId after, OnSymbol&& on_symbol) {
    std::map<std::pair<uint32_t, uint32_t>, ContId> calls;  // (rank, rule) -> what follows the rule
    bool accepts = false;
    const auto begin = [&](ExprId expr, ContId then) {
        for (const Move& move : exprs_.moves(expr)) {
            const ContId rest = stacks_.push(move.rest, then);
            if (!move.call) {
                on_symbol(move.target, rest);
                continue;
            }
            const auto [at, fresh] = calls.try_emplace({exprs_.rank(move.target), move.target}, rest);
            if (!fresh) at->second = stacks_.join(at->second, rest);
        }
    };
    std::vector<ContId> work{after};
    std::set<ContId> seen;
    while (!work.empty()) {
        const ContId top = work.back();
        work.pop_back();
        if (!seen.insert(top).second) continue;
        const auto held = stacks_.frames(top);
        const std::vector<Frame> frames(held.begin(), held.end());
        for (const Frame& frame : frames) {
            if (frame.after.value == 0) {
                accepts = true;
                continue;
            }
            if (exprs_.nullable(frame.expr)) work.push_back(frame.after);
            begin(frame.expr, frame.after);
        }
    }
    std::map<uint32_t, ContId> entered;
    std::vector<uint32_t> needed;
    while (!calls.empty()) {
        const auto [place, then] = *calls.begin();
        calls.erase(calls.begin());
        const uint32_t rule = place.second;
        const auto [at, fresh] = entered.try_emplace(rule, then);
        if (!fresh) {  // rules that rename each other: again only if a caller brought something new
            const ContId both = stacks_.join(at->second, then);
            if (both == at->second) continue;
            at->second = both;
        }
        if (exprs_.has_body(rule)) {
            begin(exprs_.body(rule), at->second);
        } else if (fresh) {
            needed.push_back(rule);
        }
    }
    if (!needed.empty()) throw Needed{this, std::move(needed)};
    return accepts;
}

}  // namespace core
