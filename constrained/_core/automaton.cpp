#include "automaton.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace core {

Automaton::Automaton(std::shared_ptr<Lane> lane, const FlatGrammar& grammar, uint32_t fuel, size_t limit)
    : BaseAutomaton(std::move(lane)),
      limit_(limit),
      values_(vocabulary_->regexes),
      below_(vocabulary_->lexicon.nothing()) {
    const std::lock_guard guard(vocabulary_->lock);
    states_.push();  // kDead
    states_.push();  // kFinished
    push_fixed_states();
    exprs_.set_values(&values_);
    read_grammar(grammar, vocabulary_->regexes, exprs_, fuel);
    if (left_recursive() != UINT32_MAX || exprs_.rule_length(grammar.start) == kInfinite) return;
    start_ = closure(stacks_.push(exprs_.call(grammar.start), StackStore::kEnd));
}

// ---------------------------------------------------------------- states

uint32_t Automaton::intern(std::vector<Item>& items, bool accepts) {
    if (items.empty() && !accepts) return kDead;
    merge_items(items);
    if (exprs_.keeps()) {  // what was read may leave too few values for what must follow
        std::erase_if(items, [&](const Item& item) { return length_of(item) == kInfinite; });
        if (items.empty() && !accepts) return kDead;
    }
    uint64_t hash = accepts;
    for (const Item& item : items) hash = combine(combine(hash, item.residual.value), item.after.value);
    return index_.find_or_make(
        hash,
        [&](uint32_t id) {
            const auto held = this->items(states_[id]);
            return heads_[id].accepts == accepts && std::equal(held.begin(), held.end(), items.begin(), items.end());
        },
        [&] {
            const uint32_t id = states_.push();
            State& state = states_[id];
            state.items_at = static_cast<uint32_t>(items_.size());
            state.items_count = static_cast<uint32_t>(items.size());
            Head& head = heads_[heads_.push()];
            head.accepts = accepts;
            head.length = accepts ? 0 : kInfinite;
            for (const Item& item : items) head.length = std::min(head.length, length_of(item));
            items_.insert(items_.end(), items.begin(), items.end());
            count_.store(id + 1, std::memory_order_release);
            return id;
        });
}

/// Bytes of the shortest text, its terminal being the first of the shortest if more depends on that.
uint32_t Automaton::length_of(const Item& item) {
    const uint32_t rest = stacks_.keeps(item.after) ? stacks_.length_behind(item.after, item.residual) : stacks_.min_length(item.after);
    return add_lengths(vocabulary_->regexes.min_length(item.residual), rest);
}

/// The state in which everything that `after` may begin with is awaited. Rules are entered in the order of their ranks,
/// each once for all its callers: a rule called from many places, or many times in a row, costs no more than its body.
uint32_t Automaton::closure(ContId after) {
    if (stacks_.closure(after) != kUnset) return stacks_.closure(after);
    std::vector<Item> items;
    const bool accepts = collect_first(after, [&](uint32_t symbol, ContId rest) { items.push_back({{symbol}, rest}); });
    return stacks_.closure(after) = intern(items, accepts);
}

uint32_t Automaton::byte_next(uint32_t state, uint8_t byte) {
    const uint64_t key = (uint64_t{state} << 8 | byte) + 1;
    if (const uint32_t known = bytes_.find(key); known != Memo::kMissing) return known;
    std::vector<Item>& next = next_;
    next.clear();
    bool accepts = false;
    for (uint32_t i = 0; i < states_[state].items_count; ++i) {
        const Item item = items_[states_[state].items_at + i];
        const RegexId residual = vocabulary_->regexes.step(item.residual, byte);
        if (residual == RegexStore::kNothing) continue;
        const ContId after = stacks_.keeps(item.after) ? stacks_.read(item.after, byte) : item.after;
        if (residual != RegexStore::kEmpty) next.push_back({residual, after});
        if (vocabulary_->regexes.nullable(residual)) {
            const uint32_t rest = closure(after);
            accepts |= heads_[rest].accepts;
            const auto held = items(states_[rest]);
            next.insert(next.end(), held.begin(), held.end());
        }
    }
    const uint32_t result = intern(next, accepts);
    bytes_.insert(key, result);
    return result;
}

const ByteSet& Automaton::first(uint32_t id) {
    State& state = states_[id];
    if (!state.has_first) {
        for (const Item& item : items(state)) state.first |= vocabulary_->regexes.first(item.residual);
        state.has_first = true;
    }
    return state.first;
}

// ---------------------------------------------------------------- masks

