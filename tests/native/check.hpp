// What must hold of every state of an automaton, whatever is forgotten meanwhile; a broken law prints itself and aborts.
#pragma once

#include "counted.hpp"
#include "input.hpp"

namespace fuzz {

constexpr uint64_t kMostWork = 20'000'000;  // steps that an input may take: where nothing is remembered each call takes all of its own

/// Follows random tokens from the start and checks every state on the way, then the shortest way to the end.
template <class Automaton>
class Checker {
public:
    /// `work`: steps that the input has taken.
    Checker(Automaton& automaton, uint64_t& work)
        : automaton_{automaton}, work_(work), shard_(automaton.shard()), row_(shard_.masks.words()), within_(row_) {
        for (uint32_t token = 0; token < shard_.size; ++token) {
            const auto bytes = shard_.tokens[token];
            if (bytes.size() == 1) single_[bytes[0]] = token;
        }
    }

    void walk(Input& input, int steps) {
        uint32_t state = automaton_->start();
        while (steps-- > 0 && !input.done() && !tired()) {
            const std::vector<uint32_t> allowed = check(state, input);
            if (allowed.empty()) break;
            state = automaton_.next(state, allowed[input.below(allowed.size())]);
        }
        finish(state);
    }

private:
    static bool holds(const std::vector<uint32_t>& row, uint32_t token) { return row[token / 32] >> (token % 32) & 1; }

    /// Counts the calls since the last time. Whether the input has taken all of its steps.
    bool tired() {
        const uint64_t counted = std::exchange(counted_, shard_.work.total());
        work_ += counted_ - counted;
        return work_ > kMostWork;
    }

    /// The text tokens that the state allows, as far as they were checked.
    std::vector<uint32_t> check(uint32_t state, Input& input) {
        LAW(automaton_->has_state(state) && state != Automaton::kDead);
        automaton_.fill_mask(state, row_.data());
        LAW(shard_.masks.copy(automaton_->mask_id(state), within_.data()) && within_ == row_);
        LAW(automaton_->find_mask_bits(state, within_.data()) && within_ == row_);
        const bool accepts = automaton_.accepts(state);
        const std::string forced = automaton_.forced(state);
        const uint32_t left = automaton_.shortest_completion(state);
        const bool huge = left >= core::kInfinite / 2;  // lengths that do not fit into 32 bits stay where they are
        LAW(accepts == (left == 0));
        LAW(!accepts || forced.empty());
        const uint32_t budget = input.one_in(2) ? left + input.below(3) : input.below(8);
        automaton_.fill_mask_within(state, budget, within_.data());
        const bool may_lack = automaton_->mask_may_lack();
        std::vector<uint32_t> allowed;
        bool nearer = accepts;
        for (uint32_t token = 0; token < shard_.size; ++token) {
            if (tired()) return allowed;
            const size_t collections = automaton_->collections();
            const uint32_t after = automaton_.next(state, token);
            LAW((after != Automaton::kDead) == holds(row_, token));
            const uint32_t found = automaton_->find_next(state, token);  // may have been dropped
            LAW(found == after || found == core::Memo::kMissing);
            LAW(same(automaton_.next(state, token), after, collections));
            LAW(holds(row_, token) || !holds(within_, token));
            if (shard_.is_eos(token)) {
                LAW(holds(row_, token) == accepts);
                continue;
            }
            if (after == Automaton::kDead) continue;
            const auto bytes = shard_.tokens[token];
            LAW(!bytes.empty());
            for (size_t i = 0; i < std::min(bytes.size(), forced.size()); ++i) LAW(bytes[i] == static_cast<uint8_t>(forced[i]));
            LAW(same(spelled(state, bytes), after, collections));
            allowed.push_back(token);
            if (nearer && allowed.size() % 4) continue;  // a completion costs its length
            const uint32_t rest = automaton_.shortest_completion(after);
            if (tired()) return allowed;
            const bool fits = budget > 0 && rest <= budget - 1;
            if (!huge) LAW(holds(within_, token) == fits || (fits && may_lack));
            nearer |= rest < left;
        }
        LAW(nearer || huge);
        automaton_.fill_mask(state, within_.data());
        LAW(within_ == row_);  // also if it was dropped meanwhile
        for (uint32_t token = shard_.size; token < row_.size() * 32; ++token) LAW(!holds(row_, token));
        uint32_t along = state;  // what is forced can be said byte by byte
        for (const char byte : forced.substr(0, 200)) along = automaton_.next(along, single_[static_cast<uint8_t>(byte)]);
        LAW(along != Automaton::kDead);
        return allowed;
    }

    /// Whether two ways to one text lead to one state; after a collection, to states with the same mask.
    bool same(uint32_t one, uint32_t other, size_t collections) {
        if (one == other) return true;
        if (automaton_->collections() == collections || automaton_.accepts(one) != automaton_.accepts(other)) return false;
        std::vector<uint32_t> first(row_.size()), second(row_.size());
        automaton_.fill_mask(one, first.data());
        automaton_.fill_mask(other, second.data());
        return first == second && automaton_.shortest_completion(one) == automaton_.shortest_completion(other);
    }

    uint32_t spelled(uint32_t state, std::span<const uint8_t> bytes) {
        for (const uint8_t byte : bytes) state = automaton_.next(state, single_[byte]);
        return state;
    }

    /// Every step along the promised completion makes it shorter, so a short one is reached.
    void finish(uint32_t state) {
        uint32_t left = automaton_.shortest_completion(state);
        if (left > 50) return;
        while (!automaton_.accepts(state)) {
            if (tired()) return;
            automaton_.fill_mask_within(state, left + 1, row_.data());
            uint32_t best = Automaton::kDead, least = left;
            for (uint32_t token = 0; token < shard_.size; ++token) {
                if (!holds(row_, token)) continue;
                const uint32_t after = automaton_.next(state, token);
                const uint32_t rest = automaton_.shortest_completion(after);
                if (tired()) return;
                if (rest < least) best = after, least = rest;
            }
            LAW(best != Automaton::kDead);
            state = best, left = least;
        }
        const uint32_t end = automaton_.next(state, shard_.eos[0]);
        LAW(end == Automaton::kFinished);
        automaton_.fill_mask(end, row_.data());
        for (uint32_t token = 0; token < shard_.size; ++token) LAW(holds(row_, token) == shard_.is_eos(token));
    }

    CountedCalls<Automaton> automaton_;
    uint64_t& work_;
    core::Shard& shard_;
    uint64_t counted_ = shard_.work.total();
    std::vector<uint32_t> row_, within_;
    std::array<uint32_t, 256> single_{};
};

}  // namespace fuzz
