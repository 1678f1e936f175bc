// The vocabulary as a trie of token bytes.
//
// Invariants
//  * Nodes are numbered breadth first, and the children of a node are contiguous and sorted by byte, so a walk reads memory
//    in ascending order.
//  * Tokens are ordered by their bytes: the tokens of a subtree are one range, whose first elements end at its root.
// Thread safety: immutable after construction.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>

#include "common.hpp"
#include "regex.hpp"

namespace core {

/// Views of token bytes in one block: token t is `blob[offsets[t], offsets[t + 1])`.
struct TokenBytes {
    std::span<const uint8_t> blob;
    std::span<const int64_t> offsets;

    uint32_t size() const { return static_cast<uint32_t>(offsets.size() - 1); }
    std::span<const uint8_t> operator[](uint32_t token) const {
        return blob.subspan(offsets[token], offsets[token + 1] - offsets[token]);
    }
};

class Trie {
public:
    static constexpr uint32_t kRoot = 0;
    static constexpr uint32_t kNone = UINT32_MAX;

    struct Node {
        uint32_t first_child;
        uint32_t begin, own_end, end;  // of the range in `order`
    };
    /// The arrays of a trie.
    struct Arrays {
        std::vector<Node> nodes;      // and a sentinel
        std::vector<uint8_t> bytes;   // last byte of the path to the node
        std::vector<uint16_t> deepest;
        std::vector<uint32_t> order;  // tokens
        uint32_t longest = 0;

        size_t size_bytes() const { return nodes.size() * sizeof(Node) + bytes.size() + 2 * deepest.size() + 4 * order.size(); }
    };

    /// A trie of the listed tokens; none of them may be empty.
    static Arrays build(const TokenBytes& tokens, const std::vector<uint32_t>& listed) {
        Arrays made;
        auto& [nodes, bytes, deepest, order, longest] = made;
        order = in_order(tokens, listed);
        nodes.push_back({0, 0, 0, static_cast<uint32_t>(order.size())});
        bytes.push_back(0);
        std::vector<uint16_t> depths{0};
        uint32_t depth = 0, level_end = 1;
        for (uint32_t node = 0; node < nodes.size(); ++node) {
            if (node == level_end) ++depth, level_end = static_cast<uint32_t>(nodes.size());
            uint32_t at = nodes[node].begin;
            const uint32_t end = nodes[node].end;
            while (at < end && tokens[order[at]].size() == depth) ++at;
            nodes[node].own_end = at;
            nodes[node].first_child = static_cast<uint32_t>(nodes.size());
            while (at < end) {
                const uint8_t byte = tokens[order[at]][depth];
                uint32_t stop = at + 1;
                while (stop < end && tokens[order[stop]][depth] == byte) ++stop;
                nodes.push_back({0, at, at, stop});
                bytes.push_back(byte);
                depths.push_back(static_cast<uint16_t>(std::min<uint32_t>(depth + 1, 0xffff)));
                at = stop;
            }
        }
        nodes.push_back({static_cast<uint32_t>(nodes.size()), 0, 0, 0});
        deepest = std::move(depths);
        for (uint32_t node = static_cast<uint32_t>(bytes.size()); node-- > 0;) {
            for (uint32_t child = nodes[node].first_child; child < nodes[node + 1].first_child; ++child) {
                deepest[node] = std::max(deepest[node], deepest[child]);
            }
        }
        longest = depth;
        return made;
    }

    /// Views of arrays.
    explicit Trie(const Arrays& made)
        : longest_(made.longest), bytes_(made.bytes), nodes_(made.nodes), depth_of_longest_(made.deepest), order_(made.order) {
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
    /// Bytes of the longest token of the subtree (saturates at 65,535).
    uint32_t longest_in_subtree(uint32_t node) const { return depth_of_longest_[node]; }
    /// Tokens that end at the node.
    std::span<const uint32_t> tokens(uint32_t node) const { return run(nodes_[node].begin, nodes_[node].own_end); }
    /// Tokens of the subtree.
    std::span<const uint32_t> subtree_tokens(uint32_t node) const { return run(nodes_[node].begin, nodes_[node].end); }
    /// The ranges of `subtree_tokens` and `tokens` in the order of all tokens by their bytes: [begin, end), [begin, own_end).
    const Node& ranges(uint32_t node) const { return nodes_[node]; }
    /// All tokens in this order.
    std::span<const uint32_t> in_order() const { return order_; }
    /// Tokens of the subtree that do not end at its root.
    std::span<const uint32_t> descendant_tokens(uint32_t node) const { return run(nodes_[node].own_end, nodes_[node].end); }
    uint32_t child(uint32_t node, uint8_t byte) const {
        if (node == kRoot) return root_[byte];
        const auto begin = bytes_.begin() + children_begin(node), end = bytes_.begin() + children_end(node);
        const auto at = std::lower_bound(begin, end, byte);
        return at != end && *at == byte ? static_cast<uint32_t>(at - bytes_.begin()) : kNone;
    }

private:
    static std::vector<uint32_t> in_order(const TokenBytes& tokens, const std::vector<uint32_t>& listed) {
        struct Key {
            uint64_t head;  // the first eight bytes: most comparisons compare two numbers
            uint32_t token;
        };
        std::vector<Key> keys;
        keys.reserve(listed.size());
        for (const uint32_t token : listed) {
            uint64_t head = 0;
            const auto bytes = tokens[token];
            for (size_t i = 0; i < 8; ++i) head = head << 8 | (i < bytes.size() ? bytes[i] : 0);
            keys.push_back({head, token});
        }
        std::sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
            if (a.head != b.head) return a.head < b.head;
            const auto x = tokens[a.token], y = tokens[b.token];
            const int less = std::memcmp(x.data(), y.data(), std::min(x.size(), y.size()));
            if (less != 0) return less < 0;
            return x.size() != y.size() ? x.size() < y.size() : a.token < b.token;
        });
        std::vector<uint32_t> order;
        order.reserve(keys.size());
        for (const Key& key : keys) order.push_back(key.token);
        return order;
    }

    std::span<const uint32_t> run(uint32_t begin, uint32_t end) const { return {order_.data() + begin, end - begin}; }

    uint32_t longest_;
    std::span<const uint8_t> bytes_;
    std::span<const Node> nodes_;
    std::span<const uint16_t> depth_of_longest_;
    std::span<const uint32_t> order_;
    std::array<uint32_t, 256> root_;
};

}  // namespace core
