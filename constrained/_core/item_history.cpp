#include "item_history.hpp"

#include <ranges>

namespace core {

uint32_t ItemHistories::level(const Level& wanted) {
    return level_index_.find_or_insert(
        hash_of(wanted),
        [&](uint32_t id) {
            const Level& one = levels_[id];
            return one.around == wanted.around && one.items == wanted.items && one.start == wanted.start && one.differs == wanted.differs && one.seeks == wanted.seeks;
        },
        [&] {
            const Level& outer = levels_[wanted.around];
            Level made = wanted;
            made.all_differ = wanted.differs && outer.all_differ;
            made.depth = outer.depth + 1;
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
    const JsonTextId text = values_.append(before.text, byte);
    if (text == before.text) return id;
    if (levels_[before.level].all_differ) return intern(text, before.level);  // and goes on to: no name comes twice
    std::vector<uint32_t> open;
    for (uint32_t at = before.level; at != 0; at = levels_[at].around) open.push_back(at);
    uint32_t around = 0;
    for (const uint32_t at : std::views::reverse(open)) {
        Level one = levels_[at];
        one.around = around;
        one.differs = one.differs || !values_.may_become(text, one.start, one.items);
        around = level(one);
    }
    return intern(text, around);
}

bool ItemHistories::differs_after(HistoryId id, uint8_t byte) {
    if (!has_values(id)) return differs(id);
    const History before = histories_[id.value];
    const JsonTextId text = values_.append(before.text, byte);
    if (text == before.text) return differs(id);
    for (uint32_t at = levels_[before.level].all_differ ? 0 : before.level; at != 0; at = levels_[at].around) {
        const Level& one = levels_[at];
        if (!one.differs && values_.may_become(text, one.start, one.items)) return false;
    }
    return true;
}

std::optional<HistoryId> ItemHistories::pass(HistoryId id, Mark mark) {
    if (mark == Mark::Padding) return id;
    const History history = histories_[id.value];
    const bool any = history.text == UniqueValues::kAnyText;
    if (mark == Mark::Open || mark == Mark::Seek) {
        return intern(history.text, level({.around = history.level, .start = any ? 0 : values_.length(history.text), .seeks = mark == Mark::Seek}));
    }
    if (history.level == 0) return std::nullopt;
    Level open = levels_[history.level];
    JsonValueId value{};
    bool again = false;
    if (!any) {
        value = values_.value(history.text, open.start);
        if (value.value == UINT32_MAX) return std::nullopt;
        again = values_.contains(open.items, value);
    }
    if (again != (mark == Mark::Again)) return std::nullopt;
    if (mark != Mark::Next) return open.around == 0 ? kNothing : intern(history.text, open.around);
    if (any) return id;
    const JsonTextId text = open.around == 0 ? UniqueValues::kNoText : history.text;
    open.items = values_.add(open.items, value);
    open.start = values_.length(text);
    open.differs = open.seeks;
    return intern(text, level(open));
}

HistoryId ItemHistories::without_values(HistoryId id) {
    if (!has_values(id)) return id;
    const uint32_t depth = levels_[histories_[id.value].level].depth;
    while (plain_levels_.size() <= depth) plain_levels_.push_back(level({.around = plain_levels_.back()}));
    return intern(UniqueValues::kAnyText, plain_levels_[depth]);
}

}  // namespace core
