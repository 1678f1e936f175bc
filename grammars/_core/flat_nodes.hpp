// The nodes of a grammar as flat arrays, and how arrays of them are packed into bytes between the native modules.
//
// Children precede their parents; shared nodes occur once. Regular expressions and rules have separate arrays.
// Plain data: needs neither Python nor a lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flat {

/// The classes of `constrained.grammars.ir`: first those of regular expressions, then those of rules. `Reference`: a regular expression that
/// the reader knows; `Leaf`: an object of `constrained.grammars.ir` among the leaves of packed rules.
enum class Op : int32_t { Literal, Chars, Concat, Union, Intersection, Complement, Repeat, EmptySet, DecimalMultiple, Substring, Terminal, Call, Sequence, Choice, Loop, Interleave, Reference, Leaf };
constexpr size_t kOps = 16;  // without Reference and Leaf, which are not classes

struct Node {
    Op op;
    // Literal: offset and length in the bytes; Chars: offset in the arguments, number of ranges of two numbers each;
    // Concat, Union, Intersection, Sequence, Choice: offset in the arguments, number of children; Complement: child;
    // DecimalMultiple, Substring: offset in the bytes, length; Repeat, Loop: child, low, high (-1: none); Reference: residual id;
    // Leaf: its number; Terminal: node of its expression; Call: rule; Interleave: offset in the arguments of low, high (-1: none),
    // obligations, ordered, separator, number of entries, number of required alternatives; then five numbers per entry: head, body,
    // alternative (-1: repeatable), obligations, distinct; then the required alternatives
    int32_t a, b, c;
};
static_assert(sizeof(Node) == 16);

/// Packed rules: this header, the nodes of the regular expressions, those of the rules, the arguments of the regular expressions,
/// those of the rules, the node of each rule's body, the bytes. Everything but the bytes is int32 in the machine's order.
struct PackedHeader {
    int32_t regexes, exprs, regex_args, expr_args, rules, start, bytes;
};

}  // namespace flat
