// Interleaves with distinct heads: lengths by what they depend on.
//
// Which values were used matters to a length only by how long the shortest ones are that are left: the *balance* of a state.
// Many states have the same, and nearly all heads take away nothing that a shortest text needs, so few lengths are computed.
#include <algorithm>

#include "interleave.hpp"

namespace core {

uint32_t InterleaveStore::length(InterleaveId id, Turn turn) const {
    if (!covers_together(id)) {
        const auto balance = this->balance(id);
        const CoverRows* rows = balance ? rows_together(id, *balance, std::nullopt, {}, JsonValues::kUntracked) : nullptr;
        return shortest(view(id), turn, JsonValues::kUntracked, rows);
    }
    const uint32_t whole = covers(id).whole;
    return turn == Turn::After ? whole : without_separator(definition(id), whole);
}

uint32_t InterleaveStore::length_after(InterleaveId id, uint32_t index, ScalarPrefixId head) const {
    const Definition& interleave = definition(id);
    const Entry& entry = interleave.entries[index];
    Taken taken;
    const bool first = head == JsonValues::kStart;
    if (head != JsonValues::kUntracked && !length_depends_on_head(id, index)) {
        head = JsonValues::kUntracked;
    } else if (head == JsonValues::kAnyScalar) {
        taken.length = kAnyValue;
    } else if (head != JsonValues::kUntracked) {
        const auto count = values_needed(id, index, 0);
        if (!count) return kInfinite;
        const ValueSetId seen = states_[id.value].seen;
        if (*count > kMaxDistinct) {  // too many to list
            return shortest_after(id, index, first ? values_->first_shortest(entry.language, seen) : head);
        }
        // No other language has the value, and values of one length leave the same.
        const auto length = first ? values_->first_length(entry.language, seen) : values_->length_among(head, entry.language, seen, *count);
        if (length) taken = {entry.group, *length};
        else head = JsonValues::kUntracked;
    }
    if (covers_together(id) && head == JsonValues::kUntracked) {
        const uint32_t rest = covers(id).after[index];
        if (rest != kUnknownRest) return rest;
    }
    if (head == JsonValues::kUntracked && fills_together(id)) {
        const uint32_t rest = filled_after(id, index);
        if (rest != kUnknownRest) return rest;
    }
    const auto balance = this->balance(id);
    if (!balance) return shortest_after(id, index, head);
    const uint32_t left = states_[id.value].obligations & ~entry.obligations;
    const After key{*balance, closed_by(interleave, index), left, taken};
    if (const auto known = lengths_.after.find(key); known != lengths_.after.end()) return known->second;
    if (first && head == JsonValues::kStart) head = values_->first_shortest(entry.language, states_[id.value].seen);
    const CoverRows* rows = left != 0 ? rows_together(id, *balance, index, taken, head) : nullptr;
    return lengths_.after[key] = shortest_after(id, index, head, rows);
}

uint32_t InterleaveStore::shortest_after(InterleaveId id, uint32_t entry, ScalarPrefixId head, const CoverRows* rows) const {
    View view = this->view(id);
    return after(view, entry, scratch_) ? shortest(view, Turn::After, head, rows) : kInfinite;
}

/// The number of what the lengths of a state depend on, and those after its entries; none if that is much, or needs no values.
std::optional<uint32_t> InterleaveStore::balance(InterleaveId id) const {
    const View view = this->view(id);
    const State& state = view.state;
    const Definition& interleave = definitions_[state.interleave];
    if (interleave.distinct.empty() && state.obligations == 0) return std::nullopt;
    if (const auto known = lengths_.balances.find(id.value); known != lengths_.balances.end()) return known->second;
    const uint32_t low = std::max(state.low, 1u);
    const uint64_t count = uint64_t{low > state.required ? low - state.required : 0} + std::popcount(state.obligations) + 1;  // and one that is taken
    if (count > kMaxDistinct) return std::nullopt;
    std::vector<uint32_t> content{state.interleave, state.obligations, state.low, state.high};
    content.insert(content.end(), view.open, view.open + interleave.required_words.size());
    for (const auto& group : interleave.distinct) {
        const std::vector<uint32_t> lengths = distinct_lengths(state, group[0], static_cast<uint32_t>(count), JsonValues::kUntracked);
        content.push_back(static_cast<uint32_t>(lengths.size()));
        content.insert(content.end(), lengths.begin(), lengths.end());
    }
    work_.spend(1 + content.size() / kCellsOfStep);
    if (lengths_.balances.size() + lengths_.after.size() >= kKnownLengths || lengths_.cells >= kKnownCells) forget_lengths();
    const auto number = static_cast<uint32_t>(lengths_.numbers.size());
    const auto [known, fresh] = lengths_.numbers.try_emplace(std::move(content), number);
    if (fresh) lengths_.cells += known->first.size() + 16;
    return lengths_.balances[id.value] = known->second;
}

/// Which alternatives an entry closes, as far as lengths depend on it: where entries have an order, all up to its own.
uint32_t InterleaveStore::closed_by(const Definition& interleave, uint32_t entry) const {
    const uint32_t alternative = interleave.entries[entry].alternative;
    if (interleave.ordered) return alternative;
    return alternative == kRepeatable ? kNothing : first_like(interleave, alternative);
}

/// The first alternative whose entries are as long, and discharge the same.
uint32_t InterleaveStore::first_like(const Definition& interleave, uint32_t alternative) const {
    if (interleave.like.empty()) {
        work_.spend(interleave.entries.size());
        std::vector<uint32_t> like;
        std::map<std::vector<uint32_t>, uint32_t> firsts;  // by what an alternative is to lengths
        auto entry = interleave.entries.begin();
        for (uint32_t at = 0; at < interleave.alternatives; ++at) {
            std::vector<uint32_t> content{has(interleave.required_words.data(), at)};
            for (; entry != interleave.entries.end() && entry->alternative == at; ++entry) content.insert(content.end(), {entry->length, entry->obligations});
            like.push_back(firsts.try_emplace(std::move(content), at).first->second);
        }
        interleave.like = std::move(like);
    }
    return interleave.like[alternative];
}

/// What serves a state, or all states that entries lead to which close the same as this one; null if it would be much, or there is no text.
const InterleaveStore::CoverRows* InterleaveStore::rows_together(InterleaveId id, uint32_t balance, std::optional<uint32_t> entry, Taken taken, ScalarPrefixId head) const {
    View view = this->view(id);
    const auto others = this->others(view.state);
    if (view.state.obligations == 0 || !others) return nullptr;
    const uint32_t most = most_covering(view.state.obligations, *others);
    if (most < others->least || most > kMaxDistinct) return nullptr;
    const After key{balance, entry ? closed_by(definition(id), *entry) : kNothing, 0, taken};
    if (const auto known = lengths_.rows.find(key); known != lengths_.rows.end()) return &known->second;
    View next = view;
    std::vector<uint32_t> open;
    if (entry && !after(next, *entry, open)) return nullptr;
    view.open = next.open;
    CoverRows rows = cover_rows(view, others->least > 0, most, head);
    if (lengths_.row_cells >= kKnownCells) lengths_.rows.clear(), lengths_.row_cells = 0;
    lengths_.row_cells += rows.best.size() + 16;
    return &(lengths_.rows[key] = std::move(rows));
}

/// How many values a shortest text after this entry and `more` others has at most; none if there is no text.
std::optional<uint32_t> InterleaveStore::values_needed(InterleaveId id, uint32_t entry, uint32_t more) const {
    View view = this->view(id);
    if (!after(view, entry, scratch_)) return std::nullopt;
    const State& state = view.state;
    const uint32_t low = std::max(state.low, 1u);
    return (low > state.required ? low - state.required : 0) + std::popcount(state.obligations) + more;
}

bool InterleaveStore::may_need_value(InterleaveId id, uint32_t entry, uint32_t more, ScalarPrefixId head) const {
    if (more == 0 && !length_depends_on_head(id, entry)) return false;
    const auto count = values_needed(id, entry, more);
    if (!count) return false;
    if (*count > kMaxDistinct) return true;  // too many to list
    return values_->may_be_among(head, definition(id).entries[entry].language, states_[id.value].seen, *count);
}

ByteSet InterleaveStore::may_need_value_after(InterleaveId id, uint32_t entry, ScalarPrefixId head) const {
    if (!length_depends_on_head(id, entry)) return {};
    const auto count = values_needed(id, entry, 0);
    if (!count) return {};
    if (*count > kMaxDistinct) return ByteSet().set();
    return values_->may_stay_among(head, definition(id).entries[entry].language, states_[id.value].seen, *count);
}

bool InterleaveStore::always_extensible(InterleaveId id) const {
    const Definition& interleave = definition(id);
    if (!interleave.always_extensible) {
        interleave.always_extensible = std::ranges::all_of(interleave.distinct, [&](const std::vector<uint32_t>& group) {
            return values_->always_extensible(interleave.entries[group[0]].language);
        });
    }
    return *interleave.always_extensible;
}

}  // namespace core
