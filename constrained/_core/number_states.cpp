// States inside of numbers of which many remainders are told apart: near a token limit none is made for each digit of a token.
//
// Such a state has numbers, and where one may end what follows it, which begins with no digit and no point. Its canonical completion is
// that of what follows where this is as short, and else digits that are known by arithmetic as far as where a number may end. Between
// these there are no states, but each place has a count of tokens.
#include "automaton.hpp"

namespace core {

namespace {
constexpr uint32_t kCountSteps = 20;  // of work, for the tokens that spell the digits that complete a number
constexpr uint32_t kReadSteps = 4;    // and for each alternative
constexpr uint32_t kDigitsInStep = 4;  // that are read for it

uint64_t steps_to_skip(const NumberRests& numbers) { return kCountSteps + numbers.list().size() * (kReadSteps + numbers.length() / kDigitsInStep); }
bool in_number(uint8_t byte) { return (byte >= '0' && byte <= '9') || byte == '.'; }
}  // namespace

/// Whether no text begins like the rest of a number.
bool Automaton::apart_from_numbers(uint32_t id) {
    for (const char byte : std::string_view(".0123456789")) {
        if (first(id)[static_cast<uint8_t>(byte)]) return false;
    }
    return true;
}

/// The numbers of a state, and the state of what follows those that may end, if there is any; no numbers for another state.
Automaton::InNumber Automaton::in_number_of(uint32_t id) {
    InNumber made{{}, kDead};
    if (heads_[id].plain || heads_[id].rest == Rest::Few) return made;
    std::vector<Item> others;
    for (uint32_t i = 0; !state_of(id).tracks_distinct && i < state_of(id).items_count; ++i) {
        const Item item = items(id)[i];
        NumberRests added = made.numbers;
        if (shard_->regexes.begins_with_number(item.residual) && shard_->regexes.add_numbers(item.residual, i, item.after, gss_.min_length(item.after), added)) {
            made.numbers = std::move(added);
        } else {
            others.push_back(item);
        }
    }
    shard_->work.spend(state_of(id).items_count / kItemsInStep + made.numbers.steps());
    bool inside = made.numbers.many();
    if (inside && (!others.empty() || heads_[id].accepts)) {
        if (state_of(id).behind_number == kUnset) {
            const uint32_t behind = intern(others, heads_[id].accepts);
            state_of(id).behind_number = behind;
        }
        made.behind = state_of(id).behind_number;
        inside = apart_from_numbers(made.behind);
    }
    heads_[id].plain = !inside;
    return inside ? made : InNumber{{}, kDead};
}

/// The numbers, and what follows those that may end here. If that begins like a number, too, or a terminal goes on behind the number, no
/// numbers are left, and all of it is a state.
Automaton::InNumber Automaton::here(NumberRests numbers) {
    std::vector<Item>& next = next_;
    uint32_t behind = kDead;
    bool several = false, inside = false;
    for (const NumberRest& rest : numbers.list()) {
        if (!rest.complete()) continue;
        inside |= rest.tail != RegexStore::kEpsilon;
        const uint32_t closed = closure(rest.after);
        several |= behind != kDead && behind != closed;
        behind = closed;
    }
    if (several && !inside) {
        std::vector<Item> together;
        bool accepts = false;
        for (const NumberRest& rest : numbers.list()) {
            if (!rest.complete()) continue;
            const uint32_t closed = closure(rest.after);
            accepts |= heads_[closed].accepts;
            together.insert(together.end(), items(closed).begin(), items(closed).end());
        }
        behind = intern(together, accepts);
    }
    if (behind == kDead || (!inside && apart_from_numbers(behind) && numbers.many())) return {std::move(numbers), behind};
    next.clear();
    const std::span<const NumberRest> all = numbers.list();
    for (size_t at = 0; at < all.size();) {
        size_t end = at + 1;
        while (end < all.size() && all[end].item == all[at].item) ++end;
        next.push_back({shard_->regexes.from_numbers(all.subspan(at, end - at)), all[at].after});
        at = end;
    }
    return {{}, intern_read(next)};
}

uint32_t Automaton::without_numbers(uint32_t id) {
    if (heads_[id].plain) return id;
    const auto [numbers, behind] = in_number_of(id);
    return behind != kDead && heads_[behind].length == heads_[id].length ? behind : id;
}

std::optional<uint32_t> Automaton::skip(uint32_t id, std::vector<uint8_t>& text) {
    if (heads_[id].plain) return std::nullopt;
    const auto [numbers, behind] = in_number_of(id);
    if (numbers.empty() || (behind != kDead && heads_[behind].length == heads_[id].length)) return std::nullopt;
    if (numbers.length() > longest_spelled()) return std::nullopt;
    shard_->work.spend(steps_to_skip(numbers));
    const NumberRests left = numbers.skip(text);
    shard_->work.spend(left.steps());
    return here(left).behind;
}

/// `completes_within` for a place without a state.
bool Automaton::place_completes_within(const InNumber& place, uint32_t budget) {
    const auto& [numbers, behind] = place;
    if (behind != kDead && heads_[behind].length <= numbers.length()) return completes_within(behind, budget);
    const uint32_t length = numbers.length();
    if (length <= budget) return true;
    if (length > uint64_t{budget} * shard_->trie.longest() || length > longest_spelled()) return false;
    const uint32_t cost = kNumberCost + static_cast<uint32_t>(numbers.list().size());
    if (fuel_left_ < cost) {
        fuel_left_ = 0;
        return false;
    }
    fuel_left_ -= cost;
    shard_->work.spend(steps_to_skip(numbers));
    std::vector<uint8_t> text;
    const NumberRests left = numbers.skip(text);
    shard_->work.spend(left.steps());
    const uint32_t end = standing(here(left).behind);
    return affordable(end) && count_before(text, end) <= budget;
}

bool Automaton::keep_numbers_within(const PlacesBelow& top, uint32_t budget, uint32_t* out, std::vector<PlacesBelow>& left) {
    struct Place {
        PlacesBelow below;
        InNumber in;
    };
    InNumber start = in_number_of(top.state);
    if (start.numbers.empty()) return false;
    const Trie& trie = shard_->trie;
    std::vector<Place> work;
    work.push_back({top, std::move(start)});
    while (!work.empty()) {
        const auto [at, in] = std::move(work.back());
        work.pop_back();
        std::span<const uint32_t> places = at.places;
        for (uint32_t child = trie.children_begin(at.node); !places.empty(); ++child) {
            const auto& [unused, begin, own_end, end] = trie.ranges(child);
            shard_->work.spend(1);
            if (places.front() >= end) continue;
            const auto inside = places.first(std::ranges::lower_bound(places, end) - places.begin());
            places = places.subspan(inside.size());
            PlacesBelow below{child, kDead, at.depth + 1, at.past_exit, inside};
            if (!in_number(trie.byte(child))) {
                if (in.behind != kDead) left.push_back({at.node, in.behind, at.depth, at.past_exit, inside});
                continue;
            }
            shard_->work.spend(in.numbers.list().size());
            NumberRests after = in.numbers.after(trie.byte(child));
            shard_->work.spend(after.steps());
            if (after.empty()) continue;
            InNumber next = here(std::move(after));
            const auto ending = inside.first(std::ranges::lower_bound(inside, own_end) - inside.begin());
            if (!ending.empty() && place_completes_within(next, budget - 1)) {
                for (const uint32_t place : ending) {
                    const uint32_t token = trie.in_order()[place];
                    out[token / 32] |= 1u << (token % 32);
                }
            }
            below.places = inside.subspan(ending.size());
            if (below.places.empty()) continue;
            if (next.numbers.empty()) {
                below.state = next.behind;
                left.push_back(below);
            } else {
                work.push_back({below, std::move(next)});
            }
        }
    }
    return true;
}

}  // namespace core
