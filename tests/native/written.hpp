// Grammars of real use as inputs of the fuzzer: what `tests/tools/fuzz_corpus.py` writes.
//
// A magic number, and then numbers of two bytes, the low one first. Children are named by their distance from the parent, and
// every number is brought into its range, so that any change of such an input is an input too, and mostly a grammar.
#pragma once

#include "input.hpp"

namespace fuzz {

constexpr std::string_view kMagic = "IR1\n";

inline bool is_written(std::span<const uint8_t> bytes) {
    return bytes.size() > kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
}

/// All bytes, and tokens as JSON has them.
inline std::shared_ptr<core::Vocabulary> json_vocabulary(Input& input) {
    constexpr std::string_view kTexts[] = {"\"a", "\":", "\",", "{\"", "\"}", "},", "},{", "[{", "[]", "{}", "true", "null", "12", "0.", "e1",
                                           ": ", ", ", "\n  ", "ab", "abc", "type", "name\"", "\\u00", "\xc3\xa9", "\xe2\x82"};
    TokenList tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.byte(static_cast<uint8_t>(byte)), tokens.end();
    for (const std::string_view text : kTexts) tokens.bytes(text), tokens.end();
    tokens.end_of_text();
    return tokens.share(input.pick(kLimits), 1);
}

/// The arrays of a written grammar.
struct WrittenArrays {
    core::FlatRegexes regexes;
    core::FlatGrammar grammar;  // without the ids of its terminals

    explicit WrittenArrays(Input& input) {
        using core::Op;
        const size_t regex_count = 1 + number(input, kMost);
        for (size_t made = 0; made < regex_count; ++made) {
            constexpr Op kOps[] = {Op::Literal, Op::Chars, Op::Concat, Op::Union, Op::Intersection, Op::Complement, Op::Repeat, Op::EmptySet, Op::DecimalMultiple};
            const Op written = input.pick(kOps), op = made || written == Op::Literal || written == Op::Chars ? written : Op::EmptySet;
            int32_t a = 0, b = 0, c = 0;
            switch (op) {
                case Op::Literal: a = bytes(input, b = static_cast<int32_t>(number(input, 256))); break;
                case Op::Chars: {
                    a = static_cast<int32_t>(regexes.args.size());
                    int32_t low = 0;
                    for (size_t left = number(input, 64); left-- > 0 && low <= 0x10ffff; ++b) {
                        const int32_t from = std::min(low + point(input), 0x10ffff), to = std::min(from + point(input), 0x10ffff);
                        regexes.args.push_back(from), regexes.args.push_back(to);
                        low = to + 1;
                    }
                    break;
                }
                case Op::Complement: a = child(input, made); break;
                case Op::Repeat: a = child(input, made), std::tie(b, c) = bounds(input); break;
                case Op::EmptySet: break;
                case Op::DecimalMultiple: a = bytes(input, b = core::DecimalMultiple::kPacked); break;
                default: std::tie(a, b) = list(input, regexes.args, made);
            }
            regexes.nodes.push_back({op, a, b, c});
        }
        const size_t rule_count = 1 + number(input, 256), expr_count = 1 + number(input, kMost);
        for (size_t made = 0; made < expr_count; ++made) {
            constexpr Op kOps[] = {Op::Terminal, Op::Call, Op::Sequence, Op::Choice, Op::Loop, Op::Interleave};
            const Op written = input.pick(kOps), op = made ? written : Op::Terminal;
            int32_t a = 0, b = 0, c = 0;
            switch (op) {
                case Op::Terminal: a = static_cast<int32_t>(number(input, regex_count)); break;
                case Op::Call: a = static_cast<int32_t>(number(input, rule_count)); break;
                case Op::Loop: a = child(input, made), std::tie(b, c) = bounds(input); break;
                case Op::Interleave: a = interleave(input, made); break;
                default: std::tie(a, b) = list(input, grammar.args, made);
            }
            grammar.nodes.push_back({op, a, b, c});
        }
        for (size_t i = 0; i < rule_count; ++i) grammar.rules.push_back(static_cast<int32_t>(number(input, expr_count)));
        grammar.start = number(input, rule_count);
    }

private:
    static constexpr size_t kMost = 1 << 12;  // nodes
    static constexpr uint32_t kNone = 0xffff;

    static uint32_t word(Input& input) {
        const uint32_t low = input.byte();
        return low | uint32_t{input.byte()} << 8;
    }
    static uint32_t number(Input& input, size_t count) { return static_cast<uint32_t>(word(input) % count); }
    static int32_t child(Input& input, size_t made) { return static_cast<int32_t>(made - 1 - word(input) % made); }
    static int32_t point(Input& input) {
        const uint32_t low = word(input);
        return static_cast<int32_t>(low | uint32_t{input.byte()} << 16) & 0x1fffff;
    }
    static std::pair<int32_t, int32_t> bounds(Input& input) {
        const uint32_t low = word(input), more = word(input);
        return {static_cast<int32_t>(low), more == kNone ? -1 : static_cast<int32_t>(low + more)};
    }
    static std::pair<int32_t, int32_t> list(Input& input, std::vector<int32_t>& args, size_t made) {
        const auto offset = static_cast<int32_t>(args.size()), count = static_cast<int32_t>(number(input, 512));
        for (int32_t i = 0; i < count; ++i) args.push_back(child(input, made));
        return {offset, count};
    }
    int32_t bytes(Input& input, int32_t count) {
        const auto at = static_cast<int32_t>(regexes.data.size());
        while (count-- > 0) regexes.data.push_back(input.byte());
        return at;
    }
    int32_t interleave(Input& input, size_t made) {
        std::vector<int32_t> row;
        const auto [low, high] = bounds(input);
        const auto obligations = static_cast<int32_t>(word(input) & 0xfff);
        const auto ordered = static_cast<int32_t>(input.byte() & 1);
        const int32_t separator = child(input, made);
        const auto entries = static_cast<int32_t>(number(input, 64));
        const auto required = static_cast<int32_t>(number(input, static_cast<size_t>(entries) + 1));
        row.insert(row.end(), {low, high, obligations, ordered, separator, entries, required});
        for (int32_t i = 0; i < entries; ++i) {
            const int32_t head = child(input, made), body = child(input, made);
            const uint32_t slot = word(input);
            const auto discharges = static_cast<int32_t>(word(input) & 0xfff);
            const bool distinct = (input.byte() & 1) != 0;
            row.insert(row.end(), {head, body, distinct || slot == kNone ? -1 : static_cast<int32_t>(slot % 64), discharges, distinct});
        }
        for (int32_t i = 0; i < required; ++i) row.push_back(static_cast<int32_t>(number(input, 64)));
        grammar.args.insert(grammar.args.end(), row.begin(), row.end());
        return static_cast<int32_t>(grammar.args.size() - row.size());
    }
};

}  // namespace fuzz
