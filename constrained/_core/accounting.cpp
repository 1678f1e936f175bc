// Automaton: accounting of memory, and eviction of memos.
#include "automaton.hpp"

namespace core {

/// States and their parts.
size_t Automaton::permanent_bytes() const {
    return content_bytes() + heads_.size() * sizeof(Head) + 4 * (free_ids_.capacity() + spelled_by_.capacity());
}

/// Memos, which can be recomputed.
size_t Automaton::memo_bytes() const {
    return tokens_.bytes() + bytes_.bytes() + cached_masks_.capacity() * sizeof(CachedMask) + 4 * mask_parts_.capacity() + cached_mask_index_.bytes() + crossings_bytes_ + gss_.join_memo_bytes() + opening_bytes();
}

/// Evicts the memos if they exceed the limit minus the permanent bytes. Memos may always use a quarter of the limit;
/// otherwise every call could evict the results of the last one. Runs at the start of a call under the lock, so only
/// lock-free readers can still see evicted tables.
void Automaton::trim() {
    shard_->trim();
    const size_t kept = permanent_bytes();
    if (memo_bytes() > std::max(limit_ > kept ? limit_ - kept : 0, limit_ / 4)) forget_memos();
}

void Automaton::forget_memos() {
    const Memo::Retired retired = tokens_.retire_all();
    bytes_.retire_all();  // used only under the lock
    cached_masks_ = {};
    mask_parts_ = {};
    cached_mask_index_ = InternTable();
    crossings_.clear();
    crossings_bytes_ = 0;
    gss_.clear_join_memo();
    openings_.clear();
    openings_count_ = 0;
    shard_->epoch.wait_for_readers();
}

/// The mask store evicts masks for all automata at once; the ids cached here are then stale.
void Automaton::forget_dropped_masks() {
    const uint32_t first = shard_->masks.first();
    if (first == first_mask_) return;
    first_mask_ = first;
    cached_masks_.clear();
    mask_parts_.clear();
    cached_mask_index_ = InternTable();
}

}  // namespace core
