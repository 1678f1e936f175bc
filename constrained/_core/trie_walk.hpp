// Runs a byte-level machine over all tokens at once.
//
// The walk visits the byte class trie, and the trie itself below a node whose byte class the machine splits. A machine has
//   State                                      its memory between two bytes
//   first(state) -> const ByteSet&             bytes it can read next
//   uniform(state) -> const ByteSet&           byte classes whose bytes all lead to the same state
//   step(state, byte) -> State                 for a byte in first(state)
//   finished(state) -> bool                    it cannot read any more bytes
//   exit(state) -> bool                        the terminal may end here
//   allow(tokens, state), refuse(tokens)       verdict on a range of tokens; allowed ones end in `state`
//   leave(node, state)                         an exit at a trie node with children
//   ok() -> bool                               false stops the walk: the machine does not fit the language
// Thread safety: that of the machine; the tries are immutable.
#pragma once

#include "byte_class_trie.hpp"
#include "trie.hpp"

namespace core {

template <class Machine>
void walk_subtree(const Trie& trie, Machine& machine, typename Machine::State start, uint32_t top) {
    using State = typename Machine::State;
    std::vector<std::pair<uint32_t, State>> work;
    const auto visit = [&](uint32_t node, const State& before) {
        if (!machine.first(before)[trie.byte(node)]) return machine.refuse(trie.subtree_tokens(node));
        const State next = machine.step(before, trie.byte(node));
        machine.allow(trie.tokens(node), next);
        if (trie.leaf(node)) return;
        if (machine.exit(next)) machine.leave(node, next);
        if (machine.finished(next)) return machine.refuse(trie.descendant_tokens(node));
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
void walk_tokens(const Trie& trie, const ByteClassTrie& byte_class_trie, Machine& machine, typename Machine::State start) {
    using State = typename Machine::State;
    const Trie& folded = byte_class_trie.trie();
    std::vector<std::pair<uint32_t, State>> work{{Trie::kRoot, start}};
    while (!work.empty() && machine.ok()) {
        const auto [node, state] = work.back();
        work.pop_back();
        for (uint32_t child = folded.children_begin(node); child < folded.children_end(node); ++child) {
            const uint8_t byte_class = folded.byte(child);
            if (!machine.uniform(state)[byte_class]) {
                for (const uint32_t member : byte_class_trie.members(child)) walk_subtree(trie, machine, state, member);
                continue;
            }
            const ByteSet possible = machine.first(state) & ByteClasses::instance().bytes_of(byte_class);
            if (possible.none()) {
                machine.refuse(folded.subtree_tokens(child));
                continue;
            }
            const State next = machine.step(state, static_cast<uint8_t>(possible._Find_first()));
            machine.allow(folded.tokens(child), next);
            if (folded.leaf(child)) continue;
            if (machine.exit(next)) {
                for (const uint32_t member : byte_class_trie.members(child)) {
                    if (!trie.leaf(member)) machine.leave(member, next);
                }
            }
            if (machine.finished(next)) {
                machine.refuse(folded.descendant_tokens(child));
            } else {
                work.emplace_back(child, next);
            }
        }
    }
}

}  // namespace core
