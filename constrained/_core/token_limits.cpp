// Token limits: how many tokens complete a text, and masks of the tokens after which a budget suffices.
//
// Where few texts can follow (`few_texts_follow`), the count is the minimum over all of them. It would cost too much to find
// elsewhere: there the count is that of the canonical completion up to the first state where few texts follow, an upper
// bound. Both depend on the state alone. Where an automaton was asked to (`count_thoroughly`), what "few" means is much more.
// The *canonical completion* of a state is one with the fewest bytes. Every state on its path has the rest of it as its own
// canonical completion, so the first token of its shortest spelling always lowers the count by one: where a budget suffices,
// some token leads to a state where the budget without it suffices.
// Work
//  * A canonical completion costs a state for each byte until it meets one that is known.
//  * A mask within a budget walks the trie once, and only to the tokens that bounds in bytes leave open. Tokens that lead
//    to the same state share its count; states that differ by a head that cannot matter are replaced by one
//    (`equivalent_state`).
//  * The completions that a mask spells cost fuel (`step_cost`). Where it runs out, tokens whose counts are not known
//    are left out; the tokens of the state's own canonical completion stay, so there is no dead end.
#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include "automaton.hpp"
#include "predecessors.hpp"

namespace core {

namespace {

constexpr size_t kFewPlaces = 16;  // at most so small a share of the trie's nodes is reached path by path

/// How many of ascending numbers are below a bound. Most often they are few.
size_t count_below(std::span<const uint32_t> numbers, uint32_t bound) {
    size_t sure = 0, step = 1;  // so many are below
    for (; step <= numbers.size() && numbers[step - 1] < bound; step *= 2) sure = step;
    const auto rest = numbers.subspan(sure, std::min(step, numbers.size()) - sure);
    return sure + (std::ranges::lower_bound(rest, bound) - rest.begin());
}

/// The states after those that were read last, by byte; `kUnknown` where none was asked for. Each state has one place.
class StatesAfter {
public:
    static constexpr uint32_t kUnknown = UINT32_MAX;

