// The token automaton of a grammar whose text is cut into terminals by a lexer: the longest match wins.
//
// Where a terminal may end, the text is read in two ways from then on: the terminal ended, or it goes on. Each way is a
// *branch*: where the parser was when the terminal in progress began (`Place`), the state of the lexer since, and the
// *rival*, the texts that would show an earlier cut to be too short. A branch dies with the byte that completes a rival.
// Terminals of the grammar that are no lexer's (embedded JSON) are read byte by byte, as `Automaton` reads all of them;
// a border to one of those is no cut of the lexer.
// Invariants
//  * Of the branches of one text at most one is the lexer's; the others die when the text goes on to show it.
//  * A state that this class hands out was proven to have a completion: one is kept, byte by byte, and every state on it
//    is proven too. A search without result within its fuel counts as a proof that there is none, so an allowed text can
//    always be completed, whatever the fuel.
//  * A state id is valid as long as the automaton.
// Thread safety: a hit in a memo takes no lock; everything else runs under the vocabulary's lock.
#pragma once

#include <map>
#include <set>

#include "grammar.hpp"
#include "lexer.hpp"
#include "stack.hpp"
#include "vocabulary.hpp"

namespace core {

class LexedAutomaton {
public:
    static constexpr uint32_t kDead = 0;
    static constexpr uint32_t kFinished = 1;  ///< after EOS: complete, only EOS may follow

    struct Tokens {
        std::span<const int32_t> rows;         ///< of each token: the row of its regular expression
        std::span<const int32_t> ranks;        ///< of each token; among equals the first is preferred
        std::span<const std::vector<int32_t>> hosts;  ///< of each token, see `Lexer::Token`
        bool everywhere;                       ///< every token competes everywhere, not only where the parser allows it
    };

    /// `fuel`: states that the search for one completion may visit.
    LexedAutomaton(std::shared_ptr<Lane> vocabulary, const FlatGrammar& grammar, const Tokens& tokens, uint32_t fuel);

    /// kDead when no text satisfies the grammar, or none was found (`undecided`).
    uint32_t start() const { return start_; }
    uint32_t left_recursive() const { return exprs_.left_recursive(); }
    /// Whether the search for a first text ran out of fuel.
    bool undecided() const { return undecided_; }
    /// Pairs of tokens of which the second can never stand right after any text of the first that the search met.
    std::vector<std::pair<uint32_t, uint32_t>> colliding() const { return {colliding_.begin(), colliding_.end()}; }

    // As in `Automaton`.
    uint32_t find_next(uint32_t state, uint32_t token) const { return tokens_.find(token_key(state, token)); }
    uint32_t next(uint32_t state, uint32_t token);
    bool accepts(uint32_t state) const { return states_[state].accepts; }
    uint32_t find_row(uint32_t state) const {
        const uint32_t row = states_[state].row.load(std::memory_order_acquire);
        return vocabulary_->rows.holds(row) ? row : kUnset;
    }
    uint32_t row_id(uint32_t state);
    bool find_mask(uint32_t state, uint32_t* out) const {
        return vocabulary_->rows.copy(states_[state].row.load(std::memory_order_acquire), out);
    }
    void fill_mask(uint32_t state, uint32_t* out) {
        while (!vocabulary_->rows.copy(row_id(state), out)) continue;  // others may drop it in between
    }
    void fill_mask_within(uint32_t state, uint32_t budget, uint32_t* out);
    std::string forced(uint32_t state);
    uint32_t shortest_completion(uint32_t state);
    bool knows(uint32_t state) const { return state < count_.load(std::memory_order_acquire); }
    Lane& vocabulary() const { return *vocabulary_; }

    struct Size {
        size_t states, continuations, expressions, bytes;
    };
    Size size();

private:
    friend class LexedWalk;
    static constexpr uint32_t kUnset = UINT32_MAX;
    static constexpr size_t kMemoLimit = size_t{1} << 22;
    static constexpr uint32_t kLongText = 1u << 22;
    static constexpr uint32_t kLeastFuel = 256;

    /// Where the parser may be at a border: what it can read next. Symbols of `ExprStore` below the number of tokens are
    /// tokens, those above are residuals.
    struct Place {
        bool accepts = false;
        std::vector<std::pair<uint32_t, ContId>> tokens;  // with what follows each; ascending
        std::vector<std::pair<RegexId, ContId>> items;    // what is read byte by byte
        uint32_t lexer = Lexer::kNone;
    };
    struct Branch {
        uint32_t place;
        uint32_t lexer;
        RegexId rival;
        auto operator<=>(const Branch&) const = default;
    };
    struct Item {
        RegexId residual;
        ContId after;
        auto operator<=>(const Item&) const = default;
    };
    enum class Verdict : uint8_t { Open, Live, Dead };
    struct State {
        uint32_t branches_at = 0, branches_count = 0, items_at = 0, items_count = 0;
        uint32_t bound = kInfinite;    // no completion is shorter, in bytes
        uint32_t length = kInfinite;   // of the completion that is kept, once live
        uint32_t worst_length = 0;     // bound on `length` after any allowed token; valid once `row` is set
        uint32_t partition = 0;
        uint32_t moves = kUnset;       // raw successors by group of bytes
        Verdict verdict = Verdict::Open;
        uint8_t witness = 0;           // first byte of that completion
        bool accepts = false;
        std::atomic<uint32_t> row{kUnset};
        std::atomic<uint32_t> completion{kUnset};
    };
    /// A state with its successors laid out for one walk over the vocabulary.
    struct Cell {
        uint32_t state, length;
        bool spread = false;
        ByteSet first;    // bytes that may come next
        ByteSet uniform;  // atoms of the vocabulary whose bytes all lead to the same state
        std::array<Cell*, 256> next;
    };
    struct Front;  // a state under construction

    static uint64_t token_key(uint32_t state, uint32_t token) { return uint64_t{state} << 32 | token; }

    uint32_t place(ContId after);
    void enter(ContId after, RegexId rival, Front& front);
    uint32_t intern(Front& front);
    uint32_t bound(const Branch& branch);
    uint32_t raw_next(uint32_t state, uint8_t byte);
    uint32_t byte_next(uint32_t state, uint8_t byte);
    uint32_t token_next(uint32_t state, uint32_t token);
    bool live(uint32_t state);
    void prove(uint32_t state);
    void explain(uint32_t state);
    ByteSet first(uint32_t state);
    Cell* cell(uint32_t state);
    void spread(Cell& cell);
    void compute_row(uint32_t state);
    void walk_row(uint32_t state);
    uint32_t completion(uint32_t state);

    std::shared_ptr<Lane> vocabulary_;
    RegexStore& regexes_;
    ExprStore exprs_;
    StackStore stacks_{exprs_};
    Lexer lexer_;
    bool everywhere_;
    uint32_t fuel_;
    bool undecided_ = false;
    std::set<std::pair<uint32_t, uint32_t>> colliding_;
    std::vector<uint32_t> all_tokens_;
    std::deque<Place> places_;
    StableArray<State> states_;
    std::atomic<uint32_t> count_{0};
    std::vector<Branch> branches_;
    std::vector<Item> items_;
    InternTable index_;
    std::vector<uint32_t> moves_;
    Memo tokens_{kMemoLimit};  // (state, token) -> state
    TokenSet scratch_;
    std::deque<Cell> cells_;  // of the walk that goes on
    size_t cells_used_ = 0;
    std::vector<Cell*> cell_of_;
    uint32_t start_ = kDead;
};

}  // namespace core
