// A lexer as a lazily built automaton over the terminals that the text since the last boundary may still become.
//
// A state is an interned list of (terminal, residual, rank), best terminal first. Longest-match rule: among the terminals of
// the highest rank that match at all, the longest match wins, and among equally long ones the terminal with the smallest
// number. When a terminal matches, longest-match terminals of lower rank leave the state for good; the remaining ones determine which
// longer texts would overrule the match (`rival`). A shortest terminal wins where it first matches: all others leave, and it
// reads no more.
// Invariants
//  * Every residual can be completed or is `kEpsilon`; `kNone` is the empty list.
//  * Equal lists have equal ids, whatever parser states use them.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <algorithm>
#include <deque>

#include "regex.hpp"
#include "survivors.hpp"

namespace core {

class Lexer {
public:
    static constexpr uint32_t kNone = 0;
    static constexpr uint32_t kNoToken = UINT32_MAX;

    struct Token {
        RegexId regex;
        int32_t rank;
        /// The token takes the rank of the first of these tokens that is a candidate too. For a complemented number (`~`) it
        /// takes that rank only for texts that both tokens match, and its own rank for all texts.
        std::vector<int32_t> inherits_rank_from;
        /// The token wins as soon as it matches.
        bool shortest = false;
    };
    struct LiveTerminal {
        uint32_t token;
        RegexId residual;
        int32_t rank;
        bool operator==(const LiveTerminal&) const = default;
    };
    struct State {
        std::vector<LiveTerminal> terminals;
        uint32_t winner = kNoToken;            // the terminal that matches the text
        RegexId rival = RegexStore::kEmptyLanguage;  // the texts that the terminals can still read
        uint32_t partition = 0;                // classes of bytes that `step` treats alike
        bool open = false;                     // some terminal can read more
        uint32_t moves = UINT32_MAX;
    };

    explicit Lexer(RegexStore& regexes) : regexes_(regexes) {}
    /// Call once; tokens of one rank in descending preference.
    void set_tokens(std::vector<Token> tokens) {
        tokens_ = std::move(tokens);
        intern({});
    }

    size_t token_count() const { return tokens_.size(); }
    const Token& token(uint32_t index) const { return tokens_[index]; }
    const State& operator[](uint32_t state) const { return states_[state]; }

    /// The start state of candidate tokens, which must ascend.
    uint32_t start(const std::vector<uint32_t>& tokens) {
        std::vector<LiveTerminal> terminals;
        for (const uint32_t token : tokens) {
            const Token& own = tokens_[token];
            const auto host = std::ranges::find_if(own.inherits_rank_from, [&](int32_t other) {
                return std::ranges::binary_search(tokens, static_cast<uint32_t>(other < 0 ? ~other : other));
            });
            if (host == own.inherits_rank_from.end()) {
                terminals.push_back({token, own.regex, own.rank});
            } else if (*host >= 0) {
                terminals.push_back({token, own.regex, tokens_[*host].rank});
            } else {
                const Token& other = tokens_[~*host];
                terminals.push_back({token, regexes_.intersect({own.regex, other.regex}), other.rank});
                terminals.push_back({token, own.regex, own.rank});
            }
        }
        return intern(std::move(terminals));
    }

    uint32_t step(uint32_t id, uint8_t byte) {
        if (id == kNone) return kNone;
        const auto& partition = regexes_.partition_at(states_[id].partition);
        if (states_[id].moves == UINT32_MAX) {
            states_[id].moves = static_cast<uint32_t>(moves_.size());
            moves_.resize(moves_.size() + partition.count, UINT32_MAX);
        }
        const uint32_t slot = states_[id].moves + partition.of[byte];
        if (moves_[slot] == UINT32_MAX) moves_[slot] = derive(id, byte);
        return moves_[slot];
    }

    Survivors nothing_kept() const { return Survivors(states_.size()); }
    /// Keeps the marked states and gives them new numbers; what they lead to is derived again.
    void collect(Survivors& states) {
        states.keep(kNone);
        states.number();
        std::deque<State> kept;
        index_ = InternTable();
        moves_ = {};
        terminal_bytes_ = 0;
        for (uint32_t id = 0; id < states.size(); ++id) {
            if (!states.kept(id)) continue;
            State& state = kept.emplace_back(std::move(states_[id]));
            state.moves = UINT32_MAX;
            terminal_bytes_ += state.terminals.capacity() * sizeof(LiveTerminal);
            index_.find_or_insert(hash_of(state.terminals), [](uint32_t) { return false; }, [&] { return states[id]; });
        }
        states_ = std::move(kept);
    }
    size_t bytes() const { return index_.bytes() + 4 * moves_.capacity() + states_.size() * sizeof(State) + terminal_bytes_; }

private:
    uint32_t derive(uint32_t id, uint8_t byte) {
        std::vector<LiveTerminal> terminals;
        int32_t matched = INT32_MIN;
        for (const LiveTerminal& terminal : states_[id].terminals) {
            const RegexId residual = regexes_.step(terminal.residual, byte);
            if (residual == RegexStore::kEmptyLanguage) continue;
            terminals.push_back({terminal.token, residual, terminal.rank});
            if (regexes_.nullable(residual)) matched = std::max(matched, terminal.rank);
        }
        const auto ended = [&](const LiveTerminal& terminal) {
            return tokens_[terminal.token].shortest && regexes_.nullable(terminal.residual);
        };
        if (const auto winner = std::ranges::find_if(terminals, ended); winner != terminals.end()) {
            return intern({{winner->token, RegexStore::kEpsilon, winner->rank}});
        }
        std::erase_if(terminals, [&](const LiveTerminal& terminal) {
            return terminal.rank < matched && !tokens_[terminal.token].shortest;
        });
        return intern(std::move(terminals));
    }

    static uint64_t hash_of(const std::vector<LiveTerminal>& terminals) {
        uint64_t hash = terminals.size();
        for (const LiveTerminal& terminal : terminals) {
            hash = combine(combine(combine(hash, terminal.token), terminal.residual.value), static_cast<uint32_t>(terminal.rank));
        }
        return hash;
    }

    uint32_t intern(std::vector<LiveTerminal> terminals) {
        return index_.find_or_insert(hash_of(terminals), [&](uint32_t id) { return states_[id].terminals == terminals; }, [&] {
            State state;
            std::vector<RegexId> rests;
            int32_t best = INT32_MIN;
            bool first = true;
            for (const LiveTerminal& terminal : terminals) {
                rests.push_back(terminal.residual);
                state.open |= terminal.residual != RegexStore::kEpsilon;
                if (regexes_.nullable(terminal.residual) && (state.winner == kNoToken || terminal.rank > best)) {
                    state.winner = terminal.token;
                    best = terminal.rank;
                }
                const uint32_t own = regexes_.partition_id(terminal.residual);
                state.partition = first ? own : regexes_.refine(state.partition, own);
                first = false;
            }
            if (first) state.partition = regexes_.partition_id(RegexStore::kEmptyLanguage);
            state.rival = state.open ? regexes_.union_of(std::move(rests)) : RegexStore::kEmptyLanguage;
            state.terminals = std::move(terminals);
            terminal_bytes_ += state.terminals.capacity() * sizeof(LiveTerminal);
            states_.push_back(std::move(state));
            return static_cast<uint32_t>(states_.size() - 1);
        });
    }

    RegexStore& regexes_;
    std::vector<Token> tokens_;
    std::deque<State> states_;  // references stay valid
    InternTable index_;
    std::vector<uint32_t> moves_;
    size_t terminal_bytes_ = 0;
};

}  // namespace core
