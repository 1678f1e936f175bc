// Token masks, interned by content and shared by all automata of a vocabulary.
//
// Invariant: an id never names two masks.
// Thread safety: may be used from any thread; reads are lock-free, `intern` takes the store's lock.
// Small sets are sorted lists: four out of five distinct masks contain at most 64 tokens.
#pragma once

#include <algorithm>

#include "common.hpp"
#include "read_epoch.hpp"
#include "row_builder.hpp"

namespace core {

/// Masks by content. When they exceed the byte limit, all of them are evicted and recomputed on demand.
/// Ids are never reused: an id below `first()` names an evicted mask.
class MaskStore {
public:
    /// Masks that fit whatever the limit, so that a mask can be read after it was interned.
    static constexpr size_t kMinMasks = 64;

    MaskStore(uint32_t vocabulary_size, size_t limit, ReadEpoch& epoch)
        : words_((vocabulary_size + 31) / 32),
          limit_(std::max(limit, kMinMasks * (words_ * sizeof(uint32_t) + sizeof(Mask)))),
          epoch_(epoch),
          table_(std::make_unique<Table>(0)),
          current_(table_.get()) {}

    /// 32-bit words per mask.
    uint32_t words() const { return words_; }
    /// The lowest id that is not evicted.
    uint32_t first() const { return first_.load(std::memory_order_acquire); }
    /// The id of the next new mask.
    uint32_t end() const { return end_.load(std::memory_order_acquire); }
    bool holds(uint32_t id) const { return id >= first() && id < end(); }

    uint32_t intern(TokenSet& tokens) {
        tokens.canonicalize();
        if (!tokens.dense()) return intern_list(tokens.list());
        const auto row = tokens.bits();
        return intern_row(tokens.row_hash(), [&](std::span<const uint32_t> other) { return std::ranges::equal(other, row); },
                          [&](std::vector<uint32_t>& made) { made.assign(row.begin(), row.end()); });
    }
    uint32_t intern(RowBuilder& row) {
        if (const auto list = row.list()) return intern_list(*list);
        return intern_row(row.row_hash(), [&](std::span<const uint32_t> other) { return row.equals(other); },
                          [&](std::vector<uint32_t>& made) { row.write(made); });
    }

    /// Writes `words()` words; returns false if the mask is evicted.
    bool copy(uint32_t id, uint32_t* out) const {
        const ReadEpoch::ReadGuard read(epoch_);
        return copy_guarded(id, out);
    }

    /// As `copy`; the caller holds a `ReadGuard`.
    bool copy_guarded(uint32_t id, uint32_t* out) const {
        if (id >= end()) return false;
        const Table& table = *current_.load(std::memory_order_acquire);
        if (id < table.first) return false;
        const Mask& mask = table.masks[id - table.first];
        if (mask.dense) {
            std::memcpy(out, mask.data.data(), words_ * sizeof(uint32_t));
        } else {
            std::memset(out, 0, words_ * sizeof(uint32_t));
            for (const uint32_t token : mask.data) out[token / 32] |= 1u << (token % 32);
        }
        return true;
    }

    size_t bytes() const {
        const std::lock_guard guard(lock_);
        return bytes_ + index_.bytes();
    }

private:
    struct Mask {
        bool dense = false;
        std::vector<uint32_t> data;
    };
    struct Table {
        explicit Table(uint32_t first) : first(first) {}
        const uint32_t first;  // id of the mask at index 0
        StableArray<Mask> masks;
    };

    uint32_t intern_list(std::span<const uint32_t> list) {
        return intern(hash_words(list, 0), false, list.size(), [&](std::span<const uint32_t> other) { return std::ranges::equal(other, list); },
                      [&](std::vector<uint32_t>& made) { made.assign(list.begin(), list.end()); });
    }
    template <class Same, class Write>
    uint32_t intern_row(uint64_t hash, Same&& same, Write&& write) {
        return intern(mix(hash), true, words_, same, write);
    }
    /// The id of the mask with this content, of `size` words; `write` writes it if it is new.
    template <class Same, class Write>
    uint32_t intern(uint64_t hash, bool dense, size_t size, Same&& same, Write&& write) {
        const std::lock_guard guard(lock_);
        const size_t bytes = size * sizeof(uint32_t) + sizeof(Mask);
        if (bytes_ + bytes > limit_) drop();
        StableArray<Mask>& masks = table_->masks;
        return table_->first + index_.find_or_insert(
            hash, [&](uint32_t at) { return masks[at].dense == dense && same(masks[at].data); },
            [&] {
                if (end() >= UINT32_MAX - 1) throw TooLarge("the mask ids are exhausted");
                const uint32_t at = masks.push();
                masks[at].dense = dense;
                write(masks[at].data);
                bytes_ += bytes;
                end_.store(table_->first + at + 1, std::memory_order_release);
                return at;
            });
    }

    void drop() {
        auto fresh = std::make_unique<Table>(end());
        current_.store(fresh.get(), std::memory_order_release);
        first_.store(fresh->first, std::memory_order_release);
        index_ = InternTable();
        bytes_ = 0;
        table_.swap(fresh);
        epoch_.wait_for_readers();
    }

    const uint32_t words_;
    const size_t limit_;
    ReadEpoch& epoch_;
    mutable std::mutex lock_;
    std::unique_ptr<Table> table_;
    std::atomic<const Table*> current_;
    std::atomic<uint32_t> first_{0}, end_{0};
    InternTable index_;
    size_t bytes_ = 0;
};

}  // namespace core
