// The GIL, released while C++ works and acquired for calls of Python, in threads that may outlive the interpreter.
//
// Before Python 3.14 a thread that asks for the GIL while the interpreter ends is ended by `pthread_exit`. That unwinds frames of C++
// that may not throw, and aborts the process. Here such a thread sleeps until the process has ended, as from 3.14 on.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

namespace native {

/// Runs `ask`, which asks for the GIL and may end the thread.
template <class Ask>
auto with_end(Ask&& ask) {
    try {
        return ask();
    } catch (...) {
        for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
}

/// Releases the GIL until the end of the block.
class ReleasedGil {
public:
    ReleasedGil() : state_(PyEval_SaveThread()) {}
    ~ReleasedGil() { with_end([this] { PyEval_RestoreThread(state_); }); }
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;

private:
    PyThreadState* state_;
};

/// Holds the GIL until the end of the block, in any thread.
class AcquiredGil {
public:
    AcquiredGil() : state_(with_end([] { return PyGILState_Ensure(); })) {}
    ~AcquiredGil() { PyGILState_Release(state_); }
    AcquiredGil(const AcquiredGil&) = delete;
    AcquiredGil& operator=(const AcquiredGil&) = delete;

private:
    PyGILState_STATE state_;
};

}  // namespace native
