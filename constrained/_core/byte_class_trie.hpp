// The trie folded by byte classes.
//
// Nearly every terminal treats all lower-case letters alike, or all digits, or all UTF-8 continuation bytes. Such a set is a
// byte class. Tokens with the same sequence of byte classes share a path: a vocabulary of 131,072 tokens has 266,000 trie
// nodes but about 7,000 folded ones. A residual that does not split a byte class is walked on the folded trie.
// Invariant: the members of a folded node are exactly the trie nodes whose bytes map to its byte classes.
// Thread safety: immutable after construction.
#pragma once

#include "trie.hpp"

namespace core {

class ByteClassTrie {
public:
    /// The arrays of the folded trie.
    struct Arrays {
        Trie::Arrays folded;
        std::vector<uint32_t> members_begin, members;
    };

    static Arrays build(const TokenBytes& tokens, const std::vector<uint32_t>& listed, const Trie& trie) {
        std::vector<uint8_t> blob(tokens.blob.begin(), tokens.blob.end());
        for (uint8_t& byte : blob) byte = byte_class(byte);
        Arrays made{Trie::build({blob, tokens.offsets}, listed), {}, {}};
        const Trie folded(made.folded);
        std::vector<uint32_t> image(trie.size());  // trie node -> folded node
        image[Trie::kRoot] = Trie::kRoot;
        std::vector<uint32_t> count(folded.size() + 1, 0);
        for (uint32_t node = 0; node < trie.size(); ++node) {
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                image[child] = folded.child(image[node], byte_class(trie.byte(child)));
                ++count[image[child] + 1];
            }
        }
        std::partial_sum(count.begin(), count.end(), count.begin());
        made.members_begin = count;
        made.members.resize(count.back());
        for (uint32_t node = 1; node < trie.size(); ++node) made.members[count[image[node]]++] = node;
        return made;
    }

    /// Views of the memory of `Arrays` or of a table file.
    ByteClassTrie(const Trie& folded, std::span<const uint32_t> members_begin, std::span<const uint32_t> members)
        : folded_(folded), members_begin_(members_begin), members_(members) {
        for (int byte = 0; byte < 256; ++byte) bytes_of_[byte_class(static_cast<uint8_t>(byte))].set(byte);
    }

    const Trie& trie() const { return folded_; }
    /// Trie nodes that fold into this one.
    std::span<const uint32_t> members(uint32_t node) const {
        return {members_.data() + members_begin_[node], members_begin_[node + 1] - members_begin_[node]};
    }
    /// The bytes of a byte class, which is named by one of its bytes.
    const ByteSet& bytes_of(uint8_t byte_class) const { return bytes_of_[byte_class]; }

    static uint8_t byte_class(uint8_t byte) {
        if (byte >= 'a' && byte <= 'z') return 'a';
        if (byte >= 'A' && byte <= 'Z') return 'A';
        if (byte >= '0' && byte <= '9') return '0';
        if (byte < 0x80) return byte;
        // Patterns distinguish these bytes mainly for white space outside ASCII, which begins with C2, E1, E2, E3 or EF
        // and mostly continues with 80.
        if (byte < 0xc0) return byte <= 0x81 ? byte : 0x82;  // continuation byte
        if (byte < 0xc2 || byte > 0xf4) return 0xc0;         // not UTF-8
        if (byte < 0xe0) return byte == 0xc2 ? byte : 0xc3;  // lead byte of two
        if (byte <= 0xe3 || byte == 0xed || byte == 0xef || byte == 0xf0 || byte == 0xf4) return byte;
        return byte < 0xf0 ? 0xe4 : 0xf1;                    // lead byte of three, of four
    }

private:
    Trie folded_;
    std::span<const uint32_t> members_begin_;
    std::span<const uint32_t> members_;
    std::array<ByteSet, 256> bytes_of_;
};

}  // namespace core
