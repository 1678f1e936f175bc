// Reading the flat arrays that `grammars/flat.py` makes.
#pragma once

#include "expr.hpp"
#include "regex.hpp"

namespace core {

struct FlatRegexes {
    std::span<const int32_t> nodes;  // four a node: operation and its operands
    std::span<const int32_t> args;
    std::span<const uint8_t> data;
};

struct FlatGrammar {
    std::span<const int32_t> nodes;
    std::span<const int32_t> args;
    std::span<const uint32_t> terminals;  // residual ids, as `read_regexes` returned them
    std::span<const int32_t> rules;
    uint32_t start;
};

/// The language of each row. Throws BadGrammar for arrays that are not regular expressions.
std::vector<RegexId> read_regexes(const FlatRegexes& flat, RegexStore& regexes);

/// Fills `exprs` with the rules.
/// Throws BadGrammar for arrays that are not a grammar, TooLarge when a terminal's emptiness takes over `fuel` steps.
void read_grammar(const FlatGrammar& flat, RegexStore& regexes, ExprStore& exprs, uint32_t fuel);

}  // namespace core
