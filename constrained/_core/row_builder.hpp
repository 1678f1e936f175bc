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
    explicit RowBuilder(uint32_t vocabulary_size)
        : bits_((vocabulary_size + 31) / 32), touched_((bits_.size() + 63) / 64), list_(std::max(2 * bits_.size(), TokenSet::kListLimit + 1)) {}

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
        if (bits_.size() % 64) touched_.back() = (uint64_t{1} << bits_.size() % 64) - 1;
    }

    /// The tokens, ascending; nothing if they are more than are kept as a list. Valid until the row changes.
    std::optional<std::span<const uint32_t>> list() {
        if (base_) return std::nullopt;
        size_t count = 0;
        for_each_touched([&](size_t word) {
            for (uint32_t bits = bits_[word]; bits && count <= TokenSet::kListLimit; bits &= bits - 1) {
                list_[count++] = static_cast<uint32_t>(word * 32 + std::countr_zero(bits));
            }
        });
        if (count > TokenSet::kListLimit) return std::nullopt;
        return std::span(list_).first(count);
    }
    /// The known set below the row, or nullptr.
    const TokenSet* base() const { return base_; }
    struct Changes {
        std::span<const uint32_t> words;  // (place, word)
        uint64_t hash;                    // `hash_row` of the whole row
    };
    /// The words in which the row differs from the known set, or that are not empty. Valid until the row changes.
    Changes changes() {
        const uint32_t* below = base_ ? base_->bits().data() : nullptr;
        uint64_t hash = base_ ? base_->row_hash() : 0;
        const std::span<const uint64_t> factors = row_factors();
        size_t count = 0;
        for_each_touched([&](size_t word) {
            const uint32_t before = below ? below[word] : 0, more = bits_[word] & ~before;
            if (!more) return;
            list_[count++] = static_cast<uint32_t>(word);
            list_[count++] = before | more;
            hash += more * (word < factors.size() ? factors[word] : row_factor(word));
        });
        return {std::span(list_).first(count), hash};
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
            for (uint64_t left = touched_[i]; left; left &= left - 1) visit(i * 64 + std::countr_zero(left));
        }
    }

    const TokenSet* base_ = nullptr;
    std::vector<uint32_t> bits_;     // 0 where not touched
    std::vector<uint64_t> touched_;  // a bit for each word of `bits_`
    std::vector<uint32_t> list_;     // as long as any list of tokens or of changes
};

}  // namespace core
