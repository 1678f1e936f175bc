// A grammar written by hand, as flat arrays.
#pragma once

#include <string_view>

#include "../../constrained/_core/automaton.hpp"

/// A grammar written by hand.
struct Writer {
    core::FlatRegexes regexes;
    core::FlatGrammar grammar{.start = 0};  // without the ids of its terminals

    int32_t text(std::string_view bytes) {
        const auto at = static_cast<int32_t>(regexes.data.size());
        regexes.data.insert(regexes.data.end(), bytes.begin(), bytes.end());
        return row(regexes.nodes, {core::Op::Literal, at, static_cast<int32_t>(bytes.size()), 0});
    }
    int32_t chars(const std::vector<int32_t>& ranges) {
        const auto [at, count] = list(regexes.args, ranges);
        return row(regexes.nodes, {core::Op::Chars, at, count / 2, 0});
    }
    int32_t concat(const std::vector<int32_t>& parts) { return regex(core::Op::Concat, parts); }
    int32_t any_of(const std::vector<int32_t>& parts) { return regex(core::Op::Union, parts); }
    int32_t repeat(int32_t part, int32_t low, int32_t high) { return row(regexes.nodes, {core::Op::Repeat, part, low, high}); }
    int32_t terminal(int32_t regex) { return row(grammar.nodes, {core::Op::Terminal, regex, 0, 0}); }
    int32_t call(int32_t rule) { return row(grammar.nodes, {core::Op::Call, rule, 0, 0}); }
    int32_t sequence(const std::vector<int32_t>& parts) { return expr(core::Op::Sequence, parts); }
    int32_t choice(const std::vector<int32_t>& parts) { return expr(core::Op::Choice, parts); }
    int32_t loop(int32_t part, int32_t low, int32_t high) { return row(grammar.nodes, {core::Op::Loop, part, low, high}); }

    /// A mark of arrays whose items differ.
    int32_t mark(core::Mark which) {
        const char byte = static_cast<char>(which);
        return terminal(text({&byte, 1}));
    }

    /// The grammar as it is read in a shard.
    core::FlatGrammar read(core::Shard& shard) const {
        core::FlatGrammar whole = grammar;
        const std::lock_guard guard(shard.lock);
        whole.terminals = core::read_regexes(regexes, shard.regexes);
        return whole;
    }
    std::unique_ptr<core::Automaton> compile(const std::shared_ptr<core::Shard>& shard) const {
        return std::make_unique<core::Automaton>(shard, read(*shard), kFuel, kMemory);
    }

private:
    static constexpr uint32_t kFuel = 100'000;
    static constexpr size_t kMemory = size_t{1} << 28;

    static std::pair<int32_t, int32_t> list(std::vector<int32_t>& args, const std::vector<int32_t>& values) {
        const auto at = static_cast<int32_t>(args.size());
        args.insert(args.end(), values.begin(), values.end());
        return {at, static_cast<int32_t>(values.size())};
    }
    static int32_t row(std::vector<core::FlatNode>& rows, core::FlatNode node) {
        rows.push_back(node);
        return static_cast<int32_t>(rows.size() - 1);
    }
    int32_t regex(core::Op op, const std::vector<int32_t>& parts) {
        const auto [at, count] = list(regexes.args, parts);
        return row(regexes.nodes, {op, at, count, 0});
    }
    int32_t expr(core::Op op, const std::vector<int32_t>& parts) {
        const auto [at, count] = list(grammar.args, parts);
        return row(grammar.nodes, {op, at, count, 0});
    }
};
