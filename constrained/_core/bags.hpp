// Entries in any order, at most one to a slot, counted, with different heads: what may still come, and the least that must.
//
// Invariants
//  * A state says only what matters from now on: the slots that may still be filled, the marks that are still missing
//    and how many entries must and may follow. Two ways to the same future are the same state.
//  * States are made as texts reach them; a bag of n slots costs n words of definition, not 2^n states.
//  * `length` is exact: any choice of open slots can be written in some order, so the shortest text is the needed slots
//    by their cheapest entries, and the cheapest others as far as counts and marks ask for more. Heads that must differ
//    are JSON scalars, and no value has a text in two such languages of one bag: how many values are left does not
//    depend on which of them were taken.
// Not thread-safe: guarded by the vocabulary's lock.
#pragma once

#include <functional>

#include "values.hpp"

namespace core {

using StateOfBag = Id<struct StateOfBagTag>;

class BagStore {
public:
    static constexpr uint32_t kFree = UINT32_MAX;  ///< the slot of an entry that may come any number of times
    static constexpr uint32_t kMaxDifferent = 256;  ///< different heads that are looked for at once

    struct Entry {
        ExprId head, body;  // head: reads something
        uint32_t slot;      // at most one entry of a slot is written
        uint32_t marks;     // set once it is written
        bool distinct = false;  // the value of its head differs from those of the other such entries; `slot` is kFree
        RegexId language{};     // of the head, if so
        uint32_t length = kInfinite;
        uint32_t body_length = kInfinite;
    };
    struct Definition {
        std::vector<Entry> entries;  // by slot, free ones last
        std::vector<uint32_t> needed;  // slots
        uint32_t marks;              // all of them must be set at the end
        uint32_t low, high;          // number of entries
        ExprId separator;
        bool ordered;                // slots are filled in the order of their numbers, free entries come last

        // Made by `add` and `measure`.
        uint32_t slots = 0;
        std::vector<uint32_t> needed_words;
        std::vector<uint32_t> cheapest;   // by slot: the length of its shortest entry
        std::vector<uint32_t> by_length;  // slots, and kFree for free entries, the shortest first
        uint32_t shortest_free = kInfinite;  // but those with a distinct head
        std::vector<std::vector<uint32_t>> distinct;  // entries, by the language of their heads
        uint32_t separator_length = kInfinite;
    };

    /// When the next entry is written.
    enum class Turn : uint32_t {
        First,  ///< nothing was written yet: an entry, or the end
        Entry,  ///< after a separator: an entry
        After,  ///< after an entry: a separator, or the end
    };

    /// Whoever knows the values; needed where heads must differ.
    void set_values(Values* values) { values_ = values; }
    Values* values() const { return values_; }

    /// The state before any entry.
    StateOfBag add(Definition definition);
    /// Takes over the lengths of the expressions; to be called whenever they may have changed.
    void measure(StateOfBag start, const std::function<uint32_t(ExprId)>& length);

    const Definition& definition(StateOfBag id) const { return definitions_[states_[id.value].bag]; }
    /// Whether an entry may come now: if it also can be completed, `length_after` is finite.
    bool open(StateOfBag id, uint32_t entry) const;
    /// What is left after an entry with this head (kNoText: one that differs from all that were and will be).
    StateOfBag take(StateOfBag id, uint32_t entry, TextId head = Values::kNoText);
    SeenId seen(StateOfBag id) const { return states_[id.value].seen; }
    /// Whether nothing more must come.
    bool complete(StateOfBag id) const {
        const State& state = states_[id.value];
        return state.needed == 0 && state.low == 0 && state.marks == 0;
    }
    /// Whether the shortest text after an entry without a slot depends on the value of its head.
    bool undecided(StateOfBag id, uint32_t entry) const {
        const State& state = states_[id.value];
        return state.low > state.needed + 1 || (state.marks & ~definition(id).entries[entry].marks) != 0;
    }
    /// Bytes of the shortest text; kInfinite if there is none.
    uint32_t length(StateOfBag id, Turn turn) const { return shortest(view(id), turn, Values::kNoText); }
    /// The same after an entry with such a head was written: separators and further entries only. After `kAnyText` it
    /// is a bound.
    uint32_t length_after(StateOfBag id, uint32_t entry, TextId head = Values::kNoText) const;

    size_t bytes() const {
        return states_.capacity() * sizeof(State) + words_.capacity() * sizeof(uint32_t) + index_.bytes() + definition_bytes_;
    }

private:
    struct State {
        uint32_t bag;
        uint32_t marks;        // still missing
        uint32_t low, high;    // entries that must and may follow
        SeenId seen;           // values of distinct heads
        uint32_t at;           // of the open slots in `words_`
        uint32_t needed;       // open slots that must be filled
        uint32_t needed_bytes; // separators included
    };
    struct View {
        State state;
        const uint32_t* open;
    };

    View view(StateOfBag id) const { return {states_[id.value], words_.data() + states_[id.value].at}; }
    bool after(View& view, uint32_t entry, std::vector<uint32_t>& open) const;
    StateOfBag intern(State state, const std::vector<uint32_t>& open);
    void count_needed(State& state, const uint32_t* open) const;
    // `head`: of the last entry, which is not among those seen yet.
    uint32_t shortest(const View& view, Turn turn, TextId head) const;
    uint32_t fill(const View& view, uint32_t extra, TextId head) const;
    std::vector<uint32_t> different(const State& state, uint32_t entry, uint32_t count, TextId head) const;
    uint32_t cover(const View& view, uint32_t extra, uint32_t room, TextId head) const;

    std::vector<Definition> definitions_;
    std::vector<State> states_;
    std::vector<uint32_t> words_;
    InternTable index_;
    size_t definition_bytes_ = 0;
    Values* values_ = nullptr;
    mutable std::vector<uint32_t> scratch_;
};

}  // namespace core