void Automaton::compute_row(uint32_t id) {
    // The row depends on what stands for the residuals and on what follows them: a counter that ticks, or a step
    // inside a string, changes the state and not the row.
    std::vector<uint32_t> parts{heads_[id].accepts};
    uint32_t worst = 0;
    for (uint32_t i = 0; i < states_[id].items_count; ++i) {
        const Item item = items_[states_[id].items_at + i];
        const auto [entry, key, extra] = vocabulary_->lexicon.at(item.residual);
        ContId after = item.after;
        if (stacks_.keeps(after)) {
            worst = kInfinite;
            if (!entry.exits.empty() && all_alike(entry, after)) after = stacks_.forgetful(after);
        }
        worst = std::max(worst, add_lengths(add_lengths(entry.worst_length, extra), stacks_.min_length(after)));
        parts.push_back(key.value);
        parts.push_back(entry.exits.empty() ? 0 : after.value);
    }
    forget_dropped_rows();
    const uint32_t made = row_index_.find_or_make(
        hash_words(parts, 0), [&](uint32_t other) { return made_rows_[other].parts == parts; },
        [&] {
            made_rows_.push_back(make_row(id, std::move(parts)));
            made_bytes_ += sizeof(MadeRow) + 4 * made_rows_.back().parts.capacity();
            return static_cast<uint32_t>(made_rows_.size() - 1);
        });
    publish_row(id, made_rows_[made].row, std::max(worst, made_rows_[made].worst_length));
}

Automaton::MadeRow Automaton::make_row(uint32_t id, std::vector<uint32_t> parts) {
    TokenSet& tokens = scratch_;
    tokens.clear();
    uint32_t worst = 0;
    for (uint32_t i = 0; i < states_[id].items_count; ++i) {
        const Item item = items_[states_[id].items_at + i];
        const LexEntry& entry = vocabulary_->lexicon.at(item.residual).entry;
        tokens.add(entry.within);
        if (entry.loop) tokens.add(*entry.loop);
        if (entry.exits.empty()) continue;
        if (stacks_.keeps(item.after)) {
            walk_exits(item, entry, tokens, worst);
            continue;
        }
        const uint32_t rest = closure(item.after);
        follow(rest, entry, tokens, worst);
    }
    if (heads_[id].accepts) add_eos(tokens);
    return {std::move(parts), vocabulary_->rows.intern(tokens), worst};
}

/// Depth of a trie node: nodes are numbered level by level.
uint32_t Automaton::depth(uint32_t node) {
    const Trie& trie = vocabulary_->trie;
    if (levels_.empty()) levels_.push_back(Trie::kRoot);
    while (levels_.back() <= node && levels_.back() < trie.size()) levels_.push_back(trie.children_begin(levels_.back()));
    return static_cast<uint32_t>(std::upper_bound(levels_.begin(), levels_.end(), node) - levels_.begin() - 1);
}

/// Whether a token that goes on with this trie node, its first behind a terminal, may come to a head that equals the
/// terminal, which takes so many bytes. Otherwise it does not matter what was read of the terminal.
bool Automaton::may_equal(uint32_t node, uint32_t least) {
    return vocabulary_->trie.longest_below(node) - depth(node) + 1 >= least;
}

/// Whether what was read of a terminal matters to none of the tokens that leave it.
bool Automaton::all_alike(const LexEntry& entry, ContId after) {
    const uint32_t least = stacks_.least_until_equal(after), rest = closure(stacks_.forgetful(after));
    for (const auto& [byte, nodes] : entry.onward) {
        if (!first(rest)[byte]) continue;
        for (const uint32_t node : nodes) {
            if (may_equal(node, least)) return false;
        }
    }
    return true;
}

/// The same as in `make_row` where what was read of the terminal matters to what follows: it is told apart by the exit.
void Automaton::walk_exits(const Item& item, const LexEntry& entry, TokenSet& tokens, uint32_t& worst) {
    const Trie& trie = vocabulary_->trie;
    const uint32_t least = stacks_.least_until_equal(item.after);
    const uint32_t any = closure(stacks_.forgetful(item.after));
    for (const auto& [byte, nodes] : entry.onward) {
        if (!first(any)[byte]) continue;
        for (const uint32_t node : nodes) {
            uint32_t rest = any;
            if (may_equal(node, least)) {
                ContId after = item.after;
                const auto bytes = vocabulary_->tokens[trie.below(node)[0]];
                for (const uint8_t read : bytes.first(depth(node) - 1)) after = stacks_.read(after, read);
                if (may_equal(node, stacks_.least_until_equal(after))) rest = closure(after);
            }
            if (first(rest)[byte]) walk(byte_next(rest, byte), node, tokens, worst);
        }
    }
    worst = kInfinite;
}

/// Adds the tokens that end at `node`, read up to there, or below it.
void Automaton::walk(uint32_t state, uint32_t node, TokenSet& tokens, uint32_t& worst) {
    const Trie& trie = vocabulary_->trie;
    std::vector<std::pair<uint32_t, uint32_t>>& work = walk_work_;
    work.assign(1, {node, state});
    while (!work.empty()) {
        const auto [at, reached] = work.back();
        work.pop_back();
        if (const auto here = trie.tokens(at); !here.empty()) {
            tokens.add(here);
            worst = std::max(worst, heads_[reached].length);
        }
        if (trie.leaf(at)) continue;
        const ByteSet& possible = first(reached);
        for (uint32_t child = trie.children_begin(at); child < trie.children_end(at); ++child) {
            if (possible[trie.byte(child)]) work.emplace_back(child, byte_next(reached, trie.byte(child)));
        }
    }
}

