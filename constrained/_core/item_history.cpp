#include "item_history.hpp"

#include <algorithm>

namespace core {

std::vector<ItemHistories::Level> ItemHistories::levels(HistoryId id) const {
    const History& history = histories_[id.value];
    return {levels_.begin() + history.at, levels_.begin() + history.at + history.count};
}

HistoryId ItemHistories::intern(const std::vector<Level>& levels, JsonTextId text) {
    uint64_t hash = text.value;
    for (const Level& level : levels) hash = combine(combine(combine(hash, level.items.value), level.start), level.differs);
    return {index_.find_or_insert(
        hash,
        [&](uint32_t id) {
            const History& history = histories_[id];
            return history.text == text && std::equal(levels.begin(), levels.end(), levels_.begin() + history.at, levels_.begin() + history.at + history.count);
        },
        [&] {
            const bool differs = std::ranges::all_of(levels, &Level::differs);
            histories_.push_back({text, static_cast<uint32_t>(levels_.size()), static_cast<uint32_t>(levels.size()), differs});
            levels_.insert(levels_.end(), levels.begin(), levels.end());
            return static_cast<uint32_t>(histories_.size() - 1);
        })};
}

HistoryId ItemHistories::read(HistoryId id, uint8_t byte) {
    if (!has_values(id)) return id;
    const JsonTextId before = histories_[id.value].text, text = values_.append(before, byte);
    if (text == before) return id;
    // An item that differs goes on to differ, unless a name comes again and its member counts no longer.
    const bool named = byte == ':' && !values_.in_string(text);
    std::vector<Level> levels = this->levels(id);
    for (Level& level : levels) {
        if (named || !level.differs) level.differs = !values_.may_become(text, level.start, level.items);
    }
    return intern(levels, text);
}

std::optional<HistoryId> ItemHistories::pass(HistoryId id, Mark mark) {
    std::vector<Level> levels = this->levels(id);
    JsonTextId text = histories_[id.value].text;
    const bool any = text == UniqueValues::kAnyText;
    if (mark == Mark::Open) {
        levels.push_back({UniqueValues::kNone, any ? 0 : values_.length(text), true});
        return intern(levels, text);
    }
    if (levels.empty()) return std::nullopt;
    Level& level = levels.back();
    JsonValueId value{};
    if (!any) {
        value = values_.value(text, level.start);
        if (value.value == UINT32_MAX || values_.contains(level.items, value)) return std::nullopt;
    }
    if (mark == Mark::Close) {
        levels.pop_back();
        return levels.empty() ? kNothing : intern(levels, text);
    }
    if (any) return id;
    if (levels.size() == 1) text = UniqueValues::kNoText;
    level = {values_.add(level.items, value), values_.length(text), false};
    return intern(levels, text);
}

HistoryId ItemHistories::without_values(HistoryId id) {
    return has_values(id) ? intern(std::vector<Level>(histories_[id.value].count), UniqueValues::kAnyText) : id;
}

}  // namespace core
