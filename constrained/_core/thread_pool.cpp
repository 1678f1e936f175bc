#include "thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace core {

namespace {

constexpr unsigned kMostThreads = 16;

struct Job {
    Job(size_t count, const std::function<void(size_t)>& task) : count(count), task(task) {}

    /// Runs tasks until none is left.
    void help() {
        for (size_t i; (i = next.fetch_add(1)) < count;) {
            try {
                task(i);
            } catch (...) {
                const std::lock_guard guard(lock);
                if (!error) error = std::current_exception();
            }
            const std::lock_guard guard(lock);
            if (++ended == count) all_ended.notify_all();
        }
    }

    const size_t count;
    const std::function<void(size_t)>& task;  // owned by the caller; valid until all tasks have ended
    std::atomic<size_t> next{0};
    std::mutex lock;
    std::condition_variable all_ended;
    size_t ended = 0;
    std::exception_ptr error;
};

/// Never destroyed: its threads use it until the process ends.
class Workers {
public:
    void run(const std::shared_ptr<Job>& job) {
        {
            const std::lock_guard guard(lock_);
            start();
            const size_t helpers = std::min(threads_, job->count - 1);
            for (size_t i = 0; i < helpers; ++i) waiting_.push_back(job);
        }
        wake_.notify_all();
        job->help();
    }

private:
    void start() {
        const size_t wanted = std::min(std::max(std::thread::hardware_concurrency(), 1u), kMostThreads) - 1;
        try {
            while (threads_ < wanted) {
                std::thread([this] { work(); }).detach();
                ++threads_;
            }
        } catch (const std::system_error&) {
            // The caller runs the tasks that no thread takes.
        }
    }

    void work() {
        for (;;) {
            std::shared_ptr<Job> job;
            {
                std::unique_lock guard(lock_);
                wake_.wait(guard, [this] { return !waiting_.empty(); });
                job = std::move(waiting_.front());
                waiting_.pop_front();
            }
            job->help();
        }
    }

    std::mutex lock_;
    std::condition_variable wake_;
    std::deque<std::shared_ptr<Job>> waiting_;
    size_t threads_ = 0;
};

std::atomic<Workers*> shared_workers{nullptr};

Workers& workers() {
    Workers* held = shared_workers.load();
    if (!held) {
#if defined(__unix__) || defined(__APPLE__)
        // A forked process has no pool threads, and the pool's lock may be held.
        static const int once = pthread_atfork(nullptr, nullptr, [] { shared_workers.store(nullptr); });
        static_cast<void>(once);
#endif
        auto* fresh = new Workers;
        if (shared_workers.compare_exchange_strong(held, fresh)) {
            held = fresh;
        } else {
            delete fresh;
        }
    }
    return *held;
}

}  // namespace

void run_tasks(size_t count, const std::function<void(size_t)>& task) {
    if (count == 0) return;
    const auto job = std::make_shared<Job>(count, task);
    if (count == 1) {
        job->help();
    } else {
        workers().run(job);
    }
    std::unique_lock guard(job->lock);
    job->all_ended.wait(guard, [&] { return job->ended == job->count; });
    if (job->error) std::rethrow_exception(job->error);
}

}  // namespace core
