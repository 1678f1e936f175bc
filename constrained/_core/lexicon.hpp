// Which tokens go on inside one terminal, and where they leave it: by content of the terminal's residual.
//
// Invariant: an entry depends on the residual and the vocabulary alone, so it is shared by every schema and request.
// Not thread-safe: guarded by the vocabulary's lock.
#pragma once

#include <unordered_map>

#include "regex.hpp"
#include "rows.hpp"
#include "trie.hpp"

namespace core {

struct LexEntry {
    TokenSet within;               ///< tokens that stay inside the terminal, ending it at most with their last byte
    uint32_t worst_length = 0;     ///< longest shortest rest of the terminal after one of them, in bytes
    std::vector<uint32_t> exits;   ///< trie nodes with children at which the terminal may have ended
};

class Lexicon {
public:
    Lexicon(const Trie& trie, RegexStore& regexes, uint32_t vocabulary_size)
        : trie_(trie), regexes_(regexes), vocabulary_size_(vocabulary_size) {}

    const LexEntry& at(RegexId residual) {
        auto& slot = entries_[residual.value];
        if (!slot) slot = build(residual);
        return *slot;
    }

    size_t size() const { return entries_.size(); }
    size_t bytes() const { return bytes_; }

private:
    std::unique_ptr<LexEntry> build(RegexId residual) {
        auto entry = std::make_unique<LexEntry>(LexEntry{TokenSet(vocabulary_size_), 0, {}});
        std::vector<std::pair<uint32_t, RegexId>> work{{Trie::kRoot, residual}};
        while (!work.empty()) {
            const auto [node, state] = work.back();
            work.pop_back();
            for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
                const RegexId next = regexes_.step(state, trie_.byte(child));
                if (next == RegexStore::kNothing) continue;
                if (const auto tokens = trie_.tokens(child); !tokens.empty()) {
                    entry->within.add(tokens);
                    entry->worst_length = std::max(entry->worst_length, regexes_.min_length(next));
                }
                if (trie_.leaf(child)) continue;
                if (regexes_.nullable(next)) entry->exits.push_back(child);
                if (next != RegexStore::kEmpty) work.emplace_back(child, next);
            }
        }
        entry->within.shrink();
        entry->exits.shrink_to_fit();
        bytes_ += sizeof(LexEntry) + entry->within.bytes() + 4 * entry->exits.capacity();
        return entry;
    }

    const Trie& trie_;
    RegexStore& regexes_;
    uint32_t vocabulary_size_;
    std::unordered_map<uint32_t, std::unique_ptr<LexEntry>> entries_;
    size_t bytes_ = 0;
};

}  // namespace core