    uint32_t& of(uint32_t state, uint8_t byte) {
        Row& row = rows_[state % kRows];
        if (row.state != state) {
            row.state = state;
            row.next.fill(kUnknown);
        }
        return row.next[byte];
    }

private:
    static constexpr size_t kRows = 64;
    struct Row {
        uint32_t state = UINT32_MAX;
        std::array<uint32_t, 256> next;
    };
    std::vector<Row> rows_ = std::vector<Row>(kRows);
};

}  // namespace

// ---------------------------------------------------------------- completions

uint32_t BaseAutomaton::shortest_completion(uint32_t state) {
    const uint32_t known = heads_[state].completion.load(std::memory_order_acquire);
    if (known != kUnset) return known;
    const Call call(*this, state);
    return completion(state);
}

bool BaseAutomaton::counts_exactly(uint32_t state) {
    const Call call(*this, state);
    completion(state);
    return few_texts_follow(state);
}

bool BaseAutomaton::count_thoroughly(uint32_t state) {
    const Call call(*this, state);
    completion(state);
    if (few_texts_follow(state)) return true;
    thorough_ = true;
    heads_[state].rest = Rest::Unknown;
    return thorough_ = few_texts_follow(state);
}

/// The next state of the canonical completion; kDead if it is too long to spell, or the length is only a bound.
uint32_t BaseAutomaton::nearer(uint32_t state) {
    if (heads_[state].nearer == kUnset) {
        const auto [byte, next] = step_nearer(state);
        heads_[state].nearer_byte = byte;
        heads_[state].nearer = standing(next);
    }
    return heads_[state].nearer;
}

/// Whether all texts after a state take few bytes and few trie nodes to spell. Then so do those after any state that
/// follows, because what follows it is a part: a count that is exact at one token is exact at all later ones. Sets the exact
/// counts of these states.
bool BaseAutomaton::few_texts_follow(uint32_t id) {
    if (heads_[id].rest == Rest::Unknown) {
        bool few = false;
        try {
            few = count_exactly(id);
        } catch (const TooMuchWork&) {
            throw;
        } catch (const TooLarge&) {  // a text that nobody asked for
        }
        heads_[id].rest = few ? Rest::Few : Rest::Many;
    }
    return heads_[id].rest == Rest::Few;
}

bool BaseAutomaton::count_exactly(uint32_t id) {
    const Trie& trie = shard_->trie;
    const CountingBounds most = thorough_ ? kThorough : kFewTexts;
    constexpr uint32_t kNone = UINT32_MAX, kChildrenInStep = 32;  // most lead nowhere
    std::vector<uint32_t> states{id};
    std::vector<std::array<uint32_t, 256>> after;  // numbers of the states after each byte
    std::unordered_map<uint32_t, uint32_t> number{{id, 0}};
    size_t bytes = 0;
    for (size_t i = 0; i < states.size(); ++i) {
        const uint32_t at = states[i];
        // What had too many texts for few may not for a thorough count.
        if (heads_[at].rest == Rest::Many && !thorough_) return false;
        if (reads_heads(at) || heads_[at].length > longest_spelled()) return false;
        const uint32_t cost = counting_cost(at);
        if (cost == kInfinite) return false;
        const ByteSet possible = first_bytes(at);
        bytes += possible.count() * cost;
        if (i >= most.states || possible.count() > most.first_bytes || bytes > most.bytes) return false;
        after.emplace_back().fill(kNone);
        for (size_t byte = possible._Find_first(); byte < 256; byte = possible._Find_next(byte)) {
            const uint32_t next = byte_next(at, static_cast<uint8_t>(byte));
            shard_->work.spend(1);
            const auto [known, fresh] = number.try_emplace(next, static_cast<uint32_t>(states.size()));
            if (fresh) states.push_back(next);
            after[i][byte] = known->second;
        }
    }
    std::vector<std::pair<uint32_t, uint32_t>> moves;  // a token leads to the first number from the second
    std::vector<std::pair<uint32_t, uint32_t>> work;   // (trie node, number)
    std::vector<uint32_t> moved_from(states.size(), kNone);  // the last number from which a token led to each
    size_t nodes = 0;
    for (uint32_t from = 0; from < states.size(); ++from) {
        work.assign(1, {Trie::kRoot, from});
        while (!work.empty()) {
            const auto [node, at] = work.back();
            work.pop_back();
            shard_->work.spend((trie.children_end(node) - trie.children_begin(node)) / kChildrenInStep);
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                const uint32_t next = after[at][trie.byte(child)];
                if (next == kNone) continue;
                if (++nodes > most.nodes) return false;
                shard_->work.spend(1);
                if (!trie.tokens(child).empty() && std::exchange(moved_from[next], from) != from) moves.emplace_back(next, from);
                if (!trie.leaf(child)) work.emplace_back(child, next);
            }
        }
    }
    const Predecessors before(moves, states.size());
    std::vector<uint32_t> fewest(states.size(), kInfinite), reached;  // breadth first, from the ends
    for (uint32_t i = 0; i < states.size(); ++i) {
        if (heads_[states[i]].accepts) fewest[i] = 0, reached.push_back(i);
    }
    for (size_t i = 0; i < reached.size(); ++i) {
        for (const uint32_t from : before.of(reached[i])) {
            if (fewest[from] != kInfinite) continue;
            fewest[from] = fewest[reached[i]] + 1;
            reached.push_back(from);
        }
    }
    for (uint32_t i = 0; i < states.size(); ++i) {
        heads_[states[i]].rest = Rest::Few;
        heads_[states[i]].completion.store(fewest[i], std::memory_order_release);
    }
    return true;
}

/// Sets the exact counts of the states on a canonical completion after which few texts follow: the last ones.
void BaseAutomaton::count_exactly_on(std::span<const uint32_t> way) {
    if (way.empty() || !few_texts_follow(way.back())) return;
    std::ranges::partition_point(way, [&](uint32_t state) { return !few_texts_follow(state); });
}

