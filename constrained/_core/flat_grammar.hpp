// A grammar as flat arrays, and functions that read it into the stores.
//
// See grammars/_core/flat_nodes.hpp. A regular expression may refer to one read before, so expressions common to many grammars are
// read once per shard.
// Thread safety: the shard's lock guards the stores; the arrays are plain data.
#pragma once

#include <functional>
#include <span>

#include "grammars/_core/flat_nodes.hpp"
#include "regex.hpp"
#include "rule_exprs.hpp"

namespace core {

using flat::Op;
using FlatNode = flat::Node;

struct FlatRegexes {
    std::vector<FlatNode> nodes;
    std::vector<int32_t> args;
    std::vector<uint8_t> data;
};

struct FlatGrammar {
    std::vector<FlatNode> nodes;
    std::vector<int32_t> args;
    std::vector<RegexId> terminals;  // of every node of the regular expressions
    std::vector<int32_t> rules;
    uint32_t start = 0;
};

/// Steps of work that reading the regular expressions of a grammar may take, and reading its rules up to the first state.
constexpr uint64_t kReadingWork = 10'000'000;

/// The language of each node. Throws TooLarge if that takes more work than `limit`.
std::vector<RegexId> read_regexes(const FlatRegexes& flat, RegexStore& regexes, uint64_t limit = kReadingWork);

/// Reads the rules into `exprs`. Throws TooLarge if deciding the emptiness of a terminal takes more than `fuel` steps.
void read_grammar(const FlatGrammar& flat, RegexStore& regexes, RuleExprStore& exprs, uint32_t fuel);

/// As `read_grammar`; `terminal` returns the expression for a node of the regular expressions.
void read_rules(const FlatGrammar& flat, RuleExprStore& exprs, const std::function<ExprId(int32_t)>& terminal);

}  // namespace core
