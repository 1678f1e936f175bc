// Sets of characters as expressions over the bytes of UTF-8.
#include <algorithm>
#include <map>

#include "regex.hpp"

namespace core {

RegexId RegexStore::chars(std::span<const int32_t> ranges) {
    std::vector<int32_t> key(ranges.begin(), ranges.end());
    if (const auto at = chars_index_.find(key); at != chars_index_.end()) return at->second;
    constexpr uint32_t first[] = {0, 0x80, 0x800, 0x10000};
    constexpr uint32_t last[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
    constexpr uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    std::vector<RegexId> parts;
    for (int size = 0; size < 4; ++size) {
        std::vector<std::pair<uint32_t, uint32_t>> inside;
        for (size_t i = 0; i + 1 < ranges.size(); i += 2) {
            const uint32_t low = std::max<uint32_t>(ranges[i], first[size]);
            const uint32_t high = std::min<uint32_t>(ranges[i + 1], last[size]);
            if (low <= high) inside.emplace_back(low, high);
        }
        if (inside.empty()) continue;
        parts.push_back(size == 0 ? utf8_block(inside, 0, 0, 128) : utf8_block(inside, size, lead[size], 32));
    }
    return chars_index_[std::move(key)] = union_of(std::move(parts));
}

/// Numbers below 64^level, written in `level` continuation bytes.
RegexId RegexStore::utf8_tail(std::span<const std::pair<uint32_t, uint32_t>> ranges, int level) {
    if (level == 0) return kEpsilon;
    const std::pair<uint32_t, uint32_t> all{0, (1u << 6 * level) - 1};
    if (ranges.size() != 1 || ranges[0] != all) return utf8_block(ranges, level - 1, 0x80, 64);
    ByteSet bytes;
    for (int byte = 0x80; byte < 0xc0; ++byte) bytes.set(byte);
    RegexId any = kEpsilon;
    for (int i = 0; i < level; ++i) any = concat(set(bytes), any);
    return any;
}

/// Numbers written as a byte `lead + n / 64^level`, then `level` continuation bytes.
RegexId RegexStore::utf8_block(std::span<const std::pair<uint32_t, uint32_t>> ranges, int level, uint32_t lead,
                               uint32_t fan) {
    work_.spend(fan / 4);
    const int shift = 6 * level;
    std::map<RegexId, ByteSet> groups;  // rest -> first bytes
    std::vector<std::pair<uint32_t, uint32_t>> inside;
    size_t at = 0;
    for (uint32_t digit = 0; digit < fan; ++digit) {
        const uint32_t base = digit << shift;
        const uint32_t top = base + (1u << shift) - 1;
        while (at < ranges.size() && ranges[at].second < base) ++at;
        inside.clear();
        for (size_t i = at; i < ranges.size() && ranges[i].first <= top; ++i) {
            inside.emplace_back(std::max(ranges[i].first, base) - base, std::min(ranges[i].second, top) - base);
        }
        if (inside.empty()) continue;
        groups[utf8_tail(inside, level)].set(lead + digit);
    }
    std::vector<RegexId> parts;
    for (const auto& [rest, bytes] : groups) parts.push_back(concat(set(bytes), rest));
    return union_of(std::move(parts));
}

}  // namespace core
