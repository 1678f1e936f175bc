// Reading a grammar from the flat arrays that `grammars.ir.FlatGrammar` makes.
#pragma once

#include "expr.hpp"
#include "regex.hpp"

namespace core {

struct FlatGrammar {
    std::span<const int32_t> nodes;  // four a node: operation and its operands
    std::span<const int32_t> args;
    std::span<const uint8_t> data;
    std::span<const int32_t> rules;
    uint32_t start;
};

/// Fills `exprs` with the rules; terminals go to `regexes`.
/// Throws BadGrammar for an array that is not a grammar, TooLarge when a terminal's emptiness takes over `fuel` steps.
void read_grammar(const FlatGrammar& grammar, RegexStore& regexes, ExprStore& exprs, uint32_t fuel);

}  // namespace core
