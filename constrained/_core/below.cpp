// Tokens that come to a terminal in their middle, and residuals that are looked up in the trie byte by byte.
#include "lexicon.hpp"

namespace core {

/// Goes down from `node` along the text that all of the residual begins with, the first `read` bytes of which were read
/// before. Returns the node where the text ends, or `Trie::kNone`.
uint32_t Lexicon::spell_below(LexEntry& entry, uint32_t node, RegexId residual, size_t read) {
    const uint32_t length = regexes_.min_length(residual);
    const std::span<const uint8_t> text = regexes_.spelled(residual)->text;
    for (; read < text.size(); ++read) {
        if (read > 0) {
            if (const auto tokens = trie_.tokens(node); !tokens.empty()) {
                entry.within.add(tokens);
                entry.worst_length = std::max(entry.worst_length, length - static_cast<uint32_t>(read));
            }
        }
        if ((node = trie_.child(node, text[read])) == Trie::kNone) break;
    }
    return node;
}

/// Adds the tokens that end at `top`, where the residual is what is left, or below it; and the exits there.
void Lexicon::search_below(LexEntry& entry, uint32_t top, RegexId residual) {
    std::vector<std::pair<uint32_t, RegexId>> work;
    const auto visit = [&](uint32_t node, RegexId next) {
        if (const auto tokens = trie_.tokens(node); !tokens.empty()) {
            entry.within.add(tokens);
            entry.worst_length = std::max(entry.worst_length, regexes_.min_length(next));
        }
        if (trie_.leaf(node)) return;
        if (node != Trie::kRoot && regexes_.nullable(next)) entry.exits.push_back(node);
        if (next != RegexStore::kEmpty) work.emplace_back(node, next);
    };
    visit(top, residual);
    while (!work.empty()) {
        const auto [node, state] = work.back();
        work.pop_back();
        if (const auto spelled = regexes_.spelled(state)) {
            const uint32_t end = spell_below(entry, node, state, 0);
            if (end != Trie::kNone) visit(end, spelled->tail);
            continue;
        }
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

void Lexicon::below(RegexId residual, uint32_t node, LexEntry& into) {
    if (const auto spelled = regexes_.spelled(residual)) {  // no residual in between is worth an id
        const uint32_t end = spell_below(into, node, residual, 1);
        if (end != Trie::kNone) search_below(into, end, spelled->tail);
        return;
    }
    const RegexId next = regexes_.step(residual, trie_.byte(node));
    if (trie_.leaf(node) || regexes_.spelled(next)) return search_below(into, node, next);
    const LexEntry& known = known_below(node, next);
    into.within.add(known.within);
    into.worst_length = std::max(into.worst_length, known.worst_length);
    into.exits.insert(into.exits.end(), known.exits.begin(), known.exits.end());
}

/// As `search_below`, once for each node and residual.
const LexEntry& Lexicon::known_below(uint32_t top, RegexId residual) {
    const uint64_t key = uint64_t{top} << 32 | residual.value;
    if (const auto at = below_.find(key); at != below_.end()) return at->second;
    LexEntry made = nothing();
    const RegexId base = regexes_.base(residual);
    if (base == residual || !copy_below(made, top, residual, base)) search_below(made, top, residual);
    made.within.settle();
    const size_t size = made.bytes() + 48;
    bytes_ += size;
    below_bytes_ += size;
    return below_.emplace(key, std::move(made)).first->second;
}

/// Takes what is known of the base, if the words that the residual excludes make no difference here.
bool Lexicon::copy_below(LexEntry& entry, uint32_t top, RegexId residual, RegexId base) {
    struct Pair {
        uint32_t node;
        RegexId mine, theirs;
    };
    if (regexes_.nullable(residual) != regexes_.nullable(base)) return false;
    uint32_t worst = regexes_.min_length(residual);
    std::vector<Pair> work{{top, residual, base}};
    while (!work.empty()) {
        const auto [node, mine, theirs] = work.back();
        work.pop_back();
        for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
            const RegexId next = regexes_.step(mine, trie_.byte(child)), other = regexes_.step(theirs, trie_.byte(child));
            if (next == other) continue;
            if (next == RegexStore::kNothing || regexes_.nullable(next) != regexes_.nullable(other)) return false;
            worst = std::max(worst, regexes_.min_length(next));
            if (!trie_.leaf(child)) work.push_back({child, next, other});
        }
    }
    entry = known_below(top, base);
    entry.worst_length = std::max(entry.worst_length, worst);
    return true;
}

}  // namespace core
