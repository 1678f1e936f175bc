// Bodies of rules that are made when a text first comes to them (`grammars.transform.lazy_rules`).
//
// The core never calls Python. What it is asked ends with `Needed` where a rule has no body yet; whoever asked, without
// the lane's lock and with the GIL, has the bodies made, adds them, and asks again.
#pragma once

#include <memory>
#include <mutex>

#include "automaton.hpp"
#include "ir.hpp"

namespace core {

/// The rules of one automaton that come later. Needs the GIL, but for its lock.
class LaterRules {
public:
    /// `first`: has read what the automaton begins with. `known`: see `IrReader`. `source`: a grammars.transform.lazy_rules.Deferred.
    LaterRules(const IrReader& first, nanobind::dict known, nanobind::object source)
        : index_(first.index()), known_(std::move(known)), source_(std::move(source)),
          lengths_(nanobind::cast<nanobind::dict>(source_.attr("min_lengths"))), names_(first.names()) {}

    /// One thread at a time: a rule has its number before the automaton knows of it.
    void supply(Automaton& automaton, const std::vector<uint32_t>& rules) {
        const nanobind::gil_scoped_release waiting;
        const std::lock_guard guard(lock_);
        const nanobind::gil_scoped_acquire acquired;
        nanobind::list names;
        for (const uint32_t rule : rules) names.append(names_[rule]);
        const nanobind::list bodies = nanobind::cast<nanobind::list>(source_.attr("bodies")(names));
        IrReader reader(known_, index_, lengths_);
        for (const nanobind::handle body : bodies) reader.read_body(body);
        names_.insert(names_.end(), reader.names().begin(), reader.names().end());
        {
            const nanobind::gil_scoped_release released;
            Lane& lane = automaton.vocabulary();
            {
                const std::lock_guard lane_guard(lane.lock);
                reader.grammar.terminals = read_regexes(reader.regexes, lane.regexes);
            }
            automaton.add_rules(reader.grammar, rules);
        }
        reader.remember(reader.grammar.terminals);
    }

private:
    nanobind::dict index_, known_;
    nanobind::object source_;
    nanobind::dict lengths_;
    std::vector<nanobind::object> names_;  // by number
    std::mutex lock_;
};

/// Asks without the GIL, and again after every rule that was needed.
template <class Ask>
auto with_rules(Ask&& ask) {
    for (;;) {
        Needed needed;
        {
            const nanobind::gil_scoped_release released;
            try {
                return ask();
            } catch (const Needed& error) {
                needed = error;
            }
        }
        needed.automaton->supply(needed.rules);
    }
}

}  // namespace core
