// How a token automaton of another module is asked: a table of C functions in a capsule, so that neither side needs
// the other's classes. The capsule is named `kAutomatonTable`; whoever keeps the table keeps the automaton alive.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spec {

inline constexpr const char* kAutomatonTable = "spec.automaton.1";

struct AutomatonTable {
    void* automaton;
    /// The state after a token, 0 if it is not allowed or not known.
    uint32_t (*next)(void* automaton, uint32_t state, uint32_t token);
    /// Writes what every completion begins with, `room` bytes of it at most; the number of bytes.
    size_t (*forced)(void* automaton, uint32_t state, char* into, size_t room);
};

}  // namespace spec
