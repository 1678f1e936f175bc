// Marks: points in the texts of a grammar that stand for no text (`constrained.grammars.ir.Mark`).
//
// Inside the core a mark is a byte that no text of UTF-8 contains. `UniqueAutomaton` reads and hides them.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>

namespace core {

/// An array whose items must differ has begun, its next item begins, it has ended.
enum class Mark : uint8_t { Open = 0xF8, Next = 0xF9, Close = 0xFA };
constexpr std::array kMarks{Mark::Open, Mark::Next, Mark::Close};

constexpr bool is_mark(uint8_t byte) { return byte >= static_cast<uint8_t>(Mark::Open) && byte <= static_cast<uint8_t>(Mark::Close); }

/// Whether a mark can follow this byte.
constexpr bool separates(uint8_t byte) { return byte == '[' || byte == ',' || byte == ']'; }

/// These bytes and the marks.
inline std::bitset<256> with_marks(std::bitset<256> bytes) {
    for (const Mark mark : kMarks) bytes.set(static_cast<uint8_t>(mark));
    return bytes;
}

}  // namespace core
