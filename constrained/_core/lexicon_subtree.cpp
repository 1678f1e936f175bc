// Token lexicon: trie subtrees, for tokens that enter a terminal in their middle and for residuals with few first bytes.
#include "token_lexicon.hpp"

namespace core {

namespace {
constexpr size_t kFewSearched = 16;   // tokens below a node where a literal ends: more are memoised
constexpr size_t kManySearched = 64;  // tokens below a node where a language without some words is read: as those of the language
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
        if (node != top && trie_.subtree_tokens(node).size() > kManySearched && regexes_.without_exclusions(next) != next) {
            const LexiconEntry& below = known_subtree(node, next);
            entry.inner_tokens.add(below.inner_tokens);
            entry.max_remaining = std::max(entry.max_remaining, below.max_remaining);
            entry.boundary_nodes.insert(entry.boundary_nodes.end(), below.boundary_nodes.begin(), below.boundary_nodes.end());
            return;
        }
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
    const RegexId base = regexes_.without_exclusions(residual);
    if (base == residual || !copy_subtree(made, top, residual, base)) search_subtree(made, top, residual);
    made.inner_tokens.canonicalize();
    const size_t size = made.bytes() + 48;
    bytes_ += size;
    subtree_bytes_ += size;
    return subtree_entries_.emplace(key, std::move(made)).first->second;
}

/// Depth of a trie node: nodes are numbered breadth first.
uint32_t TokenLexicon::depth(uint32_t node) {
    if (levels_.empty()) levels_.push_back(Trie::kRoot);
    while (levels_.back() <= node && levels_.back() < trie_.size()) levels_.push_back(trie_.children_begin(levels_.back()));
    return static_cast<uint32_t>(std::upper_bound(levels_.begin(), levels_.end(), node) - levels_.begin() - 1);
}

/// The nodes of a subtree at which texts leave C*: the base reads them, and C* does not. None of them is below another one.
const std::vector<uint32_t>& TokenLexicon::exits_below(uint32_t top, RegexId base, RegexId part) {
    const uint64_t key = uint64_t{top} << 32 | base.value;
    if (const auto known = exits_below_.find(key); known != exits_below_.end()) return known->second;
    struct Pair {
        uint32_t node;
        RegexId base, loop;
    };
    std::vector<Pair> work{{top, base, regexes_.repeat(part, 0, kInfinite)}};
    std::vector<uint32_t> exits;  // not kept before it is whole: a step may be the one too many
    while (!work.empty()) {
        const auto [node, read, loop] = work.back();
        work.pop_back();
        for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
            const RegexId next = regexes_.step(read, trie_.byte(child));
            if (next == RegexStore::kEmptyLanguage) continue;
            const RegexId inside = regexes_.step(loop, trie_.byte(child));
            if (inside == RegexStore::kEmptyLanguage) {
                exits.push_back(child);
            } else if (!trie_.leaf(child)) {
                work.push_back({child, next, inside});
            }
        }
    }
    bytes_ += 4 * exits.capacity() + 48;
    subtree_bytes_ += 4 * exits.capacity() + 48;
    return exits_below_.emplace(key, std::move(exits)).first->second;
}

/// Whether the residual reads the tokens of the subtree as the base does, which is the residual without its exclusions: then a
/// bound on its minimum rest after one of them. Both can be completed after any text of C* and do not end inside of it (see
/// `RegexStore::star_of`), so only the texts that leave C* are read.
std::optional<uint32_t> TokenLexicon::agrees_below(uint32_t top, RegexId residual, RegexId base) {
    const auto star = regexes_.star_of(residual), free = regexes_.star_of(base);
    if (!star || !free || star->part != free->part || star->exit_bytes != free->exit_bytes || !worth_star_tokens(*star)) return std::nullopt;
    uint32_t worst = add_lengths(star_tokens(star->part).max_copy_remaining(), star->rest);
    struct Pair {
        uint32_t node;
        RegexId mine, theirs;
    };
    std::vector<Pair> work;
    const uint32_t begin = depth(top);
    for (const uint32_t exit : exits_below(top, base, star->part)) {
        const auto bytes = tokens_[trie_.subtree_tokens(exit)[0]].subspan(begin);
        RegexId mine = residual, theirs = base;
        for (const uint8_t byte : bytes.first(depth(exit) - begin)) mine = regexes_.step(mine, byte), theirs = regexes_.step(theirs, byte);
        work.push_back({exit, mine, theirs});
        while (!work.empty()) {
            const auto [node, next, other] = work.back();
            work.pop_back();
            regexes_.work().spend(1);
            if (next == other) continue;
            if (next == RegexStore::kEmptyLanguage || regexes_.nullable(next) != regexes_.nullable(other)) return std::nullopt;
            worst = std::max(worst, regexes_.min_length(next));
            for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
                const RegexId after = regexes_.step(other, trie_.byte(child));
                if (after != RegexStore::kEmptyLanguage) work.push_back({child, regexes_.step(next, trie_.byte(child)), after});
            }
        }
    }
    return worst;
}

/// Copies the entry of the base if the words that the residual excludes make no difference in the subtree.
bool TokenLexicon::copy_subtree(LexiconEntry& entry, uint32_t top, RegexId residual, RegexId base) {
    struct Pair {
        uint32_t node;
        RegexId mine, theirs;
    };
    if (regexes_.nullable(residual) != regexes_.nullable(base)) return false;
    if (const auto bound = agrees_below(top, residual, base)) {
        entry = known_subtree(top, base);
        entry.max_remaining = std::max(entry.max_remaining, *bound);
        return true;
    }
    uint32_t worst = regexes_.min_length(residual);
    std::vector<Pair> work{{top, residual, base}};
    while (!work.empty()) {
        const auto [node, mine, theirs] = work.back();
        work.pop_back();
        for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
            const RegexId next = regexes_.step(mine, trie_.byte(child)), other = regexes_.step(theirs, trie_.byte(child));
            if (next == other) continue;
            if (next == RegexStore::kEmptyLanguage || regexes_.nullable(next) != regexes_.nullable(other)) return false;
            worst = std::max(worst, regexes_.min_length(next));
            if (!trie_.leaf(child)) work.push_back({child, next, other});
        }
    }
    entry = known_subtree(top, base);
    entry.max_remaining = std::max(entry.max_remaining, worst);
    return true;
}

}  // namespace core
