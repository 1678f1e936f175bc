// How often each token followed each context.
//
// Invariants: an entry has between 1 and kMaxTokens tokens, each once, in order of first occurrence; entries are in order of
// creation, and `key_index_` finds them by key. An entry that is not there is looked up in the table below, which nobody
// changes; it is copied when it is learned about.
// Thread safety: not thread-safe; `Memory::lock` guards it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "key_index.hpp"

namespace spec {

/// A draft token of a source: the token, the probability that the source assigns, and the calibration kind.
struct DraftToken {
    uint32_t token;
    double prior;
    uint32_t kind;
};

inline uint64_t mix(uint64_t hash, uint64_t value) {
    uint64_t x = (hash + 0x9E3779B97F4A7C15ull) * 0xD6E8FEB86659FD93ull ^ value;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/// For keys that are hashes.
struct IdentityHash {
    size_t operator()(uint64_t key) const { return key; }
};

class ContextCounts {
public:
    static constexpr size_t kMaxTokens = 10;

    struct Entry {
        uint64_t key = 0;
        uint32_t size = 0;
        std::array<uint32_t, kMaxTokens> tokens{};
        std::array<uint32_t, kMaxTokens> counts{};
    };

    explicit ContextCounts(size_t limit) : limit_(limit) {}
    /// An empty table above another one, which must not change any more.
    explicit ContextCounts(std::shared_ptr<const ContextCounts> below) : limit_(below->limit_), below_(std::move(below)) {}

    const Entry* find(uint64_t key) const {
        const uint32_t found = key_index_.find(key);
        if (found != KeyIndex::kNone) return &entries_[found];
        return below_ ? below_->find(key) : nullptr;
    }

    /// Says that a key will be looked up soon.
    void prefetch(uint64_t key) const {
        key_index_.prefetch(key);
        if (below_) below_->prefetch(key);
    }

    void learn(uint64_t key, uint32_t token, uint32_t count = 1) {
        const uint32_t found = key_index_.find(key);
        if (found == KeyIndex::kNone) {
            if (entries_.size() >= limit_) drop(limit_ / 8 + 1);
            key_index_.insert(key, static_cast<uint32_t>(entries_.size()));
            const Entry* known = below_ ? below_->find(key) : nullptr;
            Entry& entry = entries_.emplace_back(known ? *known : Entry{key});
            return add(entry, token, count);
        }
        add(entries_[found], token, count);
    }

    /// All entries, those of the tables below among them.
    std::vector<Entry> entries() const {
        std::vector<Entry> found;
        if (below_) {
            for (const Entry& entry : below_->entries()) {
                if (key_index_.find(entry.key) == KeyIndex::kNone) found.push_back(entry);
            }
        }
        found.insert(found.end(), entries_.begin(), entries_.end());
        return found;
    }

    /// Bytes of memory, without the tables below.
    size_t bytes() const { return entries_.capacity() * sizeof(Entry) + key_index_.bytes(); }

    /// Replaces all entries; returns false and changes nothing if they are invalid for a vocabulary of `tokens` tokens.
    bool restore(std::vector<Entry> entries, uint32_t tokens) {
        for (const Entry& entry : entries) {
            if (entry.size == 0 || entry.size > kMaxTokens) return false;
            for (uint32_t i = 0; i < entry.size; ++i) {
                if (entry.tokens[i] >= tokens || entry.counts[i] == 0) return false;
            }
        }
        if (entries.size() > limit_) return false;
        entries_ = std::move(entries);
        below_ = nullptr;
        index();
        return true;
    }

private:
    static void add(Entry& entry, uint32_t token, uint32_t count) {
        for (uint32_t i = 0; i < entry.size; ++i) {
            if (entry.tokens[i] == token) {
                entry.counts[i] += count;
                return;
            }
        }
        if (entry.size == kMaxTokens) {
            uint32_t least = 0;
            for (uint32_t i = 1; i < entry.size; ++i) {
                if (entry.counts[i] < entry.counts[least]) least = i;
            }
            for (uint32_t i = least + 1; i < entry.size; ++i) {
                entry.tokens[i - 1] = entry.tokens[i];
                entry.counts[i - 1] = entry.counts[i];
            }
            --entry.size;
        }
        entry.tokens[entry.size] = token;
        entry.counts[entry.size++] = count;
    }

    /// Rebuilds the index after entries moved.
    void index() {
        key_index_.clear();
        for (uint32_t i = 0; i < entries_.size(); ++i) {
            if (key_index_.find(entries_[i].key) == KeyIndex::kNone) key_index_.insert(entries_[i].key, i);
        }
    }

    void drop(size_t count) {
        entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(std::min(count, entries_.size())));
        index();
    }

    size_t limit_;
    std::shared_ptr<const ContextCounts> below_;
    std::vector<Entry> entries_;
    KeyIndex key_index_;
};

/// A distribution from the entries of several contexts, longest first, blended as by Witten and Bell (1991): each entry gives
/// its tokens their share, reserves a probability in proportion to its number of different tokens for what it has not seen, and
/// leaves that to the next entry (prediction by partial matching, method C; Moffat 1990).
class WittenBellBlend {
public:
    WittenBellBlend(uint32_t kinds, std::vector<DraftToken>& out) : kinds_(kinds), out_(out), begin_(out.size()) {}

    /// Adds an entry; returns false once there are kMaxTokens draft tokens.
    bool add(uint32_t order, const ContextCounts::Entry& entry) {
        uint64_t total = 0;
        for (uint32_t i = 0; i < entry.size; ++i) total += entry.counts[i];
        const double share = left_ / static_cast<double>(total + entry.size);
        std::array<uint32_t, ContextCounts::kMaxTokens> ranked;
        for (uint32_t i = 0; i < entry.size; ++i) {
            uint32_t at = i;
            while (at > 0 && entry.counts[ranked[at - 1]] < entry.counts[i]) {
                ranked[at] = ranked[at - 1];
                --at;
            }
            ranked[at] = i;
        }
        for (uint32_t i = 0; i < entry.size; ++i) {
            const uint32_t token = entry.tokens[ranked[i]];
            if (seen(token)) continue;
            const uint32_t count = entry.counts[ranked[i]];
            const double p = count * share;
            out_.push_back({token, p, kinds_ + order * 64 + std::min(count, 4u) * 8 + level(p)});
        }
        left_ -= share * static_cast<double>(total);
        if (out_.size() - begin_ < ContextCounts::kMaxTokens) return true;
        out_.resize(begin_ + ContextCounts::kMaxTokens);
        return false;
    }

private:
    /// -log2(p) * 1.5, rounded down, at most 7.
    static uint32_t level(double p) {
        constexpr double kLeast[] = {0.62996052494743658, 0.39685026299204987, 0.25, 0.15749013123685915,
                                     0.099212565748012467, 0.0625, 0.039372532809214787};
        uint32_t level = 0;
        while (level < std::size(kLeast) && p <= kLeast[level]) ++level;
        return level;
    }

    bool seen(uint32_t token) const {
        for (size_t i = begin_; i < out_.size(); ++i) {
            if (out_[i].token == token) return true;
        }
        return false;
    }

    uint32_t kinds_;
    std::vector<DraftToken>& out_;
    size_t begin_;
    double left_ = 1.0;
};

}  // namespace spec
