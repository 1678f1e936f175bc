// The tokens of C* for a prefix-free language C, and where tokens leave C*.
//
// Most long texts of a structured document are such a loop: the characters of a string, the digits of a number. The tables
// depend on C and the vocabulary alone, so all strings share them, whatever bounds or excluded words they add.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "byte_class_trie.hpp"
#include "regex.hpp"
#include "mask_store.hpp"
#include "trie.hpp"

namespace core {

class StarTokens {
public:
    using Run = std::span<const uint32_t>;
    /// The tokens that leave C* by one given byte, as a trie of their own.
    struct ExitTokens {
        explicit ExitTokens(Trie::Arrays made) : arrays(std::move(made)), trie(arrays), nodes(trie.size(), Trie::kRoot) {}

        Trie::Arrays arrays;
        Trie trie;
        std::vector<uint32_t> nodes;  ///< the corresponding node of the trie of all tokens
    };
    /// Byte classes that a residual does not split, by residual.
    using Uniform = std::function<const ByteSet&(RegexId)>;

    /// Adds the bytes that it allocates, now and in later calls, to `bytes`.
    StarTokens(RegexId part, const TokenBytes& tokens, const Trie& trie, const ByteClassTrie& byte_class_trie, RegexStore& regexes,
         const Uniform& uniform, size_t& bytes);

    /// Bound on the minimum rest of a started copy, in bytes.
    uint32_t max_copy_remaining() const { return max_copy_remaining_; }
    const TokenSet& all_tokens() const { return all_; }
    /// The trie nodes that tokens reach by this byte after at least one copy; it does not begin another one.
    const std::vector<uint32_t>& exit_nodes(uint8_t byte) const { return exit_nodes_[byte]; }
    /// The tokens that consist of any text of C*, then this byte, which does not begin a copy, then any bytes.
    const ExitTokens& exit_tokens(uint8_t byte);

private:
    struct CopyState {
        RegexId rest;  // of the current copy; epsilon between copies
        bool begun;    // a copy
    };
    CopyState step(const CopyState& state, uint8_t byte);
    const ByteSet& first(const CopyState& state);
    void allow(Run run, const CopyState& state);
    void add_exit(uint32_t node) { exit_nodes_[trie_.byte(node)].push_back(node); }
    void walk_subtree(uint32_t top, const CopyState& start);

    const TokenBytes& tokens_;
    const Trie& trie_;
    RegexStore& regexes_;
    RegexId part_;
    TokenSet all_;
    std::array<std::vector<uint32_t>, 256> exit_nodes_;
    std::array<std::unique_ptr<ExitTokens>, 256> exit_tokens_;
    uint32_t max_copy_remaining_ = 0;
    size_t& bytes_;
};

}  // namespace core
