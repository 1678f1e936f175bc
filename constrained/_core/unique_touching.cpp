// The tokens that may pass a mark: what `UniqueAutomaton` takes from no mask of the inner automaton.
//
// A token touches a mark if some way to read its first bytes passes one; it is then read in every way. They are found in the
// tokens with a separator alone, and whether an item is equal, or a key that must differ, is left out of account. No mark is
// passed inside a terminal: where an item first touches one is found behind its terminal, for each lexicon entry and
// continuation.
#include <algorithm>

#include "unique_automaton.hpp"

namespace core {

const UniqueAutomaton::Touching& UniqueAutomaton::touching(uint32_t inner_state) {
    if (const auto known = touching_.tokens.find(inner_state); known != touching_.tokens.end()) return known->second;
    const Trie& trie = mark_tables_.separators;
    std::vector<Place> places;
    for (uint32_t i = 0; i < inner_->state_of(inner_state).items_count; ++i) {
        const Item item = inner_->items(inner_state)[i];
        const std::vector<Place>& some = first_touches(trie, item);
        places.insert(places.end(), some.begin(), some.end());
    }
    std::ranges::sort(places);
    const auto same = std::ranges::unique(places);
    places.erase(same.begin(), same.end());
    Touching found;
    std::vector<std::pair<uint32_t, uint32_t>> work;  // (trie node, state after it)
    for (const auto& [node, depth] : places) {
        uint32_t state = inner_state;
        for (const uint8_t byte : shard_->tokens[trie.subtree_tokens(node)[0]].first(depth)) state = inner_->byte_next(state, byte);
        work.emplace_back(node, state);
    }
    while (!work.empty()) {
        const auto [node, state] = work.back();
        work.pop_back();
        if (state == kDead) continue;
        found.insert(found.end(), trie.tokens(node).begin(), trie.tokens(node).end());
        for (const uint32_t after : past_marks(trie.byte(node), state)) {
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                const uint8_t byte = trie.byte(child);
                if (!is_mark(byte) && inner_->first(after)[byte]) work.emplace_back(child, inner_->byte_next(after, byte));
            }
        }
    }
    std::ranges::sort(found);
    const auto once = std::ranges::unique(found);
    found.erase(once.begin(), once.end());
    touching_bytes_ += 64 + 4 * found.capacity();
    return touching_.tokens.emplace(inner_state, std::move(found)).first->second;
}

/// The nodes of the separators' trie at which the item touches a mark first.
const std::vector<UniqueAutomaton::Place>& UniqueAutomaton::first_touches(const Trie& trie, const Item& item) {
    const auto [entry, key, extra] = shard_->lexicon.at(item.residual);
    const ContinuationId after = inner_->gss_.tracks_distinct(item.after) ? inner_->gss_.assume_distinct(item.after) : item.after;
    const uint64_t name = uint64_t{key.value} << 32 | after.value;
    if (const auto known = touching_.places.find(name); known != touching_.places.end()) return known->second;
    struct Step {
        uint32_t node, depth, before;  // a node that is read in a state
    };
    std::vector<Step> work;
    const uint32_t rest = inner_->closure(after);
    if (past_marks(',', rest).size() > 1) {  // tokens that end with the terminal touch one, too
        std::vector<Item> alone{{item.residual, after}};
        const uint32_t state = inner_->intern(alone, false);
        for (uint32_t child = trie.children_begin(Trie::kRoot); child < trie.children_end(Trie::kRoot); ++child) work.push_back({child, 1, state});
    } else {
        for (const LexiconEntry::BoundaryGroup& group : entry.boundary_groups) {
            if (!inner_->first(rest)[group.byte]) continue;
            for (const uint32_t node : entry.children(group)) {
                const uint32_t depth = inner_->depth(node);
                uint32_t at = Trie::kRoot;
                for (const uint8_t read : shard_->tokens[shard_->trie.subtree_tokens(node)[0]].first(depth)) {
                    if ((at = trie.child(at, read)) == Trie::kNone) break;
                }
                if (at != Trie::kNone) work.push_back({at, depth, rest});
            }
        }
    }
    std::vector<Place> places;
    while (!work.empty()) {
        const Step at = work.back();
        work.pop_back();
        const uint8_t byte = trie.byte(at.node);
        if (is_mark(byte) || !inner_->first(at.before)[byte]) continue;
        const uint32_t state = inner_->byte_next(at.before, byte);
        if (past_marks(byte, state).size() > 1) {
            places.emplace_back(at.node, at.depth);
            continue;
        }
        for (uint32_t child = trie.children_begin(at.node); child < trie.children_end(at.node); ++child) work.push_back({child, at.depth + 1, state});
    }
    touching_bytes_ += 64 + sizeof(Place) * places.capacity();
    return touching_.places.emplace(name, std::move(places)).first->second;
}

/// The state itself and those after the marks that can follow there, if the byte before it separates.
std::vector<uint32_t> UniqueAutomaton::past_marks(uint8_t byte, uint32_t inner_state) {
    std::vector<uint32_t> states{inner_state};
    for (size_t i = 0; separates(byte) && i < states.size(); ++i) {
        for (const Mark mark : kMarks) {
            const auto read = static_cast<uint8_t>(mark);
            if (inner_->first(states[i])[read]) states.push_back(inner_->byte_next(states[i], read));
        }
    }
    return states;
}

}  // namespace core
