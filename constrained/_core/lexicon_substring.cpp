// Token lexicon: the tokens of the substrings of a document.
//
// Walks the document's occurrences and the trie of tokens together, without a residual per byte: the text before a token
// mostly occurs in few places, so few tokens follow.
#include "token_lexicon.hpp"

#include <ranges>

namespace core {

// Defined where `DocumentTokens` is complete.
TokenLexicon::TokenLexicon(const TokenBytes& tokens, const Trie& trie, const ByteClassTrie& byte_class_trie, const BytesBelow& bytes_below,
                           RegexStore& regexes)
    : tokens_(tokens), trie_(trie), byte_class_trie_(byte_class_trie), bytes_below_(bytes_below), regexes_(regexes), all_(tokens.size()), vocabulary_size_(tokens.size()),
      subtree_entry_(empty_entry()), walk_(regexes) {
    all_.add(trie.subtree_tokens(Trie::kRoot));
    all_.make_dense();
}

TokenLexicon::~TokenLexicon() { drop_entries(); }

DocumentTokens& TokenLexicon::document_tokens(const SubstringIndex& index) {
    std::unique_ptr<DocumentTokens>& known = document_tokens_[&index];
    if (!known) {
        known = std::make_unique<DocumentTokens>(index, trie_);
        bytes_ += known->bytes();
    }
    return *known;
}

void TokenLexicon::drop_document_tokens() {
    for (const auto& [index, tokens] : document_tokens_) bytes_ -= tokens->bytes();
    document_tokens_.clear();
}

/// As `substring_subtree` from the root of the trie, for prefixes with several occurrences: looks up what may be read at each.
/// Returns false where that does not apply.
bool TokenLexicon::many_occurrences(LexiconEntry& entry, const RegexStore::SubstringPrefix& prefix, RegexId tail) {
    constexpr uint32_t kMany = 16;
    constexpr size_t kFewExits = 8;
    const SubstringIndex& index = *prefix.index;
    if (prefix.missing > 1 || prefix.partial != SubstringIndex::kRoot || !index.ends_anywhere()) return false;
    uint32_t most = 0;
    for (const auto& cursor : prefix.cursors) most = std::max(most, cursor.hi ? cursor.hi - cursor.lo : 1);
    if (most < 2 || (most < kMany && !document_tokens_.contains(&index))) return false;
    DocumentTokens& document = document_tokens(index);
    document.read_after(prefix.cursors);
    entry.max_remaining = std::max(entry.max_remaining, add_lengths(index.bound(prefix.missing), regexes_.min_length(tail)));
    document.add_tokens(entry.inner_tokens);
    if (regexes_.nullable(tail)) document.for_each_open([&](uint32_t node) { entry.boundary_nodes.push_back(node); });
    std::vector<std::pair<uint8_t, RegexId>> exits;
    const ByteSet possible = regexes_.first(tail);
    for (size_t byte = possible._Find_first(); byte < possible.size(); byte = possible._Find_next(byte)) {
        exits.emplace_back(static_cast<uint8_t>(byte), regexes_.step(tail, static_cast<uint8_t>(byte)));
    }
    const auto leave = [&](uint32_t node) {
        for (const auto& [byte, next] : exits) {
            if (const uint32_t child = trie_.child(node, byte); child != Trie::kNone) search_subtree(entry, child, next);
        }
    };
    if (prefix.accepts) leave(Trie::kRoot);
    if (exits.size() > kFewExits) {
        document.for_each_open(leave);
        return true;
    }
    const size_t before = document.bytes();
    for (const auto& [byte, next] : exits) {
        document.for_each_leaving(byte, [&](uint32_t child) { search_subtree(entry, child, next); });
    }
    bytes_ += document.bytes() - before;
    return true;
}

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
    if (top == Trie::kRoot && many_occurrences(entry, prefix, tail)) return;
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
