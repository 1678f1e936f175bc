// Token masks, interned by content and shared by all automata of a vocabulary.
//
// Invariant: an id never names two masks.
// Thread safety: `MaskStore` may be used from any thread; reads are lock-free, `intern` takes the store's lock. `TokenSet`
// is not thread-safe.
// Small sets are sorted lists: four out of five distinct masks contain at most 64 tokens.
#pragma once

#include <algorithm>

#include "common.hpp"
#include "read_epoch.hpp"

namespace core {

/// A mutable set of tokens: a list up to `kListLimit` tokens, then a bitmask.
class TokenSet {
public:
    explicit TokenSet(uint32_t vocabulary_size) : words_((vocabulary_size + 31) / 32) {}

    void add(uint32_t token) {
        if (bits_.empty()) {
            list_.push_back(token);
            if (list_.size() > kListLimit) spill();
        } else {
            bits_[token / 32] |= 1u << (token % 32);
        }
    }
    void add(std::span<const uint32_t> tokens) {
        for (const uint32_t token : tokens) add(token);
    }
    void add(const TokenSet& other) {
        if (other.bits_.empty()) return add(std::span(other.list_));
        if (bits_.empty()) {
            bits_ = other.bits_;
            for (const uint32_t token : list_) bits_[token / 32] |= 1u << (token % 32);
            list_.clear();
        } else {
            for (uint32_t i = 0; i < words_; ++i) bits_[i] |= other.bits_[i];
        }
        large_ |= other.large_;
    }
    /// The tokens of a mask.
    void add_bits(std::span<const uint32_t> bits) {
        make_dense();
        for (uint32_t i = 0; i < words_; ++i) bits_[i] |= bits[i];
        large_ = false;
    }
    void clear() {
        list_.clear();
        bits_.clear();
        large_ = false;
    }
    void remove(std::span<const uint32_t> tokens) {
        large_ = false;
        for (const uint32_t token : tokens) {
            if (bits_.empty()) {
                std::erase(list_, token);
            } else {
                bits_[token / 32] &= ~(1u << (token % 32));
            }
        }
    }
    void remove(const TokenSet& other) {
        other.for_each([&](uint32_t token) { remove(std::span(&token, 1)); });
    }
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const uint32_t token : list_) visit(token);
        for (size_t i = 0; i < bits_.size(); ++i) {
            for (uint32_t word = bits_[i]; word; word &= word - 1) visit(static_cast<uint32_t>(i * 32 + std::countr_zero(word)));
        }
    }
    void make_dense() {
        if (bits_.empty()) spill();
    }
    /// Converts to the canonical form: a sorted list of at most `kListLimit` tokens, otherwise bits.
    void canonicalize() {
        if (bits_.empty()) {
            const auto sorted = std::is_sorted_until(list_.begin(), list_.end());  // lists are often joined from sorted ones
            std::sort(sorted, list_.end());
            std::inplace_merge(list_.begin(), sorted, list_.end());
            list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
            return;
        }
        if (large_) return;
        size_t count = 0;
        for (size_t i = 0; i < words_ && count <= kListLimit; ++i) count += std::popcount(bits_[i]);
        large_ = count > kListLimit;
        if (large_) return;
        for (uint32_t i = 0; i < words_; ++i) {
            for (uint32_t word = bits_[i]; word; word &= word - 1) list_.push_back(i * 32 + std::countr_zero(word));
        }
        bits_.clear();
    }
    bool dense() const { return !bits_.empty(); }
    std::span<const uint32_t> list() const { return list_; }
    std::span<const uint32_t> bits() const { return bits_; }
    void shrink() {
        list_.shrink_to_fit();
        bits_.shrink_to_fit();
    }
    size_t bytes() const { return sizeof *this + 4 * (list_.capacity() + bits_.capacity()); }

private:
    static constexpr size_t kListLimit = 512;

    void spill() {
        bits_.assign(words_, 0);
        for (const uint32_t token : list_) bits_[token / 32] |= 1u << (token % 32);
        list_.clear();
    }

    uint32_t words_;
    bool large_ = false;  // contains more than `kListLimit` tokens
    std::vector<uint32_t> list_;
    std::vector<uint32_t> bits_;
};

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
        const bool dense = tokens.dense();
        const std::span<const uint32_t> data = dense ? tokens.bits() : tokens.list();
        const uint64_t hash = hash_words(data, dense);
        const std::lock_guard guard(lock_);
        const size_t size = data.size_bytes() + sizeof(Mask);
        if (bytes_ + size > limit_) drop();
        StableArray<Mask>& masks = table_->masks;
        return table_->first + index_.find_or_insert(
            hash,
            [&](uint32_t at) { return masks[at].dense == dense && std::ranges::equal(masks[at].data, data); },
            [&] {
                if (end() >= UINT32_MAX - 1) throw TooLarge("the mask ids are exhausted");
                const uint32_t at = masks.push();
                masks[at].dense = dense;
                masks[at].data.assign(data.begin(), data.end());
                bytes_ += size;
                end_.store(table_->first + at + 1, std::memory_order_release);
                return at;
            });
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