/// Minimum number of tokens that spell the canonical completion.
uint32_t BaseAutomaton::completion(uint32_t id) {
    if (const uint32_t known = heads_[id].completion.load(std::memory_order_relaxed); known != kUnset) return known;
    if (const uint32_t same = standing(id); same != id) {
        const uint32_t count = completion(same);
        heads_[id].completion.store(count, std::memory_order_release);
        return count;
    }
    const Trie& trie = shard_->trie;
    std::vector<uint8_t> text;
    std::vector<uint32_t> way{id};
    bool spelled = heads_[id].length <= longest_spelled();
    size_t fresh = 0;  // states on the way without a count
    for (uint32_t at = id; spelled && heads_[at].length > 0; way.push_back(at)) {
        if (heads_[at].completion.load(std::memory_order_relaxed) == kUnset) {
            fresh = way.size();
        } else if (way.size() - fresh > trie.longest()) {
            break;  // no token reaches further
        }
        const uint32_t next = nearer(at);
        spelled = next != kDead;
        text.push_back(heads_[at].nearer_byte);
        at = next;
    }
    if (!spelled) {  // too long, or the length is only a bound: one token for each byte
        heads_[id].nearer = kDead;
        heads_[id].completion.store(heads_[id].length, std::memory_order_release);
        return heads_[id].length;
    }
    const bool many = fresh < way.size() && heads_[way[fresh]].rest == Rest::Many;
    if (!many) count_exactly_on(std::span(way).first(fresh));
    for (size_t i = 0; i < fresh && heads_[way[i]].rest != Rest::Few; ++i) heads_[way[i]].rest = Rest::Many;
    std::vector<uint32_t> fewest(way.size(), kInfinite);
    for (size_t i = way.size(); i-- > 0;) {
        fewest[i] = heads_[way[i]].length == 0 ? 0 : heads_[way[i]].completion.load(std::memory_order_relaxed);
        if (fewest[i] != kUnset) continue;
        fewest[i] = kInfinite;
        shard_->work.spend(1);
        uint32_t node = Trie::kRoot;
        for (size_t j = i; j < text.size() && (node = trie.child(node, text[j])) != Trie::kNone; ++j) {
            if (!trie.tokens(node).empty()) fewest[i] = std::min(fewest[i], add_lengths(fewest[j + 1], 1));
        }
        heads_[way[i]].completion.store(fewest[i], std::memory_order_release);
    }
    return fewest[0];
}

/// The byte that lowers the length, the lowest of them.
std::pair<uint8_t, uint32_t> Automaton::step_nearer(uint32_t id) {
    const ByteSet possible = first(id);
    constexpr size_t kTestedInStep = 8;
    size_t tested = 0;
    shard_->work.spend(state_of(id).items_count / kItemsInStep);
    for (size_t byte = possible._Find_first(); byte < possible.size(); byte = possible._Find_next(byte)) {
        if (++tested % kTestedInStep == 0) shard_->work.spend(state_of(id).items_count);
        if (!may_be_nearer(id, static_cast<uint8_t>(byte))) continue;
        const uint32_t next = equivalent_next(id, static_cast<uint8_t>(byte), 0);
        if (heads_[next].length < heads_[id].length) return {static_cast<uint8_t>(byte), next};  // exactly one less unless the length is a bound
    }
    return {0, kDead};  // the length was only a bound, see RegexStore::search
}

/// Whether the lower bounds of the items let a byte lower the length: most bytes need no state of their own to tell.
bool Automaton::may_be_nearer(uint32_t id, uint8_t byte) {
    for (uint32_t i = 0; i < state_of(id).items_count; ++i) {
        const Item item = items(id)[i];
        if (add_lengths(shard_->regexes.min_length(shard_->regexes.step(item.residual, byte)), gss_.min_length(item.after)) < heads_[id].length) return true;
    }
    return false;
}

// ---------------------------------------------------------------- masks within a budget

