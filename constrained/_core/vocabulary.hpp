// Everything that belongs to a vocabulary and is shared by all automata over it.
#pragma once

#include <mutex>

#include "lexicon.hpp"
#include "regex.hpp"
#include "rows.hpp"
#include "trie.hpp"

namespace core {

struct Vocabulary {
    /// Token t is `blob[offsets[t], offsets[t + 1])`; a token without bytes is never allowed in text.
    Vocabulary(std::span<const uint8_t> blob, std::span<const int64_t> offsets, std::vector<uint32_t> eos)
        : size(static_cast<uint32_t>(offsets.size() - 1)),
          blob(blob.begin(), blob.end()),
          offsets(offsets.begin(), offsets.end()),
          eos(std::move(eos)),
          trie(this->blob, this->offsets),
          regexes(trie.alphabet()),
          rows(size),
          lexicon(trie, regexes, size) {}

    std::span<const uint8_t> bytes_of(uint32_t token) const {
        return std::span(blob).subspan(offsets[token], offsets[token + 1] - offsets[token]);
    }
    bool is_eos(uint32_t token) const { return std::ranges::find(eos, token) != eos.end(); }

    const uint32_t size;
    const std::vector<uint8_t> blob;
    const std::vector<int64_t> offsets;
    const std::vector<uint32_t> eos;
    const Trie trie;
    std::mutex lock;  // guards what follows, and the stores of every automaton over this vocabulary
    RegexStore regexes;
    RowStore rows;
    Lexicon lexicon;
};

}  // namespace core
