// Running a byte machine over all tokens at once.
//
// The machine is asked on the quotient trie; below a node whose atom it takes apart, on the trie itself. A machine has
//   State                                      what it remembers between two bytes
//   first(state) -> const ByteSet&             bytes it can go on with
//   uniform(state) -> const ByteSet&           atoms whose bytes all lead to the same state
//   step(state, byte) -> State                 for a byte in first(state)
//   finished(state) -> bool                    it can read nothing more
//   exit(state) -> bool                        the terminal may end here
//   allow(tokens, state), refuse(tokens)       verdict on a run of tokens; allowed ones end in `state`
//   leave(node, state)                         an exit at a trie node with children
//   ok() -> bool                               false stops the walk: the machine does not fit the language
#pragma once

#include "quotient.hpp"
#include "trie.hpp"

namespace core {

template <class Machine>
void walk_below(const Trie& trie, Machine& machine, typename Machine::State start, uint32_t top) {
    using State = typename Machine::State;
    std::vector<std::pair<uint32_t, State>> work;
    const auto visit = [&](uint32_t node, const State& before) {
        if (!machine.first(before)[trie.byte(node)]) return machine.refuse(trie.below(node));
        const State next = machine.step(before, trie.byte(node));
        machine.allow(trie.tokens(node), next);
        if (trie.leaf(node)) return;
        if (machine.exit(next)) machine.leave(node, next);
        if (machine.finished(next)) return machine.refuse(trie.strictly_below(node));
        work.emplace_back(node, next);
    };
    visit(top, start);
    while (!work.empty() && machine.ok()) {
        const auto [node, state] = work.back();
        work.pop_back();
        for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) visit(child, state);
    }
}

template <class Machine>
void walk_tokens(const Trie& trie, const Quotient& quotient, Machine& machine, typename Machine::State start) {
    using State = typename Machine::State;
    const Trie& folded = quotient.trie();
    std::vector<std::pair<uint32_t, State>> work{{Trie::kRoot, start}};
    while (!work.empty() && machine.ok()) {
        const auto [node, state] = work.back();
        work.pop_back();
        for (uint32_t child = folded.children_begin(node); child < folded.children_end(node); ++child) {
            const uint8_t atom = folded.byte(child);
            if (!machine.uniform(state)[atom]) {
                for (const uint32_t member : quotient.members(child)) walk_below(trie, machine, state, member);
                continue;
            }
            const ByteSet possible = machine.first(state) & quotient.bytes_of(atom);
            if (possible.none()) {
                machine.refuse(folded.below(child));
                continue;
            }
            const State next = machine.step(state, static_cast<uint8_t>(possible._Find_first()));
            machine.allow(folded.tokens(child), next);
            if (folded.leaf(child)) continue;
            if (machine.exit(next)) {
                for (const uint32_t member : quotient.members(child)) {
                    if (!trie.leaf(member)) machine.leave(member, next);
                }
            }
            if (machine.finished(next)) {
                machine.refuse(folded.strictly_below(child));
            } else {
                work.emplace_back(child, next);
            }
        }
    }
}

}  // namespace core
