// Draft source `forced`: bytes that the automaton leaves no alternative to, and its usual choices, as text in the layout of the
// text so far. A continuation runs on over optional white space, over one of a few literals, and over a comma or a closing
// bracket; it may end the string or number that is being written.
//
// Thread safety: plain data; an AutomatonView belongs to one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "draft_context.hpp"

namespace spec {

/// The white space of JSON texts: what stood last after a colon, a comma, `{`, `[`, and other bytes.
struct Layout {
    enum Place : int8_t { kNowhere = -1, kColon, kComma, kBrace, kBracket, kOther, kPlaces };

    std::array<char, kPlaces> after{' ', ' ', '\0', '\0', '\0'};  // '\0': nothing; ' ': spaces; '\n': line breaks, tabs
};

/// Where a text stands between its words.
struct LayoutReader {
    Layout::Place place = Layout::kNowhere;  // the next byte shows what stands there
    bool quoted = false, escaped = false;

    static LayoutReader at(const DraftContext& context);
    /// Reads a byte; `learned`, unless it is null, learns from it.
    void read(char byte, Layout* learned = nullptr);
};

/// A continuation: its text, how many bytes of it are forced, and the first choice that it makes behind them.
struct Continuation {
    enum Choice : uint32_t { kNone, kLayout, kStringEnd, kNumberEnd, kSeparator, kLiteral };

    std::string text;
    size_t forced;
    uint32_t choice;  // kLiteral + n: one of n literals
};

bool is_space(char byte);
/// Lower case and bytes above ASCII, upper case, digits, white space, others: 0 .. 4.
uint32_t byte_class(char byte);
/// The number of binary digits, at most 7.
uint32_t length_class(size_t length);

}  // namespace spec
