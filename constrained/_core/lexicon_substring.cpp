// Token lexicon: the tokens of the substrings of a document.
//
// Walks the document's occurrences and the trie of tokens together, without a residual per byte: the text before a token
// mostly occurs in few places, so few tokens follow.
#include "token_lexicon.hpp"

#include <ranges>

namespace core {

/// Adds the tokens of the subtree of `top` for a residual that begins with substrings; `top` itself is not looked at.
void TokenLexicon::substring_subtree(LexiconEntry& entry, uint32_t top, RegexId residual) {
    using Cursor = SubstringIndex::Cursor;
    struct Place {
        uint32_t node, offset, count, missing;
    };
    struct Next {
        uint32_t symbol;
        Cursor cursor;
        bool more;
    };
    const auto [prefix, tail] = *regexes_.substring_head(residual);
    const SubstringIndex& index = *prefix.index;
    const uint32_t partial = prefix.partial, read = index.depth(partial), tail_length = regexes_.min_length(tail);
    std::vector<Cursor> arena(prefix.cursors);
    std::vector<Place> work{{top, 0, static_cast<uint32_t>(arena.size()), prefix.missing}};
    const bool accepts = prefix.accepts;
    std::vector<std::pair<uint8_t, RegexId>> exits;  // how the text goes on after the substring
    for (const ByteSet possible = regexes_.first(tail); const int byte : std::views::iota(0, 256)) {
        if (possible[byte]) exits.emplace_back(static_cast<uint8_t>(byte), regexes_.step(tail, static_cast<uint8_t>(byte)));
    }
    const auto leave = [&](uint32_t node) {
        for (const auto& [byte, next] : exits) {
            if (const uint32_t child = trie_.child(node, byte); child != Trie::kNone) search_subtree(entry, child, next);
        }
    };
    const auto allow = [&](uint32_t node, uint32_t missing) {
        const auto tokens = trie_.tokens(node);
        if (tokens.empty()) return;
        entry.inner_tokens.add(tokens);
        entry.max_remaining = std::max(entry.max_remaining, add_lengths(index.bound(missing), tail_length));
    };
    if (accepts) leave(top);
    std::vector<Next> following;
    bool first = true;
    while (!work.empty()) {
        const Place place = work.back();
        work.pop_back();
        following.clear();
        for (uint32_t i = 0; i < place.count; ++i) {
            const Cursor cursor = arena[place.offset + i];
            index.expand(cursor, [&](uint32_t symbol, const Cursor& next, bool more) { following.push_back({symbol, next, more}); });
        }
        if (!std::ranges::is_sorted(following, {}, &Next::symbol)) std::ranges::sort(following, {}, &Next::symbol);
        const uint32_t missing = place.missing ? place.missing - 1 : 0;
        for (size_t i = 0; i < following.size();) {
            const uint32_t symbol = following[i].symbol;
            size_t end = i;
            while (end < following.size() && following[end].symbol == symbol) ++end;
            const std::span<const Next> group(following.data() + i, end - i);
            i = end;
            uint32_t offset = SubstringIndex::kNone, count = 0;  // of the cursors after this symbol, once they are needed
            bool may_end = false;
            for (const auto& spelling : index.spellings(symbol)) {
                if (first && !index.below(spelling, partial)) continue;
                auto bytes = index.bytes_of(spelling);
                if (first) bytes = bytes.subspan(read);
                uint32_t node = place.node;
                for (size_t at = 0; at < bytes.size(); ++at) {
                    node = trie_.child(node, bytes[at]);
                    if (node == Trie::kNone) break;
                    if (at + 1 < bytes.size()) allow(node, place.missing);
                }
                if (node == Trie::kNone) continue;
                allow(node, missing);
                if (trie_.leaf(node)) continue;
                if (offset == SubstringIndex::kNone) {
                    offset = static_cast<uint32_t>(arena.size());
                    for (const Next& next : group) {
                        may_end |= missing == 0 && index.may_end(next.cursor);
                        if (next.more) arena.push_back(next.cursor);
                    }
                    count = static_cast<uint32_t>(arena.size()) - offset;
                }
                if (may_end) {
                    if (regexes_.nullable(tail)) entry.boundary_nodes.push_back(node);
                    leave(node);
                }
                if (count) work.push_back({node, offset, count, missing});
            }
        }
        first = false;
    }
}

}  // namespace core
