#include "automaton.hpp"

#include <algorithm>

namespace core {

Automaton::Automaton(std::shared_ptr<Shard> shard, const FlatGrammar& grammar, uint32_t fuel, size_t limit)
    : BaseAutomaton(std::move(shard), limit),
      values_(shard_->regexes) {
    const std::lock_guard guard(shard_->lock);
    const Work::Counted counted(shard_->work, kReadingWork, "reading its rules");
    needs_trial_ = contents_stay_ = false;
    lengths_are_least_ = true;
    states_.push();  // kDead
    states_.push();  // kFinished
    push_fixed_states();
    exprs_.set_values(&values_);
    read_grammar(grammar, shard_->regexes, exprs_, fuel);
    left_recursive_ = exprs_.left_recursive();
    if (left_recursive_ != UINT32_MAX || exprs_.rule_length(grammar.start) == kInfinite) return;
    start_ = closure(gss_.push(exprs_.call(grammar.start), Gss::kEnd));
    heads_[start_].published = true;
    needs_trial_ = looks_costly(grammar);
    collect_above_ = std::max(limit_ - limit_ / 4, 2 * content_bytes());
}

bool Automaton::looks_costly(const FlatGrammar& grammar) const {
    if (heads_[start_].length > kLongCompletion || exprs_.demanding()) return true;
    return std::ranges::any_of(grammar.nodes, [&](const FlatNode& node) {
        if (node.op != Op::Terminal) return false;
        const RegexId terminal = grammar.terminals[node.a];
        const RegexStore& regexes = shard_->regexes;
        return regexes.width(terminal) > kManyParts || regexes.parts(terminal) > kManyShared || regexes.may_blow_up(terminal) || regexes.counts_copies(terminal, kManyParts);
    });
}

// ---------------------------------------------------------------- states

uint32_t Automaton::intern(std::vector<Item>& items, bool accepts) {
    if (items.empty() && !accepts) return kDead;
    merge_items(items);
    if (exprs_.tracks_distinct()) {  // the values used so far may leave too few distinct ones
        std::erase_if(items, [&](const Item& item) { return length_of(item) == kInfinite; });
        if (items.empty() && !accepts) return kDead;
    }
    return index_.find_or_insert(
        hash_of(items, accepts), [&](uint32_t id) { return has_content(id, items, accepts); },
        [&] {
            uint32_t length = accepts ? 0 : kInfinite;
            for (const Item& item : items) length = std::min(length, length_of(item));  // may throw: there is no state yet
            const uint32_t id = new_id();
            Head& head = heads_[id];
            head.accepts = accepts;
            head.length = length;
            store_content(id, items);
            count_.store(heads_.size(), std::memory_order_release);
            return id;
        });
}

uint64_t Automaton::hash_of(std::span<const Item> items, bool accepts) {
    uint64_t hash = accepts;
    for (const Item& item : items) hash = combine(combine(hash, item.residual.value), item.after.value);
    return hash;
}

bool Automaton::has_content(uint32_t id, std::span<const Item> items, bool accepts) const {
    return heads_[id].accepts == accepts && std::ranges::equal(this->items(id), items);
}

void Automaton::store_content(uint32_t id, std::span<const Item> items) {
    const uint32_t content = states_.push();
    State& state = states_[content];
    state.items_at = static_cast<uint32_t>(items_.size());
    state.items_count = static_cast<uint32_t>(items.size());
    state.tracks_distinct = std::ranges::any_of(items, [&](const Item& item) { return gss_.tracks_distinct(item.after); });
    items_.insert(items_.end(), items.begin(), items.end());
    heads_[id].content = content;
}

/// Minimum length of an item; if the continuation depends on the terminal, the terminal is its first shortest text.
uint32_t Automaton::length_of(const Item& item) {
    const uint32_t rest = gss_.tracks_distinct(item.after) ? gss_.min_length_after(item.after, item.residual) : gss_.min_length(item.after);
    return add_lengths(shard_->regexes.min_length(item.residual), rest);
}

/// The state that reads `after`. A rule costs no more than its body, however many callers it has.
uint32_t Automaton::closure(ContinuationId after) {
    if (gss_.closure(after) != kUnset) return gss_.closure(after);
    std::vector<Item>& items = closure_items_;
    items.clear();
    const bool accepts = collect_first(after, [&](uint32_t symbol, ContinuationId rest) { items.push_back({{symbol}, rest}); });
    return gss_.closure(after) = intern(items, accepts);
}

uint32_t Automaton::byte_next(uint32_t state, uint8_t byte) {
    const uint64_t key = (uint64_t{state} << 8 | byte) + 1;
    if (const uint32_t known = bytes_.find(key); known != Memo::kMissing) return known;
    shard_->work.spend(4 + state_of(state).items_count);
    std::vector<Item>& next = next_;
    next.clear();
    for (uint32_t i = 0; i < state_of(state).items_count; ++i) {
        const Item item = items(state)[i];
        const RegexId residual = shard_->regexes.step(item.residual, byte);
        if (residual == RegexStore::kEmptyLanguage) continue;
        next.push_back({residual, gss_.tracks_distinct(item.after) ? gss_.read(item.after, byte) : item.after});
    }
    const uint32_t result = intern_read(next);
    bytes_.insert(key, result);
    return result;
}

/// The state of items of which a byte was just read: what follows those that may end here belongs to it.
uint32_t Automaton::intern_read(std::vector<Item>& next) {
    bool accepts = false;
    const size_t read = next.size();
    for (size_t i = 0; i < read; ++i) {
        if (!shard_->regexes.nullable(next[i].residual)) continue;
        const uint32_t rest = closure(next[i].after);
        accepts |= heads_[rest].accepts;
        const auto held = items(rest);
        next.insert(next.end(), held.begin(), held.end());
    }
    shard_->work.spend((next.size() - read) / kItemsInStep);
    std::erase_if(next, [](const Item& item) { return item.residual == RegexStore::kEpsilon; });
    return intern(next, accepts);
}

/// As long as no terminal may end, the terminals are read one by one: the states between the bytes of a token, which other
/// texts hardly visit, are not made.
uint32_t Automaton::bytes_next(uint32_t state, std::span<const uint8_t> bytes) {
    for (size_t at = 0; at < bytes.size() && state != kDead;) {
        const uint32_t known = bytes_.find((uint64_t{state} << 8 | bytes[at]) + 1);
        if (known != Memo::kMissing || at + 1 == bytes.size() || state_of(state).tracks_distinct) {
            state = known != Memo::kMissing ? known : byte_next(state, bytes[at]);
            ++at;
            continue;
        }
        const auto held = items(state);
        std::vector<Item>& next = next_;
        std::span<const uint8_t> part = bytes.subspan(at);
        next.clear();
        for (size_t i = 0; i < held.size(); ++i) {
            const auto [rest, count] = shard_->regexes.read(held[i].residual, part);
            if (count < part.size()) {  // this terminal may end earlier: all are read up to there
                part = part.first(count);
                next.clear();
                i = SIZE_MAX;
            } else if (rest != RegexStore::kEmptyLanguage) {
                next.push_back({rest, held[i].after});
            }
        }
        shard_->work.spend((4 + held.size()) * part.size());
        at += part.size();
        state = intern_read(next);
    }
    return state;
}

const ByteSet& Automaton::first(uint32_t id) {
    State& state = state_of(id);
    if (!state.has_first) {
        for (const Item& item : items(id)) state.first |= shard_->regexes.first(item.residual);
        state.has_first = true;
    }
    return state.first;
}

// ---------------------------------------------------------------- masks

void Automaton::compute_mask(uint32_t id) {
    // The mask depends on the representatives of the residuals and on the continuations: a counter step, or a byte inside
    // a string, changes the state but not the mask.
    std::vector<uint32_t>& parts = parts_;
    parts.assign(1, heads_[id].accepts);
    uint32_t worst = 0;
    for (uint32_t i = 0; i < state_of(id).items_count; ++i) {
        const Item item = items(id)[i];
        const auto [entry, key, extra] = shard_->lexicon.at(item.residual);
        const uint32_t inside = add_lengths(entry.max_remaining, extra);
        parts.push_back(key.value);
        if (const auto across = crossing(item, entry, key)) {
            worst = std::max({worst, add_lengths(inside, gss_.min_length(across->after)), add_lengths(across->entry.max_remaining, across->rest)});
            parts.push_back(across->entry.boundary_nodes.empty() ? kCrossing | across->body.value : across->after.value);
            continue;
        }
        ContinuationId after = item.after;
        if (gss_.tracks_distinct(after)) {
            worst = kInfinite;
            if (!entry.boundary_nodes.empty() && distinct_head_irrelevant(entry, after)) after = gss_.assume_distinct(after);
        }
        worst = std::max(worst, add_lengths(inside, gss_.min_length(after)));
        parts.push_back(entry.boundary_nodes.empty() ? 0 : after.value);
    }
    forget_dropped_masks();
    const uint32_t made = cached_mask_index_.find_or_insert(
        hash_words(parts, 0),
        [&](uint32_t other) {
            const CachedMask& known = cached_masks_[other];
            return std::ranges::equal(std::span(mask_parts_).subspan(known.parts_at, known.parts_count), parts);
        },
        [&] {
            const auto [mask, max_remaining] = build_mask(id);
            cached_masks_.push_back({static_cast<uint32_t>(mask_parts_.size()), static_cast<uint32_t>(parts.size()), mask, max_remaining});
            mask_parts_.insert(mask_parts_.end(), parts.begin(), parts.end());
            return static_cast<uint32_t>(cached_masks_.size() - 1);
        });
    publish_mask(id, cached_masks_[made].mask, std::max(worst, cached_masks_[made].max_remaining));
}

/// The mask, and the most bytes that a boundary token may leave to the end.
std::pair<uint32_t, uint32_t> Automaton::build_mask(uint32_t id) {
    RowBuilder& row = shard_->row;
    row.clear();
    uint32_t worst = 0;
    for (uint32_t i = 0; i < state_of(id).items_count; ++i) {
        const Item item = items(id)[i];
        const auto [entry, key, extra] = shard_->lexicon.at(item.residual);
        row.add(entry.inner_tokens);
        if (entry.star_tokens) row.add(*entry.star_tokens);
        if (entry.boundary_nodes.empty()) continue;
        if (const auto across = crossing(item, entry, key)) {
            row.add(across->entry.inner_tokens);
            if (!across->entry.boundary_nodes.empty()) follow({item.residual, gss_.after_body(across->after)}, across->entry, nullptr, row, worst, nullptr);
        } else {
            follow(item, entry, shard_->lexicon.boundary_trie(key), row, worst, nullptr);
        }
    }
    if (heads_[id].accepts) row.add(shard_->eos);
    return {shard_->masks.intern(row), worst};
}

/// Depth of a trie node: nodes are numbered breadth first.
uint32_t Automaton::depth(uint32_t node) {
    const Trie& trie = shard_->trie;
    if (levels_.empty()) levels_.push_back(Trie::kRoot);
    while (levels_.back() <= node && levels_.back() < trie.size()) levels_.push_back(trie.children_begin(levels_.back()));
    return static_cast<uint32_t>(std::upper_bound(levels_.begin(), levels_.end(), node) - levels_.begin() - 1);
}

/// Whether a token that continues with this trie node after a terminal may reach a head equal to the terminal, which needs
/// at least `least` bytes. Otherwise the bytes of the terminal do not matter.
bool Automaton::may_equal(uint32_t node, uint32_t least) {
    return shard_->trie.longest_in_subtree(node) - depth(node) + 1 >= least;
}

/// Whether the bytes of the terminal matter to none of the boundary tokens.
bool Automaton::distinct_head_irrelevant(const LexiconEntry& entry, ContinuationId after) {
    const uint32_t least = gss_.min_bytes_until_equal(after), rest = closure(gss_.assume_distinct(after));
    for (const LexiconEntry::BoundaryGroup& group : entry.boundary_groups) {
        if (!first(rest)[group.byte]) continue;
        for (const uint32_t node : entry.children(group)) {
            if (may_equal(node, least)) return false;
        }
    }
    return true;
}

/// How tokens go on behind the terminal of an item.
Automaton::Behind Automaton::behind(const Item& item) {
    if (!gss_.tracks_distinct(item.after)) return {item.after, closure(item.after), kInfinite};
    return {item.after, closure(gss_.assume_distinct(item.after)), gss_.min_bytes_until_equal(item.after)};
}

/// The state in which tokens read this trie node, if they enter the terminal at depth `begin` and leave it before the node.
uint32_t Automaton::state_before(const Behind& behind, uint32_t node, uint32_t begin) {
    if (!may_equal(node, behind.least)) return behind.state;
    ContinuationId after = behind.after;
    const auto bytes = shard_->tokens[shard_->trie.subtree_tokens(node)[0]];
    for (const uint8_t byte : bytes.subspan(begin, depth(node) - 1 - begin)) after = gss_.read(after, byte);
    return may_equal(node, gss_.min_bytes_until_equal(after)) ? closure(after) : behind.state;
}

/// Adds the boundary tokens of an item. Where few tokens follow, a state with few items is stepped byte by byte:
/// the tokens share its successors. The successors of a state with many items, such as the keys of an object, are as large and
/// rarely reused; many tokens, such as those that enter a string, are known to the lexicon from other schemas; and where
/// bytes matter later, each has a state of its own: there the terminal of each item is read alone, and its lexicon
/// entries are shared. `together`: of the entry, or null. `ends`, if not null: trie nodes with children where the text may end.
void Automaton::follow(const Item& left, const LexiconEntry& entry, const BoundaryTrie* together, RowBuilder& row, uint32_t& worst,
                       std::vector<uint32_t>* ends) {
    const Trie& trie = shard_->trie;
    std::vector<std::pair<uint32_t, uint32_t>>& work = follow_work_;  // (trie node to read, state before it)
    work.clear();  // a previous call may have thrown
    PlaceSet& seen = follow_seen_;  // of boundaries inside states with many items
    seen.clear();
    const Behind behind = this->behind(left);
    if (behind.least != kInfinite) worst = kInfinite;
    if (together && behind.least == kInfinite) {
        follow_together(behind.state, *together, row, worst, ends);
    } else {
        for (const LexiconEntry::BoundaryGroup& group : entry.boundary_groups) {
            if (!first(behind.state)[group.byte]) continue;
            for (const uint32_t node : entry.children(group)) {
                const uint32_t state = state_before(behind, node, 0);
                if (first(state)[group.byte]) work.emplace_back(node, state);
            }
        }
    }
    while (!work.empty()) {
        const auto [node, before] = work.back();
        work.pop_back();
        shard_->work.spend(1);
        const State& content = state_of(before);
        if (content.items_count <= kFewItems && !content.tracks_distinct && trie.subtree_tokens(node).size() <= kFewBelow) {
            const uint32_t reached = byte_next(before, trie.byte(node));
            if (const auto here = trie.tokens(node); !here.empty()) {
                row.add(here);
                worst = std::max(worst, heads_[reached].length);
            }
            if (trie.leaf(node)) continue;
            if (ends && heads_[reached].accepts) ends->push_back(node);
            const ByteSet& possible = first(reached);
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                if (possible[trie.byte(child)]) work.emplace_back(child, reached);
            }
            continue;
        }
        for (uint32_t i = 0; i < state_of(before).items_count; ++i) {
            const Item item = items(before)[i];
            if (!shard_->regexes.first(item.residual)[trie.byte(node)]) continue;
            shard_->work.spend(2);
            exits_.clear();
            const uint32_t remaining = shard_->lexicon.classify_subtree(item.residual, node, row, exits_);
            worst = gss_.tracks_distinct(item.after) ? kInfinite : std::max(worst, add_lengths(remaining, gss_.min_length(item.after)));
            if (exits_.empty()) {
                if (trie.leaf(node)) break;  // every item would add the same token
                continue;
            }
            const Behind rest = this->behind(item);
            for (const uint32_t exit : exits_) {
                if (ends && heads_[rest.state].accepts) ends->push_back(exit);
                for (uint32_t child = trie.children_begin(exit); child < trie.children_end(exit); ++child) {
                    const uint8_t byte = trie.byte(child);
                    if (!first(rest.state)[byte]) continue;
                    const uint32_t state = state_before(rest, child, depth(node) - 1);
                    if (first(state)[byte] && seen.insert(child, state)) work.emplace_back(child, state);
                }
            }
        }
    }
}

