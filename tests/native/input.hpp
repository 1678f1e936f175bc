// From the bytes of a fuzzer to what the core reads: vocabularies, flat arrays, numbers that like to be awkward.
//
// Invariant: any byte string is an input, and the same bytes always give the same arrays. Missing bytes read as zero.
#pragma once

#include <string_view>
#include <tuple>

#include "../../constrained/_core/lexer_automaton.hpp"
#include "tokens.hpp"

namespace fuzz {

class Input {
public:
    explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}

    bool done() const { return at_ >= bytes_.size(); }
    uint8_t byte() { return done() ? 0 : bytes_[at_++]; }
    /// A number below `count`, or 0.
    uint32_t below(size_t count) { return count < 2 ? 0 : (count <= 256 ? byte() : uint32_t{byte()} << 8 | byte()) % count; }
    bool one_in(uint32_t chances) { return byte() % chances == chances - 1; }
    /// Any 32 bits.
    int32_t raw() {
        uint32_t value = 0;
        for (int i = 0; i < 4; ++i) value = value << 8 | byte();
        return static_cast<int32_t>(value);
    }
    template <class T, size_t N>
    T pick(const T (&from)[N]) {
        return from[below(N)];
    }

private:
    std::span<const uint8_t> bytes_;
    size_t at_ = 0;
};

/// Bytes that mean something to someone: letters, digits, JSON, and characters of two to four bytes.
constexpr uint8_t kPalette[] = {'a', 'b', 'A', '0', '1', '"', '\\', '{', '}', '[', ',', ' ', 0, 0x7f, 0xc3, 0xa9, 0xe2, 0x82, 0xac,
                                0xf0, 0x9f, 0x98, 0x80, 0xff};
constexpr int32_t kPoints[] = {0, 'a', 'b', 'z', '0', '9', 0x7f, 0x80, 0xe9, 0x7ff, 0x800, 0x20ac, 0xd7ff, 0xe000, 0xffff, 0x10000,
                               0x1f600, 0x10ffff};
constexpr int32_t kCounts[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6};
constexpr int32_t kLargeCounts[] = {15, 16, 17, 18, 19, 40, 100, 1000, 0x10000, 0x7ffffffe};  // seldom: each text costs its length

/// Bytes of memory, from what forgets everything all the time to what forgets nothing.
constexpr size_t kLimits[] = {0, 1 << 12, 1 << 14, 1 << 16, 1 << 20, 1 << 26, 1 << 26, 1 << 26};

/// Single bytes (all of them, or the palette's), tokens of several, odd ones, then one or two ends of text.
inline std::shared_ptr<core::Vocabulary> make_vocabulary(Input& input) {
    TokenList tokens;
    if (input.one_in(4)) {
        for (int byte = 0; byte < 256; ++byte) tokens.byte(static_cast<uint8_t>(byte)), tokens.end();
    } else {
        for (const uint8_t byte : kPalette) {
            if (!input.one_in(16)) tokens.byte(byte), tokens.end();
        }
    }
    for (uint32_t i = input.below(24); i-- > 0;) {  // some without bytes, some twice, some that end inside a character
        for (uint32_t length = input.one_in(32) ? 300 : input.below(6); length-- > 0;) tokens.byte(input.pick(kPalette));
        tokens.end();
    }
    for (uint32_t i = 1 + input.below(2); i-- > 0;) tokens.end_of_text();
    return tokens.share(input.pick(kLimits), 1 + input.below(2));
}

/// The arrays of a grammar, as `ir.cpp` makes them. Where it lets numbers through that make no sense, an awkward writer
/// puts any number: bounds of characters and of counts. `known`: regular expressions to refer to. `differ`: whether entries
/// of a bag may have to differ, which a lexer does not know.
struct Arrays {
    core::FlatRegexes regexes;
    core::FlatGrammar grammar;  // without the ids of its terminals

