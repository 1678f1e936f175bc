#include "grammar.hpp"

namespace core {

namespace {

// The same list as in grammars/ir.py.
enum Op : int32_t { Literal, Chars, Concat, Union, Intersection, Complement, Repeat, Nothing, Terminal, Call, Sequence, Choice, Loop };

template <class T>
std::span<const T> slice(std::span<const T> pool, int64_t offset, int64_t count) {
    if (offset < 0 || count < 0 || offset + count > static_cast<int64_t>(pool.size())) throw BadGrammar("malformed grammar: range");
    return pool.subspan(offset, count);
}

}  // namespace

void read_grammar(const FlatGrammar& grammar, RegexStore& regexes, ExprStore& exprs, uint32_t fuel) {
    const size_t count = grammar.nodes.size() / 4;
    std::vector<uint32_t> made(count);  // RegexId or ExprId of each node
    const auto child = [&](int32_t index, size_t parent, bool expr) {
        if (index < 0 || static_cast<size_t>(index) >= parent || (grammar.nodes[index * 4] >= Terminal) != expr) {
            throw BadGrammar("malformed grammar: child");
        }
        return made[index];
    };
    for (size_t i = 0; i < count; ++i) {
        const int32_t op = grammar.nodes[i * 4], a = grammar.nodes[i * 4 + 1], b = grammar.nodes[i * 4 + 2],
                      c = grammar.nodes[i * 4 + 3];
        const uint32_t high = c < 0 ? kInfinite : static_cast<uint32_t>(c);
        const auto regex_list = [&] {
            std::vector<RegexId> parts;
            for (const int32_t part : slice(grammar.args, a, b)) parts.push_back({child(part, i, false)});
            return parts;
        };
        const auto expr_list = [&] {
            std::vector<ExprId> parts;
            for (const int32_t part : slice(grammar.args, a, b)) parts.push_back({child(part, i, true)});
            return parts;
        };
        switch (op) {
            case Literal: made[i] = regexes.literal(slice(grammar.data, a, b)).value; break;
            case Chars: made[i] = regexes.chars(slice(grammar.args, a, int64_t{b} * 2)).value; break;
            case Concat: {
                const auto parts = regex_list();
                RegexId result = RegexStore::kEmpty;
                for (size_t j = parts.size(); j-- > 0;) result = regexes.concat(parts[j], result);
                made[i] = result.value;
                break;
            }
            case Union: made[i] = regexes.unite(regex_list()).value; break;
            case Intersection: made[i] = regexes.intersect(regex_list()).value; break;
            case Complement: made[i] = regexes.complement({child(a, i, false)}).value; break;
            case Repeat: made[i] = regexes.repeat({child(a, i, false)}, b, high).value; break;
            case Nothing: made[i] = RegexStore::kNothing.value; break;
            case Terminal: {
                const RegexId regex{child(a, i, false)};
                regexes.set_fuel(fuel);
                const uint32_t length = regexes.min_length(regex);
                regexes.set_fuel(kInfinite);
                made[i] = (length == kInfinite ? ExprStore::kNever : regex == RegexStore::kEmpty ? ExprStore::kSilent
                           : exprs.terminal(regex, length)).value;
                break;
            }
            case Call:
                if (a < 0 || static_cast<size_t>(a) >= grammar.rules.size()) throw BadGrammar("malformed grammar: rule");
                made[i] = exprs.call(a).value;
                break;
            case Sequence: {
                const auto parts = expr_list();
                ExprId result = ExprStore::kSilent;
                for (size_t j = parts.size(); j-- > 0;) result = exprs.sequence(parts[j], result);
                made[i] = result.value;
                break;
            }
            case Choice: made[i] = exprs.choice(expr_list()).value; break;
            case Loop: made[i] = exprs.loop({child(a, i, true)}, b, high).value; break;
            default: throw BadGrammar("malformed grammar: operation");
        }
    }
    std::vector<ExprId> bodies;
    for (const int32_t root : grammar.rules) bodies.push_back({child(root, count, true)});
    if (grammar.start >= bodies.size()) throw BadGrammar("malformed grammar: start");
    exprs.set_rules(std::move(bodies));
}

}  // namespace core
