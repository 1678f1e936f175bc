// What a collection keeps of a store, see collection.cpp.
#pragma once

#include <limits>

#include "common.hpp"

namespace core {

/// Ids of a store that stay, and their new numbers, which ascend as the old ones do: what was sorted stays sorted, and parts
/// still precede wholes.
class Survivors {
public:
    explicit Survivors(size_t size) : numbers_(size, kDropped) {}

    void keep(uint32_t id) { numbers_[id] = 0; }
    bool kept(uint32_t id) const { return numbers_[id] != kDropped; }
    size_t size() const { return numbers_.size(); }

    /// Gives the kept ids their new numbers; call it when all are marked.
    void number() {
        uint32_t next = 0;
        for (uint32_t& number : numbers_) {
            if (number != kDropped) number = next++;
        }
    }
    /// The new number of a kept id.
    uint32_t operator[](uint32_t id) const { return numbers_[id]; }
    template <class Tag>
    Id<Tag> operator[](Id<Tag> id) const {
        return {numbers_[id.value]};
    }

private:
    static constexpr uint32_t kDropped = std::numeric_limits<uint32_t>::max();
    std::vector<uint32_t> numbers_;
};

}  // namespace core
