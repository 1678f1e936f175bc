// Token lexicon: the tokens of the substrings of a document.
//
// Walks the document's occurrences and the trie of tokens together, without a residual per byte: the text before a token
// mostly occurs in few places, so few tokens follow.
#include "token_lexicon.hpp"

#include <ranges>

namespace core {

/// By position of a document, the trie nodes at which the tokens end that may be read from there, and go no further. Their
/// ancestors are the nodes of all tokens that may be read.
struct TokenLexicon::DocumentTokens {
    std::vector<uint32_t> begin, nodes;
    std::vector<bool> between;  // by trie node: reached between two symbols
    std::vector<uint16_t> common;  // see `SubstringIndex::common_symbols`
    std::vector<uint16_t> looked;  // by position: symbols that decide about its tokens; 65535 for more

    size_t bytes() const {
        return 4 * (begin.capacity() + nodes.capacity()) + between.capacity() / 8 + 2 * (common.capacity() + looked.capacity());
    }
};

// Defined where `DocumentTokens` is complete.
TokenLexicon::TokenLexicon(const TokenBytes& tokens, const Trie& trie, const ByteClassTrie& byte_class_trie, RegexStore& regexes)
    : tokens_(tokens), trie_(trie), byte_class_trie_(byte_class_trie), regexes_(regexes), all_(tokens.size()), vocabulary_size_(tokens.size()) {
    all_.add(trie.subtree_tokens(Trie::kRoot));
    all_.make_dense();
}

TokenLexicon::~TokenLexicon() = default;

TokenLexicon::DocumentTokens& TokenLexicon::document_tokens(const SubstringIndex& index) {
    std::unique_ptr<DocumentTokens>& known = document_tokens_[&index];
    if (known) return *known;
    auto made = std::make_unique<DocumentTokens>();
    made->begin.reserve(index.size() + 2);
    made->nodes.reserve(index.size());
    made->between.resize(trie_.size());
    made->common = index.common_symbols();
    made->looked.reserve(index.size() + 1);
    struct Place {
        uint32_t node, position;
    };
    std::vector<Place> work;
    for (uint32_t start = 0; start <= index.size(); ++start) {
        made->begin.push_back(static_cast<uint32_t>(made->nodes.size()));
        uint32_t until = start;
        work.assign(1, {Trie::kRoot, start});
        while (!work.empty()) {
            const auto [top, position] = work.back();
            work.pop_back();
            bool further = false;
            until = std::max(until, index.looks_until(position));
            index.expand_at(position, [&](uint32_t symbol, uint32_t next) {
                for (const auto& spelling : index.spellings(symbol)) {
                    uint32_t node = top;
                    for (const uint8_t byte : index.bytes_of(spelling)) {
                        const uint32_t child = trie_.child(node, byte);
                        if (child == Trie::kNone) {
                            if (node != top) made->nodes.push_back(node), further = true;
                            node = Trie::kNone;
                            break;
                        }
                        node = child;
                    }
                    if (node == Trie::kNone) continue;
                    further = true;
                    made->between[node] = true;
                    if (trie_.leaf(node)) {
                        made->nodes.push_back(node);
                    } else {
                        work.push_back({node, next});
                    }
                }
            });
            if (!further && top != Trie::kRoot) made->nodes.push_back(top);
        }
        made->looked.push_back(static_cast<uint16_t>(std::min<uint32_t>(until - start, UINT16_MAX)));
    }
    made->begin.push_back(static_cast<uint32_t>(made->nodes.size()));
    made->nodes.shrink_to_fit();
    bytes_ += made->bytes();
    known = std::move(made);
    return *known;
}

void TokenLexicon::drop_document_tokens() {
    for (const auto& [index, tokens] : document_tokens_) bytes_ -= tokens->bytes();
    document_tokens_.clear();
}

/// As `substring_subtree` from the root of the trie, for prefixes with many occurrences: looks up what may be read at each.
/// Returns false where that does not apply.
bool TokenLexicon::many_occurrences(LexiconEntry& entry, const RegexStore::SubstringPrefix& prefix, RegexId tail) {
    constexpr uint32_t kMany = 16;
    const SubstringIndex& index = *prefix.index;
    uint32_t most = 0;
    for (const auto& cursor : prefix.cursors) most = std::max(most, cursor.hi ? cursor.hi - cursor.lo : 1);
    if (most < kMany || prefix.missing > 1 || prefix.partial != SubstringIndex::kRoot || !index.ends_anywhere()) return false;
    if (parents_.empty()) {
        parents_.resize(trie_.size(), Trie::kRoot);
        seen_.resize(trie_.size(), 0);
        for (uint32_t node = 0; node < trie_.size(); ++node) {
            for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) parents_[child] = node;
        }
        bytes_ += 8 * trie_.size();
    }
    const DocumentTokens& document = document_tokens(index);
    if (++searches_ == 0) std::ranges::fill(seen_, 0), searches_ = 1;
    entry.max_remaining = std::max(entry.max_remaining, add_lengths(index.bound(prefix.missing), regexes_.min_length(tail)));
    std::vector<std::pair<uint8_t, RegexId>> exits;
    const ByteSet possible = regexes_.first(tail);
    for (size_t byte = possible._Find_first(); byte < possible.size(); byte = possible._Find_next(byte)) {
        exits.emplace_back(static_cast<uint8_t>(byte), regexes_.step(tail, static_cast<uint8_t>(byte)));
    }
    const bool boundary = regexes_.nullable(tail);
    const auto leave = [&](uint32_t node) {
        for (const auto& [byte, next] : exits) {
            if (const uint32_t child = trie_.child(node, byte); child != Trie::kNone) search_subtree(entry, child, next);
        }
    };
    if (prefix.accepts) leave(Trie::kRoot);
    for (const auto& cursor : prefix.cursors) {
        // Suffixes are sorted, so occurrences with the same tokens mostly follow each other: these are looked up once.
        const bool comparable = cursor.depth > 0 || !index.looks_back();
        uint32_t decided = SubstringIndex::kNone;  // symbols of a suffix that decided about the tokens of the last one
        index.ranked_positions(cursor, [&](uint32_t position, uint32_t rank) {
            if (comparable && rank != SubstringIndex::kNone && document.common[rank] >= decided) return;
            decided = cursor.depth + document.looked[position];
            for (uint32_t i = document.begin[position]; i < document.begin[position + 1]; ++i) {
                for (uint32_t node = document.nodes[i]; node != Trie::kRoot && seen_[node] != searches_; node = parents_[node]) {
                    seen_[node] = searches_;
                    entry.inner_tokens.add(trie_.tokens(node));
                    if (!document.between[node] || trie_.leaf(node)) continue;
                    if (boundary) entry.boundary_nodes.push_back(node);
                    leave(node);
                }
            }
        });
    }
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
