#include "interleave.hpp"

#include <algorithm>

namespace core {

InterleaveId InterleaveStore::add(Definition definition) {
    std::stable_sort(definition.entries.begin(), definition.entries.end(),
                     [](const Entry& a, const Entry& b) { return a.alternative < b.alternative; });
    for (const Entry& entry : definition.entries) {
        if (entry.alternative != kRepeatable) definition.alternatives = std::max(definition.alternatives, entry.alternative + 1);
    }
    for (uint32_t i = 0; i < definition.entries.size(); ++i) {
        const Entry& entry = definition.entries[i];
        if (!entry.distinct) continue;
        definition.distinct_obligations |= entry.obligations;
        auto same = std::ranges::find_if(definition.distinct, [&](const std::vector<uint32_t>& group) {
            return definition.entries[group[0]].language == entry.language;
        });
        if (same == definition.distinct.end()) same = definition.distinct.emplace(same);
        definition.entries[i].group = static_cast<uint32_t>(same - definition.distinct.begin());
        same->push_back(i);
    }
    for (const uint32_t alternative : definition.required) definition.alternatives = std::max(definition.alternatives, alternative + 1);
    std::ranges::sort(definition.required);  // each is counted once
    definition.required.erase(std::unique(definition.required.begin(), definition.required.end()), definition.required.end());
    const size_t words = (definition.alternatives + 31) / 32;
    std::vector<uint32_t> open(words, 0);
    definition.required_words.assign(words, 0);
    for (uint32_t alternative = 0; alternative < definition.alternatives; ++alternative) open[alternative / 32] |= 1u << (alternative % 32);
    for (const uint32_t alternative : definition.required) definition.required_words[alternative / 32] |= 1u << (alternative % 32);
    State state{};
    state.interleave = static_cast<uint32_t>(definitions_.size());
    state.obligations = definition.obligations, state.low = definition.low, state.high = definition.high;
    definition_bytes_ += sizeof(Definition) + definition.entries.capacity() * sizeof(Entry) + 16 * definition.alternatives;
    demanding_ |= definition.low * std::max<size_t>(1, definition.distinct.size()) > kManyEntries || std::popcount(definition.obligations) > static_cast<int>(kSeveralObligations);
    definitions_.push_back(std::move(definition));
    return intern(state, open);
}

void InterleaveStore::measure(InterleaveId start, const std::function<uint32_t(ExprId)>& length) {
    State& state = states_[start.value];
    Definition& interleave = definitions_[state.interleave];
    interleave.separator_length = length(interleave.separator);
    interleave.cheapest.assign(interleave.alternatives, kInfinite);
    interleave.shortest_repeatable = kInfinite;
    for (Entry& entry : interleave.entries) {
        entry.body_length = length(entry.body);
        entry.length = add_lengths(length(entry.head), entry.body_length);
        if (entry.distinct) continue;
        uint32_t& shortest = entry.alternative == kRepeatable ? interleave.shortest_repeatable : interleave.cheapest[entry.alternative];
        shortest = std::min(shortest, entry.length);
    }
    interleave.by_length.clear();
    covers_.of = fills_.of = kNoState;
    forget_lengths();
    interleave.like.clear();
    for (uint32_t alternative = 0; alternative < interleave.alternatives; ++alternative) {
        if (interleave.cheapest[alternative] != kInfinite) interleave.by_length.push_back(alternative);
    }
    if (interleave.shortest_repeatable != kInfinite) interleave.by_length.push_back(kRepeatable);
    const auto shortest = [&](uint32_t alternative) { return alternative == kRepeatable ? interleave.shortest_repeatable : interleave.cheapest[alternative]; };
    std::stable_sort(interleave.by_length.begin(), interleave.by_length.end(),
                     [&](uint32_t a, uint32_t b) { return shortest(a) < shortest(b); });
    count_required(state, words_.data() + state.at);
}

void InterleaveStore::count_required(State& state, const uint32_t* open) const {
    const Definition& interleave = definitions_[state.interleave];
    state.required = 0, state.required_bytes = 0;
    for (const uint32_t alternative : interleave.required) {
        if (!has(open, alternative)) continue;
        ++state.required;
        if (interleave.cheapest.empty() || state.required_bytes == kNoText) continue;
        const uint32_t length = with_separator(interleave, interleave.cheapest[alternative]);
        state.required_bytes = length == kInfinite ? kNoText : state.required_bytes + length;
    }
}

/// Normalises the state (computing `required` and `required_bytes`) and interns it.
InterleaveId InterleaveStore::intern(State state, const std::vector<uint32_t>& open) {
    count_required(state, open.data());
    if (state.low <= state.required) state.low = 0;
    const Definition& interleave = definitions_[state.interleave];
    if (interleave.entries.empty() || interleave.entries.back().alternative != kRepeatable) {  // at most one entry per alternative
        uint32_t alternatives = 0;
        for (const uint32_t word : open) alternatives += std::popcount(word);
        if (alternatives <= state.high) state.high = kInfinite;
    }
    return {index_.find_or_insert(
        hash_of(state, open),
        [&](uint32_t id) {
            const State& other = states_[id];
            return other.interleave == state.interleave && other.obligations == state.obligations && other.low == state.low &&
                   other.high == state.high && other.seen == state.seen && other.forgets == state.forgets &&
                   std::equal(open.begin(), open.end(), words_.begin() + other.at);
        },
        [&] {
            state.at = static_cast<uint32_t>(words_.size());
            words_.insert(words_.end(), open.begin(), open.end());
            states_.push_back(state);
            return static_cast<uint32_t>(states_.size() - 1);
        })};
}

bool InterleaveStore::can_enter(InterleaveId id, uint32_t entry) const {
    const State& state = states_[id.value];
    const uint32_t alternative = definitions_[state.interleave].entries[entry].alternative;
    return state.high > 0 && (alternative == kRepeatable || has(words_.data() + state.at, alternative));
}

/// Advances a view by an entry. Returns false if an ordered interleave skips a required alternative.
bool InterleaveStore::after(View& view, uint32_t index, std::vector<uint32_t>& open) const {
    State& state = view.state;
    const Definition& interleave = definitions_[state.interleave];
    const Entry& entry = interleave.entries[index];
    state.obligations &= ~entry.obligations;
    if (state.low > 0) --state.low;
    if (state.high != kInfinite) --state.high;
    const size_t words = interleave.required_words.size();
    if (entry.alternative != kRepeatable && has(interleave.required_words.data(), entry.alternative)) {
        --state.required;
        const uint32_t length = with_separator(interleave, interleave.cheapest[entry.alternative]);
        if (state.required_bytes != kNoText) state.required_bytes -= length;
    }
    if (entry.alternative == kRepeatable && !interleave.ordered) return true;
    open.assign(view.open, view.open + words);
    view.open = open.data();
    if (!interleave.ordered) {
        open[entry.alternative / 32] &= ~(1u << (entry.alternative % 32));
        return true;
    }
    const uint32_t passed = entry.alternative == kRepeatable ? interleave.alternatives : entry.alternative;
    for (size_t word = 0; word < words; ++word) {
        uint32_t gone = 0;
        if ((word + 1) * 32 <= passed) {
            gone = UINT32_MAX;
        } else if (word * 32 < passed) {
            gone = (1u << (passed % 32)) - 1;
        }
        if (open[word] & gone & interleave.required_words[word]) return false;
        open[word] &= ~gone;
    }
    if (entry.alternative != kRepeatable) open[entry.alternative / 32] &= ~(1u << (entry.alternative % 32));
    return true;
}

InterleaveId InterleaveStore::consume_entry(InterleaveId id, uint32_t entry, ScalarPrefixId head) {
    View view = this->view(id);
    std::vector<uint32_t> open(view.open, view.open + definitions_[view.state.interleave].required_words.size());
    View next{view.state, view.open};
    std::vector<uint32_t> changed;
    after(next, entry, changed);
    next.state.forgets = next.state.high > 0 && (next.state.forgets || (head == JsonValues::kUntracked && definition(id).entries[entry].distinct));
    if (head != JsonValues::kUntracked) next.state.seen = values_->add(next.state.seen, head);
    return intern(next.state, next.open == view.open ? open : changed);
}

/// How many entries must and may follow beside the required ones; none if there is no text.
std::optional<InterleaveStore::Others> InterleaveStore::others(const State& state) const {
    const bool alone = definitions_[state.interleave].separator_length == kInfinite;  // at most one entry
    const uint32_t low = std::max(state.low, 1u);
    const uint32_t high = alone ? std::min(state.high, 1u) : state.high;
    if (state.required > high || low > high || state.required_bytes == kNoText) return std::nullopt;
    const bool implied = low == 1 && state.obligations != 0;  // whatever discharges them is an entry
    return Others{low > state.required && !implied ? low - state.required : 0, high - state.required};
}

/// `rows`: of a state with these obligations and perhaps more, see `CoverRows`.
uint32_t InterleaveStore::shortest(const View& view, Turn turn, ScalarPrefixId head, const CoverRows* rows) const {
    const State& state = view.state;
    const Definition& interleave = definitions_[state.interleave];
    if (turn != Turn::Entry && state.required == 0 && state.low == 0 && state.obligations == 0) return 0;
    const bool alone = interleave.separator_length == kInfinite;
    if (alone && turn == Turn::After) return kInfinite;
    const auto others = this->others(state);
    if (!others) return kInfinite;
    const uint32_t rest = state.obligations == 0 ? fill(view, others->least, head) : rows ? covered(*rows, state.obligations, *others) : cover(view, *others, head);
    return turn == Turn::After || alone ? rest : without_separator(interleave, rest);
}

/// Minimum length of the required alternatives and `extra` more entries, with separators.
uint32_t InterleaveStore::fill(const View& view, uint32_t extra, ScalarPrefixId head) const {
    const Definition& interleave = definitions_[view.state.interleave];
    if (extra == 0) return bounded_length(view.state.required_bytes);
    std::vector<uint32_t> lengths;  // of candidates for the extra entries
    uint64_t total = view.state.required_bytes;
    uint32_t missing = extra;
    for (const uint32_t alternative : interleave.by_length) {
        if (missing == 0) break;
        if (alternative == kRepeatable) {
            if (interleave.distinct.empty()) {
                for (const uint32_t length : lengths) total += with_separator(interleave, length);
                total += uint64_t{missing} * with_separator(interleave, interleave.shortest_repeatable);
                work_.spend(1 + interleave.by_length.size() / kCellsOfStep);
                return bounded_length(total);
            }
            if (missing > kMaxDistinct) throw TooLarge("too many entries beside distinct ones are required");
            lengths.insert(lengths.end(), missing, interleave.shortest_repeatable);
            missing = 0;
        } else if (has(view.open, alternative) && !has(interleave.required_words.data(), alternative)) {
            lengths.push_back(interleave.cheapest[alternative]);
            --missing;
        }
    }
    for (const auto& group : interleave.distinct) {
        uint32_t body = kInfinite;
        for (const uint32_t i : group) body = std::min(body, interleave.entries[i].body_length);
        if (body == kInfinite) continue;
        if (lengths.empty() && interleave.distinct.size() == 1) {  // nothing but these values
            if (extra > kMaxDistinct) throw TooLarge("too many distinct entries are required");
            const auto heads = values_->shortest_sum(interleave.entries[group[0]].language, view.state.seen, extra, head);
            if (!heads) return kInfinite;
            return bounded_length(total + *heads + uint64_t{extra} * with_separator(interleave, body));
        }
        for (const uint32_t length : distinct_lengths(view.state, group[0], extra, head)) lengths.push_back(add_lengths(length, body));
    }
    work_.spend(1 + (interleave.by_length.size() + lengths.size()) / kCellsOfStep);
    if (lengths.size() < extra) return kInfinite;
    std::nth_element(lengths.begin(), lengths.begin() + (extra - 1), lengths.end());
    for (uint32_t i = 0; i < extra; ++i) total += with_separator(interleave, lengths[i]);
    return bounded_length(total);
}

/// Whether `fills` knows the lengths after all entries of a state: no obligations, and no heads that must differ.
bool InterleaveStore::fills_together(InterleaveId id) const {
    const State& state = states_[id.value];
    const Definition& interleave = definitions_[state.interleave];
    if (interleave.ordered && state.low <= state.required + 1) return false;  // no entry is demanded that is not required
    return state.obligations == 0 && interleave.distinct.empty() && interleave.separator_length != kInfinite &&
           state.required_bytes != kNoText;
}

const InterleaveStore::Fills& InterleaveStore::fills(InterleaveId id) const {
    if (fills_.of == id.value) return fills_;
    const View view = this->view(id);
    const Definition& interleave = definitions_[view.state.interleave];
    fills_.of = kNoState;  // an allocation below may throw
    if (interleave.ordered) {
        fill_in_order(view);
        fills_.of = id.value;
        return fills_;
    }
    fills_.place.assign(interleave.alternatives, kNoPlace);
    fills_.sums.assign(1, 0);
    fills_.repeatable = kInfinite;
    for (const uint32_t alternative : interleave.by_length) {
        if (fills_.sums.size() > uint64_t{view.state.low} + 2) break;  // more are never demanded
        if (alternative == kRepeatable) {
            fills_.repeatable = with_separator(interleave, interleave.shortest_repeatable);
            break;
        }
        if (!has(view.open, alternative) || has(interleave.required_words.data(), alternative)) continue;
        fills_.place[alternative] = static_cast<uint32_t>(fills_.sums.size() - 1);
        fills_.sums.push_back(fills_.sums.back() + with_separator(interleave, interleave.cheapest[alternative]));
    }
    fills_.of = id.value;
    return fills_;
}

/// `Fills::after` for the alternatives before the first required one, which can be skipped: backwards, with the cheapest of those
/// that follow in a heap.
void InterleaveStore::fill_in_order(const View& view) const {
    const State& state = view.state;
    const Definition& interleave = definitions_[state.interleave];
    const uint32_t extra = state.low - 1 - state.required, high = state.high == kInfinite ? kInfinite : state.high - 1;
    const uint32_t further = with_separator(interleave, interleave.shortest_repeatable);
    std::vector<uint32_t> cheapest;  // a heap of at most `extra`, the longest first; none is longer than `further`
    uint64_t sum = 0;
    fills_.after.assign(interleave.alternatives, kUnknownRest);
    for (uint32_t alternative = interleave.alternatives; alternative-- > 0;) {
        if (!has(view.open, alternative)) continue;
        uint32_t& rest = fills_.after[alternative];
        if (has(interleave.required_words.data(), alternative)) {
            std::fill(fills_.after.begin() + alternative, fills_.after.end(), kUnknownRest);
            continue;
        }
        const uint64_t missing = extra - cheapest.size();
        const bool possible = state.low - 1 <= high && (missing == 0 || further != kInfinite);
        rest = possible ? bounded_length(state.required_bytes + sum + missing * further) : kInfinite;
        const uint32_t length = with_separator(interleave, interleave.cheapest[alternative]);
        if (length >= further) continue;
        cheapest.push_back(length);
        std::ranges::push_heap(cheapest);
        sum += length;
        if (cheapest.size() <= extra) continue;
        std::ranges::pop_heap(cheapest);
        sum -= cheapest.back();
        cheapest.pop_back();
    }
}

/// `length_after` for an entry of such a state: as `after` and `shortest`, without going over all alternatives; or `kUnknownRest`.
uint32_t InterleaveStore::filled_after(InterleaveId id, uint32_t index) const {
    const State& state = states_[id.value];
    const Definition& interleave = definitions_[state.interleave];
    const uint32_t alternative = interleave.entries[index].alternative;
    if (interleave.ordered) return alternative == kRepeatable ? kUnknownRest : fills(id).after[alternative];
    const bool counted = alternative != kRepeatable && has(interleave.required_words.data(), alternative);
    const uint32_t high = state.high == kInfinite ? kInfinite : state.high - 1;
    uint32_t required = state.required, low = state.low > 0 ? state.low - 1 : 0;
    uint64_t bytes = state.required_bytes;
    if (counted) --required, bytes -= with_separator(interleave, interleave.cheapest[alternative]);
    if (required == 0 && low == 0) return 0;
    low = std::max(low, 1u);
    if (required > high || low > high) return kInfinite;
    if (low <= required) return bounded_length(bytes);
    const uint32_t extra = low - required;
    const Fills& fills = this->fills(id);
    const uint32_t place = alternative == kRepeatable ? kNoPlace : fills.place[alternative];
    const size_t taken = size_t{extra} + (place < extra), known = fills.sums.size() - 1;  // without the entry itself
    if (taken > known && fills.repeatable == kInfinite) return kInfinite;
    uint64_t total = bytes + fills.sums[std::min(taken, known)];
    if (taken > known) total += (taken - known) * uint64_t{fills.repeatable};
    if (place < extra) total -= fills.sums[place + 1] - fills.sums[place];
    return bounded_length(total);
}

/// Lengths of the `count` shortest heads of an entry that differ from those seen and from each other.
std::vector<uint32_t> InterleaveStore::distinct_lengths(const State& state, uint32_t entry, uint32_t count, ScalarPrefixId head) const {
    if (count > kMaxDistinct) throw TooLarge("too many distinct entries are required");
    return values_->shortest_lengths(definitions_[state.interleave].entries[entry].language, state.seen, count, head);
}

}  // namespace core
