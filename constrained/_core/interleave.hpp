// Interleaves (RELAX NG): entries in any order, at most one per alternative, counted, with distinct heads.
//
// Invariants
//  * A state contains only what matters for the future: open alternatives, remaining obligations, and how many entries must
//    and may follow. Equal futures are the same state.
//  * States are created lazily; an interleave of n alternatives costs n words of definition, not 2^n states.
//  * `length` is exact. Any set of open alternatives can be written in some order, so the shortest text consists of the
//    cheapest entries of the required alternatives and the cheapest other entries that counts and obligations demand.
//    Distinct heads are JSON scalars, and no value has texts in two head languages of one interleave, so the number of
//    remaining values does not depend on which values were used.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "json_values.hpp"

namespace core {

using InterleaveId = Id<struct InterleaveTag>;

class InterleaveStore {
public:
    static constexpr uint32_t kRepeatable = UINT32_MAX;  ///< the alternative of an entry that may occur any number of times
    static constexpr uint32_t kMaxDistinct = 256;  ///< maximum number of distinct heads in one search
    static constexpr int32_t kMaxObligations = 12;         ///< tables are as long as there are sets of them
    static constexpr int32_t kMaxAlternatives = 1 << 20;  ///< each state has a bit for each

    struct Entry {
        ExprId head, body;  // the head is not nullable
        uint32_t alternative;      // at most one entry per alternative
        uint32_t obligations;     // obligations that the entry discharges
        bool distinct = false;  // the head value differs from those of all other distinct entries; `alternative` is kRepeatable
        RegexId language{};     // of a distinct head
        uint32_t group = 0;     // of the entries with this language, in `Definition::distinct`
        uint32_t length = kInfinite;
        uint32_t body_length = kInfinite;
    };
    struct Definition {
        std::vector<Entry> entries;  // by alternative, repeatable ones last
        std::vector<uint32_t> required;  // alternatives
        uint32_t obligations;              // all must be discharged at the end
        uint32_t low, high;          // number of entries
        ExprId separator;
        bool ordered;                // alternatives in ascending order, then repeatable entries

        // Computed by `add` and `measure`.
        uint32_t alternatives = 0;
        std::vector<uint32_t> required_words;
        std::vector<uint32_t> cheapest;   // by alternative: length of its shortest entry
        std::vector<uint32_t> by_length;  // alternatives, and kRepeatable for repeatable entries, by ascending length
        uint32_t shortest_repeatable = kInfinite;  // without distinct heads
        std::vector<std::vector<uint32_t>> distinct;  // entry indices, grouped by head language
        mutable std::optional<bool> always_extensible;  // its distinct heads
        mutable std::vector<uint32_t> like;             // by alternative: the first one whose entries are as long and discharge the same; see `first_like`
        uint32_t distinct_obligations = 0;            // that entries with distinct heads can discharge
        uint32_t separator_length = kInfinite;
    };

    /// Position relative to entries and separators.
    enum class Turn : uint32_t {
        First,  ///< at the start: an entry or the end may follow
        Entry,  ///< after a separator: an entry must follow
        After,  ///< after an entry: a separator or the end may follow
    };

    /// `work`: counts the sets of obligations for which the shortest entries are found.
    explicit InterleaveStore(Work& work) : work_(work) {}

    /// Required for distinct heads.
    void set_values(JsonValues* values) { values_ = values; }
    JsonValues* values() const { return values_; }

    /// The state before any entry.
    InterleaveId add(Definition definition);
    /// Updates the lengths of the entries; call it when the lengths of expressions may have changed.
    void measure(InterleaveId start, const std::function<uint32_t(ExprId)>& length);

