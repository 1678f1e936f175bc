// Open-addressing index from 64-bit hash keys to entry numbers; looking up a missing key mostly costs one memory access.
//
// Invariant: at most half of the slots are used; only `clear` removes keys.
// Thread safety: not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spec {

class KeyIndex {
public:
    static constexpr uint32_t kNone = ~uint32_t{0};

    /// The entry of a key; `kNone` if there is none.
    uint32_t find(uint64_t key) const {
        if (slots_.empty()) return kNone;
        for (size_t at = key & mask_;; at = (at + 1) & mask_) {
            const Slot& slot = slots_[at];
            if (slot.entry == kNone || slot.key == key) return slot.entry;
        }
    }

    /// Says that a key will be looked up soon.
    void prefetch(uint64_t key) const {
        if (!slots_.empty()) __builtin_prefetch(&slots_[key & mask_]);
    }

    /// `key` must not be in the index.
    void insert(uint64_t key, uint32_t entry) {
        if (2 * (size_ + 1) > slots_.size()) grow();
        put(key, entry);
        ++size_;
    }

    /// Bytes of memory.
    size_t bytes() const { return slots_.capacity() * sizeof(Slot); }

    void clear() {
        slots_.clear();
        size_ = 0;
    }

private:
    struct Slot {
        uint64_t key = 0;
        uint32_t entry = kNone;
    };

    void put(uint64_t key, uint32_t entry) {
        size_t at = key & mask_;
        while (slots_[at].entry != kNone) at = (at + 1) & mask_;
        slots_[at] = {key, entry};
    }

    void grow() {
        std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
        old.swap(slots_);
        mask_ = slots_.size() - 1;
        for (const Slot& slot : old) {
            if (slot.entry != kNone) put(slot.key, slot.entry);
        }
    }

    std::vector<Slot> slots_;
    size_t mask_ = 0, size_ = 0;
};

}  // namespace spec
