// Moves between numbered states by the state that they lead to, gathered in linear time.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace core {

class Predecessors {
public:
    /// `moves`: (to, from), each below `states`.
    Predecessors(std::span<const std::pair<uint32_t, uint32_t>> moves, size_t states) : begin_(states + 2), from_(moves.size()) {
        for (const auto& [to, from] : moves) ++begin_[to + 2];
        for (size_t i = 2; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
        for (const auto& [to, from] : moves) from_[begin_[to + 1]++] = from;
    }

    /// The states from which a move leads to this one, once for each move.
    std::span<const uint32_t> of(uint32_t to) const { return {from_.data() + begin_[to], begin_[to + 1] - begin_[to]}; }

private:
    std::vector<uint32_t> begin_;  // of each state's part of `from_`; the end of one is the begin of the next
    std::vector<uint32_t> from_;
};

}  // namespace core