void BaseAutomaton::fill_mask_within(uint32_t state, uint32_t budget, uint32_t* out) {
    fill_mask(state, out);
    if (!limit_may_exclude(state, budget)) return;
    const Call call(*this, state);
    fuel_left_ = kMaskFuel;
    const uint32_t words = shard_->masks.words();
    std::vector<uint32_t> open(out, out + words);  // allowed without a budget, and not known to fit
    std::fill(out, out + words, 0);
    const auto move = [&](uint32_t token) {
        const uint32_t bit = open[token / 32] & 1u << (token % 32);
        out[token / 32] |= bit;
        open[token / 32] ^= bit;
    };
    for (const uint32_t token : shard_->eos) move(token);
    if (budget == 0) return;
    if (const TokenSet* sure = within_budget(state, budget)) {
        for (uint32_t i = 0; i < words; ++i) {
            out[i] |= open[i] & sure->bits()[i];
            open[i] &= ~sure->bits()[i];
        }
    }
    size_t count = 0;
    for (const uint32_t word : open) count += std::popcount(word);
    if (count == 0) return;
    add_canonical_tokens(state, budget, out);
    if (count <= kFewTokens && !reads_many_heads(state)) {
        for (uint32_t i = 0; i < words; ++i) {
            for (uint32_t word = open[i]; word; word &= word - 1) {
                const uint32_t token = i * 32 + std::countr_zero(word);
                if (completes_within(token_next(state, token), budget - 1)) out[i] |= 1u << (token % 32);
            }
        }
        return;
    }
    std::vector<uint32_t> places;  // of these tokens in the order of the trie
    places.reserve(count);
    const std::span<const uint32_t> order = shard_->trie.in_order();
    for (uint32_t place = 0; place < order.size(); ++place) {
        const uint32_t token = order[place];
        if (open[token / 32] >> (token % 32) & 1) places.push_back(place);
    }
    keep_within(state, budget, places, out);
}

/// Adds the tokens on the canonical completion if the budget suffices after them. It is spelled whatever it costs, and what
/// it costs is not left for others, see `affordable`.
void BaseAutomaton::add_canonical_tokens(uint32_t state, uint32_t budget, uint32_t* out) {
    const Trie& trie = shard_->trie;
    ++masks_within_;
    state = standing(state);
    spelled_by_.resize(std::max<size_t>(spelled_by_.size(), heads_.size()));
    if (completion(state) > budget) return;
    if (heads_[state].rest == Rest::Few) fuel_left_ = UINT32_MAX;  // all counts are known
    spelled_by_.resize(heads_.size());
    uint32_t node = Trie::kRoot, spelled = 0;
    const auto add = [&](uint8_t byte, auto&& left) {
        if (node != Trie::kNone) node = trie.child(node, byte);
        if (node == Trie::kNone || left() >= budget) return;
        for (const uint32_t token : trie.tokens(node)) out[token / 32] |= 1u << (token % 32);
    };
    for (uint32_t at = state; heads_[at].length > 0;) {
        spelled_by_[at] = masks_within_;
        if (fuel_left_ != UINT32_MAX) fuel_left_ -= std::min(fuel_left_, step_cost(at, heads_[state].length));
        if (++spelled % kSpelledInStep == 0) shard_->work.spend(1);
        const uint8_t byte = heads_[at].nearer_byte;
        at = heads_[at].nearer;
        if (at == kUnset || at == kDead) return;
        add(byte, [&] { return completion(at); });
    }
}

bool BaseAutomaton::completes_within(uint32_t state, uint32_t budget) {
    const uint32_t length = heads_[state].length;
    if (length <= budget) return true;
    if (lengths_are_least_ && length > uint64_t{budget} * shard_->trie.longest()) return false;
    return affordable(state) && completion(state) <= budget;
}

/// Whether the fuel of the current mask suffices to spell the canonical completion. Every byte costs the same in every
/// call, whether or not an earlier one has spelled it, so a mask does not depend on what was asked before.
bool BaseAutomaton::affordable(uint32_t state) {
    const uint32_t length = heads_[state].length;
    if (length > longest_spelled()) return true;  // it is not spelled
    for (uint32_t at = state; at != kDead && heads_[at].length > 0; at = nearer(at)) {
        if (spelled_by_.size() <= at) spelled_by_.resize(heads_.size());
        if (std::exchange(spelled_by_[at], masks_within_) == masks_within_) break;
        const uint32_t cost = step_cost(at, length);
        if (fuel_left_ < cost) {
            fuel_left_ = 0;
            return false;
        }
        fuel_left_ -= cost;
    }
    return fuel_left_ > 0;
}

