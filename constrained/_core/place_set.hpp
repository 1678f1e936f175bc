// Places (a trie node and the state before it) that a walk has met.
//
// A table with open addressing whose memory is used again by the next walk: most meet a few places, some a hundred thousand.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include "common.hpp"

namespace core {

class PlaceSet {
public:
    /// Forgets all places. Costs the same however many there were.
    void clear() { slots_.assign(kFew, 0), held_ = 0; }
    /// Whether the place is new. The node is not the root.
    bool insert(uint32_t node, uint32_t state) {
        if (2 * (held_ + 1) > slots_.size()) grow();
        const bool made = put(uint64_t{node} << 32 | state);
        held_ += made;
        return made;
    }

private:
    static constexpr size_t kFew = 64;  // slots, a power of two

    bool put(uint64_t place) {
        const size_t mask = slots_.size() - 1;
        for (size_t at = mix(place) & mask;; at = (at + 1) & mask) {
            if (slots_[at] == place) return false;
            if (slots_[at] != 0) continue;
            slots_[at] = place;
            return true;
        }
    }
    void grow() {
        spare_.swap(slots_);
        slots_.assign(2 * spare_.size(), 0);
        for (const uint64_t place : spare_) {
            if (place != 0) put(place);
        }
    }

    std::vector<uint64_t> slots_ = std::vector<uint64_t>(kFew), spare_;  // 0: no place
    size_t held_ = 0;
};

}  // namespace core
