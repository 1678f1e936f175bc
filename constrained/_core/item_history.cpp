#include "item_history.hpp"

#include <ranges>

namespace core {

uint32_t ItemHistories::level(const Level& wanted) {
    return level_index_.find_or_insert(
        hash_of(wanted),
        [&](uint32_t id) {
            const Level& one = levels_[id];
            return one.around == wanted.around && one.items == wanted.items && one.possible == wanted.possible && one.depth == wanted.depth && one.differs == wanted.differs;
        },
        [&] {
            const Level& outer = levels_[wanted.around];
            Level made = wanted;
            made.all_differ = wanted.differs && outer.all_differ;
            made.height = outer.height + 1;
            levels_.push_back(made);
            return static_cast<uint32_t>(levels_.size() - 1);
        });
}

HistoryId ItemHistories::intern(JsonTextId text, uint32_t level) {
    return {history_index_.find_or_insert(
        combine(text.value, level), [&](uint32_t id) { return histories_[id].text == text && histories_[id].level == level; },
        [&] {
            histories_.push_back({text, level});
            return static_cast<uint32_t>(histories_.size() - 1);
        })};
}

HistoryId ItemHistories::read(HistoryId id, uint8_t byte) {
    if (!has_values(id)) return id;
    const History before = histories_[id.value];
    JsonTextId text = before.text;
    uint32_t level = before.level;
    if (texts_.ends_before(text, byte)) {
        text = texts_.ended(text);
        level = narrowed(text, level);
    }
    const JsonTextId after = texts_.append(text, byte);
    if (after != text) level = narrowed(after, level);
    return intern(after, level);
}

/// The arrays after a byte: what their items may not become any more is left out. What differs goes on to: no name comes twice.
uint32_t ItemHistories::narrowed(JsonTextId text, uint32_t innermost) {
    if (levels_[innermost].all_differ) return innermost;
    std::vector<uint32_t> open;
    for (uint32_t at = innermost; at != 0; at = levels_[at].around) open.push_back(at);
    uint32_t around = 0;
    for (const uint32_t at : std::views::reverse(open)) {
        Level one = levels_[at];
        one.around = around;
        if (!one.differs && texts_.depth(text) >= one.depth) {  // else the array has ended, and its last item before
            const ValueTexts::Place place = texts_.place(text, one.depth);
            uint64_t compared = 0;
            one.possible = values_.filtered(one.possible, one.items, [&](JsonValueId value) { return ++compared, place.possible(value); });
            spend(place, compared);
            one.differs = one.possible == UniqueValues::kEmpty;
        }
        around = level(one);
    }
    return around;
}

template <class Each>
void ItemHistories::for_each_possible(HistoryId id, Each&& each) const {
    const History& history = histories_[id.value];
    for (uint32_t at = levels_[history.level].all_differ ? 0 : history.level; at != 0; at = levels_[at].around) {
        const Level& one = levels_[at];
        if (one.differs || texts_.depth(history.text) < one.depth) continue;
        const ValueTexts::Place place = texts_.place(history.text, one.depth);
        uint64_t compared = 0;
        values_.for_each(one.possible, one.items, [&](JsonValueId value) { ++compared, each(place, value); });
        spend(place, compared);
    }
}

ByteSet ItemHistories::close_bytes(HistoryId id) const {
    ByteSet bytes;
    for_each_possible(id, [&](const ValueTexts::Place& place, JsonValueId value) { bytes |= place.next_bytes(value); });
    return bytes;
}

bool ItemHistories::zeros_say_nothing(HistoryId id, bool exponents) const {
    bool any = false, all = true;
    for_each_possible(id, [&](const ValueTexts::Place& place, JsonValueId value) { any = true, all = all && place.zeros_say_nothing(value, exponents); });
    return any && all;
}

std::optional<HistoryId> ItemHistories::pass(HistoryId id, Mark mark) {
    const History history = histories_[id.value];
    const bool any = history.text == ValueTexts::kAnyText;
    if (mark == Mark::Open) {
        const JsonTextId text = history.level == 0 ? texts_.in_array(history.text) : history.text;
        return intern(text, level({.around = history.level, .depth = any ? 0 : texts_.depth(text)}));
    }
    if (history.level == 0) return std::nullopt;
    Level open = levels_[history.level];
    std::optional<JsonValueId> value;
    if (!any) {
        value = texts_.last_item(history.text);
        if (!value || (!open.differs && values_.contains(open.items, *value))) return std::nullopt;
    }
    if (mark != Mark::Next) return open.around == 0 ? kNothing : intern(history.text, open.around);
    if (any) return id;
    open.items = values_.add(open.items, *value);
    open.differs = false;
    open.possible = UniqueValues::kWhole;
    return intern(open.around == 0 ? texts_.without_items(history.text) : history.text, level(open));
}

HistoryId ItemHistories::without_values(HistoryId id) {
    if (!has_values(id)) return id;
    const uint32_t height = levels_[histories_[id.value].level].height;
    while (plain_levels_.size() <= height) plain_levels_.push_back(level({.around = plain_levels_.back()}));
    return intern(ValueTexts::kAnyText, plain_levels_[height]);
}

}  // namespace core
