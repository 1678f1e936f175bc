// Token lexicon: trie subtrees, for tokens that enter a terminal in their middle and for residuals with few first bytes.
#include "token_lexicon.hpp"

namespace core {

namespace {
constexpr size_t kFewSearched = 16;   // tokens below a node where a literal ends: more are memoised
}

/// Descends from `node` along the literal prefix of the residual, of which `read` bytes were read before. Returns the
/// node where the prefix ends, or `Trie::kNone`.
uint32_t TokenLexicon::spell_subtree(LexiconEntry& entry, uint32_t node, RegexId residual, size_t read) {
    const uint32_t length = regexes_.min_length(residual);
    const std::span<const uint8_t> text = regexes_.literal_prefix(residual)->text;
    for (; read < text.size(); ++read) {
        if (read > 0) {
            if (const auto tokens = trie_.tokens(node); !tokens.empty()) {
                entry.inner_tokens.add(tokens);
                entry.max_remaining = std::max(entry.max_remaining, length - static_cast<uint32_t>(read));
            }
        }
        if ((node = trie_.child(node, text[read])) == Trie::kNone) break;
    }
    return node;
}

/// Adds the inner tokens and boundary nodes of the subtree of `top`; `residual` is the rest of the terminal at `top`.
void TokenLexicon::search_subtree(LexiconEntry& entry, uint32_t top, RegexId residual) {
    std::vector<std::pair<uint32_t, RegexId>> work;
    const auto visit = [&](uint32_t node, RegexId next) {
        if (const auto tokens = trie_.tokens(node); !tokens.empty()) {
            entry.inner_tokens.add(tokens);
            entry.max_remaining = std::max(entry.max_remaining, regexes_.min_length(next));
        }
        if (trie_.leaf(node)) return;
        if (node != Trie::kRoot && regexes_.nullable(next)) entry.boundary_nodes.push_back(node);
        if (next != RegexStore::kEpsilon) work.emplace_back(node, next);
    };
    visit(top, residual);
    while (!work.empty()) {
        const auto [node, state] = work.back();
        work.pop_back();
        if (const auto prefix = regexes_.literal_prefix(state)) {
            const uint32_t end = spell_subtree(entry, node, state, 0);
            if (end != Trie::kNone) visit(end, prefix->tail);
            continue;
        }
        if (regexes_.substring_head(state)) {
            substring_subtree(entry, node, state);
            continue;
        }
        regexes_.work().spend(1);
        const ByteSet& first = regexes_.first(state);
        const uint32_t begin = trie_.children_begin(node), end = trie_.children_end(node);
        if (node == Trie::kRoot || (end - begin > 8 && end - begin > 8 * first.count())) {
            for (size_t byte = first._Find_first(); byte < first.size(); byte = first._Find_next(byte)) {
                const uint32_t child = trie_.child(node, static_cast<uint8_t>(byte));
                if (child != Trie::kNone) visit(child, regexes_.step(state, static_cast<uint8_t>(byte)));
            }
        } else {
            for (uint32_t child = begin; child < end; ++child) {
                if (first[trie_.byte(child)]) visit(child, regexes_.step(state, trie_.byte(child)));
            }
        }
    }
}

uint32_t TokenLexicon::classify_subtree(RegexId residual, uint32_t node, RowBuilder& row, std::vector<uint32_t>& exits) {
    LexiconEntry& made = subtree_entry_;
    made.inner_tokens.clear();
    made.boundary_nodes.clear();
    made.max_remaining = 0;
    const auto prefix = regexes_.literal_prefix(residual);
    const RegexId rest = prefix ? prefix->tail : regexes_.step(residual, trie_.byte(node));
    if (prefix) node = spell_subtree(made, node, residual, 1);  // interns no residual per byte
    const LexiconEntry* below = &made;
    if (node != Trie::kNone) {
        const size_t count = trie_.subtree_tokens(node).size();
        if (count > (prefix ? kFewSearched : 1) && !regexes_.literal_prefix(rest)) {
            below = &known_subtree(node, rest);
            row.add(below->inner_tokens);
        } else {
            search_subtree(made, node, rest);
        }
    }
    row.add_copy(made.inner_tokens);
    exits.insert(exits.end(), below->boundary_nodes.begin(), below->boundary_nodes.end());
    return std::max(made.max_remaining, below->max_remaining);
}

/// As `search_subtree`, memoised by node and residual.
const LexiconEntry& TokenLexicon::known_subtree(uint32_t top, RegexId residual) {
    const uint64_t key = uint64_t{top} << 32 | residual.value;
    if (const auto at = subtree_entries_.find(key); at != subtree_entries_.end()) return at->second;
    LexiconEntry made = empty_entry();
    search_subtree(made, top, residual);
    made.inner_tokens.canonicalize();
    const size_t size = made.bytes() + 48;
    bytes_ += size;
    subtree_bytes_ += size;
    return subtree_entries_.emplace(key, std::move(made)).first->second;
}

}  // namespace core