    /// Whether many entries are demanded of some interleave, or some out of several languages, or several obligations: each mask then counts over all of them.
    bool demanding() const { return demanding_; }
    const Definition& definition(InterleaveId id) const { return definitions_[states_[id.value].interleave]; }
    /// Whether an entry may come next. It can be completed iff `length_after` is finite.
    bool can_enter(InterleaveId id, uint32_t entry) const;
    /// The state after an entry with this head (kUntracked: a head that differs from all others).
    InterleaveId consume_entry(InterleaveId id, uint32_t entry, ScalarPrefixId head = JsonValues::kUntracked);
    ValueSetId seen(InterleaveId id) const { return states_[id.value].seen; }
    /// Whether more entries may follow some head that was taken to differ from all others: they may repeat its value.
    bool forgets(InterleaveId id) const { return states_[id.value].forgets; }
    /// The same where the head of this entry, which is being read, is taken to differ.
    bool forgets_head(InterleaveId id, uint32_t entry) const {
        const State& state = states_[id.value];
        return state.forgets || (state.high > 1 && definition(id).entries[entry].distinct);
    }
    /// Whether the interleave may end here.
    bool complete(InterleaveId id) const {
        const State& state = states_[id.value];
        return state.required == 0 && state.low == 0 && state.obligations == 0;
    }
    /// Whether the minimum length after a repeatable entry depends on the value of its head.
    bool length_depends_on_head(InterleaveId id, uint32_t entry) const {
        const State& state = states_[id.value];
        const Definition& interleave = definition(id);
        return state.low > state.required + 1 ||
               (state.obligations & ~interleave.entries[entry].obligations & interleave.distinct_obligations) != 0;
    }
    /// Whether a shortest text after this entry and `more` others may depend on the value of its head, which begins with this text.
    bool may_need_value(InterleaveId id, uint32_t entry, uint32_t more, ScalarPrefixId head) const;
    /// The bytes behind which it still may with no others, and perhaps more bytes.
    ByteSet may_need_value_after(InterleaveId id, uint32_t entry, ScalarPrefixId head) const;
    /// `JsonValues::always_extensible` of all distinct heads.
    bool always_extensible(InterleaveId id) const;
    /// Minimum length in bytes; kInfinite if there is no text.
    uint32_t length(InterleaveId id, Turn turn) const;
    /// Minimum length of the separators and entries after an entry with this head; an upper bound for `kAnyScalar`. `kStart`: the
    /// first shortest head that may follow.
    uint32_t length_after(InterleaveId id, uint32_t entry, ScalarPrefixId head = JsonValues::kUntracked) const;

    /// The entries of all interleaves refer to expressions and residuals: calls on_expr(ExprId&) for each.
    template <class OnExpr>
    void for_each_expr(OnExpr&& on_expr) {
        for (Definition& definition : definitions_) {
            on_expr(definition.separator);
            for (Entry& entry : definition.entries) on_expr(entry.head), on_expr(entry.body);
        }
    }
    Survivors nothing_kept() const { return Survivors(states_.size()); }
    /// Marks the sets of values of the marked states.
    void mark_sets(const Survivors& states, Survivors& sets) const;
    /// Keeps the marked states, and gives them new numbers. `sets`: new numbers of their sets.
    void collect(Survivors& states, const Survivors& sets);

    size_t bytes() const {
        return states_.capacity() * sizeof(State) + words_.capacity() * sizeof(uint32_t) + index_.bytes() + definition_bytes_ + 64 * (lengths_.balances.size() + lengths_.after.size()) + 4 * (lengths_.cells + lengths_.row_cells);
    }

private:
    struct State {
        uint32_t interleave;
        uint32_t obligations;        // not discharged
        uint32_t low, high;    // entries that must and may follow
        ValueSetId seen;           // values of the distinct heads so far
        bool forgets;          // not of all of them, and more entries may follow
        uint32_t at;           // offset of the open alternatives in `words_`
        uint32_t required;       // number of open required alternatives
        uint64_t required_bytes; // their minimum length, with separators; `kNoText` if one of them cannot be written
    };
    struct View {
        State state;
        const uint32_t* open;
    };

    static uint64_t hash_of(const State& state, std::span<const uint32_t> open) {
        const uint64_t hash = combine(combine(combine(combine(state.interleave, state.obligations), state.low), state.high), 2 * uint64_t{state.seen.value} + state.forgets);
        return hash_words(open, hash);
    }
    static constexpr uint32_t kManyEntries = 16, kSeveralObligations = 4;  // see `demanding`
    static constexpr uint32_t kCellsOfStep = 64;  // of a table of lengths, that are a step of work
    static constexpr uint64_t kNoText = UINT64_MAX;
    static constexpr uint32_t kNoState = UINT32_MAX, kUnknownRest = UINT32_MAX - 1;
    /// Minimum lengths of a state with obligations, all entries with their separators.
    struct Covers {
        uint32_t of = kNoState;
        uint32_t whole = kInfinite;
        std::vector<uint32_t> after;  // by entry: what follows it where obligations are left; otherwise `kUnknownRest`
    };

    static constexpr uint32_t kNoPlace = UINT32_MAX;
    /// Of a state without obligations: what the cheapest entries cost that it does not require, with their separators.
    struct Fills {
        uint32_t of = kNoState;
        std::vector<uint32_t> place;  // by alternative: among these entries, by ascending length; `kNoPlace`: not among them
        std::vector<uint64_t> sums;   // by number of them
        uint32_t repeatable = kInfinite;  // of any further entry
        std::vector<uint32_t> after;      // of an ordered interleave, by alternative: what follows it; or `kUnknownRest`
    };

