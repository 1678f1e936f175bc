// Boundary tokens that end the head of an entry: how they go on inside the body of the entry.
//
// After each entry an interleave is in another state, so what follows a head is never the same continuation twice. But most
// boundary tokens end inside the body, whatever follows it. What they do there is computed once for each body and each
// set of trie nodes where a head may end; only tokens that leave the body, too, are followed into the interleave.
#include "automaton.hpp"

namespace core {

/// None: the item is not the head of an entry, or the tokens that leave the body may depend on the bytes of the head.
/// Valid until a memo is forgotten or lexicon entries are evicted, at the start of the next call.
std::optional<Automaton::Crossing> Automaton::crossing(const Item& item, const LexiconEntry& left, RegexId key) {
    if (left.boundary_nodes.empty()) return std::nullopt;
    const std::optional<ExprId> body = gss_.entered_body(item.after);
    if (!body) return std::nullopt;
    const bool tracked = gss_.tracks_distinct(item.after);
    const uint32_t least = tracked ? gss_.min_bytes_until_equal(item.after) : kInfinite, inside = exprs_.min_length(*body);
    if (least == 0) return std::nullopt;
    const uint64_t name = uint64_t{key.value} << 32 | body->value;
    auto known = crossings_.find(name);
    if (known == crossings_.end()) {
        LexiconEntry made = shard_->lexicon.empty_entry();
        const ContinuationId alone = gss_.push(*body, Gss::kEnd);
        shard_->crossing_row.clear();
        follow({item.residual, alone}, left, nullptr, shard_->crossing_row, made.max_remaining, &made.boundary_nodes);
        shard_->crossing_row.write(made.inner_tokens);
        std::ranges::sort(made.boundary_nodes);
        const auto same = std::ranges::unique(made.boundary_nodes);
        made.boundary_nodes.erase(same.begin(), same.end());
        shard_->lexicon.finish(made);
        crossings_bytes_ += made.bytes() + 48;
        known = crossings_.emplace(name, std::move(made)).first;
    }
    const LexiconEntry& entry = known->second;
    const ContinuationId after = tracked ? gss_.assume_distinct(item.after) : item.after;
    if (tracked && !entry.boundary_nodes.empty()) {
        const ByteSet& possible = first(closure(gss_.after_body(after)));
        for (const LexiconEntry::BoundaryGroup& group : entry.boundary_groups) {
            if (possible[group.byte] && std::ranges::any_of(entry.children(group), [&](uint32_t node) { return may_equal(node, least - inside); })) return std::nullopt;
        }
    }
    const uint32_t whole = gss_.min_length(after);
    return Crossing{entry, *body, after, tracked || whole >= kLongest ? kInfinite : whole - inside};
}

}  // namespace core
