// Masks of many states at once: the caller copies memoised masks; several threads compute the missing ones.
//
// States whose automata share a shard would wait for its lock, so the missing masks of a shard are one task. A state that
// occurs twice is computed once: the second occurrence is a memo hit.
// Thread safety: as `BaseAutomaton`.
#pragma once

#include "base_automaton.hpp"

namespace core {

/// State i of automaton i, or of the only automaton. All automata have the same vocabulary.
struct MaskBatch {
    std::span<BaseAutomaton* const> automata;
    std::span<const uint32_t> states;
    std::span<const uint32_t> budgets = {};  // as for `BaseAutomaton::fill_mask_within`; empty: no limits

    size_t size() const { return states.size(); }
    BaseAutomaton& automaton(size_t i) const { return *automata[automata.size() == 1 ? 0 : i]; }
};

/// Writes the masks to consecutive rows of `shard().masks.words()` words.
void fill_masks(const MaskBatch& batch, uint32_t* out);

/// Ids of the masks; a mask may be evicted before its id is used.
std::vector<uint32_t> mask_ids(const MaskBatch& batch);

}  // namespace core
