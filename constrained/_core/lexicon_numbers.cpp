// Token lexicon: numbers of which many remainders are told apart. No residual is made between the digits of a token.
#include "token_lexicon.hpp"

namespace core {

/// Reads the tokens of digits. Returns nullptr if the residual is something else, or the number in front of something else may end
/// at once.
std::unique_ptr<LexiconEntry> TokenLexicon::from_numbers(RegexId residual) {
    NumberRests start;
    if (!regexes_.add_numbers(residual, 0, {}, 0, start) || !start.many()) return nullptr;
    auto entry = std::make_unique<LexiconEntry>(empty_entry());
    std::vector<std::pair<uint32_t, NumberRests>> work{{Trie::kRoot, std::move(start)}};
    while (!work.empty()) {
        const auto [node, numbers] = std::move(work.back());
        work.pop_back();
        for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
            const uint8_t byte = trie_.byte(child);
            if ((byte < '0' || byte > '9') && byte != '.') continue;
            regexes_.work().spend(1 + numbers.list().size());
            NumberRests next = numbers.after(byte);
            regexes_.work().spend(next.steps());
            if (next.empty()) continue;
            if (std::ranges::any_of(next.list(), [](const NumberRest& rest) { return rest.tail != RegexStore::kEpsilon && rest.complete(); })) {
                search_subtree(*entry, child, regexes_.from_numbers(next.list()));
                continue;
            }
            if (const auto tokens = trie_.tokens(child); !tokens.empty()) {
                entry->inner_tokens.add(tokens);
                entry->max_remaining = std::max(entry->max_remaining, next.length());
            }
            if (trie_.leaf(child)) continue;
            if (next.may_end()) entry->boundary_nodes.push_back(child);
            work.emplace_back(child, std::move(next));
        }
    }
    std::ranges::sort(entry->boundary_nodes);
    return entry;
}

}  // namespace core
