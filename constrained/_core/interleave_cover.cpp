// Interleaves with obligations: the shortest entries that discharge them.
#include <algorithm>

#include "interleave.hpp"

namespace core {

namespace {

/// An entry that may discharge open obligations, numbered from 0 on.
struct Choice {
    uint32_t obligations, length;
};

/// The bits of `value` at the places of the bits of `mask`, moved together.
uint32_t packed(uint32_t value, uint32_t mask) {
    uint32_t result = 0;
    for (uint32_t place = 0; mask; mask &= mask - 1, ++place) result |= (value >> std::countr_zero(mask) & 1) << place;
    return result;
}

/// The lengths of sets of obligations, each with the cheapest of these entries before the others.
void add_entries(std::span<const Choice> choices, const uint32_t* before, uint32_t* with, uint32_t sets) {
    for (const auto& [obligations, length] : choices) {
        for (uint32_t set = 0; set < sets; ++set) with[set] = std::min(with[set], add_lengths(before[set & ~obligations], length));
    }
}

/// Lengths by sets of obligations, before one more alternative -> with it. `optional`: it may be left out.
void add_alternative(std::span<const Choice> choices, bool optional, const uint32_t* before, uint32_t* with, uint32_t sets) {
    for (uint32_t set = 0; set < sets; ++set) with[set] = optional ? before[set] : kInfinite;
    add_entries(choices, before, with, sets);
}

}  // namespace

/// As `fill` with remaining obligations.
uint32_t InterleaveStore::cover(const View& view, const Others& others, ScalarPrefixId head) const {
    const uint32_t due = view.state.obligations, most = most_covering(due, others);
    if (most < others.least) return kInfinite;
    if (most > kMaxDistinct) throw TooLarge("too many entries with obligations are required");
    return covered(cover_rows(view, others.least > 0, most, head), due, others);
}

/// What `rows` say of a state with obligations `due` that differs in nothing else from the one they were made for.
uint32_t InterleaveStore::covered(const CoverRows& rows, uint32_t due, const Others& others) const {
    const uint32_t sets = 1u << std::popcount(rows.due), all = packed(due, rows.due), most = most_covering(due, others);
    uint32_t least = kInfinite;
    for (uint32_t count = others.least; count <= most; ++count) least = std::min(least, rows.best[size_t{sets} * count + all]);
    return least;
}

/// Dynamic programming over (entries that are not required, discharged obligations), one alternative at a time. `any`: also of
/// entries that discharge nothing.
InterleaveStore::CoverRows InterleaveStore::cover_rows(const View& view, bool any, uint32_t most, ScalarPrefixId head) const {
    const State& state = view.state;
    const Definition& interleave = definitions_[state.interleave];
    const std::vector<Entry>& entries = interleave.entries;
    const uint32_t due = state.obligations, sets = 1u << std::popcount(due);
    CoverRows rows{due, std::vector<uint32_t>(size_t{sets} * (most + 1), kInfinite)};
    std::vector<uint32_t> before(sets);
    rows.best[0] = 0;
    const auto row = [&](uint32_t count) { return &rows.best[size_t{sets} * count]; };
    const auto useful = [&](const Entry& entry) { return any || (entry.obligations & due) != 0; };
    std::vector<Choice> choices;
    const auto choose = [&](const Entry& entry, uint32_t length) {
        if (length != kInfinite) choices.push_back({packed(entry.obligations, due), with_separator(interleave, length)});
    };
    const auto spend = [&] { work_.spend(1 + uint64_t{sets} * (most + 1) * choices.size() / kCellsOfStep); };
    size_t begin = 0;
    for (size_t end; begin < entries.size() && entries[begin].alternative != kRepeatable; begin = end) {
        const uint32_t alternative = entries[begin].alternative;
        const bool required = has(interleave.required_words.data(), alternative);
        bool matters = required;  // one that discharges nothing makes a text longer, where no number of entries is demanded
        for (end = begin; end < entries.size() && entries[end].alternative == alternative; ++end) matters |= useful(entries[end]);
        if (!matters || !has(view.open, alternative)) continue;
        choices.clear();
        for (size_t i = begin; i < end; ++i) choose(entries[i], entries[i].length);
        spend();
        if (required) {
            for (uint32_t count = 0; count <= most; ++count) {
                std::copy_n(row(count), sets, before.data());
                add_alternative(choices, false, before.data(), row(count), sets);
            }
        } else {
            for (uint32_t count = most; count-- > 0;) add_entries(choices, row(count), row(count + 1), sets);
        }
    }
    choices.clear();
    for (; begin < entries.size(); ++begin) {
        if (!entries[begin].distinct) choose(entries[begin], entries[begin].length);
    }
    spend();
    for (uint32_t count = 0; count < most; ++count) add_entries(choices, row(count), row(count + 1), sets);
    for (const auto& group : interleave.distinct) {  // each of its values may be the head of one entry
        if (most == 0 || std::ranges::none_of(group, [&](uint32_t i) { return useful(entries[i]); })) continue;
        for (const uint32_t key : distinct_lengths(state, group[0], most, head)) {
            choices.clear();
            for (const uint32_t i : group) choose(entries[i], add_lengths(key, entries[i].body_length));
            spend();
            for (uint32_t count = most; count-- > 0;) add_entries(choices, row(count), row(count + 1), sets);
        }
    }
    return rows;
}

/// Whether `covers` knows the lengths of a state: no number of entries is demanded beyond what the obligations and
/// required alternatives take, and none can be exceeded.
bool InterleaveStore::covers_together(InterleaveId id) const {
    const State& state = states_[id.value];
    const Definition& interleave = definitions_[state.interleave];
    return state.obligations != 0 && state.low <= 1 && !interleave.ordered && interleave.separator_length != kInfinite &&
           state.high > uint64_t{state.required} + std::popcount(state.obligations) && state.required_bytes != kNoText;
}

/// By set of obligations: the minimum length of these repeatable entries that discharge it.
void InterleaveStore::cover_repeatedly(const State& state, std::span<const Entry> entries, std::span<uint32_t> lengths) const {
    const Definition& interleave = definitions_[state.interleave];
    const auto choice = [&](const Entry& entry, uint32_t length) { return Choice{packed(entry.obligations, state.obligations), with_separator(interleave, length)}; };
    std::vector<Choice> choices;
    for (const Entry& entry : entries) {
        if (!entry.distinct && entry.length != kInfinite && (entry.obligations & state.obligations)) choices.push_back(choice(entry, entry.length));
    }
    for (uint32_t set = 1; set < lengths.size(); ++set) {
        lengths[set] = kInfinite;
        for (const auto& [obligations, length] : choices) {
            if (set & obligations) lengths[set] = std::min(lengths[set], add_lengths(lengths[set & ~obligations], length));
        }
    }
    for (const auto& group : interleave.distinct) {  // each of its values may be the head of one entry
        choices.clear();
        for (const uint32_t i : group) {
            const Entry& entry = interleave.entries[i];
            if (entry.body_length != kInfinite && (entry.obligations & state.obligations)) choices.push_back(choice(entry, entry.body_length));
        }
        if (choices.empty()) continue;
        uint32_t head = 0;
        for (const uint32_t next : distinct_lengths(state, group[0], std::popcount(state.obligations), JsonValues::kUntracked)) {
            for (Choice& one : choices) one.length = add_lengths(one.length, next - head);  // ascending
            head = next;
            for (size_t set = lengths.size(); set-- > 1;) {  // from large to small: a set reads smaller ones before they change
                for (const auto& [obligations, length] : choices) lengths[set] = std::min(lengths[set], add_lengths(lengths[set & ~obligations], length));
            }
        }
    }
}

/// The lengths of all entries together. Each alternative is left out of the others once: what those before it discharge,
/// and what those behind it do, are tables by sets of obligations.
const InterleaveStore::Covers& InterleaveStore::covers(InterleaveId id) const {
    if (covers_.of == id.value) return covers_;
    const View view = this->view(id);
    const Definition& interleave = definitions_[view.state.interleave];
    const uint32_t due = view.state.obligations, sets = 1u << std::popcount(due);
    const std::vector<Entry>& entries = interleave.entries;
    std::vector<uint32_t>& after = covers_.after;
    covers_.of = kNoState;  // an allocation below may throw
    after.assign(entries.size(), kUnknownRest);

    struct Stage {
        size_t begin, end;  // of its entries
        bool required;
        std::vector<Choice> choices;
    };
    std::vector<Stage> stages;     // the alternatives that may discharge something
    uint64_t base = view.state.required_bytes;  // of the required alternatives that do not
    size_t begin = 0;
    for (size_t end; begin < entries.size() && entries[begin].alternative != kRepeatable; begin = end) {
        const uint32_t alternative = entries[begin].alternative;
        Stage stage{begin, begin, false, {}};
        bool useful = false;
        for (; stage.end < entries.size() && entries[stage.end].alternative == alternative; ++stage.end) {
            const Entry& entry = entries[stage.end];
            useful |= (entry.obligations & due) != 0;
            if (entry.length != kInfinite) stage.choices.push_back({packed(entry.obligations, due), with_separator(interleave, entry.length)});
        }
        end = stage.end;
        if (!useful || !has(view.open, alternative)) continue;
        stage.required = has(interleave.required_words.data(), alternative);
        if (stage.required) base -= with_separator(interleave, interleave.cheapest[alternative]);
        stages.push_back(std::move(stage));
    }

    work_.spend(1 + (stages.size() + entries.size()) * sets / kCellsOfStep);
    std::vector<uint32_t> behind((stages.size() + 1) * sets);  // by stage: the lengths of this one and those behind it
    cover_repeatedly(view.state, std::span(entries).subspan(begin), {&behind[stages.size() * sets], sets});
    for (size_t i = stages.size(); i-- > 0;) add_alternative(stages[i].choices, !stages[i].required, &behind[(i + 1) * sets], &behind[i * sets], sets);
    const auto with_others = [](uint64_t others, uint32_t length) { return length == kInfinite ? kInfinite : bounded_length(others + length); };
    covers_.whole = with_others(base, behind[sets - 1]);

    const auto left = [&](const Entry& entry) { return packed(due & ~entry.obligations, due); };
    for (size_t i = 0; i < entries.size(); ++i) {
        const Entry& entry = entries[i];
        if (left(entry) == 0) continue;
        const bool counted = entry.alternative != kRepeatable && has(interleave.required_words.data(), entry.alternative);
        const uint64_t others = base - (counted ? with_separator(interleave, interleave.cheapest[entry.alternative]) : 0);
        after[i] = with_others(others, behind[left(entry)]);
    }
    std::vector<uint32_t> ahead(sets, kInfinite), next(sets);  // the lengths of the stages before one
    ahead[0] = 0;
    for (size_t i = 0; i < stages.size(); ++i) {
        const uint32_t* rest = &behind[(i + 1) * sets];
        for (size_t j = stages[i].begin; j < stages[i].end; ++j) {
            const uint32_t all = left(entries[j]);
            if (all == 0) continue;
            uint32_t least = kInfinite;
            for (uint32_t part = all;; part = (part - 1) & all) {
                least = std::min(least, add_lengths(ahead[part], rest[all & ~part]));
                if (part == 0) break;
            }
            after[j] = with_others(base, least);
        }
        add_alternative(stages[i].choices, !stages[i].required, ahead.data(), next.data(), sets);
        ahead.swap(next);
    }
    covers_.of = id.value;
    return covers_;
}

}  // namespace core
