// What was written of arrays whose items must differ: for each one that is open its items so far, and the text of the next.
//
// The grammar says by marks where such arrays begin and end. An item that has begun is compared with the earlier items that it may still become,
// fewer with each byte.
// No name comes twice in an object that is compared, so that an item which differs goes on to differ; the grammar sees to it.
// Invariant: equal ids mean equal histories. A history costs the same however many arrays are open: they are a shared list.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <optional>

#include "marks.hpp"
#include "value_texts.hpp"
#include "work.hpp"

namespace core {

using HistoryId = Id<struct HistoryTag>;

class ItemHistories {
public:
    static constexpr HistoryId kNothing{0};  ///< outside of such arrays

    explicit ItemHistories(Work& work) : work_(work) {
        levels_.push_back({});  // none
        intern(ValueTexts::kNoText, 0);
    }

    HistoryId read(HistoryId id, uint8_t byte);
    /// None if the item that ends here is equal to an earlier one, or no array is open.
    std::optional<HistoryId> pass(HistoryId id, Mark mark);
    /// Whether the items that have begun differ from all earlier ones, however they go on.
    bool differs(HistoryId id) const { return levels_[histories_[id.value].level].all_differ; }
    /// Bytes after which items may still be equal to earlier ones, at least.
    ByteSet close_bytes(HistoryId id) const;
    /// Whether a further zero of a number excludes no way in which all items differ, and opens none: then it need not be tried.
    /// `exponents`: the number may have one.
    bool zeros_say_nothing(HistoryId id, bool exponents) const;
    /// A history of as many arrays in which every item differs, whatever is read.
    HistoryId without_values(HistoryId id);
    /// Whether it is one of those, and some array is open.
    bool forgets(HistoryId id) const { return histories_[id.value].text == ValueTexts::kAnyText && histories_[id.value].level != 0; }
    bool has_values(HistoryId id) const { return id != kNothing && histories_[id.value].text != ValueTexts::kAnyText; }

    Survivors nothing_kept() const { return Survivors(histories_.size()); }
    /// Keeps the marked histories and what they consist of, and gives them new numbers.
    void collect(Survivors& histories);
    size_t bytes() const {
        return values_.bytes() + texts_.bytes() + histories_.capacity() * sizeof(History) + history_index_.bytes() + levels_.capacity() * sizeof(Level) + level_index_.bytes();
    }

private:
    static constexpr uint64_t kLookedAtInStep = 4;

    /// An array that is open, and those around it.
    struct Level {
        uint32_t around = 0;
        JsonSetId items = UniqueValues::kNone;
        JsonListId possible = UniqueValues::kEmpty;  // of the items: what the next one may become, as far as it has been written
        uint32_t depth = 0;      // containers that are open around its items in the text
        bool differs = true;     // nothing is possible, or nothing is compared before the item ends
        bool all_differ = true;  // here and around
        uint32_t height = 0;     // such arrays
    };
    struct History {
        JsonTextId text;
        uint32_t level;
    };

    static uint64_t hash_of(const Level& level) {
        return combine(combine(combine(combine(level.around, level.items.value), level.possible.value), level.depth), level.differs);
    }
    uint32_t level(const Level& wanted);
    HistoryId intern(JsonTextId text, uint32_t level);
    uint32_t narrowed(JsonTextId text, uint32_t level);
    void spend(const ValueTexts::Place& place, uint64_t values) const { work_.spend(1 + (place.work_once() + values * place.work_each()) / kLookedAtInStep); }
    /// Calls each(place, value) for what the items that have begun may become, for each array around them.
    template <class Each>
    void for_each_possible(HistoryId id, Each&& each) const;

    Work& work_;
    UniqueValues values_;
    ValueTexts texts_{values_};
    std::vector<History> histories_;
    InternTable history_index_;
    std::vector<Level> levels_;
    InternTable level_index_;
    std::vector<uint32_t> plain_levels_{0};  // by height: nothing is known of the items
};

}  // namespace core
