// Small records by content: equal ones have equal ids.
//
// Not thread-safe: the shard's lock guards it.
#pragma once

#include "survivors.hpp"

namespace core {

/// `Record` is compared with `==` and has `hash()`. Id 0 is a record that stands for none.
template <class Record>
class Interned {
public:
    Interned() { records_.push_back({}); }

    const Record& operator[](uint32_t id) const { return records_[id]; }
    size_t size() const { return records_.size(); }
    size_t bytes() const { return records_.capacity() * sizeof(Record) + index_.bytes(); }

    uint32_t id(const Record& record) {
        return index_.find_or_insert(
            record.hash(), [&](uint32_t id) { return records_[id] == record; },
            [&] {
                records_.push_back(record);
                return static_cast<uint32_t>(records_.size() - 1);
            });
    }

    /// Keeps the marked records, whose numbers are known; `renumbered(record)` is one with the new numbers of its parts.
    template <class Renumbered>
    void collect(const Survivors& kept, Renumbered&& renumbered) {
        std::vector<Record> old;
        old.swap(records_);
        index_ = InternTable();
        for (uint32_t id = 0; id < old.size(); ++id) {
            if (!kept.kept(id)) continue;
            const auto number = static_cast<uint32_t>(records_.size());
            records_.push_back(number == 0 ? old[id] : renumbered(old[id]));
            if (number > 0) index_.find_or_insert(records_.back().hash(), [](uint32_t) { return false; }, [&] { return number; });
        }
    }

private:
    std::vector<Record> records_;
    InternTable index_;
};

}  // namespace core
