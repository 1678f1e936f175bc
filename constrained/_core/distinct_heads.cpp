// States that read heads which must differ, such as names: which of them tell apart what no shortest completion does.
//
// A head is read byte by byte into what follows it. It matters only as long as it may be one of the shortest values that are left:
// any other changes no length. A state that forgets it is *equivalent* with the one that knows it.
#include <algorithm>

#include "automaton.hpp"

namespace core {

bool Automaton::reads_heads(uint32_t id) const { return state_of(id).tracks_distinct; }

bool Automaton::forgets(uint32_t id) const {
    return std::ranges::any_of(items(id), [&](const Item& item) { return gss_.forgets(item.after); });
}

bool Automaton::reads_many_heads(uint32_t id) const {
    if (!reads_heads(id)) return false;
    size_t cases = 0;
    for (const Item& item : items(id)) cases += gss_.tracks_distinct(item.after) ? gss_.frames(item.after).size() : 0;
    return cases > kManyCases;
}

std::vector<uint32_t> Automaton::head_exits(uint32_t id) {
    std::vector<uint32_t> exits;
    for (uint32_t i = 0; i < state_of(id).items_count; ++i) {
        const Item item = items(id)[i];
        if (!gss_.tracks_distinct(item.after)) continue;
        const std::vector<uint32_t>& nodes = shard_->lexicon.at(item.residual).entry.boundary_nodes;
        exits.insert(exits.end(), nodes.begin(), nodes.end());
    }
    return exits;
}

uint32_t Automaton::equivalent_state(uint32_t id, uint32_t reach) {
    const auto can_be_left = [&](const Item& item) { return gss_.tracks_distinct(item.after) && !gss_.needs_head(item.after); };
    if (state_of(id).key_erased_state == kUnset) {
        std::vector<Item> items(this->items(id).begin(), this->items(id).end());
        uint32_t least = kInfinite;
        for (Item& item : items) {
            if (!can_be_left(item)) continue;
            least = std::min(least, gss_.least_reach_without_head(item.after));
            item.after = gss_.assume_distinct(item.after);
        }
        state_of(id).key_erased_state = least == kInfinite ? id : intern(items, heads_[id].accepts);
        state_of(id).least_reach = least;
    }
    if (reach <= state_of(id).least_reach) return state_of(id).key_erased_state;
    if (state_of(id).reach == kUnset) {  // it takes lists of more values
        uint32_t most = kInfinite;
        for (uint32_t i = 0; i < state_of(id).items_count; ++i) {
            const Item item = items(id)[i];
            if (can_be_left(item)) most = std::min(most, gss_.reach_without_head(item.after).value_or(kInfinite));
        }
        state_of(id).reach = most;
    }
    return reach <= state_of(id).reach ? state_of(id).key_erased_state : id;
}

/// What a head is after most bytes is no value that a shortest completion has: no state is made that tells it apart.
uint32_t Automaton::equivalent_next(uint32_t id, uint8_t byte, uint32_t reach) {
    if (!reads_heads(id)) return BaseAutomaton::equivalent_next(id, byte, reach);
    const uint64_t key = kKeyErased | ((uint64_t{id} << 8 | byte) + 1);
    const Ahead& ahead = this->ahead(id);
    if (reach > ahead.reach) return BaseAutomaton::equivalent_next(id, byte, reach);
    if (const uint32_t known = bytes_.find(key); known != Memo::kMissing) return known;
    uint32_t result = kDead;
    if (!ahead.needed[byte]) {
        result = byte_next(ahead.assumed, byte);
    } else {
        shard_->work.spend(4 + state_of(id).items_count);
        std::vector<Item>& next = next_;
        next.clear();
        for (uint32_t i = 0; i < state_of(id).items_count; ++i) {
            Item item = items(id)[i];
            item.residual = shard_->regexes.step(item.residual, byte);
            if (item.residual == RegexStore::kEmptyLanguage) continue;
            if (gss_.tracks_distinct(item.after)) {
                if (shard_->regexes.nullable(item.residual)) return BaseAutomaton::equivalent_next(id, byte, reach);  // the head ends
                item.after = gss_.needs_head_after(item.after, byte) ? gss_.read(item.after, byte) : gss_.assume_distinct(item.after);
            }
            next.push_back(item);
        }
        result = intern_read(next);
    }
    bytes_.insert(key, result);
    return result;
}

const Automaton::Ahead& Automaton::ahead(uint32_t id) {
    if (state_of(id).ahead == kUnset) {
        std::vector<Item> items(this->items(id).begin(), this->items(id).end());
        Ahead made{kDead, kInfinite, ByteSet().set('"')};  // it ends most heads
        shard_->work.spend(items.size());
        for (Item& item : items) {
            if (!gss_.tracks_distinct(item.after)) continue;
            made.reach = std::min(made.reach, gss_.least_reach_without_head(item.after));
            made.needed |= gss_.may_need_head_after(item.after);
            item.after = gss_.assume_distinct(item.after);
        }
        made.assumed = intern(items, heads_[id].accepts);
        aheads_.push_back(made);
        state_of(id).ahead = static_cast<uint32_t>(aheads_.size() - 1);
    }
    return aheads_[state_of(id).ahead];
}

}  // namespace core
