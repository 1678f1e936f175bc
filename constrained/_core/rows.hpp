// Vocabulary bitmasks, interned by content and shared by every automaton of a vocabulary.
//
// Invariant: a row id names the same set of tokens for the life of the store; rows are read without a lock.
// Small sets are kept as sorted lists: four out of five distinct masks hold at most 64 tokens.
#pragma once

#include <algorithm>

#include "common.hpp"

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

class RowStore {
public:
    explicit RowStore(uint32_t vocabulary_size) : words_((vocabulary_size + 31) / 32) {}

    /// 32-bit words in a row.
    uint32_t words() const { return words_; }
    uint32_t size() const { return rows_.size(); }

    uint32_t intern(TokenSet& tokens) {
        tokens.settle();
        const bool dense = tokens.dense();
        const std::span<const uint32_t> data = dense ? tokens.bits() : tokens.list();
        return index_.find_or_make(
            hash_words(data, dense),
            [&](uint32_t id) {
                return rows_[id].dense == dense && std::ranges::equal(rows_[id].data, data);
            },
            [&] {
                const uint32_t id = rows_.push();
                rows_[id].dense = dense;
                rows_[id].data.assign(data.begin(), data.end());
                bytes_ += data.size_bytes() + sizeof(Row);
                return id;
            });
    }

    /// Writes `words()` words.
    void copy(uint32_t id, uint32_t* out) const {
        const Row& row = rows_[id];
        if (row.dense) {
            std::memcpy(out, row.data.data(), words_ * sizeof(uint32_t));
        } else {
            std::memset(out, 0, words_ * sizeof(uint32_t));
            for (const uint32_t token : row.data) out[token / 32] |= 1u << (token % 32);
        }
    }

    template <class Visit>
    void for_each(uint32_t id, Visit&& visit) const {
        const Row& row = rows_[id];
        if (!row.dense) {
            for (const uint32_t token : row.data) visit(token);
            return;
        }
        for (uint32_t i = 0; i < words_; ++i) {
            for (uint32_t word = row.data[i]; word; word &= word - 1) visit(i * 32 + std::countr_zero(word));
        }
    }

    size_t bytes() const { return bytes_ + index_.bytes(); }

private:
    struct Row {
        bool dense = false;
        std::vector<uint32_t> data;
    };

    uint32_t words_;
    StableArray<Row> rows_;
    InternTable index_;
    size_t bytes_ = 0;
};

}  // namespace core
