// Tables derived from the tokens alone: their bytes, the trie and the byte class trie.
//
// Thread safety: immutable.
#pragma once

#include "byte_class_trie.hpp"
#include "trie.hpp"

namespace core {

class VocabularyTables {
    const std::vector<uint8_t> blob_;
    const std::vector<int64_t> offsets_;

public:
    /// The trie excludes tokens without bytes and tokens with a byte that is not a token by itself. Without them, every allowed
    /// prefix can be completed one byte at a time.
    VocabularyTables(const TokenBytes& of, std::vector<uint32_t> eos)
        : blob_(of.blob.begin(), of.blob.end()),
          offsets_(of.offsets.begin(), of.offsets.end()),
          tokens{blob_, offsets_},
          size(tokens.size()),
          eos(std::move(eos)),
          alphabet(spelled_bytes(tokens)),
          trie_arrays(Trie::build(tokens, spelled_tokens(tokens, alphabet))),
          trie(trie_arrays),
          byte_class_arrays(ByteClassTrie::build(tokens, trie_arrays.order, trie)),
          byte_class_trie(byte_class_arrays) {}
    VocabularyTables(const VocabularyTables&) = delete;

    size_t bytes() const {
        return blob_.size() + offsets_.size() * sizeof(int64_t) + trie_arrays.size_bytes() + byte_class_arrays.folded.size_bytes() +
               4 * (byte_class_arrays.members_begin.size() + byte_class_arrays.members.size());
    }

    const TokenBytes tokens;
    const uint32_t size;
    const std::vector<uint32_t> eos;
    const ByteSet alphabet;  // bytes that are a token by themselves
    const Trie::Arrays trie_arrays;
    const Trie trie;
    const ByteClassTrie::Arrays byte_class_arrays;
    const ByteClassTrie byte_class_trie;

private:
    static ByteSet spelled_bytes(const TokenBytes& tokens) {
        ByteSet bytes;
        for (uint32_t token = 0; token < tokens.size(); ++token) {
            if (tokens[token].size() == 1) bytes.set(tokens[token][0]);
        }
        return bytes;
    }
    static std::vector<uint32_t> spelled_tokens(const TokenBytes& tokens, const ByteSet& alphabet) {
        std::vector<uint32_t> spelled;
        for (uint32_t token = 0; token < tokens.size(); ++token) {
            const auto bytes = tokens[token];
            const bool all = std::ranges::all_of(bytes, [&](uint8_t byte) { return alphabet[byte]; });
            if (!bytes.empty() && all) spelled.push_back(token);
        }
        return spelled;
    }
};

}  // namespace core