void BaseAutomaton::keep_within(uint32_t state, uint32_t budget, std::span<const uint32_t> places, uint32_t* out) {
    if (places.size() > shard_->trie.size() / kFewPlaces && keep_many_within(state, budget, places, out)) return;
    const Trie& trie = shard_->trie;
    std::vector<std::pair<uint32_t, uint32_t>> exits;  // (place, node) where a head of the state may end
    if (reads_heads(state)) {
        for (const uint32_t node : head_exits(state)) exits.emplace_back(trie.ranges(node).begin, node);
        std::ranges::sort(exits);
    }
    /// Bytes of a token that may follow a head, below a node.
    const auto reach = [&](const PlacesBelow& visit) {
        if (visit.past_exit) return trie.longest_in_subtree(visit.node) - visit.depth;
        uint32_t most = 0;
        auto exit = std::ranges::lower_bound(exits, std::pair{trie.ranges(visit.node).begin, 0u});
        for (; exit != exits.end() && exit->first < trie.ranges(visit.node).end; ++exit) {
            most = std::max(most, trie.longest_in_subtree(exit->second) - visit.depth);
        }
        return most;
    };
    StatesAfter after;  // most nodes are read from few states: those inside a string
    const auto next_of = [&](uint32_t from, uint8_t byte) {
        uint32_t& known = after.of(from, byte);
        if (known == StatesAfter::kUnknown) known = byte_next(from, byte);
        return known;
    };
    PlacesBelow root{Trie::kRoot, state, 0, false, places};
    if (reads_heads(state)) root.state = equivalent_state(state, reach(root));
    std::vector<PlacesBelow> work{root};
    while (!work.empty()) {
        const PlacesBelow at = work.back();
        work.pop_back();
        std::span<const uint32_t> left = at.places;
        const bool reads = reads_heads(at.state);
        for (uint32_t child = trie.children_begin(at.node); !left.empty(); ++child) {
            const auto& [unused, begin, own_end, end] = trie.ranges(child);
            shard_->work.spend(1);
            if (left.front() >= end) continue;
            const auto inside = left.first(count_below(left, end));
            left = left.subspan(inside.size());
            PlacesBelow next{child, at.state, at.depth + 1, at.past_exit, inside};
            if (reads) {  // before and after the byte: a state whose heads matter is read once for each head
                next.past_exit |= std::ranges::binary_search(exits, std::pair{begin, child});
                next.state = equivalent_state(at.state, reach(next) + 1);
            }
            if (reads && reads_heads(next.state)) {
                next.state = equivalent_next(next.state, trie.byte(child), reach(next));
            } else {
                next.state = next_of(next.state, trie.byte(child));
                if (reads_heads(next.state)) next.state = equivalent_state(next.state, reach(next));
            }
            if (inside.front() < own_end) {
                const auto here = inside.first(count_below(inside, own_end));
                if (completes_within(next.state, budget - 1)) {
                    for (const uint32_t place : here) {
                        const uint32_t token = trie.in_order()[place];
                        out[token / 32] |= 1u << (token % 32);
                    }
                }
                next.places = inside.subspan(here.size());
            }
            if (!next.places.empty()) work.push_back(next);
        }
    }
}

/// `keep_within` for many places, level by level, so memory is read in ascending order: in free text the places are most of the
/// vocabulary. False if it meets a state that reads heads.
bool BaseAutomaton::keep_many_within(uint32_t state, uint32_t budget, std::span<const uint32_t> places, uint32_t* out) {
    const Trie& trie = shard_->trie;
    if (reads_heads(state)) return false;
    std::vector<uint32_t> before(trie.in_order().size() + 1, 0);  // how many of the places precede each place
    for (const uint32_t place : places) before[place + 1] = 1;
    std::partial_sum(before.begin(), before.end(), before.begin());
    std::vector<uint32_t> states(trie.size(), kDead);  // by node; only of nodes with places below their children
    states[Trie::kRoot] = state;
    StatesAfter after;
    uint32_t asked = kDead;  // the state asked about last: most often the next one too
    bool fits = false;
    constexpr uint32_t kChildrenInStep = 4;  // memory is read in order
    uint32_t looked_at = 0;
    for (uint32_t node = 0; node < trie.size(); ++node) {
        const uint32_t from = states[node];
        if (from == kDead) continue;
        for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
            const auto& [unused, begin, own_end, end] = trie.ranges(child);
            if (++looked_at % kChildrenInStep == 0) shard_->work.spend(1);
            if (before[begin] == before[end]) continue;
            uint32_t& next = after.of(from, trie.byte(child));
            if (next == StatesAfter::kUnknown) {
                next = byte_next(from, trie.byte(child));
                if (reads_heads(next)) return false;
            }
            if (before[own_end] < before[end]) states[child] = next;
            if (before[begin] == before[own_end]) continue;
            if (next != asked) asked = next, fits = completes_within(next, budget - 1);
            if (!fits) continue;
            for (uint32_t place = begin; place < own_end; ++place) {
                if (before[place] == before[place + 1]) continue;
                const uint32_t token = trie.in_order()[place];
                out[token / 32] |= 1u << (token % 32);
            }
        }
    }
    return true;
}

