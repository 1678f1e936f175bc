// Work: what a call does, counted where it is done, never by a clock.
//
// A step is about a tenth of a microsecond: a part of an expression whose derivative is made, a frame of stacks that are
// joined, an entry of an interleave, a node of a walk over the vocabulary. What is remembered costs nothing.
// A limit holds while a constraint is read (`kReadingWork`), and while it is tried, before its first token (`BaseAutomaton::limit_work`).
// A call that exceeds it throws, and the constraint is refused. Later no call has a limit: what a mask may leave out for its cost is decided by the
// content of states (`BaseAutomaton::step_cost`), not by what this call happened to compute.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include "common.hpp"

namespace core {

/// A call did more than the trial of its constraint allows.
struct TooMuchWork : TooLarge {
    using TooLarge::TooLarge;
};

class Work {
public:
    static constexpr uint64_t kUnlimited = UINT64_MAX;

    /// A call, which does `what`: its steps are counted from zero, under its limit.
    class Counted {
    public:
        Counted(Work& work, uint64_t limit, const char* what = "a mask, or a count of tokens,") : work_(work) {
            work_.before_ += work_.spent_;
            work_.spent_ = 0, work_.limit_ = limit, work_.what_ = what;
        }
        ~Counted() { work_.limit_ = kUnlimited; }
        Counted(const Counted&) = delete;
        Counted& operator=(const Counted&) = delete;

    private:
        Work& work_;
    };

    /// Throws TooMuchWork.
    void spend(uint64_t steps) {
        spent_ += steps;
        if (spent_ > limit_) throw TooMuchWork(std::string(what_) + " takes too many steps");
    }
    uint64_t spent() const { return spent_; }
    /// Steps of all calls, this one included.
    uint64_t total() const { return before_ + spent_; }

private:
    uint64_t before_ = 0, spent_ = 0, limit_ = kUnlimited;
    const char* what_ = "";
};

}  // namespace core
