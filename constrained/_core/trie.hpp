// The vocabulary as a trie of token bytes.
//
// Invariant: nodes are numbered breadth first and the children of a node are contiguous and sorted by byte, so a walk
// reads memory forwards. Tokens without bytes, and tokens with a byte that no single token spells, are not in it.
#pragma once

#include <algorithm>
#include <array>

#include "common.hpp"
#include "regex.hpp"

namespace core {

class Trie {
public:
    static constexpr uint32_t kRoot = 0;
    static constexpr uint32_t kNone = UINT32_MAX;

    /// `offsets` has one more element than there are tokens; token t is `blob[offsets[t], offsets[t + 1])`.
    Trie(std::span<const uint8_t> blob, std::span<const int64_t> offsets) {
        const auto bytes_of = [&](uint32_t token) {
            return blob.subspan(offsets[token], offsets[token + 1] - offsets[token]);
        };
        const auto count = static_cast<uint32_t>(offsets.size() - 1);
        for (uint32_t token = 0; token < count; ++token) {
            if (bytes_of(token).size() == 1) alphabet_.set(bytes_of(token)[0]);
        }
        std::vector<uint32_t> order;
        for (uint32_t token = 0; token < count; ++token) {
            const auto bytes = bytes_of(token);
            const bool spelled = std::all_of(bytes.begin(), bytes.end(), [&](uint8_t byte) { return alphabet_[byte]; });
            if (!bytes.empty() && spelled) order.push_back(token);
            longest_ = std::max(longest_, static_cast<uint32_t>(bytes.size()));
        }
        std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
            const auto x = bytes_of(a), y = bytes_of(b);
            const int less = std::memcmp(x.data(), y.data(), std::min(x.size(), y.size()));
            if (less != 0) return less < 0;
            return x.size() != y.size() ? x.size() < y.size() : a < b;
        });
        // A node is a run [begin, end) of sorted tokens that share their first `depth` bytes.
        struct Run {
            uint32_t begin, end, depth;
        };
        std::vector<Run> runs{{0, static_cast<uint32_t>(order.size()), 0}};
        bytes_.push_back(0);
        for (uint32_t node = 0; node < runs.size(); ++node) {
            auto [at, end, depth] = runs[node];
            token_begin_.push_back(static_cast<uint32_t>(tokens_.size()));
            for (; at < end && bytes_of(order[at]).size() == depth; ++at) tokens_.push_back(order[at]);
            first_child_.push_back(static_cast<uint32_t>(runs.size()));
            while (at < end) {
                const uint8_t byte = bytes_of(order[at])[depth];
                uint32_t stop = at + 1;
                while (stop < end && bytes_of(order[stop])[depth] == byte) ++stop;
                runs.push_back({at, stop, depth + 1});
                bytes_.push_back(byte);
                at = stop;
            }
        }
        first_child_.push_back(static_cast<uint32_t>(runs.size()));
        token_begin_.push_back(static_cast<uint32_t>(tokens_.size()));
        root_.fill(kNone);
        for (uint32_t child = first_child_[0]; child < first_child_[1]; ++child) root_[bytes_[child]] = child;
    }

    uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
    uint32_t longest() const { return longest_; }
    const ByteSet& alphabet() const { return alphabet_; }
    uint8_t byte(uint32_t node) const { return bytes_[node]; }
    uint32_t children_begin(uint32_t node) const { return first_child_[node]; }
    uint32_t children_end(uint32_t node) const { return first_child_[node + 1]; }
    bool leaf(uint32_t node) const { return first_child_[node] == first_child_[node + 1]; }
    /// Ids of the tokens that end here, ascending.
    std::span<const uint32_t> tokens(uint32_t node) const {
        return {tokens_.data() + token_begin_[node], token_begin_[node + 1] - token_begin_[node]};
    }
    uint32_t child(uint32_t node, uint8_t byte) const {
        if (node == kRoot) return root_[byte];
        const auto begin = bytes_.begin() + first_child_[node], end = bytes_.begin() + first_child_[node + 1];
        const auto at = std::lower_bound(begin, end, byte);
        return at != end && *at == byte ? static_cast<uint32_t>(at - bytes_.begin()) : kNone;
    }
    /// Fewest tokens that spell `text`; `kInfinite` if none do. Dynamic programming from the end.
    uint32_t fewest_tokens(std::span<const uint8_t> text) const {
        std::vector<uint32_t> fewest(text.size() + 1, kInfinite);
        fewest[text.size()] = 0;
        for (size_t i = text.size(); i-- > 0;) {
            uint32_t node = kRoot;
            for (size_t j = i; j < text.size(); ++j) {
                node = child(node, text[j]);
                if (node == kNone) break;
                if (!tokens(node).empty()) fewest[i] = std::min(fewest[i], add_lengths(fewest[j + 1], 1));
            }
        }
        return fewest[0];
    }
    size_t bytes() const {
        return bytes_.capacity() + 4 * (first_child_.capacity() + token_begin_.capacity() + tokens_.capacity());
    }

private:
    ByteSet alphabet_;
    uint32_t longest_ = 0;
    std::vector<uint8_t> bytes_;
    std::vector<uint32_t> first_child_;
    std::vector<uint32_t> token_begin_;
    std::vector<uint32_t> tokens_;
    std::array<uint32_t, 256> root_;
};

}  // namespace core
