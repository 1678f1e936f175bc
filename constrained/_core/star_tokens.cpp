#include "star_tokens.hpp"

namespace core {

StarTokens::StarTokens(RegexId part, const TokenBytes& tokens, const Trie& trie, const ByteClassTrie& byte_class_trie, RegexStore& regexes,
           const Uniform& uniform, size_t& bytes)
    : tokens_(tokens), trie_(trie), regexes_(regexes), part_(part), bytes_(bytes) {
    const Trie& folded = byte_class_trie.trie();
    std::vector<std::pair<uint32_t, CopyState>> work{{Trie::kRoot, {RegexStore::kEpsilon, 0}}};
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
                if (!between || state.copies == 0) continue;
                for (const uint32_t member : members) add_exit(member, state.copies);
                continue;
            }
            const CopyState next = step(state, static_cast<uint8_t>(possible._Find_first()));
            allow(folded.tokens(child), next);
            if (!folded.leaf(child)) work.emplace_back(child, next);
        }
    }
    tokens_up_to_.resize(begun_.size());
    bytes_ += sizeof(StarTokens);
    for (const auto& ways : exit_nodes_) bytes_ += ways.capacity() * sizeof(ExitNode);
    for (const auto& runs : begun_) bytes_ += runs.capacity() * sizeof(Run);
}

/// As the constructor, on the trie of all tokens, below a byte class that C splits.
void StarTokens::walk_subtree(uint32_t top, const CopyState& start) {
    std::vector<std::pair<uint32_t, CopyState>> work;
    const auto visit = [&](uint32_t node, const CopyState& before) {
        const uint8_t byte = trie_.byte(node);
        if (!first(before)[byte]) {
            if (before.rest == RegexStore::kEpsilon && before.copies > 0) add_exit(node, before.copies);
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
    if (state.rest == RegexStore::kEpsilon) return {regexes_.step(part_, byte), state.copies + 1};
    return {regexes_.step(state.rest, byte), state.copies};
}

void StarTokens::add_exit(uint32_t node, uint32_t copies) {
    exit_nodes_[trie_.byte(node)].push_back({node, copies});
    if (begun_.size() <= copies) begun_.resize(copies + 1);
}

void StarTokens::allow(Run run, const CopyState& state) {
    if (run.empty()) return;
    if (begun_.size() <= state.copies) begun_.resize(state.copies + 1);
    begun_[state.copies].push_back(run);
    all_count_ += run.size();
    max_copy_remaining_ = std::max(max_copy_remaining_, regexes_.min_length(state.rest));
}

const TokenSet& StarTokens::tokens_up_to(uint32_t copies) {
    copies = std::min(copies, max_copies());
    if (tokens_up_to_[copies]) return *tokens_up_to_[copies];
    size_t more = 0;  // tokens with more copies
    for (uint32_t i = copies + 1; i < begun_.size(); ++i) {
        for (const Run run : begun_[i]) more += run.size();
    }
    auto made = std::make_unique<TokenSet>(tokens_.size());
    if (copies < max_copies() && more < all_count_ / 2) {
        *made = all_tokens();
        for (uint32_t i = copies + 1; i < begun_.size(); ++i) {
            for (const Run run : begun_[i]) made->remove(run);
        }
    } else {
        for (uint32_t i = 0; i <= copies; ++i) {
            for (const Run run : begun_[i]) made->add(run);
        }
    }
    made->canonicalize();
    made->shrink();
    bytes_ += made->bytes();
    tokens_up_to_[copies] = std::move(made);
    return *tokens_up_to_[copies];
}

const StarTokens::ExitTokens& StarTokens::exit_tokens(uint8_t byte) {
    if (!exit_tokens_[byte]) {
        std::vector<uint32_t> tokens;
        const auto add = [&](uint32_t node) { tokens.insert(tokens.end(), trie_.subtree_tokens(node).begin(), trie_.subtree_tokens(node).end()); };
        for (const ExitNode& way : exit_nodes_[byte]) add(way.node);
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
