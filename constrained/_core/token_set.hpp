// Sets of tokens: a short list, or bits.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <atomic>

#include "common.hpp"

namespace core {

/// What the word at a place is multiplied with in the hash of a row, which is the sum over its words: a row that differs in few
/// words from a known one is hashed at these words alone.
inline uint64_t row_factor(size_t place) { return mix(place + 1) | 1; }

/// The first of them.
inline std::span<const uint64_t> row_factors() {
    static const std::vector<uint64_t> factors = [] {
        std::vector<uint64_t> made(8192);
        for (size_t place = 0; place < made.size(); ++place) made[place] = row_factor(place);
        return made;
    }();
    return factors;
}

/// The hash of a row. A row of 4,096 words takes two microseconds.
inline uint64_t hash_row(std::span<const uint32_t> row) {
    const std::span<const uint64_t> factors = row_factors();
    const size_t known = std::min(row.size(), factors.size());
    uint64_t hash = 0;
    for (size_t place = 0; place < known; ++place) hash += row[place] * factors[place];
    for (size_t place = known; place < row.size(); ++place) hash += row[place] * row_factor(place);
    return hash;
}

/// A mutable set of tokens: a list up to `kListLimit` tokens, then a bitmask.
class TokenSet {
public:
    static constexpr size_t kListLimit = 512;

    explicit TokenSet(uint32_t vocabulary_size) : words_((vocabulary_size + 31) / 32) {}

    void add(uint32_t token) {
        if (bits_.empty()) {
            list_.push_back(token);
            if (list_.size() > kListLimit) spill();
        } else {
            bits_[token / 32] |= 1u << (token % 32);
            hashed_ = false;
        }
    }
    void add(std::span<const uint32_t> tokens) {
        if (bits_.empty()) {
            for (const uint32_t token : tokens) add(token);
        } else {
            for (const uint32_t token : tokens) bits_[token / 32] |= 1u << (token % 32);
            hashed_ = false;
        }
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
        hashed_ = false;
    }
    /// The tokens of a mask.
    void add_bits(std::span<const uint32_t> bits) {
        make_dense();
        for (uint32_t i = 0; i < words_; ++i) bits_[i] |= bits[i];
        large_ = hashed_ = false;
    }
    void clear() {
        list_.clear();
        bits_.clear();
        large_ = hashed_ = false;
    }
    void remove(std::span<const uint32_t> tokens) {
        large_ = hashed_ = false;
        if (bits_.empty()) {
            for (const uint32_t token : tokens) std::erase(list_, token);
        } else {
            for (const uint32_t token : tokens) bits_[token / 32] &= ~(1u << (token % 32));
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
        if (!large_) {
            size_t count = 0;
            for (size_t i = 0; i < words_ && count <= kListLimit; ++i) count += std::popcount(bits_[i]);
            large_ = count > kListLimit;
        }
        if (large_) {
            if (!hashed_) hash_ = hash_row(bits_), serial_ = next_serial();
            hashed_ = true;
            return;
        }
        for (uint32_t i = 0; i < words_; ++i) {
            for (uint32_t word = bits_[i]; word; word &= word - 1) list_.push_back(i * 32 + std::countr_zero(word));
        }
        bits_.clear();
    }
    bool dense() const { return !bits_.empty(); }
    /// `hash_row` of the bits. The set is dense and in canonical form.
    uint64_t row_hash() const { return hash_; }
    /// Sets with the same number have the same tokens. The set is dense and in canonical form.
    uint64_t serial() const { return serial_; }
    std::span<const uint32_t> list() const { return list_; }
    std::span<const uint32_t> bits() const { return bits_; }
    void shrink() {
        list_.shrink_to_fit();
        bits_.shrink_to_fit();
    }
    size_t bytes() const { return sizeof *this + 4 * (list_.capacity() + bits_.capacity()); }

private:
    static uint64_t next_serial() {
        static std::atomic<uint64_t> last{0};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    void spill() {
        bits_.assign(words_, 0);
        for (const uint32_t token : list_) bits_[token / 32] |= 1u << (token % 32);
        list_.clear();
    }

    uint32_t words_;
    bool large_ = false;   // contains more than `kListLimit` tokens
    bool hashed_ = false;  // `hash_` and `serial_` are those of the bits
    uint64_t hash_ = 0, serial_ = 0;
    std::vector<uint32_t> list_;
    std::vector<uint32_t> bits_;
};

}  // namespace core
