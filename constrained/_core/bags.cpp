#include "bags.hpp"

#include <algorithm>

namespace core {

namespace {

bool has(const uint32_t* words, uint32_t bit) { return words[bit / 32] >> (bit % 32) & 1; }

/// Length of an entry and of the separator that goes with it.
uint32_t with_separator(const BagStore::Definition& bag, uint32_t length) {
    return add_lengths(length, bag.separator_length == kInfinite ? 0 : bag.separator_length);
}

}  // namespace

StateOfBag BagStore::add(Definition definition) {
    std::stable_sort(definition.entries.begin(), definition.entries.end(),
                     [](const Entry& a, const Entry& b) { return a.slot < b.slot; });
    for (const Entry& entry : definition.entries) {
        if (entry.slot != kFree) definition.slots = std::max(definition.slots, entry.slot + 1);
    }
    for (uint32_t i = 0; i < definition.entries.size(); ++i) {
        const Entry& entry = definition.entries[i];
        if (!entry.distinct) continue;
        auto same = std::ranges::find_if(definition.distinct, [&](const std::vector<uint32_t>& group) {
            return definition.entries[group[0]].language == entry.language;
        });
        if (same == definition.distinct.end()) same = definition.distinct.emplace(same);
        same->push_back(i);
    }
    for (const uint32_t slot : definition.needed) definition.slots = std::max(definition.slots, slot + 1);
    const size_t words = (definition.slots + 31) / 32;
    std::vector<uint32_t> open(words, 0);
    definition.needed_words.assign(words, 0);
    for (uint32_t slot = 0; slot < definition.slots; ++slot) open[slot / 32] |= 1u << (slot % 32);
    for (const uint32_t slot : definition.needed) definition.needed_words[slot / 32] |= 1u << (slot % 32);
    State state{};
    state.bag = static_cast<uint32_t>(definitions_.size());
    state.marks = definition.marks, state.low = definition.low, state.high = definition.high;
    definition_bytes_ += sizeof(Definition) + definition.entries.capacity() * sizeof(Entry) + 16 * definition.slots;
    definitions_.push_back(std::move(definition));
    return intern(state, open);
}

void BagStore::measure(StateOfBag start, const std::function<uint32_t(ExprId)>& length) {
    State& state = states_[start.value];
    Definition& bag = definitions_[state.bag];
    bag.separator_length = length(bag.separator);
    bag.cheapest.assign(bag.slots, kInfinite);
    bag.shortest_free = kInfinite;
    for (Entry& entry : bag.entries) {
        entry.body_length = length(entry.body);
        entry.length = add_lengths(length(entry.head), entry.body_length);
        if (entry.distinct) continue;
        uint32_t& shortest = entry.slot == kFree ? bag.shortest_free : bag.cheapest[entry.slot];
        shortest = std::min(shortest, entry.length);
    }
    bag.by_length.clear();
    for (uint32_t slot = 0; slot < bag.slots; ++slot) {
        if (bag.cheapest[slot] != kInfinite) bag.by_length.push_back(slot);
    }
    if (bag.shortest_free != kInfinite) bag.by_length.push_back(kFree);
    const auto shortest = [&](uint32_t slot) { return slot == kFree ? bag.shortest_free : bag.cheapest[slot]; };
    std::stable_sort(bag.by_length.begin(), bag.by_length.end(),
                     [&](uint32_t a, uint32_t b) { return shortest(a) < shortest(b); });
    count_needed(state, words_.data() + state.at);
}

void BagStore::count_needed(State& state, const uint32_t* open) const {
    const Definition& bag = definitions_[state.bag];
    state.needed = state.needed_bytes = 0;
    for (const uint32_t slot : bag.needed) {
        if (!has(open, slot)) continue;
        ++state.needed;
        if (!bag.cheapest.empty()) state.needed_bytes = add_lengths(state.needed_bytes, with_separator(bag, bag.cheapest[slot]));
    }
}

/// Expects the numbers of a state before its normal form, but for those of the needed slots.
StateOfBag BagStore::intern(State state, const std::vector<uint32_t>& open) {
    count_needed(state, open.data());
    if (state.low <= state.needed) state.low = 0;
    const Definition& bag = definitions_[state.bag];
    if (bag.entries.empty() || bag.entries.back().slot != kFree) {  // no more entries than slots
        uint32_t slots = 0;
        for (const uint32_t word : open) slots += std::popcount(word);
        if (slots <= state.high) state.high = kInfinite;
    }
    uint64_t hash = combine(combine(combine(combine(state.bag, state.marks), state.low), state.high), state.seen.value);
    hash = hash_words(open, hash);
    return {index_.find_or_make(
        hash,
        [&](uint32_t id) {
            const State& other = states_[id];
            return other.bag == state.bag && other.marks == state.marks && other.low == state.low &&
                   other.high == state.high && other.seen == state.seen &&
                   std::equal(open.begin(), open.end(), words_.begin() + other.at);
        },
        [&] {
            state.at = static_cast<uint32_t>(words_.size());
            words_.insert(words_.end(), open.begin(), open.end());
            states_.push_back(state);
            return static_cast<uint32_t>(states_.size() - 1);
        })};
}

bool BagStore::open(StateOfBag id, uint32_t entry) const {
    const State& state = states_[id.value];
    const uint32_t slot = definitions_[state.bag].entries[entry].slot;
    return state.high > 0 && (slot == kFree || has(words_.data() + state.at, slot));
}

/// Turns a view into that of the state after an entry. Returns false if a needed slot was passed over.
bool BagStore::after(View& view, uint32_t index, std::vector<uint32_t>& open) const {
    State& state = view.state;
    const Definition& bag = definitions_[state.bag];
    const Entry& entry = bag.entries[index];
    state.marks &= ~entry.marks;
    if (state.low > 0) --state.low;
    if (state.high != kInfinite) --state.high;
    const size_t words = bag.needed_words.size();
    if (entry.slot != kFree && has(bag.needed_words.data(), entry.slot)) {
        --state.needed;
        const uint32_t length = with_separator(bag, bag.cheapest[entry.slot]);
        if (state.needed_bytes != kInfinite && length != kInfinite) state.needed_bytes -= length;
    }
    if (entry.slot == kFree && !bag.ordered) return true;
    open.assign(view.open, view.open + words);
    view.open = open.data();
    if (!bag.ordered) {
        open[entry.slot / 32] &= ~(1u << (entry.slot % 32));
        return true;
    }
    const uint32_t passed = entry.slot == kFree ? bag.slots : entry.slot;
    for (size_t word = 0; word < words; ++word) {
        uint32_t gone = 0;
        if ((word + 1) * 32 <= passed) {
            gone = UINT32_MAX;
        } else if (word * 32 < passed) {
            gone = (1u << (passed % 32)) - 1;
        }
        if (open[word] & gone & bag.needed_words[word]) return false;
        open[word] &= ~gone;
    }
    if (entry.slot != kFree) open[entry.slot / 32] &= ~(1u << (entry.slot % 32));
    return true;
}

StateOfBag BagStore::take(StateOfBag id, uint32_t entry, TextId head) {
    View view = this->view(id);
    std::vector<uint32_t> open(view.open, view.open + definitions_[view.state.bag].needed_words.size());
    View next{view.state, view.open};
    std::vector<uint32_t> changed;
    after(next, entry, changed);
    if (head != Values::kNoText) next.state.seen = values_->add(next.state.seen, head);
    return intern(next.state, next.open == view.open ? open : changed);
}

uint32_t BagStore::length_after(StateOfBag id, uint32_t entry, TextId head) const {
    View view = this->view(id);
    return after(view, entry, scratch_) ? shortest(view, Turn::After, head) : kInfinite;
}

uint32_t BagStore::shortest(const View& view, Turn turn, TextId head) const {
    const State& state = view.state;
    const Definition& bag = definitions_[state.bag];
    if (turn != Turn::Entry && state.needed == 0 && state.low == 0 && state.marks == 0) return 0;
    const bool alone = bag.separator_length == kInfinite;  // one entry at most
    if (alone && turn == Turn::After) return kInfinite;
    const uint32_t low = std::max(state.low, 1u);
    const uint32_t high = alone ? std::min(state.high, 1u) : state.high;
    if (state.needed > high || low > high) return kInfinite;
    const uint32_t extra = low > state.needed ? low - state.needed : 0;
    const uint32_t rest = state.marks == 0 ? fill(view, extra, head) : cover(view, extra, high - state.needed, head);
    if (turn == Turn::After || rest == kInfinite || alone) return rest;
    return rest - bag.separator_length;
}

/// The needed slots and `extra` more entries, separators included.
uint32_t BagStore::fill(const View& view, uint32_t extra, TextId head) const {
    const Definition& bag = definitions_[view.state.bag];
    if (view.state.needed_bytes == kInfinite || extra == 0) return view.state.needed_bytes;
    std::vector<uint32_t> lengths;  // of others, the shortest of each kind
    uint64_t total = view.state.needed_bytes;
    uint32_t missing = extra;
    for (const uint32_t slot : bag.by_length) {
        if (missing == 0) break;
        if (slot == kFree) {
            if (bag.distinct.empty()) {
                for (const uint32_t length : lengths) total += with_separator(bag, length);
                total += uint64_t{missing} * with_separator(bag, bag.shortest_free);
                return static_cast<uint32_t>(std::min<uint64_t>(total, kInfinite - 1));
            }
            lengths.insert(lengths.end(), missing, bag.shortest_free);
            missing = 0;
        } else if (has(view.open, slot) && !has(bag.needed_words.data(), slot)) {
            lengths.push_back(bag.cheapest[slot]);
            --missing;
        }
    }
    for (const auto& group : bag.distinct) {
        uint32_t body = kInfinite;
        for (const uint32_t i : group) body = std::min(body, bag.entries[i].body_length);
        if (body == kInfinite) continue;
        for (const uint32_t length : different(view.state, group[0], extra, head)) lengths.push_back(add_lengths(length, body));
    }
    if (lengths.size() < extra) return kInfinite;
    std::nth_element(lengths.begin(), lengths.begin() + (extra - 1), lengths.end());
    for (uint32_t i = 0; i < extra; ++i) total += with_separator(bag, lengths[i]);
    return static_cast<uint32_t>(std::min<uint64_t>(total, kInfinite - 1));
}

/// Lengths of so many heads of an entry that differ from those seen and from each other.
std::vector<uint32_t> BagStore::different(const State& state, uint32_t entry, uint32_t count, TextId head) const {
    if (count > kMaxDifferent) throw TooLarge("more different entries are asked for than can be looked at");
    return values_->shortest(definitions_[state.bag].entries[entry].language, state.seen, count, head);
}

/// The same where marks are missing, with at most `room` more entries: a table over (marks set, entries), slot by slot.
uint32_t BagStore::cover(const View& view, uint32_t extra, uint32_t room, TextId head) const {
    const State& state = view.state;
    const Definition& bag = definitions_[state.bag];
    const uint32_t most = static_cast<uint32_t>(
        std::min<uint64_t>(uint64_t{extra} + std::popcount(state.marks), room));
    if (most < extra) return kInfinite;
    if (most > kMaxDifferent) throw TooLarge("more entries with marks are asked for than can be looked at");
    const uint32_t sets = std::bit_floor(bag.marks) * 2;
    std::vector<uint32_t> best(size_t{sets} * (most + 1), kInfinite);
    const auto cell = [&](std::vector<uint32_t>& table, uint32_t marks, uint32_t count) -> uint32_t& {
        return table[size_t{marks} * (most + 1) + count];
    };
    cell(best, 0, 0) = 0;
    const auto add = [&](const std::vector<uint32_t>& from, std::vector<uint32_t>& to, uint32_t marks, uint32_t length, uint32_t more) {
        for (uint32_t held = 0; held < sets; ++held) {
            for (uint32_t count = 0; count + more <= most; ++count) {
                const uint32_t before = from[size_t{held} * (most + 1) + count];
                uint32_t& there = cell(to, held | (marks & state.marks), count + more);
                there = std::min(there, add_lengths(before, length));
            }
        }
    };
    std::vector<uint32_t> free;
    for (size_t i = 0; i < bag.entries.size();) {
        const uint32_t slot = bag.entries[i].slot;
        size_t end = i;
        while (end < bag.entries.size() && bag.entries[end].slot == slot) ++end;
        if (slot == kFree) {
            for (; i < end; ++i) {
                if (!bag.entries[i].distinct) free.push_back(static_cast<uint32_t>(i));
            }
        } else if (has(view.open, slot)) {
            const bool needed = has(bag.needed_words.data(), slot);
            const std::vector<uint32_t> before = best;
            if (needed) std::fill(best.begin(), best.end(), kInfinite);
            for (size_t j = i; j < end; ++j) {
                const Entry& entry = bag.entries[j];
                if (entry.length != kInfinite) add(before, best, entry.marks, with_separator(bag, entry.length), !needed);
            }
        }
        i = end;
    }
    // Entries without a slot may come again, for every mark and every one that is asked for besides.
    for (uint32_t round = 0; round < most; ++round) {
        const std::vector<uint32_t> before = best;
        for (const uint32_t i : free) {
            const Entry& entry = bag.entries[i];
            if (entry.length != kInfinite) add(before, best, entry.marks, with_separator(bag, entry.length), 1);
        }
    }
    for (const auto& group : bag.distinct) {
        if (most == 0) break;
        for (const uint32_t key : different(state, group[0], most, head)) {
            const std::vector<uint32_t> before = best;
            for (const uint32_t i : group) {
                const Entry& entry = bag.entries[i];
                const uint32_t length = add_lengths(key, entry.body_length);
                if (length != kInfinite) add(before, best, entry.marks, with_separator(bag, length), 1);
            }
        }
    }
    uint32_t least = kInfinite;
    for (uint32_t marks = 0; marks < sets; ++marks) {
        if ((marks & state.marks) != state.marks) continue;
        for (uint32_t count = extra; count <= most; ++count) least = std::min(least, cell(best, marks, count));
    }
    return least;
}

}  // namespace core
