// The queries that speculation makes of a token automaton of another module, as C functions in a capsule: neither module
// needs the classes of the other. The capsule is named `kAutomatonTable` and keeps the automaton alive.
//
// Thread safety: the functions may be called from any thread, with or without the GIL.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spec {

inline constexpr const char* kAutomatonTable = "spec.automaton.2";

struct AutomatonTable {
    void* automaton;
    /// The state after a token; 0 if the token is not allowed or an error occurred.
    uint32_t (*next)(void* automaton, uint32_t state, uint32_t token);
    /// Writes up to `room` bytes of the common prefix of all completions; returns their number.
    size_t (*forced)(void* automaton, uint32_t state, char* into, size_t room);
    /// Writes the bytes that may come next, bit b % 64 of word b / 64 for byte b; none after an error.
    void (*first_bytes)(void* automaton, uint32_t state, uint64_t into[4]);
};

}  // namespace spec
