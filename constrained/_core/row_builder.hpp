// The tokens of one mask while it is made.
//
// Most rows are a known set, such as the tokens of a string, and a few tokens more. The known set is left where it is, and
// the words of the others lie over it: the hash of the row is that of the known set, corrected at these words. Tokens come
// out in order, so nothing is sorted.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <optional>

#include "token_set.hpp"

namespace core {

class RowBuilder {
public:
    explicit RowBuilder(uint32_t vocabulary_size) : bits_((vocabulary_size + 31) / 32), touched_((bits_.size() + 63) / 64) {}

    /// Begins the next row.
    void clear() {
        base_ = nullptr;
        for_each_touched([&](size_t word) { bits_[word] = 0; });
        std::ranges::fill(touched_, 0);
    }
    void add(uint32_t token) {
        bits_[token / 32] |= 1u << (token % 32);
        touched_[token / 2048] |= uint64_t{1} << (token / 32 % 64);
    }
    void add(std::span<const uint32_t> tokens) {
        for (const uint32_t token : tokens) add(token);
    }
    /// Adds a set in canonical form that stays as it is until the row is interned.
    void add(const TokenSet& tokens) {
        if (!tokens.dense()) return add(tokens.list());
        if (base_ == &tokens) return;
        if (!base_) {
            base_ = &tokens;
            return;
        }
        add_copy(tokens);
    }
    /// Adds a set that may change before the row is interned.
    void add_copy(const TokenSet& tokens) {
        if (!tokens.dense()) return add(tokens.list());
        for (size_t word = 0; word < bits_.size(); ++word) bits_[word] |= tokens.bits()[word];
        std::ranges::fill(touched_, ~uint64_t{0});
    }

    /// The tokens, ascending; nothing if they are more than are kept as a list. Valid until the row changes.
    std::optional<std::span<const uint32_t>> list() {
        if (base_) return std::nullopt;
        list_.clear();
        for_each_touched([&](size_t word) {
            if (list_.size() > TokenSet::kListLimit) return;
            for (uint32_t bits = bits_[word]; bits; bits &= bits - 1) list_.push_back(static_cast<uint32_t>(word * 32 + std::countr_zero(bits)));
        });
        if (list_.size() > TokenSet::kListLimit) return std::nullopt;
        return list_;
    }
    /// The known set below the row, or nullptr.
    const TokenSet* base() const { return base_; }
    /// The words in which the row differs from the known set, or that are not empty: (place, word). Valid until the row changes.
    std::span<const uint32_t> changes() {
        list_.clear();
        for_each_touched([&](size_t word) {
            const uint32_t below = base_ ? base_->bits()[word] : 0, made = below | bits_[word];
            if (made != below) list_.insert(list_.end(), {static_cast<uint32_t>(word), made});
        });
        return list_;
    }
    /// `hash_row` of the row as bits.
    uint64_t row_hash(std::span<const uint32_t> changes) const {
        uint64_t hash = base_ ? base_->row_hash() : 0;
        for (size_t i = 0; i < changes.size(); i += 2) {
            hash += hash_word(changes[i], changes[i + 1]) - hash_word(changes[i], base_ ? base_->bits()[changes[i]] : 0);
        }
        return hash;
    }
    /// Makes a set of the row.
    void write(TokenSet& tokens) {
        tokens.clear();
        if (const auto few = list()) return tokens.add(*few);
        if (base_) tokens.add(*base_);
        tokens.add_bits(bits_);
    }
    /// All words of the row.
    std::vector<uint32_t> words() const {
        std::vector<uint32_t> made(bits_);
        for (size_t word = 0; base_ && word < made.size(); ++word) made[word] |= base_->bits()[word];
        return made;
    }

private:
    template <class Visit>
    void for_each_touched(Visit&& visit) const {
        for (size_t i = 0; i < touched_.size(); ++i) {
            for (uint64_t left = touched_[i]; left; left &= left - 1) {
                const size_t word = i * 64 + std::countr_zero(left);
                if (word < bits_.size()) visit(word);
            }
        }
    }

    const TokenSet* base_ = nullptr;
    std::vector<uint32_t> bits_;     // 0 where not touched
    std::vector<uint64_t> touched_;  // a bit for each word of `bits_`
    std::vector<uint32_t> list_;
};

}  // namespace core
