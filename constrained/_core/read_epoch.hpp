// Epoch-based reclamation: when may memory that lock-free readers use be freed?
//
// A reader holds a `ReadGuard`; a writer that unlinks memory calls `wait_for_readers` before freeing it.
// Invariant: when `wait_for_readers` returns, no guard taken before the call is still held.
// Proof: there are two arrays of counters; `phase_` selects the active one. A reader that finds the phase unchanged after
// incrementing its counter is seen by every later `wait_for_readers`, which flips the phase and waits for the previously
// active array. A reader that finds the phase changed decrements and retries. Sequential consistency orders increments and
// flips.
// Thread safety: all functions may be called from any thread. Readers take no lock inside a guard and hold it for one probe
// or for copying a few masks, so writers wait briefly.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace core {

class ReadEpoch {
    struct alignas(64) Count {
        std::atomic<uint32_t> value{0};
    };

public:
    /// A read section: lasts as long as this object.
    class ReadGuard {
    public:
        explicit ReadGuard(const ReadEpoch& epoch) {
            const uint32_t counter = own_counter();
            for (;;) {
                const uint32_t phase = epoch.phase_.load();
                count_ = &epoch.counts_[phase][counter].value;
                count_->fetch_add(1);
                if (epoch.phase_.load() == phase) return;
                count_->fetch_sub(1);
            }
        }
        ~ReadGuard() { count_->fetch_sub(1, std::memory_order_release); }
        ReadGuard(const ReadGuard&) = delete;
        ReadGuard& operator=(const ReadGuard&) = delete;

    private:
        std::atomic<uint32_t>* count_;
    };

    /// Blocks until all current guards are released. The caller must not hold one.
    void wait_for_readers() {
        const std::lock_guard guard(lock_);
        const uint32_t old = phase_.load();
        phase_.store(1 - old);
        for (const Count& count : counts_[old]) {
            while (count.value.load() != 0) std::this_thread::yield();
        }
    }

private:
    static constexpr uint32_t kCounters = 16;  // so that threads rarely share a cache line

    static uint32_t own_counter() {
        static std::atomic<uint32_t> next{0};
        thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed) % kCounters;
        return mine;
    }

    mutable std::array<std::array<Count, kCounters>, 2> counts_;
    std::atomic<uint32_t> phase_{0};
    std::mutex lock_;
};

}  // namespace core
