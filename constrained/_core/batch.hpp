// Many states at once: what is known is copied by the caller, what is not is computed by several threads.
//
// Two states whose automata share a lane would only wait for its lock, so a lane's misses are one task. A state that
// comes twice is computed once, for the second finds the row.
#pragma once

#include "base_automaton.hpp"

namespace core {

/// What is asked: state i of automaton i, or of the only one. All are of one vocabulary.
struct Batch {
    std::span<BaseAutomaton* const> automata;
    std::span<const uint32_t> states;

    size_t size() const { return states.size(); }
    BaseAutomaton& automaton(size_t i) const { return *automata[automata.size() == 1 ? 0 : i]; }
};

/// One row after another, `vocabulary().rows.words()` words each.
void fill_masks(const Batch& batch, uint32_t* out);

/// Ids of the rows; a row may be dropped by the time the id is used.
std::vector<uint32_t> row_ids(const Batch& batch);

}  // namespace core
