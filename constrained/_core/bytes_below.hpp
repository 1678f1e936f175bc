// Which bytes occur below each trie node, by groups of bytes.
//
// Most residuals that a long walk meets read most bytes without becoming another one, such as free text that must not hold some
// word. Where only such bytes occur below a node, all tokens below it are allowed, and none of them needs to be read.
// Thread safety: may be used from any thread.
#pragma once

#include <mutex>

#include "trie.hpp"

namespace core {

class BytesBelow {
public:
    static constexpr size_t kGroups = 64;
    /// The group of a byte: each letter is one, as patterns are mostly about letters.
    static constexpr uint8_t group(uint8_t byte) {
        if (byte >= 'A' && byte <= 'Z') return byte - 'A';
        if (byte >= 'a' && byte <= 'z') return 26 + byte - 'a';
        if (byte >= '0' && byte <= '9') return 52;
        switch (byte) {
            case ' ': return 53;
            case '"': return 54;
            case '\\': return 55;
            case '-': return 56;
            case '_': return 57;
            case '.': return 58;
            case '/': return 59;
            case ':': return 60;
            default: return byte < 0x20 ? 61 : byte < 0x80 ? 62 : 63;
        }
    }

    explicit BytesBelow(const Trie& trie) : trie_(trie) {}

    /// By trie node, a bit for each group. Made when a long walk first asks for it.
    std::span<const uint64_t> get() const {
        std::call_once(once_, [&] {
            groups_.resize(trie_.size());
            for (uint32_t node = trie_.size(); node-- > 0;) {
                uint64_t below = 0;
                for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
                    below |= uint64_t{1} << group(trie_.byte(child)) | groups_[child];
                }
                groups_[node] = below;
            }
        });
        return groups_;
    }

private:
    const Trie& trie_;
    mutable std::once_flag once_;
    mutable std::vector<uint64_t> groups_;
};

}  // namespace core
