// Token lexicon: the tokens of the substrings of a document.
//
// Walks the document's occurrences and the trie of tokens together, without a residual per byte: the text before a token
// mostly occurs in few places, so few tokens follow.
#include "token_lexicon.hpp"

#include <ranges>

namespace core {

/// The tokens that may be read from each position of a document. Positions from which the document goes on alike, as far as
/// tokens reach, share a list; few lists are distinct.
struct TokenLexicon::DocumentTokens {
    /// A node of the vocabulary's trie that is reached from some position.
    struct Node {
        uint32_t parent : 31;  // in `nodes`
        uint32_t open : 1;     // reached between two symbols, and longer tokens go through it
        uint32_t trie_node;
        uint32_t token;        // that ends here; `kNoToken`, or `kTokens` for several
        uint32_t seen;         // number of the last search that reached it
    };
    struct List {
        uint32_t begin, end;  // in `ends`
        uint32_t looked;      // symbols that decide about it
        uint32_t seen;        // number of the last search that reached it
    };
    static constexpr uint32_t kNoToken = UINT32_MAX, kTokens = UINT32_MAX - 1;

    std::vector<Node> nodes;          // the root first
    std::vector<uint32_t> list_of;    // by position
    std::vector<List> lists;          // those of positions where texts may begin come first
    std::vector<uint32_t> ends;       // nodes behind which nothing can be read; all nodes are these and their ancestors
    std::vector<uint16_t> common;     // see `SubstringIndex::common_symbols`
    uint32_t first_lists = 0;         // how many these are
    std::vector<std::vector<uint32_t>> after_symbol;  // by symbol: the lists behind its occurrences where texts may begin
    std::unordered_map<uint8_t, std::vector<std::pair<uint32_t, uint32_t>>> leaving;  // by byte: open nodes with this child, and it
    uint32_t searches = 0;
    size_t other_bytes = 0;  // of `leaving` and `after_symbol`

