// Builds a grammar as flat arrays, node by node as `constrained.grammars.ir` and `constrained.grammars.json_schema` build its objects.
//
// Invariant: the functions merge and flatten exactly as the functions of the same names in `constrained.grammars.ir` do.
#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flat_nodes.hpp"

namespace schemas {

namespace nb = nanobind;

/// A node of a regular expression, or of a rule.
using RegexNode = int32_t;
using ExprNode = int32_t;
constexpr int32_t kNoNode = -1;  ///< of either kind

class FlatWriter {
public:
    RegexNode literal(std::string_view text) {
        const auto at = static_cast<int32_t>(bytes_.size());
        bytes_.append(text);
        return regex({flat::Op::Literal, at, static_cast<int32_t>(text.size()), 0});
    }
    RegexNode regex_leaf(int32_t leaf) { return regex({flat::Op::Leaf, leaf, 0, 0}); }
    RegexNode complement(RegexNode part) { return regex({flat::Op::Complement, part, 0, 0}); }
    /// Concat, Union or Intersection of several parts.
    RegexNode regex_of(flat::Op op, std::span<const RegexNode> parts) { return regex(parts_of(op, parts, regex_args_)); }

    ExprNode expr_leaf(int32_t leaf) { return expr({flat::Op::Leaf, leaf, 0, 0}); }
    ExprNode terminal(RegexNode part) { return expr({flat::Op::Terminal, part, 0, 0}); }
    ExprNode call(int32_t rule) { return expr({flat::Op::Call, rule, 0, 0}); }
    /// Several parts, none of which is the empty language or the empty string.
    ExprNode sequence(std::initializer_list<ExprNode> parts) { return expr(parts_of(flat::Op::Sequence, {parts.begin(), parts.size()}, expr_args_)); }
    /// One part or more, none of which is the empty language.
    ExprNode choice(std::span<const ExprNode> parts) {
        return parts.size() == 1 ? parts[0] : expr(parts_of(flat::Op::Choice, parts, expr_args_));
    }
    ExprNode choice(std::initializer_list<ExprNode> parts) { return choice(std::span(parts.begin(), parts.size())); }
    ExprNode loop(ExprNode part, int32_t low, int32_t high) { return expr({flat::Op::Loop, part, low, high}); }
    /// `args`: as in flat_nodes.hpp.
    ExprNode interleave(std::span<const int32_t> args) {
        const auto at = static_cast<int32_t>(expr_args_.size());
        expr_args_.insert(expr_args_.end(), args.begin(), args.end());
        return expr({flat::Op::Interleave, at, 0, 0});
    }

    /// A rule that suffices for an expression to have a text, as `_sufficient_rule` in `constrained.grammars.json_schema.emit.lowering` has it:
    /// the one that it calls, or that the first part of a choice of calls calls; -1 if there is none.
    int32_t called(ExprNode node) const;
    /// Says of a leaf that a rule suffices for it to have a text. Other leaves have one.
    void suffices(ExprNode leaf, int32_t rule) { suffices_[leaf] = rule; }

    /// The rule that an expression consists of; -1 if it is anything else.
    int32_t only_called(ExprNode node) const { return exprs_[node].op == flat::Op::Call ? exprs_[node].a : -1; }

    /// Numbers an object of `constrained.grammars.ir` that nodes may stand for.
    int32_t leaf(nb::handle object) {
        leaves_.append(object);
        return static_cast<int32_t>(nb::len(leaves_)) - 1;
    }
    const nb::list& leaves() const { return leaves_; }

    /// The packed rules (flat_nodes.hpp). `shift` is added to the number of each called rule.
    nb::bytes pack(std::span<const ExprNode> rules, int32_t start, int32_t shift);

private:
    RegexNode regex(const flat::Node& node) {
        regexes_.push_back(node);
        return static_cast<RegexNode>(regexes_.size()) - 1;
    }
    ExprNode expr(const flat::Node& node) {
        exprs_.push_back(node);
        return static_cast<ExprNode>(exprs_.size()) - 1;
    }
    static flat::Node parts_of(flat::Op op, std::span<const int32_t> parts, std::vector<int32_t>& args) {
        const auto at = static_cast<int32_t>(args.size());
        args.insert(args.end(), parts.begin(), parts.end());
        return {op, at, static_cast<int32_t>(parts.size()), 0};
    }

    nb::list leaves_;
    std::unordered_map<ExprNode, int32_t> suffices_;
    std::vector<flat::Node> regexes_, exprs_;
    std::vector<int32_t> regex_args_, expr_args_;
    std::string bytes_;
};

}  // namespace schemas
