// A few threads that help a caller with independent tasks.
//
// Invariant: `run` returns when every task has ended; the caller works too, so it never waits for a thread to wake.
// Threads are started when there is first something to share, and again in a process that was forked.
#pragma once

#include <cstddef>
#include <functional>

namespace core {

/// Calls task(0) ... task(count - 1), each once, in no order; rethrows the first exception when all have ended.
void run_tasks(size_t count, const std::function<void(size_t)>& task);

}  // namespace core