/// Reads what follows the terminal once for all tokens that go on alike. What stays apart, and what a state with many items
/// reads, is left in `follow_work_`.
void Automaton::follow_together(uint32_t state, const BoundaryTrie& boundary, RowBuilder& row, uint32_t& worst, std::vector<uint32_t>* ends) {
    std::vector<std::pair<uint32_t, uint32_t>>& work = together_work_;  // (node of which the children are read, state after it)
    work.assign(1, {BoundaryTrie::kRoot, state});
    while (!work.empty()) {
        const auto [node, before] = work.back();
        work.pop_back();
        const ByteSet& possible = first(before);
        const State& content = state_of(before);
        const bool few = content.items_count <= kFewItems && !content.tracks_distinct;
        for (uint32_t child = boundary.children_begin(node); child < boundary.children_end(node); ++child) {
            if (!possible[boundary.byte(child)]) continue;
            if (!few) {
                for (const uint32_t origin : boundary.origins(child)) follow_work_.emplace_back(origin, before);
                continue;
            }
            shard_->work.spend(1);
            const uint32_t reached = byte_next(before, boundary.byte(child));
            if (const auto here = boundary.tokens(child); !here.empty()) {
                row.add(here);
                worst = std::max(worst, heads_[reached].length);
            }
            if (boundary.children_begin(child) == boundary.children_end(child)) continue;
            if (ends && heads_[reached].accepts) {
                for (const uint32_t origin : boundary.origins(child)) {
                    if (!shard_->trie.leaf(origin)) ends->push_back(origin);
                }
            }
            work.emplace_back(child, reached);
        }
    }
    for (const auto& [byte, node] : boundary.apart()) {
        if (first(state)[byte]) follow_work_.emplace_back(node, state);
    }
}

}  // namespace core
