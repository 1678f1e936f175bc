// Grammars of JSON with arrays whose items differ, for `UniqueAutomaton`.
//
// A magic number, and then bytes that choose the values. Any bytes give a grammar whose marks stand where they should: items are
// JSON values, and no array needs two that differ.
#pragma once

#include "input.hpp"
#include "written.hpp"
#include "writer.hpp"

namespace fuzz {

constexpr std::string_view kDistinctMagic = "UQ1\n";

inline bool is_distinct(std::span<const uint8_t> bytes) {
    return bytes.size() > kDistinctMagic.size() && std::equal(kDistinctMagic.begin(), kDistinctMagic.end(), bytes.begin());
}

/// The arrays of such a grammar: one array at least whose items differ.
class DistinctArrays {
public:
    Writer writer;

    explicit DistinctArrays(Input& input) {
        const std::vector<int32_t> space{' ', ' ', '\n', '\n'};
        gap_ = input.one_in(2) ? writer.terminal(writer.repeat(writer.chars(space), 0, -1)) : writer.sequence({});
        const int32_t rule_count = 1 + static_cast<int32_t>(input.below(3));
        rules_ = rule_count;
        for (int32_t rule = 0; rule < rule_count; ++rule) {  // any value ends, as each rule has a scalar
            const int32_t body = rule == 0 ? distinct(input, 0) : value(input, 0);
            writer.grammar.rules.push_back(rule == 0 ? body : writer.choice({body, text("null")}));
        }
    }

private:
    static constexpr int kDeepest = 4;

    int32_t text(std::string_view bytes) { return writer.terminal(writer.text(bytes)); }
    int32_t name(Input& input) {
        constexpr std::string_view kNames[] = {"\"a\"", "\"b\"", "\"ab\"", "\"\\u0061\"", "\"type\"", "\"\""};
        return text(input.pick(kNames));
    }
    int32_t string(Input& input) {
        const int32_t plain = writer.chars({'a', 'c'}), quote = writer.text("\"");
        const int32_t any = writer.chars({0x20, 0x21, 0x23, 0x5b, 0x5d, 0xd7ff, 0xe000, 0x10ffff});
        const int32_t hex = writer.chars({'0', '9', 'A', 'F', 'a', 'f'});
        const int32_t escape = writer.any_of({writer.concat({writer.text("\\"), writer.chars({'"', '"', '/', '/', '\\', '\\', 'b', 'b', 'f', 'f', 'n', 'n', 'r', 'r', 't', 't'})}),
                                              writer.concat({writer.text("\\u"), writer.repeat(hex, 4, 4)})});
        const int32_t character = input.one_in(2) ? plain : writer.any_of({any, escape});
        const auto low = static_cast<int32_t>(input.below(3));
        const int32_t high = input.one_in(2) ? -1 : low + static_cast<int32_t>(input.below(4));
        return writer.terminal(writer.concat({quote, writer.repeat(character, low, high), quote}));
    }
    int32_t number(Input& input) {
        const int32_t sign = writer.repeat(writer.text("-"), 0, 1), digit = writer.chars({'0', '9'}), point = writer.text(".");
        const int32_t most = input.one_in(2) ? -1 : 3;
        const int32_t whole = writer.any_of({writer.text("0"), writer.concat({writer.chars({'1', '9'}), writer.repeat(digit, 0, most)})});
        const int32_t exponent = writer.concat({writer.chars({'E', 'E', 'e', 'e'}), writer.repeat(writer.chars({'+', '+', '-', '-'}), 0, 1), writer.repeat(digit, 1, most)});
        std::vector<int32_t> parts{sign, whole};
        if (input.one_in(2)) parts.push_back(writer.repeat(writer.concat({point, writer.repeat(digit, 1, most)}), 0, 1));
        if (input.one_in(2)) parts.push_back(writer.repeat(exponent, 0, 1));
        return writer.terminal(writer.concat(parts));
    }
    int32_t object(Input& input, int depth) {
        std::vector<int32_t> members;
        for (uint32_t left = 1 + input.below(3); left-- > 0;) {
            const int32_t key = input.one_in(4) ? string(input) : name(input);
            members.push_back(writer.sequence({key, gap_, text(":"), gap_, value(input, depth + 1)}));
        }
        if (input.one_in(2)) {  // any of them, in any order, also with one name twice
            const int32_t any = writer.choice(members);
            const int32_t more = writer.loop(writer.sequence({gap_, text(","), gap_, any}), 0, input.one_in(2) ? -1 : 3);
            return writer.sequence({text("{"), gap_, writer.loop(writer.sequence({any, more}), 0, 1), gap_, text("}")});
        }
        std::vector<int32_t> parts{text("{"), gap_};
        for (size_t i = 0; i < members.size(); ++i) {
            if (i) parts.insert(parts.end(), {text(","), gap_});
            parts.insert(parts.end(), {members[i], gap_});
        }
        parts.push_back(text("}"));
        return writer.sequence(parts);
    }
    int32_t array(Input& input, int depth) {
        const int32_t item = value(input, depth + 1);
        const int32_t more = writer.loop(writer.sequence({gap_, text(","), gap_, item}), 0, bound(input));
        return writer.sequence({text("["), gap_, writer.loop(writer.sequence({item, more}), 0, 1), gap_, text("]")});
    }
    int32_t distinct(Input& input, int depth) {
        using core::Mark;
        const int32_t item = value(input, depth + 1);
        const int32_t more = writer.loop(writer.sequence({gap_, text(","), writer.mark(Mark::Next), gap_, item}), 0, bound(input));
        const int32_t full = writer.sequence({text("["), writer.mark(Mark::Open), gap_, item, more, gap_, text("]"), writer.mark(Mark::Close)});
        return input.one_in(4) ? full : writer.choice({full, writer.sequence({text("["), gap_, text("]")})});
    }
    int32_t bound(Input& input) { return input.one_in(3) ? static_cast<int32_t>(input.below(4)) : -1; }
    int32_t value(Input& input, int depth) {
        switch (depth < kDeepest ? input.below(9) : input.below(4)) {
            case 1: return number(input);
            case 2: return string(input);
            case 3: return writer.choice({text("true"), text("false"), text("null"), text("1"), text("1.0"), text("\"a\"")});
            case 4: return object(input, depth);
            case 5: return array(input, depth);
            case 6: return distinct(input, depth);
            case 7: return writer.choice({value(input, depth + 1), value(input, depth + 1)});
            case 8: return writer.call(static_cast<int32_t>(input.below(static_cast<size_t>(rules_))));
            default: return writer.terminal(writer.any_of({writer.text("true"), writer.text("false"), writer.text("null")}));
        }
    }

    int32_t gap_ = 0, rules_ = 0;
};

}  // namespace fuzz
