// The trie folded by kinds of bytes.
//
// Nearly every terminal treats all lower-case letters alike, or all digits, or all continuation bytes of UTF-8. Such a
// set of bytes is an atom. Tokens that spell the same atoms share a path here: a vocabulary of 131,072 tokens folds
// from 266,000 trie nodes to some 7,000, and a residual that does not tell an atom's bytes apart is walked on these.
// Invariant: a quotient node's members are exactly the trie nodes whose bytes map to its atoms.
#pragma once

#include "trie.hpp"

namespace core {

class Quotient {
public:
    /// What a quotient consists of.
    struct Arrays {
        Trie::Arrays folded;
        std::vector<uint32_t> members_begin, members;
    };

    static Arrays build(const TokenBytes& tokens, const std::vector<uint32_t>& listed, const Trie& trie) {
        std::vector<uint8_t> blob(tokens.blob.begin(), tokens.blob.end());
        for (uint8_t& byte : blob) byte = atom(byte);
        Arrays made{Trie::build({blob, tokens.offsets}, listed), {}, {}};
        const Trie folded(made.folded);
        std::vector<uint32_t> image(trie.size());  // trie node -> quotient node
        image[Trie::kRoot] = Trie::kRoot;
        std::vector<uint32_t> count(folded.size() + 1, 0);
        for (uint32_t node = 0; node < trie.size(); ++node) {
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                image[child] = folded.child(image[node], atom(trie.byte(child)));
                ++count[image[child] + 1];
            }
        }
        std::partial_sum(count.begin(), count.end(), count.begin());
        made.members_begin = count;
        made.members.resize(count.back());
        for (uint32_t node = 1; node < trie.size(); ++node) made.members[count[image[node]]++] = node;
        return made;
    }

    /// The memory is another's: of `Arrays`, or of an image.
    Quotient(const Trie& folded, std::span<const uint32_t> members_begin, std::span<const uint32_t> members)
        : folded_(folded), members_begin_(members_begin), members_(members) {
        for (int byte = 0; byte < 256; ++byte) bytes_of_[atom(static_cast<uint8_t>(byte))].set(byte);
    }

    const Trie& trie() const { return folded_; }
    /// Trie nodes that fold into this one.
    std::span<const uint32_t> members(uint32_t node) const {
        return {members_.data() + members_begin_[node], members_begin_[node + 1] - members_begin_[node]};
    }
    /// The bytes of an atom; an atom is named by one of its bytes.
    const ByteSet& bytes_of(uint8_t atom) const { return bytes_of_[atom]; }

    static uint8_t atom(uint8_t byte) {
        if (byte >= 'a' && byte <= 'z') return 'a';
        if (byte >= 'A' && byte <= 'Z') return 'A';
        if (byte >= '0' && byte <= '9') return '0';
        if (byte < 0x80) return byte;
        // White space outside ASCII begins with C2, E1, E2, E3 or EF, mostly goes on with 80, and is what patterns
        // tell apart among these bytes.
        if (byte < 0xc0) return byte <= 0x81 ? byte : 0x82;  // continues a character
        if (byte < 0xc2 || byte > 0xf4) return 0xc0;         // in no character
        if (byte < 0xe0) return byte == 0xc2 ? byte : 0xc3;  // begins one of two bytes
        if (byte <= 0xe3 || byte == 0xed || byte == 0xef || byte == 0xf0 || byte == 0xf4) return byte;
        return byte < 0xf0 ? 0xe4 : 0xf1;                    // begins one of three, of four
    }

private:
    Trie folded_;
    std::span<const uint32_t> members_begin_;
    std::span<const uint32_t> members_;
    std::array<ByteSet, 256> bytes_of_;
};

}  // namespace core