    Arrays(Input& input, bool awkward, std::span<const core::RegexId> known, bool differ) {
        using core::Op;
        const auto number = [&](int64_t sensible) {
            return awkward && input.one_in(12) ? input.raw() : static_cast<int32_t>(sensible);
        };
        const auto list = [&](std::vector<int32_t>& args, size_t made) {  // (offset, count) of some children
            const size_t offset = args.size(), count = input.below(5);
            for (size_t i = 0; i < count; ++i) args.push_back(static_cast<int32_t>(input.below(made)));
            return std::pair(static_cast<int32_t>(offset), static_cast<int32_t>(count));
        };
        const auto bounds = [&] {
            const int64_t low = input.one_in(60) ? input.pick(kLargeCounts) : input.pick(kCounts);
            const int64_t more = input.one_in(20) ? input.pick(kLargeCounts) : input.pick(kCounts);
            const int64_t high = input.one_in(3) || low + more > INT32_MAX ? -1 : low + more;
            return std::pair(number(low), number(high));
        };
        const size_t regex_count = 1 + input.below(16);
        for (size_t made = 0; made < regex_count; ++made) {
            const auto child = static_cast<int32_t>(input.below(made));
            constexpr Op kLeaves[] = {Op::Literal, Op::Chars, Op::Reference, Op::EmptySet};
            constexpr Op kOps[] = {Op::Literal, Op::Chars, Op::Concat, Op::Union, Op::Intersection, Op::Complement, Op::Repeat, Op::EmptySet, Op::Reference, Op::DecimalMultiple};
            Op op = made ? input.pick(kOps) : input.pick(kLeaves);
            if (op == Op::Reference && known.empty()) op = Op::Chars;
            int32_t a = 0, b = 0, c = 0;
            switch (op) {
                case Op::Literal:
                    a = static_cast<int32_t>(regexes.data.size()), b = static_cast<int32_t>(input.below(5));
                    for (int32_t i = 0; i < b; ++i) regexes.data.push_back(input.pick(kPalette));
                    break;
                case Op::Chars: {
                    a = static_cast<int32_t>(regexes.args.size());
                    int32_t low = 0;
                    for (size_t i = input.below(4); i-- > 0 && low <= 0x10ffff; ++b) {
                        const int32_t from = std::max(low, input.pick(kPoints)), to = std::max(from, input.pick(kPoints));
                        regexes.args.push_back(number(from)), regexes.args.push_back(number(to));
                        low = to + 1 + static_cast<int32_t>(input.below(2));
                    }
                    break;
                }
                case Op::Complement: a = child; break;
                case Op::Repeat: a = child, std::tie(b, c) = bounds(); break;
                case Op::Reference: a = static_cast<int32_t>(known[input.below(known.size())].value); break;
                case Op::EmptySet: break;
                case Op::DecimalMultiple: a = multiple(input, awkward), b = static_cast<int32_t>(regexes.data.size()) - a; break;
                default: std::tie(a, b) = list(regexes.args, made);
            }
            regexes.nodes.push_back({op, a, b, c});
        }
        if (differ) grammar.nodes.push_back({Op::Terminal, scalars(input), 0, 0});
        const size_t expr_count = grammar.nodes.size() + 1 + input.below(16), rule_count = 1 + input.below(4);
        for (size_t made = grammar.nodes.size(); made < expr_count; ++made) {
            constexpr Op kOps[] = {Op::Terminal, Op::Call, Op::Sequence, Op::Choice, Op::Loop, Op::Interleave};
            const Op op = made ? input.pick(kOps) : Op::Terminal;
            int32_t a = 0, b = 0, c = 0;
            switch (op) {
                case Op::Terminal: a = static_cast<int32_t>(input.one_in(3) ? input.below(regex_count) : regex_count - 1); break;
                case Op::Call: a = static_cast<int32_t>(input.below(rule_count)); break;
                case Op::Loop: a = static_cast<int32_t>(input.below(made)), std::tie(b, c) = bounds(); break;
                case Op::Interleave: {
                    a = static_cast<int32_t>(grammar.args.size());
                    const auto [low, high] = bounds();
                    const size_t entries = input.below(5), needed = input.one_in(3) ? input.below(3) : 0;
                    const auto marks = static_cast<int32_t>(input.one_in(4) ? input.below(4) : 0);
                    grammar.args.insert(grammar.args.end(), {low, high, marks, input.one_in(2), static_cast<int32_t>(input.below(made)),
                                                             static_cast<int32_t>(entries), static_cast<int32_t>(needed)});
                    for (size_t i = 0; i < entries; ++i) {
                        const bool distinct = differ && input.one_in(3);
                        const auto head = static_cast<int32_t>(distinct ? 0 : input.below(made));
                        const int32_t slot = distinct ? -1 : static_cast<int32_t>(input.below(4)) - 1;
                        grammar.args.insert(grammar.args.end(), {head, static_cast<int32_t>(input.below(made)), slot,
                                                                 static_cast<int32_t>(input.below(4)), distinct});
                    }
                    for (size_t i = 0; i < needed; ++i) grammar.args.push_back(static_cast<int32_t>(i));
                    break;
                }
                default: std::tie(a, b) = list(grammar.args, made);
            }
            grammar.nodes.push_back({op, a, b, c});
        }
        for (size_t i = 0; i < rule_count; ++i) {
            grammar.rules.push_back(static_cast<int32_t>(i == 0 ? expr_count - 1 : input.below(expr_count)));
        }
        grammar.start = 0;
    }

private:
    /// Where a packed multiple was put; one that makes sense unless `awkward`.
    int32_t multiple(Input& input, bool awkward) {
        constexpr uint64_t kModuli[] = {1, 2, 3, 5, 7, 10, 16, 100, 999, 4093, core::Moduli::kMost};
        const auto at = static_cast<int32_t>(regexes.data.size());
        const auto put = [&](uint64_t value, int bytes) {
            if (awkward && input.one_in(12)) value = static_cast<uint32_t>(input.raw());
            for (int i = 0; i < bytes; ++i) regexes.data.push_back(static_cast<uint8_t>(value >> 8 * i));
        };
        const uint64_t modulus = input.pick(kModuli);
        const auto form = input.below(3);
        const bool fraction = form == static_cast<uint32_t>(core::DecimalMultiple::Form::Fraction);
        const auto low = fraction ? input.below(2) : static_cast<uint32_t>(input.pick(kCounts));
        put(modulus, 8);
        const uint64_t residue = input.byte() % modulus;
        put(residue, 8);
        put(low, 4);
        put(fraction || input.one_in(2) ? core::kInfinite : low + static_cast<uint32_t>(input.pick(kCounts)), 4);
        put(form == static_cast<uint32_t>(core::DecimalMultiple::Form::Whole) ? 0 : input.below(4), 4);
        put(form + (modulus == 1 && low % 2 == 1 ? 4 : 0), 4);  // some have further places
        const uint32_t zeros = residue % 2 ? core::kInfinite : residue % 3;  // not of the input: kept ones stay what they were
        const auto add = [&](uint64_t value, int bytes) {
            for (int i = 0; i < bytes; ++i) regexes.data.push_back(static_cast<uint8_t>(value >> 8 * i));
        };
        add(zeros, 4);
        if (residue % 5 < 3) return at;  // always where the modulus is 1
        if (modulus <= 100) add(11, core::DecimalMultiple::kPackedExcluded);  // and some exclude others, too
        if (residue % 5 == 4 && modulus <= 100) add(2 * modulus, core::DecimalMultiple::kPackedExcluded);
        return at;
    }

