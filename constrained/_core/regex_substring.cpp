// Regular expressions: the substrings of a document.
#include "regex.hpp"

namespace core {

RegexId RegexStore::substring(std::span<const uint8_t> packed) {
    uint64_t hash = packed.size();
    for (size_t i = 0; i + 4 <= packed.size(); i += 4) {
        uint32_t word;
        std::memcpy(&word, &packed[i], 4);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
    }
    std::vector<uint32_t>& known = substring_index_of_[hash];
    const SubstringIndex* index = nullptr;
    for (const uint32_t at : known) {
        if (substring_indexes_[at]->same(packed)) index = substring_indexes_[at].get();
    }
    if (!index) {
        auto made = std::make_unique<SubstringIndex>(packed, alphabet_);
        substring_bytes_ += made->bytes();
        index = made.get();
        known.push_back(static_cast<uint32_t>(substring_indexes_.size()));
        substring_indexes_.push_back(std::move(made));
    }
    SubstringPrefix prefix{index, SubstringIndex::kRoot, index->least(), index->least() == 0, {}};
    if (!index->start(prefix.cursors)) return prefix.accepts ? kEpsilon : kEmptyLanguage;
    return rest(std::move(prefix));
}

RegexId RegexStore::rest(SubstringPrefix&& prefix) {
    uint64_t hash = combine(reinterpret_cast<uintptr_t>(prefix.index), uint64_t{prefix.partial} << 32 | prefix.missing);
    for (const auto& cursor : prefix.cursors) hash = combine(combine(hash, uint64_t{cursor.lo} << 32 | cursor.hi), cursor.depth);
    const uint32_t at = substring_table_.find_or_insert(
        hash,
        [&](uint32_t other) {
            const SubstringPrefix& held = substrings_[other];
            return held.index == prefix.index && held.partial == prefix.partial && held.missing == prefix.missing &&
                   held.accepts == prefix.accepts && held.cursors == prefix.cursors;
        },
        [&] {
            substring_bytes_ += sizeof(SubstringPrefix) + prefix.cursors.size() * sizeof(SubstringIndex::Cursor);
            substrings_.push_back(std::move(prefix));
            return static_cast<uint32_t>(substrings_.size() - 1);
        });
    return add(Kind::Substring, at, 0, 0, combine(8, at));
}

RegexId RegexStore::derive_substring(uint32_t at, uint8_t byte) {
    const SubstringPrefix& before = substrings_[at];  // a deque: the reference stays valid
    const SubstringIndex& index = *before.index;
    const uint32_t node = index.child(before.partial, byte);
    if (node == SubstringIndex::kNone) return kEmptyLanguage;
    const uint32_t spelled = index.symbol_at(node);
    if (spelled == SubstringIndex::kNone) {  // inside a character: does it come next anywhere?
        bool possible = false;
        for (const auto& cursor : before.cursors) {
            index.expand(cursor, [&](uint32_t symbol, const SubstringIndex::Cursor&, bool) {
                for (const auto& spelling : index.spellings(symbol)) possible |= index.below(spelling, node);
            });
        }
        if (!possible) return kEmptyLanguage;
        return rest({before.index, node, before.missing, false, before.cursors});
    }
    SubstringPrefix after{before.index, SubstringIndex::kRoot, before.missing ? before.missing - 1 : 0, false, {}};
    bool found = false;
    for (const auto& cursor : before.cursors) {
        index.expand(cursor, [&](uint32_t symbol, const SubstringIndex::Cursor& next, bool more) {
            if (symbol != spelled) return;
            found = true;
            after.accepts |= after.missing == 0 && index.may_end(next);
            if (more) after.cursors.push_back(next);
        });
    }
    if (!found) return kEmptyLanguage;
    if (after.cursors.empty()) return after.accepts ? kEpsilon : kEmptyLanguage;
    std::ranges::sort(after.cursors);
    const auto same = std::ranges::unique(after.cursors);
    after.cursors.erase(same.begin(), same.end());
    return rest(std::move(after));
}

uint32_t RegexStore::substring_length(const SubstringPrefix& prefix) const {
    const SubstringIndex& index = *prefix.index;
    if (prefix.accepts) return 0;
    uint32_t shortest = kInfinite;
    for (const auto& cursor : prefix.cursors) {
        if (prefix.partial == SubstringIndex::kRoot) {
            shortest = std::min(shortest, index.min_length(cursor, prefix.missing));
            continue;
        }
        index.expand(cursor, [&](uint32_t symbol, const SubstringIndex::Cursor& next, bool) {
            for (const auto& spelling : index.spellings(symbol)) {
                if (!index.below(spelling, prefix.partial)) continue;
                const uint32_t left = spelling.length - index.depth(prefix.partial);
                const uint32_t missing = prefix.missing ? prefix.missing - 1 : 0;
                shortest = std::min(shortest, add_lengths(left, index.may_end(next) && !missing ? 0 : index.min_length(next, missing)));
            }
        });
    }
    return shortest;
}

ByteSet RegexStore::substring_first(const SubstringPrefix& prefix) const {
    const SubstringIndex& index = *prefix.index;
    ByteSet bytes;
    for (const auto& cursor : prefix.cursors) {
        index.expand(cursor, [&](uint32_t symbol, const SubstringIndex::Cursor&, bool) {
            for (const auto& spelling : index.spellings(symbol)) {
                if (index.below(spelling, prefix.partial)) bytes.set(index.bytes_of(spelling)[index.depth(prefix.partial)]);
            }
        });
    }
    return bytes;
}

}  // namespace core
