// The token automaton of a grammar behind a lexer with the longest-match rule.
//
// Where a terminal may end, the text has two readings: the terminal ended, or it continues. Each reading is a *branch*: the
// parser state when the current terminal began (`ParserState`), the lexer state since then, and the *rival*, the texts that
// would prove an earlier cut too short. The byte that completes a rival removes the branch.
// Terminals of the grammar that do not belong to the lexer (embedded JSON) are read byte by byte, as in `Automaton`; a
// boundary next to such a terminal is not a lexer cut.
// Invariants
//  * At most one branch of a text is the lexer's; the other ones disappear when the text proves them wrong.
//  * Every state that this class returns is proven to have a completion: one completion is stored, byte by byte, and every
//    state on it is proven. A search that exhausts its fuel counts as a proof of the contrary, so an allowed text can always
//    be completed, whatever the fuel.
//  * A state id that `next` gave out is valid for the lifetime of the automaton, and so is its stored completion: a collection
//    keeps the content of these states, of those on their completions, and what they consist of. It also keeps the completions behind
//    the tokens of the masks that were used last: a search again could find another one, or none.
// Thread safety: see `BaseAutomaton`.
#pragma once

#include <map>
#include <set>

#include "base_automaton.hpp"
#include "lexer.hpp"

namespace core {

class LexerAutomaton : public BaseAutomaton {
public:
    struct Tokens {
        std::span<const int32_t> regexes;         ///< by token: the node of its regular expression
        std::span<const int32_t> ranks;        ///< by token; among equal ranks the first token wins
        std::span<const std::vector<int32_t>> inherits_rank_from;  ///< by token, see `Lexer::Token`
        const std::vector<bool>& shortest;     ///< by token: it wins as soon as it matches
        bool basic_lexer;                       ///< Lark's basic lexer: every token competes everywhere, not only where the parser allows it
    };

    /// `fuel`: states that the search for one completion may visit. `limit`: see `Automaton`.
    LexerAutomaton(std::shared_ptr<Shard> shard, const FlatGrammar& grammar, const Tokens& tokens, uint32_t fuel, size_t limit);

    /// Whether a search for a completion ran out of fuel.
    bool search_exhausted() const { return search_exhausted_; }
    /// Pairs of tokens whose second never stands right after the first, in any text that `explain` reached.
    std::vector<std::pair<uint32_t, uint32_t>> conflicting_tokens() const { return {conflicting_tokens_.begin(), conflicting_tokens_.end()}; }

private:
    friend class LexerMaskWalk;
    static constexpr uint32_t kLeastFuel = 256;
    static constexpr uint32_t kMovesInStep = 4;  // that are looked up, in a step of work

    /// What the parser can read next at a token boundary. Symbols of `RuleExprStore` below the number of tokens are tokens,
    /// higher ones are residuals.
    struct ParserState {
        ContinuationId after{};
        bool accepts = false;
        std::vector<std::pair<uint32_t, ContinuationId>> tokens;  // (token, continuation), ascending
        std::vector<std::pair<RegexId, ContinuationId>> items;    // terminals outside the lexer
        uint32_t lexer = Lexer::kNone;
    };
    struct Branch {
        uint32_t parser_state;
        uint32_t lexer;
        RegexId rival;
        auto operator<=>(const Branch&) const = default;
    };
    enum class Verdict : uint8_t { Open, Live, Dead };
    struct State {
        uint32_t branches_at = 0, branches_count = 0, items_at = 0, items_count = 0;
        uint32_t bound = kInfinite;    // lower bound of the completion, in bytes
        uint32_t partition = 0;  // of the shard, which keeps it
        uint32_t moves = kUnset;       // unproven successors by byte class
        uint32_t walked_at = 0, walked_count = 0;  // states that its mask has gone through
        Verdict verdict = Verdict::Open;
        uint8_t witness = 0;           // first byte of the stored completion
    };
    /// A state with a table of its successors, for one walk over the vocabulary.
    struct Cell {
        uint32_t state, length;
        bool spread = false;
        ByteSet first;    // bytes that may come next
        ByteSet uniform;  // byte classes whose bytes all lead to the same state
        std::array<Cell*, 256> next;
    };
    struct StateBuilder;  // a state under construction

    uint32_t parser_state(ContinuationId after);
    void enter(ContinuationId after, RegexId rival, StateBuilder& builder);
    static uint64_t hash_of(std::span<const Branch> branches, std::span<const Item> items, bool accepts);
    uint32_t intern(StateBuilder& builder);
    uint32_t bound(const Branch& branch);
    uint32_t unproven_next(uint32_t state, uint8_t byte);
    uint32_t byte_next(uint32_t state, uint8_t byte) final;
    bool live(uint32_t state);
    void prove(uint32_t state);
    void explain(uint32_t state);
    ByteSet first_bytes(uint32_t state) final;
    Cell* cell(uint32_t state);
    void spread(Cell& cell);
    void compute_mask(uint32_t state) final;
    uint32_t walk_mask(uint32_t state);
    std::pair<uint8_t, uint32_t> step_nearer(uint32_t state) final;
    size_t permanent_bytes() const final;
    size_t content_bytes() const final;
    size_t memo_bytes() const final;
    void begin_call(uint32_t state) final;
    void collect(const std::vector<uint32_t>& recent) final;
    void forget_memos();
    State& state_of(uint32_t id) { return states_[heads_[id].content]; }
    const State& state_of(uint32_t id) const { return states_[heads_[id].content]; }

    RegexStore& regexes_;
    Lexer lexer_;
    bool basic_lexer_;
    uint32_t fuel_;         // of the first search of a call
    uint32_t search_fuel_;  // of the next one; less after one that gave up
    bool search_exhausted_ = false;
    std::set<std::pair<uint32_t, uint32_t>> conflicting_tokens_;
    std::vector<uint32_t> all_tokens_;
    std::deque<ParserState> parser_states_;
    size_t parser_state_bytes_ = 0;
    StableArray<State> states_;  // by `Head::content`
    std::vector<Branch> branches_;
    std::vector<uint32_t> moves_;
    std::vector<uint32_t> walked_;  // see `State::walked_at`
    std::deque<Cell> cells_;  // of the current walk
    size_t cells_used_ = 0;
    std::vector<Cell*> cell_of_;
};

}  // namespace core
