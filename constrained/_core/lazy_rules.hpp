// Bodies of rules built when decoding first reaches them (`grammars.transform.lazy_rules`).
//
// The automaton never calls Python. A call that needs a missing body throws `MissingRules`; the caller, without the shard's
// lock and with the GIL, builds the bodies, adds them, and repeats the call.
// Invariant: a rule has its number before the automaton knows it, because one thread at a time supplies rules.
// Thread safety: see each function.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "automaton.hpp"
#include "ir_reader.hpp"

namespace core {

/// The lazy rules of one automaton. Needs the GIL except while it waits for its lock.
class LazyRuleSource {
public:
    /// `first`: the reader of the eager rules. `known`: see `IrReader`. `source`: a grammars.transform.lazy_rules.Deferred.
    LazyRuleSource(const IrReader& first, nanobind::dict known, nanobind::object source)
        : index_(first.index()), known_(std::move(known)), source_(std::move(source)),
          lengths_(nanobind::cast<nanobind::dict>(source_.attr("min_lengths"))), names_(first.names()) {
        for (const LazyRule& lazy : first.grammar.lazy_rules) waiting_.push_back(lazy.rule);
    }

    /// Builds the bodies of `rules` and adds them to the automaton; one thread at a time. Builds as many more as were asked for
    /// so far, up to a limit: those that these bodies call, then others that bodies call. A text that has come to a few rules
    /// of an object comes to more, and many small waits become a few.
    void supply_rules(Automaton& automaton, const std::vector<uint32_t>& rules) {
        const nanobind::gil_scoped_release waiting;
        const std::lock_guard guard(lock_);
        const nanobind::gil_scoped_acquire acquired;
        IrReader reader(known_, index_, lengths_);
        std::vector<uint32_t> read;  // rules whose bodies are read, in this order
        for (const uint32_t rule : rules) {
            if (!supplied_.contains(rule)) read.push_back(rule);
        }
        if (read.empty()) return;  // another thread was faster
        read_bodies(reader, bodies(reader, read));
        read_ahead(reader, read, std::min(std::exchange(asked_, asked_ + read.size()), kMostAhead));
        names_.insert(names_.end(), reader.names().begin(), reader.names().end());
        {
            const nanobind::gil_scoped_release released;
            Shard& shard = automaton.shard();
            {
                const std::lock_guard shard_guard(shard.lock);
                reader.grammar.terminals = read_regexes(reader.regexes, shard.regexes);
            }
            automaton.add_rules(reader.grammar, read);
        }
        reader.remember(reader.grammar.terminals);
        supplied_.insert(read.begin(), read.end());
    }

private:
    static constexpr size_t kMostAhead = 16, kManyNodes = 2048;  // bodies built ahead in a call; nodes of these that end it

    nanobind::list bodies(const IrReader& reader, std::span<const uint32_t> rules) const {
        nanobind::list names;
        for (const uint32_t rule : rules) names.append(rule < names_.size() ? names_[rule] : reader.names()[rule - names_.size()]);
        return nanobind::cast<nanobind::list>(source_.attr("bodies")(names));
    }
    static void read_bodies(IrReader& reader, const nanobind::list& bodies) {
        for (const nanobind::handle body : bodies) reader.read_body(body);
    }

    /// Reads up to `count` bodies more, and adds their rules to `read`.
    void read_ahead(IrReader& reader, std::vector<uint32_t>& read, size_t count) {
        std::deque<uint32_t> called;
        size_t declared = 0;
        for (;;) {
            for (; declared < reader.grammar.lazy_rules.size(); ++declared) called.push_back(reader.grammar.lazy_rules[declared].rule);
            if (count == 0 || reader.grammar.nodes.size() + reader.regexes.nodes.size() > kManyNodes) break;
            std::vector<uint32_t> batch;
            for (std::deque<uint32_t>* from : {&called, &waiting_}) {
                for (; batch.size() < count && !from->empty(); from->pop_front()) {
                    const uint32_t rule = from->front();
                    if (!supplied_.contains(rule) && std::ranges::find(read, rule) == read.end()) batch.push_back(rule);
                }
                if (!batch.empty()) break;
            }
            if (batch.empty()) break;
            try {
                read_bodies(reader, bodies(reader, batch));
            } catch (const nanobind::python_error&) {
                break;  // the error is for the text that comes to this rule
            }
            read.insert(read.end(), batch.begin(), batch.end());
            count -= batch.size();
        }
        waiting_.insert(waiting_.begin(), called.begin(), called.end());
    }

    nanobind::dict index_, known_;
    nanobind::object source_;
    nanobind::dict lengths_;
    std::vector<nanobind::object> names_;     // by number
    std::unordered_set<uint32_t> supplied_;   // rules with a body
    std::deque<uint32_t> waiting_;            // rules that a body calls; some have a body by now
    size_t asked_ = 0;                        // rules that automata asked for
    std::mutex lock_;
};

/// Runs `ask` without the GIL, and repeats it after supplying the rules it misses.
template <class Ask>
auto with_lazy_rules(Ask&& ask) {
    for (;;) {
        MissingRules missing;
        {
            const nanobind::gil_scoped_release released;
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
