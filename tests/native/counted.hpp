// What a call does must be counted: many blocks of code need many steps of work. So a cost that nothing counts is found where it
// is still small, and not only where it takes longer than the driver's patience.
#pragma once

#include "law.hpp"

#include "../../constrained/_core/vocabulary.hpp"

namespace fuzz {

// Only `driver.cpp` has these, and only where the compiler traces blocks they are not 0.
/// Blocks of code that the input ran so far.
__attribute__((weak)) uint64_t blocks_run();
/// Is told what a call ran for each step that it counted.
__attribute__((weak)) void note_price(double blocks_of_step);

constexpr uint64_t kFewBlocks = 3'000'000;  // a few milliseconds
constexpr uint64_t kBlocksOfStep = 400;

/// What is done in a shard from here to `check`.
class Counting {
public:
    explicit Counting(const core::Shard& shard) : shard_(shard) {}
    void check() const {
        const uint64_t ran = blocks() - blocks_, steps = shard_.work.total() - steps_;
        if (note_price) note_price(static_cast<double>(ran) / static_cast<double>(steps + kFewBlocks / kBlocksOfStep));
        LAW(ran <= kFewBlocks || ran <= kBlocksOfStep * steps);
    }

private:
    static uint64_t blocks() { return blocks_run ? blocks_run() : 0; }

    const core::Shard& shard_;
    uint64_t blocks_ = blocks(), steps_ = shard_.work.total();
};

/// The calls of an automaton. Those in which it drops states are not checked: what that takes is paid by what was made before.
template <class Automaton>
class CountedCalls {
public:
    explicit CountedCalls(Automaton& automaton) : automaton_(automaton) {}

    Automaton* operator->() const { return &automaton_; }
    uint32_t next(uint32_t state, uint32_t token) const { return counted([&] { return automaton_.next(state, token); }); }
    bool accepts(uint32_t state) const { return automaton_.accepts(state); }
    std::string forced(uint32_t state) const { return counted([&] { return automaton_.forced(state); }); }
    uint32_t shortest_completion(uint32_t state) const { return counted([&] { return automaton_.shortest_completion(state); }); }
    void fill_mask(uint32_t state, uint32_t* out) const {
        counted([&] { return automaton_.fill_mask(state, out), 0; });
    }
    void fill_mask_within(uint32_t state, uint32_t budget, uint32_t* out) const {
        counted([&] { return automaton_.fill_mask_within(state, budget, out), 0; });
    }

private:
    template <class Call>
    auto counted(Call&& call) const {
        const size_t collections = automaton_.collections();
        const Counting counting(automaton_.shard());
        auto result = call();
        if (automaton_.collections() == collections) counting.check();
        return result;
    }

    Automaton& automaton_;
};

}  // namespace fuzz
