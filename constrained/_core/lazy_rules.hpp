// Bodies of rules built when decoding first reaches them (`grammars.transform.lazy_rules`).
//
// The automaton never calls Python. A call that needs a missing body throws `MissingRules`; the caller, without the shard's
// lock and with the GIL, builds the bodies, adds them, and repeats the call.
// Invariant: a rule has its number before the automaton knows it, because one thread at a time supplies rules.
// Thread safety: see each function.
#pragma once

#include <memory>
#include <mutex>

#include "automaton.hpp"
#include "grammars/_core/gil.hpp"
#include "ir_reader.hpp"

namespace core {

/// The lazy rules of one automaton. Needs the GIL except while it waits for its lock.
class LazyRuleSource {
public:
    /// `first`: the reader of the eager rules. `known`: see `IrReader`. `source`: a grammars.transform.lazy_rules.Deferred.
    LazyRuleSource(const IrReader& first, nanobind::dict known, nanobind::object source)
        : index_(first.index()), known_(std::move(known)), source_(std::move(source)),
          lengths_(nanobind::cast<nanobind::dict>(source_.attr("min_lengths"))), names_(first.names()) {}

    /// Builds the bodies of `rules` and adds them to the automaton; one thread at a time.
    void supply_rules(Automaton& automaton, const std::vector<uint32_t>& rules) {
        const native::ReleasedGil waiting;
        const std::lock_guard guard(lock_);
        const native::AcquiredGil acquired;
        nanobind::list names;
        for (const uint32_t rule : rules) names.append(names_[rule]);
        const nanobind::list bodies = nanobind::cast<nanobind::list>(source_.attr("bodies")(names));
        IrReader reader(known_, index_, lengths_);
        for (const nanobind::handle body : bodies) reader.read_body(body);
        names_.insert(names_.end(), reader.names().begin(), reader.names().end());
        {
            const native::ReleasedGil released;
            Shard& shard = automaton.shard();
            {
                const std::lock_guard shard_guard(shard.lock);
                reader.grammar.terminals = read_regexes(reader.regexes, shard.regexes, Work::kUnlimited);
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

/// Runs `ask` without the GIL, and repeats it after supplying the rules it misses.
template <class Ask>
auto with_lazy_rules(Ask&& ask) {
    for (;;) {
        MissingRules missing;
        {
            const native::ReleasedGil released;
            try {
                return ask();
            } catch (const MissingRules& error) {
                missing = error;
            }
        }
        missing.automaton->supply_rules(missing.rules);
    }
}

}  // namespace core
