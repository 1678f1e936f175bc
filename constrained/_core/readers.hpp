// How memory that is read without a lock is given back.
//
// A reader says when it is inside; whoever takes something out of reach waits until all who may still see it have left.
// Invariant: after `wait` returns, nobody is inside who entered before it was called.
// Why: there are two rows of counters, and `phase_` names the one in use. A reader that finds the phase unchanged after
// counting itself in is seen by every later `wait`, which turns the phase and waits for the row that was in use; one that
// finds it changed counts itself out and tries again. Sequential consistency orders the count against the turn.
// Readers take no lock while inside and stay for a probe or the copying of some rows, so waiting is short.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace core {

class Readers {
    struct alignas(64) Count {
        std::atomic<uint32_t> value{0};
    };

public:
    /// Being inside, for the life of this object.
    class Inside {
    public:
        explicit Inside(const Readers& readers) {
            const uint32_t shard = own_shard();
            for (;;) {
                const uint32_t phase = readers.phase_.load();
                count_ = &readers.counts_[phase][shard].value;
                count_->fetch_add(1);
                if (readers.phase_.load() == phase) return;
                count_->fetch_sub(1);
            }
        }
        ~Inside() { count_->fetch_sub(1, std::memory_order_release); }
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;

    private:
        std::atomic<uint32_t>* count_;
    };

    /// Until all who are inside now have left. Must not be called from inside.
    void wait() {
        const std::lock_guard guard(lock_);
        const uint32_t old = phase_.load();
        phase_.store(1 - old);
        for (const Count& count : counts_[old]) {
            while (count.value.load() != 0) std::this_thread::yield();
        }
    }

private:
    static constexpr uint32_t kShards = 16;  // so that threads seldom write to the same cache line

    static uint32_t own_shard() {
        static std::atomic<uint32_t> next{0};
        thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed) % kShards;
        return mine;
    }

    mutable std::array<std::array<Count, kShards>, 2> counts_;
    std::atomic<uint32_t> phase_{0};
    std::mutex lock_;
};

}  // namespace core