/// Adds the tokens that leave a terminal and go on in the state that follows it. A state of few items is stepped byte by byte:
/// its successors are shared by the tokens. The successors of a state of many, such as the keys of an object, are as
/// large and hardly met again: there each item's terminal is read on its own, and what is learned of it is shared.
void Automaton::follow(uint32_t state, const LexEntry& left, TokenSet& tokens, uint32_t& worst) {
    const Trie& trie = vocabulary_->trie;
    std::vector<std::pair<uint32_t, uint32_t>>& work = follow_work_;  // (trie node whose byte comes next, state before it)
    work.clear();  // of a call that was not finished
    std::set<std::pair<uint32_t, uint32_t>> seen;  // of those met where a terminal of many ended
    const auto go_on = [&](uint32_t node, uint32_t before, bool once) {
        const ByteSet& possible = first(before);
        for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
            if (possible[trie.byte(child)] && (!once || seen.emplace(child, before).second)) work.emplace_back(child, before);
        }
    };
    for (const auto& [byte, nodes] : left.onward) {
        if (!first(state)[byte]) continue;
        for (const uint32_t node : nodes) work.emplace_back(node, state);
    }
    while (!work.empty()) {
        const auto [node, before] = work.back();
        work.pop_back();
        if (states_[before].items_count <= kFewItems) {
            const uint32_t reached = byte_next(before, trie.byte(node));
            if (const auto here = trie.tokens(node); !here.empty()) {
                tokens.add(here);
                worst = std::max(worst, heads_[reached].length);
            }
            if (!trie.leaf(node)) go_on(node, reached, false);
            continue;
        }
        for (uint32_t i = 0; i < states_[before].items_count; ++i) {
            const Item item = items_[states_[before].items_at + i];
            if (!vocabulary_->regexes.first(item.residual)[trie.byte(node)]) continue;
            if (stacks_.keeps(item.after)) {  // what is read of it matters afterwards
                std::vector<Item> alone{item};
                work.emplace_back(node, intern(alone, false));
                continue;
            }
            below_.within.clear();
            below_.exits.clear();
            below_.worst_length = 0;
            vocabulary_->lexicon.below(item.residual, node, below_);
            tokens.add(below_.within);
            worst = std::max(worst, add_lengths(below_.worst_length, stacks_.min_length(item.after)));
            if (trie.leaf(node)) break;  // all of them would say the same
            for (const uint32_t exit : below_.exits) go_on(exit, closure(item.after), true);
        }
    }
}

/// Tokens that stay inside a terminal and surely leave enough of a budget, as bits.
const TokenSet* Automaton::within_budget(uint32_t state, uint32_t budget) {
    TokenSet& tokens = scratch_;
    tokens.clear();
    tokens.make_dense();
    for (uint32_t i = 0; i < states_[state].items_count; ++i) {
        const Item item = items_[states_[state].items_at + i];
        const auto [entry, key, extra] = vocabulary_->lexicon.at(item.residual);
        const uint32_t inside = add_lengths(entry.worst_length, extra);
        if (add_lengths(inside, stacks_.min_length(item.after)) >= budget) continue;  // not even the least does
        if (stacks_.keeps(item.after) && add_lengths(inside, stacks_.bound_behind(item.after)) >= budget) continue;
        tokens.add(entry.within);
        if (entry.loop) tokens.add(*entry.loop);
    }
    return &tokens;
}

// ---------------------------------------------------------------- completions

/// Any prefix of the canonical completion leads to a state whose canonical completion is the rest of it. So taking
/// the first of its tokens always lowers the count by one, which is what steering towards the end needs. The states on
/// the way learn their counts too: a long text is spelled once, not once a step.
uint32_t Automaton::completion(uint32_t id) {
    const uint32_t known = heads_[id].completion.load(std::memory_order_relaxed);
    if (known != kUnset) return known;
    const uint32_t length = heads_[id].length;
    if (length > kLongText) {
        heads_[id].completion.store(length, std::memory_order_release);
    } else {
        std::vector<uint8_t> text;
        std::vector<uint32_t> way{id};
        for (uint32_t at = id; heads_[at].length > 0; way.push_back(at)) {
            const ByteSet possible = first(at);
            uint32_t next = kDead;
            size_t byte = possible._Find_first();
            for (; byte < possible.size(); byte = possible._Find_next(byte)) {
                next = byte_next(at, static_cast<uint8_t>(byte));
                if (heads_[next].length < heads_[at].length) break;  // by one, where lengths are exact
            }
            if (byte == possible.size()) {  // a length that was only a bound, see RegexStore::search
                heads_[id].completion.store(length, std::memory_order_release);
                return length;
            }
            text.push_back(static_cast<uint8_t>(byte));
            at = next;
        }
        const std::vector<uint32_t> fewest = vocabulary_->trie.fewest_tokens(text);
        for (size_t i = 0; i < way.size(); ++i) heads_[way[i]].completion.store(fewest[i], std::memory_order_release);
    }
    return heads_[id].completion.load(std::memory_order_relaxed);
}

}  // namespace core
