#include "batch.hpp"

#include "workers.hpp"

namespace core {

namespace {

constexpr size_t kInsideFor = 64;  // rows: nobody who drops rows waits longer than it takes to copy these

/// Calls `make` for the places, those of different lanes at the same time.
template <class Make>
void make_missing(const Batch& batch, std::vector<uint32_t> places, Make&& make) {
    if (places.empty()) return;
    const auto lane = [&](uint32_t place) { return &batch.automaton(place).vocabulary(); };
    std::ranges::stable_sort(places, std::less<>{}, lane);
    std::vector<std::span<const uint32_t>> tasks;
    for (size_t begin = 0, end = 0; begin < places.size(); begin = end) {
        while (end < places.size() && lane(places[end]) == lane(places[begin])) ++end;
        tasks.emplace_back(places.data() + begin, end - begin);
    }
    run_tasks(tasks.size(), [&](size_t task) {
        for (const uint32_t place : tasks[task]) make(place);
    });
}
}

void fill_masks(const Batch& batch, uint32_t* out) {
    if (batch.size() == 0) return;
    const Lane& any = batch.automaton(0).vocabulary();
    const size_t words = any.rows.words();
    std::vector<uint32_t> missing;
    for (size_t begin = 0; begin < batch.size(); begin += kInsideFor) {
        const Readers::Inside inside(any.readers);
        for (size_t i = begin; i < std::min(begin + kInsideFor, batch.size()); ++i) {
            const uint32_t row = batch.automaton(i).find_row(batch.states[i]);
            if (!any.rows.copy_inside(row, out + i * words)) missing.push_back(static_cast<uint32_t>(i));
        }
    }
    make_missing(batch, std::move(missing), [&](uint32_t i) { batch.automaton(i).fill_mask(batch.states[i], out + i * words); });
}

std::vector<uint32_t> row_ids(const Batch& batch) {
    std::vector<uint32_t> ids(batch.size()), missing;
    for (size_t i = 0; i < batch.size(); ++i) {
        ids[i] = batch.automaton(i).find_row(batch.states[i]);
        if (ids[i] == UINT32_MAX) missing.push_back(static_cast<uint32_t>(i));
    }
    make_missing(batch, std::move(missing), [&](uint32_t i) { ids[i] = batch.automaton(i).row_id(batch.states[i]); });
    return ids;
}

}  // namespace core
