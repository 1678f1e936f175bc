// What follows from the tokens alone: their bytes, the trie and its quotient, as views of one image.
//
// Invariant: never changes. The image lies in memory of this process, or in a file that processes share.
#pragma once

#include "image.hpp"
#include "quotient.hpp"
#include "trie.hpp"

namespace core {

class Tables {
public:
    /// Tokens without bytes are never allowed in text, nor are tokens with a byte that no single token spells: with
    /// those left out, every allowed prefix can be completed one byte at a time.
    static Image build(const TokenBytes& tokens, const std::vector<uint32_t>& eos) {
        const std::vector<uint32_t> spelled = spelled_tokens(tokens, spelled_bytes(tokens));
        const Trie::Arrays trie = Trie::build(tokens, spelled);
        const Quotient::Arrays quotient = Quotient::build(tokens, spelled, Trie(trie));
        const std::vector<uint32_t> longest{trie.longest, quotient.folded.longest};
        Image::Writer image;
        image.add(tokens.blob);
        image.add(tokens.offsets);
        image.add(eos);
        image.add(longest);
        for (const Trie::Arrays* arrays : {&trie, &quotient.folded}) {
            image.add(arrays->nodes);
            image.add(arrays->bytes);
            image.add(arrays->deepest);
            image.add(arrays->order);
        }
        image.add(quotient.members_begin);
        image.add(quotient.members);
        return image.finish();
    }

    /// Whether the image is of these tokens.
    static bool are_of(const Image& image, const TokenBytes& tokens, const std::vector<uint32_t>& eos) {
        return std::ranges::equal(image.section<uint8_t>(0), tokens.blob) &&
               std::ranges::equal(image.section<int64_t>(1), tokens.offsets) && std::ranges::equal(image.section<uint32_t>(2), eos);
    }

    /// Views of an image that `build` made. Throws BadImage.
    explicit Tables(Image held)
        : image(std::move(held)),
          tokens{image.section<uint8_t>(0), image.section<int64_t>(1)},
          size(tokens.size()),
          eos(image.section<uint32_t>(2).begin(), image.section<uint32_t>(2).end()),
          alphabet(spelled_bytes(tokens)),
          trie(trie_at(0)),
          quotient(trie_at(1), image.section<uint32_t>(12), image.section<uint32_t>(13)) {}

    const Image image;
    const TokenBytes tokens;
    const uint32_t size;
    const std::vector<uint32_t> eos;
    const ByteSet alphabet;  // bytes that are a token by themselves
    const Trie trie;
    const Quotient quotient;

private:
    Trie trie_at(size_t which) const {
        const size_t at = 4 + 4 * which;
        const auto nodes = image.section<Trie::Node>(at);
        const auto bytes = image.section<uint8_t>(at + 1);
        if (image.section<uint32_t>(3).size() != 2 || nodes.size() != bytes.size() + 1) throw BadImage("another layout");
        return {nodes, bytes, image.section<uint16_t>(at + 2), image.section<uint32_t>(at + 3), image.section<uint32_t>(3)[which]};
    }
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
