// A lexer as a lazily built automaton: which terminals the text since the last border may still become.
//
// A state is an interned list of (terminal, residual, rank), best terminal first. The rule it keeps: of the terminals with
// the highest rank that match at all, the longest match wins, and among equally long ones the terminal with the smallest
// number. So when a terminal matches, those of lower rank leave the state for good; what is left then says which longer
// texts would overrule the match (`rival`).
// Invariants
//  * Every residual can be completed or is `kEmpty`; `kNone` is the state without any.
//  * Equal lists are equal ids, whatever parser states they are used from.
// Not thread-safe: guarded by the vocabulary's lock.
#pragma once

#include <algorithm>
#include <deque>

#include "regex.hpp"

namespace core {

class Lexer {
public:
    static constexpr uint32_t kNone = 0;
    static constexpr uint32_t kNoToken = UINT32_MAX;

    struct Token {
        RegexId regex;
        int32_t rank;
        /// Tokens whose rank this one takes where they are candidates too: the first that is. With its complement (`~`)
        /// instead, it takes that rank only for the texts that are the other's too, and keeps its own for all.
        std::vector<int32_t> hosts;
    };
    struct Part {
        uint32_t token;
        RegexId residual;
        int32_t rank;
        bool operator==(const Part&) const = default;
    };
    struct State {
        std::vector<Part> parts;
        uint32_t winner = kNoToken;            // the terminal that matches what was read
        RegexId rival = RegexStore::kNothing;  // the texts that the parts can still read
        uint32_t partition = 0;                // of the bytes that `step` cannot tell apart
        bool open = false;                     // some part can read more
        uint32_t moves = UINT32_MAX;
    };

    explicit Lexer(RegexStore& regexes) : regexes_(regexes) {}
    /// To be called once; best first among those of one rank.
    void set_tokens(std::vector<Token> tokens) {
        tokens_ = std::move(tokens);
        intern({});
    }

    size_t token_count() const { return tokens_.size(); }
    const Token& token(uint32_t index) const { return tokens_[index]; }
    const State& operator[](uint32_t state) const { return states_[state]; }

    /// Nothing read yet; `tokens` ascending.
    uint32_t start(const std::vector<uint32_t>& tokens) {
        std::vector<Part> parts;
        for (const uint32_t token : tokens) {
            const Token& own = tokens_[token];
            const auto host = std::ranges::find_if(own.hosts, [&](int32_t other) {
                return std::ranges::binary_search(tokens, static_cast<uint32_t>(other < 0 ? ~other : other));
            });
            if (host == own.hosts.end()) {
                parts.push_back({token, own.regex, own.rank});
            } else if (*host >= 0) {
                parts.push_back({token, own.regex, tokens_[*host].rank});
            } else {
                const Token& other = tokens_[~*host];
                parts.push_back({token, regexes_.intersect({own.regex, other.regex}), other.rank});
                parts.push_back({token, own.regex, own.rank});
            }
        }
        return intern(std::move(parts));
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

    size_t bytes() const {
        size_t total = index_.bytes() + 4 * moves_.capacity();
        for (const State& state : states_) total += sizeof state + state.parts.capacity() * sizeof(Part);
        return total;
    }

private:
    uint32_t derive(uint32_t id, uint8_t byte) {
        std::vector<Part> parts;
        int32_t matched = INT32_MIN;
        for (const Part& part : states_[id].parts) {
            const RegexId residual = regexes_.step(part.residual, byte);
            if (residual == RegexStore::kNothing) continue;
            parts.push_back({part.token, residual, part.rank});
            if (regexes_.nullable(residual)) matched = std::max(matched, part.rank);
        }
        std::erase_if(parts, [&](const Part& part) { return part.rank < matched; });
        return intern(std::move(parts));
    }

    uint32_t intern(std::vector<Part> parts) {
        uint64_t hash = parts.size();
        for (const Part& part : parts) {
            hash = combine(combine(combine(hash, part.token), part.residual.value), static_cast<uint32_t>(part.rank));
        }
        return index_.find_or_make(hash, [&](uint32_t id) { return states_[id].parts == parts; }, [&] {
            State state;
            std::vector<RegexId> rests;
            int32_t best = INT32_MIN;
            bool first = true;
            for (const Part& part : parts) {
                rests.push_back(part.residual);
                state.open |= part.residual != RegexStore::kEmpty;
                if (regexes_.nullable(part.residual) && (state.winner == kNoToken || part.rank > best)) {
                    state.winner = part.token;
                    best = part.rank;
                }
                const uint32_t own = regexes_.partition_id(part.residual);
                state.partition = first ? own : regexes_.meet(state.partition, own);
                first = false;
            }
            if (first) state.partition = regexes_.partition_id(RegexStore::kNothing);
            state.rival = state.open ? regexes_.unite(std::move(rests)) : RegexStore::kNothing;
            state.parts = std::move(parts);
            states_.push_back(std::move(state));
            return static_cast<uint32_t>(states_.size() - 1);
        });
    }

    RegexStore& regexes_;
    std::vector<Token> tokens_;
    std::deque<State> states_;  // references stay valid
    InternTable index_;
    std::vector<uint32_t> moves_;
};

}  // namespace core
