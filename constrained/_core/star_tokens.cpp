#include "star_tokens.hpp"

namespace core {

StarTokens::StarTokens(RegexId part, const TokenBytes& tokens, const Trie& trie, const ByteClassTrie& byte_class_trie, RegexStore& regexes,
           const Uniform& uniform, size_t& bytes)
    : tokens_(tokens), trie_(trie), regexes_(regexes), part_(part), all_(tokens.size()), bytes_(bytes) {
    const Trie& folded = byte_class_trie.trie();
    std::vector<std::pair<uint32_t, CopyState>> work{{Trie::kRoot, {RegexStore::kEpsilon, false}}};
    while (!work.empty()) {
        const auto [node, state] = work.back();
        work.pop_back();
        const bool between = state.rest == RegexStore::kEpsilon;
        const ByteSet& whole = uniform(between ? part_ : state.rest);
        for (uint32_t child = folded.children_begin(node); child < folded.children_end(node); ++child) {
            const uint8_t byte_class = folded.byte(child);
            const auto members = byte_class_trie.members(child);
            if (!whole[byte_class]) {
                for (const uint32_t member : members) walk_subtree(member, state);
                continue;
            }
            const ByteSet possible = first(state) & ByteClasses::instance().bytes_of(byte_class);
            if (possible.none()) {
                if (!between || !state.begun) continue;
                for (const uint32_t member : members) add_exit(member);
                continue;
            }
            const CopyState next = step(state, static_cast<uint8_t>(possible._Find_first()));
            allow(folded.tokens(child), next);
            if (!folded.leaf(child)) work.emplace_back(child, next);
        }
    }
    all_.canonicalize();
    all_.shrink();
    bytes_ += sizeof(StarTokens) + all_.bytes();
    for (const auto& nodes : exit_nodes_) bytes_ += nodes.capacity() * sizeof(uint32_t);
}

/// As the constructor, on the trie of all tokens, below a byte class that C splits.
void StarTokens::walk_subtree(uint32_t top, const CopyState& start) {
    std::vector<std::pair<uint32_t, CopyState>> work;
    const auto visit = [&](uint32_t node, const CopyState& before) {
        const uint8_t byte = trie_.byte(node);
        if (!first(before)[byte]) {
            if (before.rest == RegexStore::kEpsilon && before.begun) add_exit(node);
            return;
        }
        const CopyState next = step(before, byte);
        allow(trie_.tokens(node), next);
        if (!trie_.leaf(node)) work.emplace_back(node, next);
    };
    visit(top, start);
    while (!work.empty()) {
        const auto [node, state] = work.back();
        work.pop_back();
        for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) visit(child, state);
    }
}

const ByteSet& StarTokens::first(const CopyState& state) {
    return regexes_.first(state.rest == RegexStore::kEpsilon ? part_ : state.rest);
}

StarTokens::CopyState StarTokens::step(const CopyState& state, uint8_t byte) {
    return {regexes_.step(state.rest == RegexStore::kEpsilon ? part_ : state.rest, byte), true};
}

void StarTokens::allow(Run run, const CopyState& state) {
    if (run.empty()) return;
    all_.add(run);
    max_copy_remaining_ = std::max(max_copy_remaining_, regexes_.min_length(state.rest));
}

const StarTokens::ExitTokens& StarTokens::exit_tokens(uint8_t byte) {
    if (!exit_tokens_[byte]) {
        std::vector<uint32_t> tokens;
        const auto add = [&](uint32_t node) { tokens.insert(tokens.end(), trie_.subtree_tokens(node).begin(), trie_.subtree_tokens(node).end()); };
        for (const uint32_t node : exit_nodes_[byte]) add(node);
        if (const uint32_t node = trie_.child(Trie::kRoot, byte); node != Trie::kNone) add(node);
        auto made = std::make_unique<ExitTokens>(Trie::build(tokens_, tokens));
        const Trie& trie = made->trie;
        for (uint32_t node = 0; node < trie.size(); ++node) {
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                made->nodes[child] = trie_.child(made->nodes[node], trie.byte(child));
            }
        }
        bytes_ += sizeof(ExitTokens) + trie.size() * (sizeof(Trie::Node) + 7) + 4 * tokens.size();
        exit_tokens_[byte] = std::move(made);
    }
    return *exit_tokens_[byte];
}

}  // namespace core
