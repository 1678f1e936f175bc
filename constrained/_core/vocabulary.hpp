// Everything that belongs to a vocabulary and is shared by all automata over it.
#pragma once

#include <mutex>

#include "lexicon.hpp"
#include "quotient.hpp"
#include "regex.hpp"
#include "rows.hpp"
#include "trie.hpp"

namespace core {

class Vocabulary {
public:
    /// Tokens without bytes are never allowed in text, nor are tokens with a byte that no single token spells: with
    /// those left out, every allowed prefix can be completed one byte at a time.
    Vocabulary(TokenBytes bytes, std::vector<uint32_t> eos_ids)
        : tokens(std::move(bytes)),
          size(tokens.size()),
          eos(std::move(eos_ids)),
          alphabet(spelled_bytes(tokens)),
          spelled(spelled_tokens(tokens, alphabet)),
          trie(tokens, spelled),
          quotient(tokens, spelled, trie),
          regexes(alphabet),
          rows(size),
          lexicon(tokens, trie, quotient, regexes) {}

    bool is_eos(uint32_t token) const { return std::ranges::find(eos, token) != eos.end(); }

    const TokenBytes tokens;
    const uint32_t size;
    const std::vector<uint32_t> eos;
    const ByteSet alphabet;               // bytes that are a token by themselves
    const std::vector<uint32_t> spelled;  // tokens made of those
    const Trie trie;
    const Quotient quotient;
    std::mutex lock;  // guards what follows, and the stores of every automaton over this vocabulary
    RegexStore regexes;
    RowStore rows;
    Lexicon lexicon;

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
