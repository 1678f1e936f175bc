// A grammar as flat arrays, and functions that read it into the stores.
//
// Children precede their parents; shared nodes occur once. Regular expressions and rules have separate arrays: a regular
// expression may refer to one read before, so expressions common to many grammars are read once per shard.
// Thread safety: the shard's lock guards the stores; the arrays are plain data.
#pragma once

#include <functional>
#include <span>

#include "rule_exprs.hpp"
#include "regex.hpp"

namespace core {

/// The classes of `grammars.ir`: first those of regular expressions, then those of rules.
enum class Op : int32_t { Literal, Chars, Concat, Union, Intersection, Complement, Repeat, EmptySet, DecimalMultiple, Substring, Terminal, Call, Sequence, Choice, Loop, Interleave, Reference };
constexpr size_t kOps = 16;  // without Reference, which is not a class

struct FlatNode {
    Op op;
    // Literal: offset and length in `data`; Chars: offset in `args`, number of ranges of two numbers each;
    // Concat, Union, Intersection, Sequence, Choice: offset in `args`, number of children; Complement: child;
    // DecimalMultiple, Substring: offset in `data`, bytes; Repeat, Loop: child, low, high (-1: none); Reference: residual id;
    // Terminal: node of its expression; Call: rule; Interleave: offset in `args` of low, high (-1: none), obligations,
    // ordered, separator, number of entries, number of required alternatives; then five numbers per entry: head, body,
    // alternative (-1: repeatable), obligations, distinct; then the required alternatives
    int32_t a, b, c;
};

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
    std::vector<LazyRule> lazy_rules;  // rules without a body; their numbers follow the other rules
};

/// The language of each node.
std::vector<RegexId> read_regexes(const FlatRegexes& flat, RegexStore& regexes);

/// Reads the rules into `exprs`. Throws TooLarge if deciding the emptiness of a terminal takes more than `fuel` steps.
void read_grammar(const FlatGrammar& flat, RegexStore& regexes, RuleExprStore& exprs, uint32_t fuel);

/// Adds the bodies of lazy rules: `flat.rules[i]` is the body of rule `names[i]`.
void read_lazy_rules(const FlatGrammar& flat, std::span<const uint32_t> names, RegexStore& regexes, RuleExprStore& exprs);

/// As `read_grammar`; `terminal` returns the expression for a node of the regular expressions.
void read_rules(const FlatGrammar& flat, RuleExprStore& exprs, const std::function<ExprId(int32_t)>& terminal);

}  // namespace core
