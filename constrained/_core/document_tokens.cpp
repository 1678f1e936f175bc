#include "document_tokens.hpp"

#include <ranges>

namespace core {

/// Goes through a document once.
class DocumentTokens::Reading {
public:
    explicit Reading(DocumentTokens& made) : made_(made), index_(made.index_), trie_(made.trie_), number_of_(trie_.size(), kNone) {
        made_.nodes_.push_back({0, 0, Trie::kRoot});
        made_.lists_.push_back(0);
    }
    void read_document();

private:
    uint32_t numbered(uint32_t trie_node, uint32_t parent);
    uint32_t read_from(uint32_t start);
    uint32_t list_of_found();

    DocumentTokens& made_;
    const SubstringIndex& index_;
    const Trie& trie_;
    std::vector<uint32_t> number_of_;  // by trie node: in `nodes_`
    InternTable lists_by_content_;
    struct Place {
        uint32_t node, position;  // `node` in `nodes_`
    };
    std::vector<Place> work_;      // of `read_from`
    std::vector<uint32_t> found_;  // the ends that it found
    uint32_t looked_ = 0;          // how many symbols decided about them
};

uint32_t DocumentTokens::Reading::numbered(uint32_t trie_node, uint32_t parent) {
    uint32_t& number = number_of_[trie_node];
    if (number == kNone) {
        number = static_cast<uint32_t>(made_.nodes_.size());
        made_.nodes_.push_back({parent, 0, trie_node});
    }
    return number;
}

/// The list of a position.
uint32_t DocumentTokens::Reading::read_from(uint32_t start) {
    std::vector<Node>& nodes = made_.nodes_;
    found_.clear();
    work_.assign(1, {0, start});
    uint32_t until = start;
    while (!work_.empty()) {
        const auto [top, position] = work_.back();
        work_.pop_back();
        bool further = false;
        until = std::max(until, index_.looks_until(position));
        index_.expand_at(position, [&](uint32_t symbol, uint32_t next) {
            for (const auto& spelling : index_.spellings(symbol)) {
                uint32_t node = top;
                bool whole = true;
                for (const uint8_t byte : index_.bytes_of(spelling)) {
                    const uint32_t child = trie_.child(nodes[node].trie_node, byte);
                    whole = child != Trie::kNone;
                    if (!whole) break;
                    node = numbered(child, node);
                }
                if (!whole) {
                    if (node != top) found_.push_back(node), further = true;
                    continue;
                }
                further = true;
                if (trie_.leaf(nodes[node].trie_node)) {
                    found_.push_back(node);
                } else {
                    nodes[node].open = 1;
                    work_.push_back({node, next});
                }
            }
        });
        if (!further && top != 0) found_.push_back(top);
    }
    looked_ = until - start;
    return list_of_found();
}

uint32_t DocumentTokens::Reading::list_of_found() {
    std::ranges::sort(found_);
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return lists_by_content_.find_or_insert(
        hash_words(found_, 0), [&](uint32_t other) { return std::ranges::equal(made_.ends(other), found_); },
        [&] {
            made_.ends_.insert(made_.ends_.end(), found_.begin(), found_.end());
            made_.lists_.push_back(static_cast<uint32_t>(made_.ends_.size()));
            return static_cast<uint32_t>(made_.lists_.size() - 2);
        });
}

void DocumentTokens::Reading::read_document() {
    std::vector<uint32_t>& list_of = made_.list_of_;
    list_of.assign(index_.size() + 1, kNone);
    const std::vector<uint16_t> common = index_.common_symbols();
    // Suffixes are sorted: those that go on alike follow each other, apart from those inside of runs of white space.
    struct Last {
        uint32_t list = kNone, looked = 0, common = 0;  // the symbols that all suffixes since have in common with it
    };
    Last last[2];
    for (uint32_t rank = 0; rank < index_.suffixes().size(); ++rank) {
        for (Last& one : last) one.common = std::min<uint32_t>(one.common, common[rank]);
        const uint32_t start = index_.suffixes()[rank];
        Last& before = last[index_.inside_space(start)];
        if (before.list == kNone || before.common < before.looked) {
            before.list = read_from(start);
            before.looked = looked_;
        }
        before.common = UINT32_MAX;
        list_of[start] = before.list;
    }
    made_.first_lists_ = static_cast<uint32_t>(made_.lists_.size() - 1);
    for (uint32_t start = 0; start <= index_.size(); ++start) {
        if (list_of[start] == kNone) list_of[start] = read_from(start);
    }
}

DocumentTokens::DocumentTokens(const SubstringIndex& index, const Trie& trie) : index_(index), trie_(trie) {
    Reading(*this).read_document();
    nodes_.shrink_to_fit();
    for (auto* part : {&lists_, &ends_}) part->shrink_to_fit();
    rank_tokens();
    join_frequent();
}

void DocumentTokens::rank_tokens() {
    Bitmap present;
    uint32_t last = 0;
    const auto for_each_token = [&](auto&& visit) {
        for (uint32_t node = 0; node < nodes_.size(); ++node) {
            for (const uint32_t token : trie_.tokens(nodes_[node].trie_node)) visit(node, token);
        }
    };
    for_each_token([&](uint32_t, uint32_t token) { last = std::max(last, token); });
    present.reset(last);
    for_each_token([&](uint32_t, uint32_t token) { present.set(token); });
    std::vector<uint32_t> below(present.words.size());  // by word: how many tokens are before it
    present.for_each([&](uint32_t token) { tokens_.push_back(token); });
    for (size_t i = 1; i < below.size(); ++i) below[i] = below[i - 1] + std::popcount(present.words[i - 1]);
    for_each_token([&](uint32_t node, uint32_t token) {
        const uint64_t before = present.words[token / 64] & ((uint64_t{1} << (token % 64)) - 1);
        const uint32_t rank = below[token / 64] + std::popcount(before);
        if (nodes_[node].token == kNone) {
            nodes_[node].token = rank;
        } else {
            more_tokens_.emplace_back(node, rank);
        }
    });
}

/// The lists behind all occurrences of the symbols that occur often.
void DocumentTokens::join_frequent() {
    const std::span<const uint32_t> suffixes = index_.suffixes();
    for (size_t begin = 0; begin < suffixes.size();) {
        const auto [symbol, end] = index_.bucket(static_cast<uint32_t>(begin));
        if (end - begin >= kFrequent) {
            marked_.reset(lists_.size());
            for (size_t rank = begin; rank < end; ++rank) marked_.set(list_of_[suffixes[rank] + 1]);
            std::vector<uint32_t>& lists = after_symbol_[symbol];
            marked_.for_each([&](uint32_t list) { lists.push_back(list); });
            lists.shrink_to_fit();
        }
        begin = end;
    }
}

void DocumentTokens::mark_lists(const SubstringIndex::Cursor& cursor) {
    if (cursor.hi && cursor.depth == 0) {  // the empty prefix: a text may begin anywhere
        for (uint32_t list = 0; list < first_lists_; ++list) marked_.set(list);
        return;
    }
    if (const auto known = after_symbol_.find(index_.only_symbol(cursor)); known != after_symbol_.end()) {
        for (const uint32_t list : known->second) marked_.set(list);
        return;
    }
    index_.for_each_position(cursor, [&](uint32_t position) { marked_.set(list_of_[position]); });
}

void DocumentTokens::read_after(std::span<const SubstringIndex::Cursor> cursors) {
    marked_.reset(lists_.size());
    reached_.reset(nodes_.size());
    read_.reset(tokens_.size());
    for (const auto& cursor : cursors) mark_lists(cursor);
    marked_.for_each([&](uint32_t list) {
        for (const uint32_t node : ends(list)) reached_.set(node);
    });
    for (size_t i = reached_.words.size(); i-- > 0;) {  // from the last node on: ancestors come later
        for (uint64_t left = reached_.words[i]; left;) {
            const uint32_t bit = 63 - std::countl_zero(left), at = static_cast<uint32_t>(i * 64) + bit;
            const Node& node = nodes_[at];
            reached_.set(node.parent);
            left = reached_.words[i] & ((uint64_t{1} << bit) - 1);
            if (node.token != kNone) read_.set(node.token);
        }
    }
    for (const auto& [node, token] : more_tokens_) {
        if (reached_[node]) read_.set(token);
    }
}

void DocumentTokens::add_tokens(TokenSet& to) const {
    read_.for_each([&](uint32_t rank) { to.add(tokens_[rank]); });
}

std::span<const std::pair<uint32_t, uint32_t>> DocumentTokens::leaving(uint8_t byte) {
    if (const auto known = leaving_.find(byte); known != leaving_.end()) return known->second;
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
        if (!nodes_[node].open) continue;
        const uint32_t child = trie_.child(nodes_[node].trie_node, byte);
        if (child != Trie::kNone) found.emplace_back(node, child);
    }
    return leaving_.emplace(byte, std::move(found)).first->second;
}

size_t DocumentTokens::bytes() const {
    size_t total = sizeof *this + nodes_.capacity() * sizeof(Node) + 8 * more_tokens_.capacity() +
                   4 * (list_of_.capacity() + lists_.capacity() + ends_.capacity() + tokens_.capacity()) +
                   8 * (marked_.words.capacity() + reached_.words.capacity() + read_.words.capacity());
    for (const auto& [symbol, lists] : after_symbol_) total += sizeof lists + 4 * lists.capacity();
    for (const auto& [byte, nodes] : leaving_) total += sizeof nodes + 8 * nodes.capacity();
    return total;
}

}  // namespace core
