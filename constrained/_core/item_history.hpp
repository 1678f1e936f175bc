// What was written of arrays whose items must differ: for each one that is open its items so far, and the text of the next.
//
// The grammar says by marks where such arrays begin and end.
// Invariant: equal ids mean equal histories.
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

    ItemHistories() { intern({}); }

    HistoryId read(HistoryId id, uint8_t byte);
    /// None if the item that ends here is equal to an earlier one, or no array is open.
    std::optional<HistoryId> pass(HistoryId id, Mark mark);
    /// Whether the items that have begun differ from all earlier ones, however they go on.
    bool differs(HistoryId id) const { return histories_[id.value].differs; }
    /// A history of as many arrays in which every item differs, whatever is read.
    HistoryId without_values(HistoryId id);
    bool has_values(HistoryId id) const { return id != kNothing && histories_[id.value].text != UniqueValues::kAnyText; }

    size_t bytes() const { return values_.bytes() + histories_.capacity() * sizeof(History) + levels_.capacity() * sizeof(Level) + index_.bytes(); }

private:
    /// An array that is open.
    struct Level {
        JsonSetId items = UniqueValues::kNone;
        uint32_t start = 0;   // of the next item in the text
        bool differs = true;  // the next item, as far as it has been written
        bool operator==(const Level&) const = default;
    };
    struct History {
        JsonTextId text;
        uint32_t at, count;  // of the levels
        bool differs;
    };

    std::vector<Level> levels(HistoryId id) const;
    HistoryId intern(const std::vector<Level>& levels, JsonTextId text = UniqueValues::kNoText);

    UniqueValues values_;
    std::vector<History> histories_;
    std::vector<Level> levels_;
    InternTable index_;
};

}  // namespace core