    static bool has(const uint32_t* words, uint32_t bit) { return words[bit / 32] >> (bit % 32) & 1; }
    /// Length of an entry and its separator.
    static uint32_t with_separator(const Definition& interleave, uint32_t length) {
        return add_lengths(length, interleave.separator_length == kInfinite ? 0 : interleave.separator_length);
    }
    /// The same of what begins with an entry: it has a separator less.
    static uint32_t without_separator(const Definition& interleave, uint32_t length) {
        return length >= kLongest ? length : length - interleave.separator_length;
    }
    /// Entries beside the required ones: how many must and may follow.
    struct Others {
        uint32_t least, most;
    };
    /// Minimum lengths by the number of entries that are not required, then by the set of obligations that are discharged.
    struct CoverRows {
        uint32_t due;  // the obligations that are told apart
        std::vector<uint32_t> best;
    };
    /// A value that is not left for other entries: one of those that a language is short of, by its length; or any.
    struct Taken {
        uint32_t group = 0;
        uint32_t length = kNoValue;
        bool operator==(const Taken&) const = default;
    };
    static constexpr uint32_t kNoValue = kInfinite, kAnyValue = kInfinite - 1;
    /// A length after an entry, by all that it depends on.
    struct After {
        uint32_t balance;  // of the state, see `balance`
        uint32_t closed;   // by the entry, see `closed_by`
        uint32_t left;     // obligations that the entry leaves
        Taken taken;
        bool operator==(const After&) const = default;
    };
    struct AfterHash {
        size_t operator()(const After& after) const {
            return combine(combine(combine(after.balance, after.closed), after.left), combine(after.taken.group, after.taken.length));
        }
    };
    static constexpr size_t kKnownLengths = 1u << 14, kKnownCells = 1u << 19;
    /// What is known of states with distinct heads. All of it is forgotten when it is much.
    struct Lengths {
        std::unordered_map<uint32_t, uint32_t> balances;  // by state
        std::map<std::vector<uint32_t>, uint32_t> numbers;  // of balances
        std::unordered_map<After, uint32_t, AfterHash> after;
        std::unordered_map<After, CoverRows, AfterHash> rows;
        size_t cells = 0, row_cells = 0;  // of `numbers`; of `rows`
    };

    View view(InterleaveId id) const { return {states_[id.value], words_.data() + states_[id.value].at}; }
    std::optional<uint32_t> values_needed(InterleaveId id, uint32_t entry, uint32_t more) const;
    uint32_t shortest_after(InterleaveId id, uint32_t entry, ScalarPrefixId head, const CoverRows* rows = nullptr) const;
    std::optional<uint32_t> balance(InterleaveId id) const;
    static constexpr uint32_t kNothing = kRepeatable - 1;  // of `After::closed`
    uint32_t closed_by(const Definition& interleave, uint32_t entry) const;
    uint32_t first_like(const Definition& interleave, uint32_t alternative) const;
    const CoverRows* rows_together(InterleaveId id, uint32_t balance, std::optional<uint32_t> entry, Taken taken, ScalarPrefixId head) const;
    void forget_lengths() const { lengths_ = Lengths(); }
    bool after(View& view, uint32_t entry, std::vector<uint32_t>& open) const;
    InterleaveId intern(State state, const std::vector<uint32_t>& open);
    void count_required(State& state, const uint32_t* open) const;
    // `head`: of the last entry, which is not in `seen`.
    std::optional<Others> others(const State& state) const;
    uint32_t shortest(const View& view, Turn turn, ScalarPrefixId head, const CoverRows* rows = nullptr) const;
    uint32_t fill(const View& view, uint32_t extra, ScalarPrefixId head) const;
    std::vector<uint32_t> distinct_lengths(const State& state, uint32_t entry, uint32_t count, ScalarPrefixId head) const;
    /// Of so many entries some discharge these obligations, if any do.
    static uint32_t most_covering(uint32_t due, const Others& others) { return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{others.least} + std::popcount(due), others.most)); }
    uint32_t cover(const View& view, const Others& others, ScalarPrefixId head) const;
    uint32_t covered(const CoverRows& rows, uint32_t due, const Others& others) const;
    CoverRows cover_rows(const View& view, bool any, uint32_t most, ScalarPrefixId head) const;
    bool fills_together(InterleaveId id) const;
    const Fills& fills(InterleaveId id) const;
    uint32_t filled_after(InterleaveId id, uint32_t entry) const;
    void fill_in_order(const View& view) const;
    bool covers_together(InterleaveId id) const;
    const Covers& covers(InterleaveId id) const;
    void cover_repeatedly(const State& state, std::span<const Entry> entries, std::span<uint32_t> lengths) const;

    Work& work_;
    std::vector<Definition> definitions_;
    std::vector<State> states_;
    std::vector<uint32_t> words_;
    InternTable index_;
    size_t definition_bytes_ = 0;
    bool demanding_ = false;
    JsonValues* values_ = nullptr;
    mutable std::vector<uint32_t> scratch_;
    mutable Covers covers_;  // of the state that was asked for last
    mutable Fills fills_;    // likewise
    mutable Lengths lengths_;
};

}  // namespace core
