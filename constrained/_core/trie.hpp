// The vocabulary as tries of token bytes.
//
// Invariants
//  * Nodes are numbered breadth first and the children of a node are contiguous and sorted by byte, so a walk reads
//    memory forwards.
//  * Tokens are kept in the order of their bytes, so the tokens below a node are one run, and those that end at the
//    node come first in it.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>

#include "common.hpp"
#include "regex.hpp"

namespace core {

/// Token bytes in one block: token t is `blob[offsets[t], offsets[t + 1])`.
struct TokenBytes {
    std::vector<uint8_t> blob;
    std::vector<int64_t> offsets;

    uint32_t size() const { return static_cast<uint32_t>(offsets.size() - 1); }
    std::span<const uint8_t> operator[](uint32_t token) const {
        return std::span(blob).subspan(offsets[token], offsets[token + 1] - offsets[token]);
    }
};

class Trie {
public:
    static constexpr uint32_t kRoot = 0;
    static constexpr uint32_t kNone = UINT32_MAX;

    /// Over those of the tokens that are listed in `order` (none of them empty).
    Trie(const TokenBytes& tokens, std::vector<uint32_t> order) : order_(std::move(order)) {
        std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
            const auto x = tokens[a], y = tokens[b];
            const int less = std::memcmp(x.data(), y.data(), std::min(x.size(), y.size()));
            if (less != 0) return less < 0;
            return x.size() != y.size() ? x.size() < y.size() : a < b;
        });
        nodes_.push_back({0, 0, 0, static_cast<uint32_t>(order_.size())});
        bytes_.push_back(0);
        uint32_t depth = 0, level_end = 1;
        for (uint32_t node = 0; node < nodes_.size(); ++node) {
            if (node == level_end) ++depth, level_end = static_cast<uint32_t>(nodes_.size());
            uint32_t at = nodes_[node].begin;
            const uint32_t end = nodes_[node].end;
            while (at < end && tokens[order_[at]].size() == depth) ++at;
            nodes_[node].own_end = at;
            nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
            while (at < end) {
                const uint8_t byte = tokens[order_[at]][depth];
                uint32_t stop = at + 1;
                while (stop < end && tokens[order_[stop]][depth] == byte) ++stop;
                nodes_.push_back({0, at, at, stop});
                bytes_.push_back(byte);
                at = stop;
            }
        }
        depth_of_longest_.assign(nodes_.size(), 0);
        std::vector<uint16_t> depths(nodes_.size(), 0);
        for (uint32_t node = 0; node < nodes_.size(); ++node) {
            const uint32_t end = node + 1 < nodes_.size() ? nodes_[node + 1].first_child : static_cast<uint32_t>(nodes_.size());
            for (uint32_t child = nodes_[node].first_child; child < end; ++child) {
                depths[child] = static_cast<uint16_t>(std::min(depths[node] + 1, 0xffff));
            }
        }
        for (uint32_t node = static_cast<uint32_t>(nodes_.size()); node-- > 0;) {
            depth_of_longest_[node] = depths[node];
            const uint32_t end = node + 1 < nodes_.size() ? nodes_[node + 1].first_child : static_cast<uint32_t>(nodes_.size());
            for (uint32_t child = nodes_[node].first_child; child < end; ++child) {
                depth_of_longest_[node] = std::max(depth_of_longest_[node], depth_of_longest_[child]);
            }
        }
        longest_ = depth;
        nodes_.push_back({static_cast<uint32_t>(nodes_.size()), 0, 0, 0});
        root_.fill(kNone);
        for (uint32_t child = children_begin(kRoot); child < children_end(kRoot); ++child) root_[byte(child)] = child;
    }

    uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
    /// Bytes of the longest token.
    uint32_t longest() const { return longest_; }
    uint8_t byte(uint32_t node) const { return bytes_[node]; }
    uint32_t children_begin(uint32_t node) const { return nodes_[node].first_child; }
    uint32_t children_end(uint32_t node) const { return nodes_[node + 1].first_child; }
    bool leaf(uint32_t node) const { return children_begin(node) == children_end(node); }
    /// Bytes of the longest token that ends here or below (65,535 stands for any greater number).
    uint32_t longest_below(uint32_t node) const { return depth_of_longest_[node]; }
    /// Tokens that end here.
    std::span<const uint32_t> tokens(uint32_t node) const { return run(nodes_[node].begin, nodes_[node].own_end); }
    /// Tokens that end here or below.
    std::span<const uint32_t> below(uint32_t node) const { return run(nodes_[node].begin, nodes_[node].end); }
    /// Tokens that end below, not here.
    std::span<const uint32_t> strictly_below(uint32_t node) const { return run(nodes_[node].own_end, nodes_[node].end); }
    uint32_t child(uint32_t node, uint8_t byte) const {
        if (node == kRoot) return root_[byte];
        const auto begin = bytes_.begin() + children_begin(node), end = bytes_.begin() + children_end(node);
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
    size_t bytes() const { return bytes_.capacity() + nodes_.capacity() * sizeof(Node) + 4 * order_.capacity(); }

private:
    struct Node {
        uint32_t first_child;
        uint32_t begin, own_end, end;  // of the run in `order_`
    };
    std::span<const uint32_t> run(uint32_t begin, uint32_t end) const { return {order_.data() + begin, end - begin}; }

    uint32_t longest_ = 0;
    std::vector<uint8_t> bytes_;
    std::vector<Node> nodes_;
    std::vector<uint16_t> depth_of_longest_;
    std::vector<uint32_t> order_;
    std::array<uint32_t, 256> root_;
};

}  // namespace core
