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

#include "base_automaton.hpp"
#include "lexer.hpp"

namespace core {

class LexedAutomaton : public BaseAutomaton {
public:
    struct Tokens {
        std::span<const int32_t> rows;         ///< of each token: the row of its regular expression
        std::span<const int32_t> ranks;        ///< of each token; among equals the first is preferred
        std::span<const std::vector<int32_t>> hosts;  ///< of each token, see `Lexer::Token`
        bool everywhere;                       ///< every token competes everywhere, not only where the parser allows it
    };

    /// `fuel`: states that the search for one completion may visit.
    LexedAutomaton(std::shared_ptr<Lane> vocabulary, const FlatGrammar& grammar, const Tokens& tokens, uint32_t fuel);

    /// Whether the search for a first text ran out of fuel.
    bool undecided() const { return undecided_; }
    /// Pairs of tokens of which the second can never stand right after any text of the first that the search met.
    std::vector<std::pair<uint32_t, uint32_t>> colliding() const { return {colliding_.begin(), colliding_.end()}; }

private:
    friend class LexedWalk;
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
    enum class Verdict : uint8_t { Open, Live, Dead };
    struct State {
        uint32_t branches_at = 0, branches_count = 0, items_at = 0, items_count = 0;
        uint32_t bound = kInfinite;    // no completion is shorter, in bytes
        uint32_t partition = 0;
        uint32_t moves = kUnset;       // raw successors by group of bytes
        Verdict verdict = Verdict::Open;
        uint8_t witness = 0;           // first byte of that completion
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

    uint32_t place(ContId after);
    void enter(ContId after, RegexId rival, Front& front);
    uint32_t intern(Front& front);
    uint32_t bound(const Branch& branch);
    uint32_t raw_next(uint32_t state, uint8_t byte);
    uint32_t byte_next(uint32_t state, uint8_t byte) final;
    bool live(uint32_t state);
    void prove(uint32_t state);
    void explain(uint32_t state);
    ByteSet first_bytes(uint32_t state) final;
    Cell* cell(uint32_t state);
    void spread(Cell& cell);
    void compute_row(uint32_t state) final;
    uint32_t walk_row(uint32_t state);
    uint32_t completion(uint32_t state) final;
    size_t kept_bytes() const final;

    RegexStore& regexes_;
    Lexer lexer_;
    bool everywhere_;
    uint32_t fuel_;
    bool undecided_ = false;
    std::set<std::pair<uint32_t, uint32_t>> colliding_;
    std::vector<uint32_t> all_tokens_;
    std::deque<Place> places_;
    StableArray<State> states_;
    std::vector<Branch> branches_;
    std::vector<uint32_t> moves_;
    std::deque<Cell> cells_;  // of the walk that goes on
    size_t cells_used_ = 0;
    std::vector<Cell*> cell_of_;
};

}  // namespace core
