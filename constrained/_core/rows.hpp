// Vocabulary bitmasks, interned by content and shared by every automaton of a vocabulary.
//
// Invariant: a row id never names two sets of tokens; rows are read without a lock.
// Small sets are kept as sorted lists: four out of five distinct masks hold at most 64 tokens.
#pragma once

#include <algorithm>

#include "common.hpp"
#include "readers.hpp"

namespace core {

/// A set of tokens under construction: a list until it grows, then bits.
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
    /// Brings the set into its one form: a sorted list of at most `kListLimit` tokens, else bits.
    void settle() {
        if (bits_.empty()) {
            std::sort(list_.begin(), list_.end());
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
    bool large_ = false;  // known to hold more than `kListLimit` tokens
    std::vector<uint32_t> list_;
    std::vector<uint32_t> bits_;
};

/// Rows by content. When they outgrow a limit all of them are dropped and computed again as they are needed.
/// An id is never used twice: one below `first()` names a row that was dropped.
class RowStore {
public:
    /// Rows that are kept whatever the limit, so that one that was asked for can also be read.
    static constexpr size_t kLeast = 64;

    RowStore(uint32_t vocabulary_size, size_t limit, Readers& readers)
        : words_((vocabulary_size + 31) / 32),
          limit_(std::max(limit, kLeast * (words_ * sizeof(uint32_t) + sizeof(Row)))),
          readers_(readers),
          table_(std::make_unique<Table>(0)),
          current_(table_.get()) {}

    /// 32-bit words in a row.
    uint32_t words() const { return words_; }
    /// Rows with ids from here on are held.
    uint32_t first() const { return first_.load(std::memory_order_acquire); }
    /// The id of the next row.
    uint32_t end() const { return end_.load(std::memory_order_acquire); }
    bool holds(uint32_t id) const { return id >= first() && id < end(); }

    uint32_t intern(TokenSet& tokens) {
        tokens.settle();
        const bool dense = tokens.dense();
        const std::span<const uint32_t> data = dense ? tokens.bits() : tokens.list();
        const uint64_t hash = hash_words(data, dense);
        const std::lock_guard guard(lock_);
        const size_t size = data.size_bytes() + sizeof(Row);
        if (bytes_ + size > limit_) drop();
        StableArray<Row>& rows = table_->rows;
        return table_->first + index_.find_or_make(
            hash,
            [&](uint32_t at) { return rows[at].dense == dense && std::ranges::equal(rows[at].data, data); },
            [&] {
                if (end() >= UINT32_MAX - 1) throw TooLarge("more rows were computed than there are ids");
                const uint32_t at = rows.push();
                rows[at].dense = dense;
                rows[at].data.assign(data.begin(), data.end());
                bytes_ += size;
                end_.store(table_->first + at + 1, std::memory_order_release);
                return at;
            });
    }

    /// Writes `words()` words, or returns false if the row is not held.
    bool copy(uint32_t id, uint32_t* out) const {
        const Readers::Inside inside(readers_);
        return copy_inside(id, out);
    }

    /// The same for a reader who is inside.
    bool copy_inside(uint32_t id, uint32_t* out) const {
        if (id >= end()) return false;
        const Table& table = *current_.load(std::memory_order_acquire);
        if (id < table.first) return false;
        const Row& row = table.rows[id - table.first];
        if (row.dense) {
            std::memcpy(out, row.data.data(), words_ * sizeof(uint32_t));
        } else {
            std::memset(out, 0, words_ * sizeof(uint32_t));
            for (const uint32_t token : row.data) out[token / 32] |= 1u << (token % 32);
        }
        return true;
    }

    size_t bytes() const {
        const std::lock_guard guard(lock_);
        return bytes_ + index_.bytes();
    }

private:
    struct Row {
        bool dense = false;
        std::vector<uint32_t> data;
    };
    struct Table {
        explicit Table(uint32_t first) : first(first) {}
        const uint32_t first;  // id of the row at 0
        StableArray<Row> rows;
    };

    void drop() {
        auto fresh = std::make_unique<Table>(end());
        current_.store(fresh.get(), std::memory_order_release);
        first_.store(fresh->first, std::memory_order_release);
        index_ = InternTable();
        bytes_ = 0;
        table_.swap(fresh);
        readers_.wait();
    }

    const uint32_t words_;
    const size_t limit_;
    Readers& readers_;
    mutable std::mutex lock_;
    std::unique_ptr<Table> table_;
    std::atomic<const Table*> current_;
    std::atomic<uint32_t> first_{0}, end_{0};
    InternTable index_;
    size_t bytes_ = 0;
};

}  // namespace core
