#include "mask_batch.hpp"

#include "thread_pool.hpp"

namespace core {

namespace {

constexpr size_t kGuardBatch = 64;  // masks copied under one guard, which bounds how long an eviction waits

/// Calls `make` for the indices; different shards in parallel.
template <class Make>
void make_missing(const MaskBatch& batch, std::vector<uint32_t> places, Make&& make) {
    if (places.empty()) return;
    const auto shard = [&](uint32_t place) { return &batch.automaton(place).shard(); };
    std::ranges::stable_sort(places, std::less<>{}, shard);
    std::vector<std::span<const uint32_t>> tasks;
    for (size_t begin = 0, end = 0; begin < places.size(); begin = end) {
        while (end < places.size() && shard(places[end]) == shard(places[begin])) ++end;
        tasks.emplace_back(places.data() + begin, end - begin);
    }
    run_tasks(tasks.size(), [&](size_t task) {
        for (const uint32_t place : tasks[task]) make(place);
    });
}

}  // namespace

void fill_masks(const MaskBatch& batch, uint32_t* out) {
    if (batch.size() == 0) return;
    const Shard& any = batch.automaton(0).shard();
    const size_t words = any.masks.words();
    std::vector<uint32_t> missing;
    for (size_t begin = 0; begin < batch.size(); begin += kGuardBatch) {
        const ReadEpoch::ReadGuard guard(any.epoch);
        for (size_t i = begin; i < std::min(begin + kGuardBatch, batch.size()); ++i) {
            const uint32_t mask = batch.automaton(i).find_mask_id(batch.states[i]);
            if (!any.masks.copy_guarded(mask, out + i * words)) missing.push_back(static_cast<uint32_t>(i));
        }
    }
    make_missing(batch, std::move(missing), [&](uint32_t i) { batch.automaton(i).fill_mask(batch.states[i], out + i * words); });
    for (size_t i = 0; i < batch.budgets.size(); ++i) {
        BaseAutomaton& automaton = batch.automaton(i);
        const uint32_t budget = batch.budgets[i];
        if (automaton.limit_may_exclude(batch.states[i], budget)) {
            automaton.fill_mask_within(batch.states[i], budget, out + i * words);
        }
    }
}

std::vector<uint32_t> mask_ids(const MaskBatch& batch) {
    std::vector<uint32_t> ids(batch.size()), missing;
    for (size_t i = 0; i < batch.size(); ++i) {
        ids[i] = batch.automaton(i).find_mask_id(batch.states[i]);
        if (ids[i] == UINT32_MAX) missing.push_back(static_cast<uint32_t>(i));
    }
    make_missing(batch, std::move(missing), [&](uint32_t i) { ids[i] = batch.automaton(i).mask_id(batch.states[i]); });
    return ids;
}

}  // namespace core