    /// The row of some JSON scalars, new.
    int32_t scalars(Input& input) {
        constexpr const char* kTexts[] = {"\"a\"", "\"b\"", "\"aa\"", "\"\"", "0", "1", "10", "\"0\""};
        const auto offset = static_cast<int32_t>(regexes.args.size());
        const auto count = static_cast<int32_t>(1 + input.below(5));
        for (int32_t i = 0; i < count; ++i) {
            const std::string_view text = input.pick(kTexts);
            const auto at = static_cast<int32_t>(regexes.data.size());
            regexes.data.insert(regexes.data.end(), text.begin(), text.end());
            regexes.args.push_back(static_cast<int32_t>(regexes.nodes.size()));
            regexes.nodes.push_back({core::Op::Literal, at, static_cast<int32_t>(text.size()), 0});
        }
        regexes.nodes.push_back({core::Op::Union, offset, count, 0});
        return static_cast<int32_t>(regexes.nodes.size() - 1);
    }
};

/// Which rows of regular expressions are tokens of a lexer, and how they compete.
struct LexerArrays {
    std::vector<int32_t> rows, ranks;
    std::vector<std::vector<int32_t>> hosts;
    std::vector<bool> shortest;
    bool everywhere;

    LexerArrays(Input& input, size_t regex_count) : everywhere(input.one_in(2)) {
        for (size_t row = 0; row < regex_count; ++row) {
            if (input.one_in(2)) rows.push_back(static_cast<int32_t>(row));
        }
        for (size_t i = 0; i < rows.size(); ++i) {
            ranks.push_back(static_cast<int32_t>(input.below(3)));
            hosts.emplace_back();
            shortest.push_back(input.one_in(6));
            if (input.one_in(4)) {
                const auto host = static_cast<int32_t>(input.below(rows.size()));
                hosts.back().push_back(input.one_in(2) ? ~host : host);
            }
        }
    }
    core::LexerAutomaton::Tokens tokens() const { return {rows, ranks, hosts, shortest, everywhere}; }
};

}  // namespace fuzz
