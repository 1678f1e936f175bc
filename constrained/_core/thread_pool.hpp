// A thread pool that helps a caller with independent tasks.
//
// Invariants
//  * `run_tasks` returns when all tasks have ended. The caller works too, so it never waits for a thread to start.
//  * Threads start with the first call that has several tasks, and again in a forked process.
// Thread safety: `run_tasks` may be called from any thread.
#pragma once

#include <cstddef>
#include <functional>

namespace core {

/// Calls task(0) ... task(count - 1), each once, in any order; then rethrows the first exception.
void run_tasks(size_t count, const std::function<void(size_t)>& task);

}  // namespace core
