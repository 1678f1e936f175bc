// A grammar as flat arrays, and how the stores read it.
//
// Children come before their parents, shared ones once. Regular expressions and rules are kept apart: an expression
// may refer to one that was read before, so that what many grammars share is read once per vocabulary.
#pragma once

#include <functional>
#include <span>

#include "expr.hpp"
#include "regex.hpp"

namespace core {

/// The classes of `grammars.ir`: first those of regular expressions, then those of rules.
enum class Op : int32_t { Literal, Chars, Concat, Union, Intersection, Complement, Repeat, Nothing, Multiple, Terminal, Call, Sequence, Choice, Loop, Bag, Reference };
constexpr size_t kOps = 15;  // without Reference, which is no class

struct FlatNode {
    Op op;
    // Literal: offset and length in `data`; Chars: offset in `args`, number of ranges of two numbers each;
    // Concat, Union, Intersection, Sequence, Choice: offset in `args`, number of children; Complement: child;
    // Multiple: offset in `data`, bytes; Repeat, Loop: child, low, high (-1: none); Reference: residual id;
    // Terminal: row of its expression; Call: rule; Bag: offset in `args` of low, high (-1: none), marks, ordered,
    // separator, and then numbers of entries and of needed slots; five numbers an entry: head, body, slot (-1: none),
    // marks, distinct; the needed slots
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
    std::vector<RegexId> terminals;  // of every row of the regular expressions
    std::vector<int32_t> rules;
    uint32_t start = 0;
    std::vector<Later> later;  // rules without a body yet; their numbers follow those of the others
};

/// The language of each row.
std::vector<RegexId> read_regexes(const FlatRegexes& flat, RegexStore& regexes);

/// Fills `exprs` with the rules. Throws TooLarge when a terminal's emptiness takes over `fuel` steps.
void read_grammar(const FlatGrammar& flat, RegexStore& regexes, ExprStore& exprs, uint32_t fuel);

/// Adds the bodies of rules that were to come later: row i of `flat.rules` is that of rule `names[i]`.
void read_later(const FlatGrammar& flat, std::span<const uint32_t> names, RegexStore& regexes, ExprStore& exprs);

/// The same with terminals of any kind: `terminal` makes the expression of a row of regular expressions.
void read_rules(const FlatGrammar& flat, ExprStore& exprs, const std::function<ExprId(int32_t)>& terminal);

}  // namespace core
