#include "loop.hpp"

namespace core {

Loop::Loop(RegexId part, const TokenBytes& tokens, const Trie& trie, const Quotient& quotient, RegexStore& regexes,
           const Uniform& uniform, size_t& bytes)
    : tokens_(tokens), trie_(trie), regexes_(regexes), part_(part), bytes_(bytes) {
    const Trie& folded = quotient.trie();
    std::vector<std::pair<uint32_t, Place>> work{{Trie::kRoot, {RegexStore::kEmpty, 0}}};
    while (!work.empty()) {
        const auto [node, place] = work.back();
        work.pop_back();
        const bool between = place.rest == RegexStore::kEmpty;
        const ByteSet& whole = uniform(between ? part_ : place.rest);
        for (uint32_t child = folded.children_begin(node); child < folded.children_end(node); ++child) {
            const uint8_t atom = folded.byte(child);
            const auto members = quotient.members(child);
            if (!whole[atom]) {
                for (const uint32_t member : members) walk_below(member, place);
                continue;
            }
            const ByteSet possible = first(place) & quotient.bytes_of(atom);
            if (possible.none()) {
                if (!between || place.copies == 0) continue;
                for (const uint32_t member : members) onward_[trie_.byte(member)].push_back({member, place.copies});
                continue;
            }
            const Place next = step(place, static_cast<uint8_t>(possible._Find_first()));
            allow(folded.tokens(child), next);
            if (!folded.leaf(child)) work.emplace_back(child, next);
        }
    }
    up_to_.resize(begun_.size());
    bytes_ += sizeof(Loop);
    for (const auto& ways : onward_) bytes_ += ways.capacity() * sizeof(Way);
    for (const auto& runs : begun_) bytes_ += runs.capacity() * sizeof(Run);
}

/// As the constructor, on the trie of all tokens.
void Loop::walk_below(uint32_t top, const Place& start) {
    std::vector<std::pair<uint32_t, Place>> work;
    const auto visit = [&](uint32_t node, const Place& before) {
        const uint8_t byte = trie_.byte(node);
        if (!first(before)[byte]) {
            if (before.rest == RegexStore::kEmpty && before.copies > 0) onward_[byte].push_back({node, before.copies});
            return;
        }
        const Place next = step(before, byte);
        allow(trie_.tokens(node), next);
        if (!trie_.leaf(node)) work.emplace_back(node, next);
    };
    visit(top, start);
    while (!work.empty()) {
        const auto [node, place] = work.back();
        work.pop_back();
        for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) visit(child, place);
    }
}

const ByteSet& Loop::first(const Place& place) {
    return regexes_.first(place.rest == RegexStore::kEmpty ? part_ : place.rest);
}

Loop::Place Loop::step(const Place& place, uint8_t byte) {
    if (place.rest == RegexStore::kEmpty) return {regexes_.step(part_, byte), place.copies + 1};
    return {regexes_.step(place.rest, byte), place.copies};
}

void Loop::allow(Run run, const Place& place) {
    if (run.empty()) return;
    if (begun_.size() <= place.copies) begun_.resize(place.copies + 1);
    begun_[place.copies].push_back(run);
    inside_count_ += run.size();
    worst_rest_ = std::max(worst_rest_, regexes_.min_length(place.rest));
}

const TokenSet& Loop::up_to(uint32_t copies) {
    copies = std::min(copies, top());
    if (up_to_[copies]) return *up_to_[copies];
    size_t more = 0;  // tokens that begin more copies
    for (uint32_t i = copies + 1; i < begun_.size(); ++i) {
        for (const Run run : begun_[i]) more += run.size();
    }
    auto made = std::make_unique<TokenSet>(tokens_.size());
    if (copies < top() && more < inside_count_ / 2) {
        *made = inside();
        for (uint32_t i = copies + 1; i < begun_.size(); ++i) {
            for (const Run run : begun_[i]) made->remove(run);
        }
    } else {
        for (uint32_t i = 0; i <= copies; ++i) {
            for (const Run run : begun_[i]) made->add(run);
        }
    }
    made->settle();
    made->shrink();
    bytes_ += made->bytes();
    up_to_[copies] = std::move(made);
    return *up_to_[copies];
}

const Loop::Leaving& Loop::leaving(uint8_t byte) {
    if (!leaving_[byte]) {
        std::vector<uint32_t> tokens;
        const auto add = [&](uint32_t node) { tokens.insert(tokens.end(), trie_.below(node).begin(), trie_.below(node).end()); };
        for (const Way& way : onward_[byte]) add(way.node);
        if (const uint32_t node = trie_.child(Trie::kRoot, byte); node != Trie::kNone) add(node);
        auto made = std::make_unique<Leaving>(Trie::build(tokens_, tokens));
        const Trie& trie = made->trie;
        for (uint32_t node = 0; node < trie.size(); ++node) {
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                made->nodes[child] = trie_.child(made->nodes[node], trie.byte(child));
            }
        }
        bytes_ += sizeof(Leaving) + trie.size() * (sizeof(Trie::Node) + 7) + 4 * tokens.size();
        leaving_[byte] = std::move(made);
    }
    return *leaving_[byte];
}

}  // namespace core