    size_t bytes() const {
        return other_bytes + nodes.capacity() * sizeof(Node) + lists.capacity() * sizeof(List) + 2 * common.capacity() +
               4 * (list_of.capacity() + ends.capacity());
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
    auto tokens = std::make_unique<DocumentTokens>();
    DocumentTokens& made = *tokens;
    made.nodes.push_back({0, 0, Trie::kRoot, DocumentTokens::kNoToken, 0});
    made.common = index.common_symbols();
    made.list_of.assign(index.size() + 1, SubstringIndex::kNone);
    std::vector<uint32_t> number_of(trie_.size(), SubstringIndex::kNone);  // by trie node: in `nodes`
    const auto numbered = [&](uint32_t trie_node, uint32_t parent) {
        uint32_t& number = number_of[trie_node];
        if (number == SubstringIndex::kNone) {
            const auto here = trie_.tokens(trie_node);
            const uint32_t token = here.empty() ? DocumentTokens::kNoToken : here.size() == 1 ? here[0] : DocumentTokens::kTokens;
            number = static_cast<uint32_t>(made.nodes.size());
            made.nodes.push_back({parent, 0, trie_node, token, 0});
        }
        return number;
    };
    struct Place {
        uint32_t node, position;  // `node` in `nodes`
    };
    std::vector<Place> work;
    const auto read_from = [&](uint32_t start) {
        const uint32_t begin = static_cast<uint32_t>(made.ends.size());
        uint32_t until = start;
        work.assign(1, {0, start});
        while (!work.empty()) {
            const auto [top, position] = work.back();
            work.pop_back();
            bool further = false;
            until = std::max(until, index.looks_until(position));
            index.expand_at(position, [&](uint32_t symbol, uint32_t next) {
                for (const auto& spelling : index.spellings(symbol)) {
                    uint32_t node = top;
                    bool whole = true;
                    for (const uint8_t byte : index.bytes_of(spelling)) {
                        const uint32_t child = trie_.child(made.nodes[node].trie_node, byte);
                        whole = child != Trie::kNone;
                        if (!whole) break;
                        node = numbered(child, node);
                    }
                    if (!whole) {
                        if (node != top) made.ends.push_back(node), further = true;
                        continue;
                    }
                    further = true;
                    if (trie_.leaf(made.nodes[node].trie_node)) {
                        made.ends.push_back(node);
                    } else {
                        made.nodes[node].open = 1;
                        work.push_back({node, next});
                    }
                }
            });
            if (!further && top != 0) made.ends.push_back(top);
        }
        made.lists.push_back({begin, static_cast<uint32_t>(made.ends.size()), until - start, 0});
        return static_cast<uint32_t>(made.lists.size() - 1);
    };
    // Suffixes are sorted: those with one list follow each other, apart from those inside of runs of white space.
    struct Last {
        uint32_t list = SubstringIndex::kNone, common = 0;  // the symbols that all suffixes since have in common with it
    };
    Last last[2];
    for (uint32_t rank = 0; rank < index.suffixes().size(); ++rank) {
        for (Last& one : last) one.common = std::min<uint32_t>(one.common, made.common[rank]);
        const uint32_t start = index.suffixes()[rank];
        Last& before = last[index.inside_space(start)];
        if (before.list == SubstringIndex::kNone || before.common < made.lists[before.list].looked) before.list = read_from(start);
        before.common = UINT32_MAX;
        made.list_of[start] = before.list;
    }
    made.first_lists = static_cast<uint32_t>(made.lists.size());
    for (uint32_t start = 0; start <= index.size(); ++start) {
        if (made.list_of[start] == SubstringIndex::kNone) made.list_of[start] = read_from(start);
    }
    for (const uint32_t start : index.suffixes()) {  // in this order equal lists mostly follow each other
        const uint32_t symbol = index.symbol_of(start), list = made.list_of[start + 1];
        if (symbol >= made.after_symbol.size()) made.after_symbol.resize(symbol + 1);
        std::vector<uint32_t>& lists = made.after_symbol[symbol];
        if (lists.empty() || lists.back() != list) lists.push_back(list);
    }
    for (std::vector<uint32_t>& lists : made.after_symbol) {
        std::ranges::sort(lists);
        lists.erase(std::unique(lists.begin(), lists.end()), lists.end());
        lists.shrink_to_fit();
        made.other_bytes += sizeof(lists) + 4 * lists.capacity();
    }
    bytes_ += made.bytes();
    known = std::move(tokens);
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
    constexpr uint32_t kDense = 64;          // sorting a list of so many tokens costs more than going through a mask
    constexpr size_t kFewExits = 8;
    const SubstringIndex& index = *prefix.index;
    uint32_t most = 0;
    for (const auto& cursor : prefix.cursors) most = std::max(most, cursor.hi ? cursor.hi - cursor.lo : 1);
    if (most < kMany || prefix.missing > 1 || prefix.partial != SubstringIndex::kRoot || !index.ends_anywhere()) return false;
    DocumentTokens& document = document_tokens(index);
    if (++document.searches == 0) {
        for (auto& list : document.lists) list.seen = 0;
        for (auto& node : document.nodes) node.seen = 0;
        document.searches = 1;
    }
    const uint32_t search = document.searches;
    entry.max_remaining = std::max(entry.max_remaining, add_lengths(index.bound(prefix.missing), regexes_.min_length(tail)));
    std::vector<std::pair<uint8_t, RegexId>> exits;
    const ByteSet possible = regexes_.first(tail);
    for (size_t byte = possible._Find_first(); byte < possible.size(); byte = possible._Find_next(byte)) {
        exits.emplace_back(static_cast<uint8_t>(byte), regexes_.step(tail, static_cast<uint8_t>(byte)));
    }
    const bool boundary = regexes_.nullable(tail);
    const bool few = exits.size() <= kFewExits;
    const auto leave = [&](uint32_t node) {
        for (const auto& [byte, next] : exits) {
            if (const uint32_t child = trie_.child(node, byte); child != Trie::kNone) search_subtree(entry, child, next);
        }
    };
    if (prefix.accepts) leave(Trie::kRoot);
    if (most >= kDense) entry.inner_tokens.make_dense();
    document.nodes[0].seen = search;
    const auto reach = [&](DocumentTokens::List& list) {
        if (std::exchange(list.seen, search) == search) return;
        for (uint32_t i = list.begin; i < list.end; ++i) {
            for (uint32_t at = document.ends[i]; document.nodes[at].seen != search; at = document.nodes[at].parent) {
                DocumentTokens::Node& node = document.nodes[at];
                node.seen = search;
                if (node.token < DocumentTokens::kTokens) {
                    entry.inner_tokens.add(node.token);
                } else if (node.token == DocumentTokens::kTokens) {
                    entry.inner_tokens.add(trie_.tokens(node.trie_node));
                }
                if (!node.open) continue;
                if (boundary) entry.boundary_nodes.push_back(node.trie_node);
                if (!few) leave(node.trie_node);
            }
        }
    };
    for (const auto& cursor : prefix.cursors) {
        if (cursor.hi && cursor.depth == 0) {  // the empty prefix: a text may begin anywhere
            for (uint32_t list = 0; list < document.first_lists; ++list) reach(document.lists[list]);
        } else if (const uint32_t symbol = index.only_symbol(cursor); symbol != SubstringIndex::kNone) {
            for (const uint32_t list : document.after_symbol[symbol]) reach(document.lists[list]);
        } else {
            // Suffixes are sorted, so occurrences with one list mostly follow each other.
            uint32_t decided = SubstringIndex::kNone;  // symbols of a suffix that decided about the last list
            index.ranked_positions(cursor, [&](uint32_t position, uint32_t rank) {
                if (rank != SubstringIndex::kNone && document.common[rank] >= decided) return;
                DocumentTokens::List& list = document.lists[document.list_of[position]];
                decided = cursor.depth + list.looked;
                reach(list);
            });
        }
    }
    if (!few) return true;
    for (const auto& [byte, next] : exits) {
        for (const auto& [at, child] : leaving(document, byte)) {
            if (document.nodes[at].seen == search) search_subtree(entry, child, next);
        }
    }
    return true;
}

/// The open nodes of a document's tokens with a child for this byte in the vocabulary's trie, and the child.
std::span<const std::pair<uint32_t, uint32_t>> TokenLexicon::leaving(DocumentTokens& document, uint8_t byte) {
    if (const auto known = document.leaving.find(byte); known != document.leaving.end()) return known->second;
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (uint32_t at = 0; at < document.nodes.size(); ++at) {
        if (!document.nodes[at].open) continue;
        const uint32_t child = trie_.child(document.nodes[at].trie_node, byte);
        if (child != Trie::kNone) found.emplace_back(at, child);
    }
    const size_t size = sizeof found + found.capacity() * sizeof found[0];
    const auto& kept = document.leaving.emplace(byte, std::move(found)).first->second;
    document.other_bytes += size;
    bytes_ += size;
    return kept;
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
