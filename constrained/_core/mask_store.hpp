// Token masks, interned by content and shared by all automata of a vocabulary.
//
// Invariant: an id never names two masks.
// Thread safety: may be used from any thread; reads are lock-free, `intern` takes the store's lock.
// Small sets are sorted lists: four out of five distinct masks contain at most 64 tokens. Most others differ in few words from a
// set that many masks share, such as the tokens of a string: they are these words over the shared row, which is in the cache
// when it is copied.
#pragma once

#include <algorithm>
#include <unordered_map>

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
          limit_(std::max(limit, kMinMasks * (words_ * sizeof(uint32_t) + sizeof(Mask) + sizeof(Row)))),
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
        return intern_bits(Bits{mix(tokens.row_hash()), 0, {}, [&] { return std::vector(tokens.bits().begin(), tokens.bits().end()); }});
    }
    uint32_t intern(RowBuilder& row) {
        if (const auto list = row.list()) return intern_list(*list);
        const auto [changes, sum] = row.changes();
        const uint64_t hash = mix(sum);
        if (!row.base() || changes.size() > words_ / 2) return intern_bits(Bits{hash, 0, {}, [&] { return row.words(); }});
        return intern_bits(Bits{hash, row.base()->serial(), changes, [&] { return std::vector(row.base()->bits().begin(), row.base()->bits().end()); }});
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
        table.copy(id - table.first, out, words_);
        return true;
    }

    /// Whether the mask has the token; true if it is evicted.
    bool allows(uint32_t id, uint32_t token) const {
        const ReadEpoch::ReadGuard read(epoch_);
        const Table& table = *current_.load(std::memory_order_acquire);
        if (id >= end() || id < table.first) return true;
        const Mask& mask = table.masks[id - table.first];
        if (mask.row == kList) return std::ranges::binary_search(mask.data, token);
        for (size_t i = 0; i < mask.data.size(); i += 2) {
            if (mask.data[i] == token / 32) return mask.data[i + 1] >> (token % 32) & 1;
        }
        return table.rows[mask.row].words[token / 32] >> (token % 32) & 1;
    }

    size_t bytes() const {
        const std::lock_guard guard(lock_);
        return bytes_ + index_.bytes();
    }

private:
    static constexpr uint32_t kList = UINT32_MAX;
    struct Mask {
        uint32_t row = kList;
        std::vector<uint32_t> data;  // the tokens; or the words that differ from the row: (place, word)
    };
    struct Row {
        uint64_t serial = 0;  // of the `TokenSet`; 0: of no other mask
        std::vector<uint32_t> words;
    };
    struct Table {
        explicit Table(uint32_t first) : first(first) {}
        void copy(uint32_t at, uint32_t* out, size_t words) const {
            const Mask& mask = masks[at];
            if (mask.row == kList) {
                std::memset(out, 0, words * sizeof(uint32_t));
                for (const uint32_t token : mask.data) out[token / 32] |= 1u << (token % 32);
            } else {
                std::memcpy(out, rows[mask.row].words.data(), words * sizeof(uint32_t));
                for (size_t i = 0; i < mask.data.size(); i += 2) out[mask.data[i]] = mask.data[i + 1];
            }
        }
        const uint32_t first;  // id of the mask at index 0
        StableArray<Mask> masks;
        StableArray<Row> rows;
        std::unordered_map<uint64_t, uint32_t> row_of;  // by serial number
    };
    /// A mask as bits: a row, and the words that differ from it.
    template <class Words>
    struct Bits {
        uint64_t hash, serial;
        std::span<const uint32_t> changes;
        Words words;  // of the row
    };
    template <class Words>
    Bits(uint64_t, uint64_t, std::span<const uint32_t>, Words) -> Bits<Words>;

    uint32_t intern_list(std::span<const uint32_t> list) {
        return find_or_make(
            hash_words(list, 0), list.size(), [&](const Mask& other) { return other.row == kList && std::ranges::equal(other.data, list); },
            [&](Mask& made) { made.data.assign(list.begin(), list.end()); });
    }
    template <class Words>
    uint32_t intern_bits(const Bits<Words>& bits) {
        const auto same = [&](const Mask& other) {
            if (other.row == kList) return false;
            if (bits.serial && table_->rows[other.row].serial == bits.serial) return std::ranges::equal(other.data, bits.changes);
            std::vector<uint32_t> words = bits.words(), others(table_->rows[other.row].words);
            for (size_t i = 0; i < bits.changes.size(); i += 2) words[bits.changes[i]] = bits.changes[i + 1];
            for (size_t i = 0; i < other.data.size(); i += 2) others[other.data[i]] = other.data[i + 1];
            return words == others;
        };
        return find_or_make(bits.hash, words_ + bits.changes.size(), same, [&](Mask& made) {
            made.row = row(bits);
            made.data.assign(bits.changes.begin(), bits.changes.end());
        });
    }
    template <class Words>
    uint32_t row(const Bits<Words>& bits) {
        const auto known = table_->row_of.find(bits.serial);
        if (bits.serial && known != table_->row_of.end()) return known->second;
        const uint32_t made = table_->rows.push();
        table_->rows[made].serial = bits.serial;
        table_->rows[made].words = bits.words();
        bytes_ += sizeof(Row) + words_ * sizeof(uint32_t);
        if (bits.serial) table_->row_of.emplace(bits.serial, made);
        return made;
    }
    /// The id of the mask with this content; `make` makes it if it is new, of at most `size` words.
    template <class Same, class Make>
    uint32_t find_or_make(uint64_t hash, size_t size, Same&& same, Make&& make) {
        const std::lock_guard guard(lock_);
        if (bytes_ + sizeof(Mask) + sizeof(Row) + size * sizeof(uint32_t) > limit_) drop();
        StableArray<Mask>& masks = table_->masks;
        return table_->first + index_.find_or_insert(
            hash, [&](uint32_t at) { return same(masks[at]); },
            [&] {
                if (end() >= UINT32_MAX - 1) throw TooLarge("the mask ids are exhausted");
                const uint32_t at = masks.push();
                make(masks[at]);
                bytes_ += sizeof(Mask) + masks[at].data.size() * sizeof(uint32_t);
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
