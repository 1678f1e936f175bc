// The trie folded by byte classes.
//
// Nearly every terminal treats all lower-case letters alike, or all digits, or all UTF-8 continuation bytes. Such a set is a
// byte class, see byte_classes.hpp. Tokens with the same sequence of byte classes share a path: a vocabulary of 131,072 tokens
// has 266,000 trie nodes but about 7,000 folded ones. A residual that does not split a byte class is walked on the folded trie.
// Invariant: the members of a folded node are exactly the trie nodes whose bytes map to its byte classes.
// Thread safety: immutable after construction.
#pragma once

#include "byte_classes.hpp"
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
        const ByteClasses& classes = ByteClasses::instance();
        std::vector<uint8_t> blob(tokens.blob.begin(), tokens.blob.end());
        for (uint32_t token = 0; token < tokens.size(); ++token) {
            uint8_t place = ByteClasses::kBetween;
            for (int64_t at = tokens.offsets[token]; at < tokens.offsets[token + 1]; ++at) {
                const uint8_t byte = blob[at];
                blob[at] = classes.of(place, byte);
                place = classes.next(place, byte);
            }
        }
        Arrays made{Trie::build({blob, tokens.offsets}, listed), {}, {}};
        const Trie folded(made.folded);
        std::vector<uint32_t> image(trie.size());  // trie node -> folded node
        std::vector<uint8_t> places(trie.size());
        image[Trie::kRoot] = Trie::kRoot;
        places[Trie::kRoot] = ByteClasses::kBetween;
        std::vector<uint32_t> count(folded.size() + 1, 0);
        for (uint32_t node = 0; node < trie.size(); ++node) {
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                image[child] = folded.child(image[node], classes.of(places[node], trie.byte(child)));
                places[child] = classes.next(places[node], trie.byte(child));
                ++count[image[child] + 1];
            }
        }
        std::partial_sum(count.begin(), count.end(), count.begin());
        made.members_begin = count;
        made.members.resize(count.back());
        for (uint32_t node = 1; node < trie.size(); ++node) made.members[count[image[node]]++] = node;
        return made;
    }

    /// Views of arrays.
    explicit ByteClassTrie(const Arrays& made) : folded_(made.folded), members_begin_(made.members_begin), members_(made.members) {}

    const Trie& trie() const { return folded_; }
    /// Trie nodes that fold into this one.
    std::span<const uint32_t> members(uint32_t node) const {
        return {members_.data() + members_begin_[node], members_begin_[node + 1] - members_begin_[node]};
    }

private:
    Trie folded_;
    std::span<const uint32_t> members_begin_;
    std::span<const uint32_t> members_;
};

}  // namespace core
