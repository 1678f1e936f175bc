// Vocabularies in which some bytes occur only inside longer tokens: completions that their tokens spell.
//
// The automaton runs over the *completed* vocabulary, where each of these bytes is a token, too. Tokens with ids below
// `tokens` are *real*; a state is a dead end unless real tokens spell a completion.
// The *spelled completion* of a state is found by a depth-first search over (state, trie node), bytes in ascending order; a
// token ends only where it cannot go on; among the completions that are found so it is the first with the fewest bytes.
// After each of its tokens the rest is the spelled completion of the state there.
// The *count* of a state is the minimum over all completions if few bytes have to be tried for that
// (`count_spelled_exactly`); else one more than that of the state after the first token of the spelled completion, an upper
// bound. Where a budget suffices, some token leads to a state where the budget without it suffices. All of it depends on the
// state alone, as long as `Head::length` is exact.
// Work: a search ends at the first state whose completion is known, so a growing text costs a few steps for each byte.
// A search that takes too many steps is an error at the start of a text. Behind a token it counts as a proof that there is no
// completion: masks leave that token out, as they do where a search for a text of an intersection gives up. The state itself has
// a spelled completion, found when its last token was allowed, so one token is always left.
#include <algorithm>
#include <map>

#include "automaton.hpp"

namespace core {

namespace {

uint64_t place(uint32_t state, uint32_t node) { return uint64_t{state} << 32 | node; }

/// A search took too many steps.
struct GaveUp : TooLarge {
    GaveUp() : TooLarge("no completion that tokens spell was found") {}
};

/// `Spelled::tokens` of a state, beside infinite bytes, from which a search gave up: it is not repeated. Searches from other
/// states take no notice of it.
constexpr uint32_t kGaveUp = 0;

/// Tokens of which one step sees whether they are allowed, and bytes of which it sees whether they lead to a node of the trie.
constexpr uint32_t kTokensInStep = 32, kBytesInStep = 16;

/// Part of `kSpellingFuel` that further searches for a mask have after one gave up.
constexpr uint32_t kLaterSearches = 256;

}  // namespace

bool BaseAutomaton::can_be_spelled(uint32_t state, uint32_t tokens) {
    const Call call(*this, state);
    real_tokens_ = tokens;
    try {
        return spelled_from(state).bytes != kInfinite;
    } catch (const GaveUp&) {
        return false;
    }
}

uint32_t BaseAutomaton::spelled_completion(uint32_t state, uint32_t tokens) {
    const Call call(*this, state);
    real_tokens_ = tokens;
    return spelled_tokens(state);
}

/// Whether a real token ends at a node. The others are the bytes that are no token by themselves.
bool BaseAutomaton::ends_real_token(uint32_t node) const {
    const auto tokens = shard_->trie.tokens(node);
    return !tokens.empty() && std::ranges::min(tokens) < real_tokens_;
}

// ---------------------------------------------------------------- completions

const BaseAutomaton::Spelled* BaseAutomaton::known_spelled(uint32_t state) const {
    if (state == kDead) return &kImpossible;
    if (heads_[state].accepts) return &kComplete;
    const auto at = spelled_.find(state);
    const bool known = at != spelled_.end() && !(at->second.bytes == kInfinite && at->second.tokens == kGaveUp);
    return known ? &at->second : nullptr;
}

/// Throws `GaveUp` if the search takes too many steps.
const BaseAutomaton::Spelled& BaseAutomaton::spelled(uint32_t state, uint32_t fuel) {
    if (const Spelled* known = known_spelled(state)) return *known;
    if (spelled_.contains(state)) throw GaveUp();
    spelling_fuel_ = fuel;
    try {
        if (!spell(state, heads_[state].length)) {
            const uint32_t bytes = fewest_spelled_bytes(state);
            if (bytes != kInfinite) spell(state, bytes);
        }
    } catch (const GaveUp&) {
        spelled_.insert_or_assign(state, Spelled{kInfinite, kDead, kGaveUp});
        throw;
    }
    return spelled_.at(state);
}

/// The work of a visit to a state and a trie node, from which these bytes are tried: most of them lead to no node.
void BaseAutomaton::spend_spelling_work(const ByteSet& bytes) { shard_->work.spend(4 + bytes.count() / kBytesInStep); }

void BaseAutomaton::spend_spelling_fuel() {
    if (spelling_fuel_-- == 0) throw GaveUp();
}

/// Searches for the spelled completion among those of at most `limit` bytes, and stores it for all states between its tokens.
bool BaseAutomaton::spell(uint32_t from, uint32_t limit) {
    constexpr uint32_t kEndOfToken = 256;
    struct Visit {
        uint32_t state, node, read, next;  // bytes read; the next byte to try
        ByteSet bytes;
    };
    const Trie& trie = shard_->trie;
    std::unordered_map<uint64_t, uint32_t> tried;  // with the fewest bytes read
    std::vector<Visit> way;
    const auto visit = [&](uint32_t state, uint32_t node, uint32_t read) {
        const auto [at, fresh] = tried.try_emplace(place(state, node), read);
        if (!fresh && at->second <= read) return;
        at->second = read;
        way.push_back({state, node, read, 0, first_bytes(state)});
        spend_spelling_work(way.back().bytes);
    };
    visit(from, Trie::kRoot, 0);
    while (!way.empty()) {
        Visit& at = way.back();
        while (at.next < kEndOfToken && !at.bytes[at.next]) ++at.next;
        const uint32_t move = at.next++;
        if (move < kEndOfToken) {
            spend_spelling_fuel();
            const uint32_t child = trie.child(at.node, static_cast<uint8_t>(move));
            if (child == Trie::kNone) continue;
            const uint32_t next = byte_next(at.state, static_cast<uint8_t>(move));
            if (add_lengths(at.read + 1, heads_[next].length) <= limit) visit(next, child, at.read + 1);
        } else if (move > kEndOfToken) {
            way.pop_back();
        } else if (at.node != Trie::kRoot && ends_real_token(at.node)) {
            const Spelled* known = known_spelled(at.state);
            if (!known) {
                visit(at.state, Trie::kRoot, at.read);
            } else if (add_lengths(at.read, known->bytes) <= limit) {
                const uint32_t total = at.read + known->bytes;
                uint32_t next = at.state;
                for (size_t i = way.size(); i-- > 0;) {
                    if (way[i].node != Trie::kRoot) continue;
                    spelled_[way[i].state] = {total - way[i].read, next, kInfinite};
                    next = way[i].state;
                }
                return true;
            }
        }
    }
    return false;
}

/// Fewest bytes of a text that real tokens spell, by A* (Hart, Nilsson and Raphael 1968) with `Head::length` as the bound;
/// kInfinite if there is none: then all states that were met are dead ends.
uint32_t BaseAutomaton::fewest_spelled_bytes(uint32_t from) {
    struct Visit {
        uint32_t state, node, read;
    };
    const Trie& trie = shard_->trie;
    std::map<uint32_t, std::vector<Visit>> open;     // by the bound of the whole text
    std::unordered_map<uint64_t, uint32_t> reached;  // with the fewest bytes read
    const auto visit = [&](uint32_t state, uint32_t node, uint32_t read, uint32_t bound) {
        const auto [at, fresh] = reached.try_emplace(place(state, node), read);
        if (!fresh && at->second <= read) return;
        at->second = read;
        open[bound].push_back({state, node, read});
    };
    visit(from, Trie::kRoot, 0, heads_[from].length);
    while (!open.empty()) {
        const auto lowest = open.begin();
        const uint32_t bound = lowest->first;
        const Visit at = lowest->second.back();
        lowest->second.pop_back();
        if (lowest->second.empty()) open.erase(lowest);
        if (at.node == Trie::kNone) return bound;
        if (reached[place(at.state, at.node)] < at.read) continue;
        if (at.node == Trie::kRoot) {
            if (const Spelled* known = known_spelled(at.state)) {
                const uint32_t whole = add_lengths(at.read, known->bytes);
                if (whole != kInfinite) open[std::max(bound, whole)].push_back({at.state, Trie::kNone, 0});
                continue;
            }
        } else if (ends_real_token(at.node)) {
            visit(at.state, Trie::kRoot, at.read, bound);
        }
        const ByteSet bytes = first_bytes(at.state);
        spend_spelling_work(bytes);
        for (size_t byte = bytes._Find_first(); byte < bytes.size(); byte = bytes._Find_next(byte)) {
            spend_spelling_fuel();
            const uint32_t child = trie.child(at.node, static_cast<uint8_t>(byte));
            if (child == Trie::kNone) continue;
            const uint32_t next = byte_next(at.state, static_cast<uint8_t>(byte));
            visit(next, child, at.read + 1, std::max(bound, add_lengths(at.read + 1, heads_[next].length)));
        }
    }
    for (const auto& [at, read] : reached) {
        const auto state = static_cast<uint32_t>(at >> 32);
        if (static_cast<uint32_t>(at) == Trie::kRoot && !heads_[state].accepts) spelled_[state] = kImpossible;
    }
    return kInfinite;
}

// ---------------------------------------------------------------- counts

/// The count of a state; kInfinite if it is a dead end.
uint32_t BaseAutomaton::spelled_tokens(uint32_t state) {
    std::vector<uint32_t> way;
    Spelled at = spelled_from(state);
    while (at.bytes != kInfinite && at.tokens == kInfinite && !count_spelled_exactly(state)) {
        way.push_back(state);
        state = at.next;
        at = spelled(state);
    }
    if (at.bytes == kInfinite) return kInfinite;
    uint32_t count = known_spelled(state)->tokens;
    for (; !way.empty(); way.pop_back()) spelled_[way.back()].tokens = ++count;
    return count;
}

/// Sets the count of a state that does not accept to the fewest real tokens of a completion, by A* with a bound in bytes, and
/// so for the states on the way. Fails if it would try too many bytes, also those that are as good as the best. What is tried
/// from a state on the way is a part of what is tried here, so its count is exact, too.
bool BaseAutomaton::count_spelled_exactly(uint32_t from) {
    struct Visit {
        uint32_t state, node, before, depth;  // the state before the current token, and its bytes so far
    };
    const Trie& trie = shard_->trie;
    const uint64_t longest = std::max(1u, trie.longest());
    std::map<uint32_t, std::vector<std::pair<Visit, uint32_t>>> open;  // by bound: visits, and the tokens begun
    std::unordered_map<uint64_t, uint32_t> settled;                  // with the state before
    const auto visit = [&](const Visit& at, uint32_t begun) {
        if (settled.contains(place(at.state, at.node))) return;
        const uint64_t room = at.node == Trie::kRoot ? 0 : trie.longest_in_subtree(at.node) - at.depth;
        const uint64_t length = heads_[at.state].length, left = length > room ? length - room : 0;
        open[begun + static_cast<uint32_t>((left + longest - 1) / longest)].push_back({at, begun});
    };
    visit({from, Trie::kRoot, kDead, 0}, 0);
    uint32_t fewest = kInfinite, last = kDead, fuel = kCountingFuel;
    while (!open.empty() && open.begin()->first <= fewest) {
        const auto lowest = open.begin();
        const auto [at, begun] = lowest->second.back();
        lowest->second.pop_back();
        if (lowest->second.empty()) open.erase(lowest);
        if (!settled.try_emplace(place(at.state, at.node), at.before).second) continue;
        if (at.node == Trie::kRoot) {
            if (heads_[at.state].accepts) {
                if (begun < fewest) fewest = begun, last = at.state;
                continue;
            }
        } else if (ends_real_token(at.node)) {
            visit({at.state, Trie::kRoot, at.before, 0}, begun);
        }
        const ByteSet bytes = first_bytes(at.state);
        spend_spelling_work(bytes);
        const bool begins = at.node == Trie::kRoot;
        for (size_t byte = bytes._Find_first(); byte < bytes.size(); byte = bytes._Find_next(byte)) {
            if (fuel-- == 0) return false;
            const uint32_t child = trie.child(at.node, static_cast<uint8_t>(byte));
            if (child == Trie::kNone) continue;
            visit({byte_next(at.state, static_cast<uint8_t>(byte)), child, begins ? at.state : at.before, at.depth + 1}, begun + begins);
        }
    }
    uint32_t count = 0;
    for (uint32_t state = last; state != from; ++count) {
        if (count > 0 && spelled(state).tokens == kInfinite) spelled_[state].tokens = count;
        state = settled[place(state, Trie::kRoot)];
    }
    spelled_[from].tokens = fewest;
    return true;
}

// ---------------------------------------------------------------- masks

/// Writes the real tokens after which at most `budget - 1` more complete the text; EOS bits iff it is complete.
void BaseAutomaton::fill_spelled_mask(uint32_t state, uint32_t tokens, uint32_t budget, uint32_t* out) {
    const Call call(*this, state);
    real_tokens_ = tokens;
    std::vector<uint32_t> allowed(shard_->masks.words());
    do {
        if (find_mask_id(state) == kUnset) compute_mask(state);
    } while (!find_mask_bits(state, allowed.data()));
    std::fill(out, out + (tokens + 31) / 32, 0);
    const auto is_allowed = [&](uint32_t token) { return token < tokens && allowed[token / 32] >> (token % 32) & 1; };
    const auto allow = [&](uint32_t token) { out[token / 32] |= 1u << (token % 32); };
    for (const uint32_t token : shard_->eos) {
        if (is_allowed(token)) allow(token);
    }
    if (state <= kFinished || budget == 0) return;
    const Trie& trie = shard_->trie;
    const std::span<const uint32_t> order = trie.in_order();
    std::vector<uint32_t> places;  // of allowed tokens in the order of the trie
    for (uint32_t at = 0; at < order.size(); ++at) {
        if (is_allowed(order[at])) places.push_back(at);
    }
    shard_->work.spend(1 + (order.size() + places.size()) / kTokensInStep);
    struct Visit {
        uint32_t node, state;
        std::span<const uint32_t> places;
    };
    std::vector<Visit> work{{Trie::kRoot, state, places}};
    uint32_t fuel = kSpellingFuel;
    const auto completes = [&](uint32_t next) {
        try {
            const uint32_t bytes = spelled(next, fuel).bytes;
            return bytes != kInfinite && (bytes < budget || spelled_tokens(next) < budget);
        } catch (const GaveUp&) {
            fuel = kSpellingFuel / kLaterSearches;
            return false;
        }
    };
    bool empty = true;
    while (!work.empty()) {
        Visit at = work.back();
        work.pop_back();
        for (uint32_t child = trie.children_begin(at.node); !at.places.empty(); ++child) {
            const auto& [unused, begin, own_end, end] = trie.ranges(child);
            if (at.places.front() >= end) continue;
            shard_->work.spend(2);
            const auto inside = at.places.first(std::ranges::lower_bound(at.places, end) - at.places.begin());
            at.places = at.places.subspan(inside.size());
            const auto here = inside.first(std::ranges::lower_bound(inside, own_end) - inside.begin());
            const uint32_t next = byte_next(at.state, trie.byte(child));
            if (!here.empty() && completes(next)) {
                for (const uint32_t place : here) allow(order[place]);
                empty = false;
            }
            if (here.size() < inside.size()) work.push_back({child, next, inside.subspan(here.size())});
        }
    }
    // Memos may have been dropped since the last token was allowed: better an error than a dead end.
    if (empty && fuel != kSpellingFuel && !heads_[state].accepts) throw GaveUp();
}

}  // namespace core
