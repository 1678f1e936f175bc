// What was written of arrays whose items are compared: for each one that is open its items so far, and the text of the next.
// They must differ, or two must be equal (`Mark::Seek`): then the array is left when there are two.
//
// The grammar says by marks where such arrays begin and end.
// No name comes twice in an object that is compared, so that an item which differs goes on to differ; the grammar sees to it.
// Invariant: equal ids mean equal histories. A history costs the same however many arrays are open: they are a shared list.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <optional>

#include "marks.hpp"
#include "unique_values.hpp"

namespace core {

using HistoryId = Id<struct HistoryTag>;

class ItemHistories {
public:
    static constexpr HistoryId kNothing{0};  ///< outside of such arrays

    ItemHistories() {
        levels_.push_back({});  // none
        intern(UniqueValues::kNoText, 0);
    }

    HistoryId read(HistoryId id, uint8_t byte);
    /// None if the item that ends here is equal to an earlier one (for `Mark::Again`: to none), or no array is open.
    std::optional<HistoryId> pass(HistoryId id, Mark mark);
    /// Whether the items that have begun differ from all earlier ones, however they go on.
    bool differs(HistoryId id) const { return levels_[histories_[id.value].level].all_differ; }
    /// `differs` after one more byte.
    bool differs_after(HistoryId id, uint8_t byte);
    /// A history of as many arrays in which every item differs, whatever is read.
    HistoryId without_values(HistoryId id);
    bool has_values(HistoryId id) const { return id != kNothing && histories_[id.value].text != UniqueValues::kAnyText; }

    Survivors nothing_kept() const { return Survivors(histories_.size()); }
    /// Keeps the marked histories and what they consist of, and gives them new numbers.
    void collect(Survivors& histories);
    size_t bytes() const { return values_.bytes() + histories_.capacity() * sizeof(History) + history_index_.bytes() + levels_.capacity() * sizeof(Level) + level_index_.bytes(); }

private:
    /// An array that is open, and those around it.
    struct Level {
        uint32_t around = 0;
        JsonSetId items = UniqueValues::kNone;
        uint32_t start = 0;      // of the next item in the text
        bool differs = true;     // the next item, as far as it has been written; or it may be equal
        bool seeks = false;      // two equal items
        bool all_differ = true;  // here and around
        uint32_t depth = 0;
    };
    struct History {
        JsonTextId text;
        uint32_t level;
    };

    static uint64_t hash_of(const Level& level) { return combine(combine(combine(level.around, level.items.value), level.start), 2 * level.seeks + level.differs); }
    uint32_t level(const Level& wanted);
    HistoryId intern(JsonTextId text, uint32_t level);

    UniqueValues values_;
    std::vector<History> histories_;
    InternTable history_index_;
    std::vector<Level> levels_;
    InternTable level_index_;
    std::vector<uint32_t> plain_levels_{0};  // by depth: nothing is known of the items
};

}  // namespace core
