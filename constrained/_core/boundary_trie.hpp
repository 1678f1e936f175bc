// The boundary tokens of a lexicon entry by what follows the terminal.
//
// A string ends inside hundreds of tokens, which go on in few ways: `",`, `.",` and `s",` all go on with a comma. The ways
// are one trie, so a state reads each of them once, and not once for each token.
// Immutable after construction.
#pragma once

#include "trie.hpp"

namespace core {

class BoundaryTrie {
public:
    static constexpr uint32_t kRoot = 0;
    /// Nodes of the vocabulary's trie with more tokens below stay apart: there tokens enter a long terminal, such as a string,
    /// and the lexicon knows them from other schemas.
    static constexpr uint32_t kFewBelow = 16;
    static constexpr size_t kFewChildren = 8, kManyChildren = 2048;  // of the boundary nodes: with fewer or more it is not worth it

    struct Apart {
        uint8_t byte;
        uint32_t node;
    };

    BoundaryTrie(const Trie& trie, std::span<const uint32_t> boundary_nodes) {
        nodes_.push_back({0, 0, 0, 0});
        origins_.assign(boundary_nodes.begin(), boundary_nodes.end());
        for (uint32_t node = 0; node < nodes_.size(); ++node) add_children(trie, node);
        add_node(0);
        nodes_.back().first_child = size();
    }

    uint8_t byte(uint32_t node) const { return nodes_[node].byte; }
    uint32_t children_begin(uint32_t node) const { return nodes_[node].first_child; }
    uint32_t children_end(uint32_t node) const { return nodes_[node + 1].first_child; }
    /// The tokens that end here.
    std::span<const uint32_t> tokens(uint32_t node) const {
        return std::span(tokens_).subspan(nodes_[node].tokens, nodes_[node + 1].tokens - nodes_[node].tokens);
    }
    /// The nodes of the vocabulary's trie that this one stands for.
    std::span<const uint32_t> origins(uint32_t node) const {
        return std::span(origins_).subspan(nodes_[node].origins, nodes_[node + 1].origins - nodes_[node].origins);
    }
    /// Children of the boundary nodes that stay apart.
    std::span<const Apart> apart() const { return apart_; }
    size_t bytes() const {
        return sizeof *this + nodes_.capacity() * sizeof(Node) + 4 * (tokens_.capacity() + origins_.capacity()) + apart_.capacity() * sizeof(Apart);
    }

private:
    struct Node {
        uint8_t byte;
        uint32_t first_child;
        uint32_t tokens, origins;  // offsets; they end where those of the next node begin
    };

    uint32_t size() const { return static_cast<uint32_t>(nodes_.size() - 1); }
    void add_node(uint8_t byte) {
        nodes_.push_back({byte, 0, static_cast<uint32_t>(tokens_.size()), static_cast<uint32_t>(origins_.size())});
    }
    void add_children(const Trie& trie, uint32_t node) {
        nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
        const size_t end = node + 1 < nodes_.size() ? nodes_[node + 1].origins : origins_.size();
        std::vector<Apart> children;
        for (size_t i = nodes_[node].origins; i < end; ++i) {
            for (uint32_t child = trie.children_begin(origins_[i]); child < trie.children_end(origins_[i]); ++child) {
                const bool apart = node == kRoot && trie.subtree_tokens(child).size() > kFewBelow;
                (apart ? apart_ : children).push_back({trie.byte(child), child});
            }
        }
        std::ranges::stable_sort(children, {}, &Apart::byte);
        for (size_t i = 0; i < children.size(); ++i) {
            if (i == 0 || children[i].byte != children[i - 1].byte) add_node(children[i].byte);
            const auto here = trie.tokens(children[i].node);
            tokens_.insert(tokens_.end(), here.begin(), here.end());
            origins_.push_back(children[i].node);
        }
    }

    std::vector<Node> nodes_;  // breadth first, children contiguous and ascending by byte; and a sentinel
    std::vector<uint32_t> tokens_, origins_;
    std::vector<Apart> apart_;
};

}  // namespace core