/// Inner tokens after which the budget surely suffices, as bits.
const TokenSet* Automaton::within_budget(uint32_t state, uint32_t budget) {
    TokenSet& tokens = scratch_;
    tokens.clear();
    tokens.make_dense();
    for (uint32_t i = 0; i < state_of(state).items_count; ++i) {
        const Item item = items(state)[i];
        const auto [entry, key, extra] = shard_->lexicon.at(item.residual);
        const uint32_t inside = add_lengths(entry.max_remaining, extra);
        if (add_lengths(inside, gss_.min_length(item.after)) >= budget) continue;  // even the minimum exceeds it
        if (gss_.tracks_distinct(item.after) && add_lengths(inside, gss_.min_length_bound_after(item.after)) >= budget) continue;
        tokens.add(entry.inner_tokens);
        if (entry.star_tokens) tokens.add(*entry.star_tokens);
    }
    return &tokens;
}

// ---------------------------------------------------------------- properties of states

/// Whether a byte may cost much: a search (`RegexStore::needs_search`), or one step for each of many items.
bool Automaton::needs_search(uint32_t id) const {
    return state_of(id).items_count > 2 * kFewItems || std::ranges::any_of(items(id), [&](const Item& item) { return shard_->regexes.needs_search(item.residual); });
}

/// Looking at the items is work itself. Every item is read; where there are many, each is made anew behind each of the others, and where a number of them is
/// demanded, the rest is counted for each. A step of an item reads every alternative of its residual, and joining stacks goes down to their ends. Where values must differ, every step makes
/// expressions and continuations of its own, and the more values are needed, the more are excluded.
uint32_t Automaton::step_cost(uint32_t id, uint32_t length) const {
    constexpr uint64_t kItemsInStep = 4;
    const uint64_t many = state_of(id).items_count;
    shard_->work.spend(1 + many / kItemsInStep);
    const uint64_t counted = exprs_.demanding() && many > kFewItems ? 4 * many : 0;
    uint32_t cost = 1 + static_cast<uint32_t>(std::min<uint64_t>(many * many / 128 + counted, kMaskFuel)) + (exprs_.tracks_distinct() ? length / 32 : 0);
    for (const Item& item : items(id)) {
        cost += shard_->regexes.width(item.residual) / 32 + gss_.height(item.after) / 32;
    }
    return cost;
}

/// Inside the words of an enumeration a byte only makes them shorter. Elsewhere it may leave a loop, or enter rules; where
/// texts are ambiguous, it joins stacks at every level. An expression of many parts is too many bytes: nearly each part has one of
/// its own, and what it has is not counted again in every state on the way.
uint32_t Automaton::counting_cost(uint32_t id) const {
    if (needs_search(id) || forgets(id)) return kInfinite;
    uint32_t parts = 0;
    bool inside = true;
    for (const Item& item : items(id)) {
        if (shard_->regexes.parts(item.residual) > kFewTexts.bytes) return kFewTexts.bytes + 1;
        const uint32_t forks = gss_.forks(item.after);
        parts += shard_->regexes.width(item.residual) / 16 + gss_.height(item.after) / 32 + std::min<uint64_t>(forks + uint64_t{forks} * forks / 16, kFewTexts.bytes);
        inside = inside && shard_->regexes.finite(item.residual) && shard_->regexes.min_length(item.residual) > 1;
    }
    return (inside ? 1 : kPlainCost) * (1 + parts);
}

uint32_t Automaton::forks_of(uint32_t id) const {
    uint32_t most = 0;
    for (const Item& item : items(id)) most = std::max(most, gss_.forks(item.after));
    return most;
}

}  // namespace core
