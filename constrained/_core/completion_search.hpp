// Best-first search for a completion, byte by byte, ordered by a bound of what is left.
//
// The automaton that searches says what follows a node and what ends the search. Nodes of which it knows already that they have no completion are not to
// be added.
#pragma once

#include <queue>
#include <unordered_set>

#include "common.hpp"

namespace core {

class CompletionSearch {
public:
    struct Visit {
        uint32_t node, parent, depth;  // parent: a visit
        uint8_t byte;                   // that led here from the parent
    };
    struct Next {
        uint64_t cost;
        uint32_t visit;
        uint32_t times = 0;  // it was put off
        bool operator<(const Next& other) const { return cost != other.cost ? cost > other.cost : visit < other.visit; }
    };

    /// `rest`: a bound of the bytes of its completion.
    CompletionSearch(uint32_t start, uint64_t rest) { add({start, 0, 0, 0}, rest); }

    bool empty() const { return queue_.empty(); }
    Next take() {
        const Next next = queue_.top();
        queue_.pop();
        return next;
    }
    const Visit& operator[](uint32_t visit) const { return visits_[visit]; }
    const std::vector<Visit>& visits() const { return visits_; }

    /// The node that follows a visit by a byte, unless it was visited.
    void reach(uint32_t from, uint8_t byte, uint32_t node, uint64_t rest) { add({node, from, visits_[from].depth + 1, byte}, rest); }
    /// Visits it again, behind what costs as much, or up to `more` more.
    void put_off(const Next& next, uint64_t more = 0) { queue_.push({next.cost + kLead + more, next.visit, next.times + 1}); }

    /// The way to a visit, backwards: each node before it, and the byte that leads on.
    template <class Each>
    void way_back(uint32_t visit, Each&& each) const {
        for (uint32_t i = visit; i != 0; i = visits_[i].parent) each(visits_[visits_[i].parent].node, visits_[i].byte);
    }

private:
    static constexpr uint64_t kLead = 2;  // weight of a remaining byte relative to a read byte

    void add(const Visit& visit, uint64_t rest) {
        if (!seen_.insert(visit.node).second) return;
        visits_.push_back(visit);
        queue_.push({visit.depth + kLead * rest, static_cast<uint32_t>(visits_.size() - 1)});
    }

    std::vector<Visit> visits_;
    std::priority_queue<Next> queue_;
    std::unordered_set<uint32_t> seen_;
};

}  // namespace core
