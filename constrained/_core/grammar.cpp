#include "grammar.hpp"

namespace core {

namespace {

// The same list as in grammars/flat.py.
enum Op : int32_t { Literal, Chars, Concat, Union, Intersection, Complement, Repeat, Nothing, Terminal, Call, Sequence, Choice, Loop, Reference };

template <class T>
std::span<const T> slice(std::span<const T> pool, int64_t offset, int64_t count) {
    if (offset < 0 || count < 0 || offset + count > static_cast<int64_t>(pool.size())) throw BadGrammar("malformed grammar: range");
    return pool.subspan(offset, count);
}

/// Rows read so far, as ids of one store.
template <class AnyId>
struct Made {
    std::span<const int32_t> args;
    std::vector<AnyId> ids;

    AnyId at(int32_t index) const {
        if (index < 0 || static_cast<size_t>(index) >= ids.size()) throw BadGrammar("malformed grammar: child");
        return ids[index];
    }
    std::vector<AnyId> list(int32_t offset, int32_t count) const {
        std::vector<AnyId> parts;
        for (const int32_t part : slice(args, offset, count)) parts.push_back(at(part));
        return parts;
    }
    /// Joins a list from the right, so that shared tails stay shared.
    template <class Store>
    AnyId chain(Store& store, AnyId last, int32_t offset, int32_t count, AnyId (Store::*join)(AnyId, AnyId)) const {
        const auto parts = list(offset, count);
        for (size_t i = parts.size(); i-- > 0;) last = (store.*join)(parts[i], last);
        return last;
    }
};

uint32_t bound(int32_t high) { return high < 0 ? kInfinite : static_cast<uint32_t>(high); }

}  // namespace

std::vector<RegexId> read_regexes(const FlatRegexes& flat, RegexStore& regexes) {
    Made<RegexId> made{flat.args, {}};
    for (size_t i = 0; i + 4 <= flat.nodes.size(); i += 4) {
        const int32_t a = flat.nodes[i + 1], b = flat.nodes[i + 2], c = flat.nodes[i + 3];
        const auto read = [&]() -> RegexId {
            switch (flat.nodes[i]) {
                case Literal: return regexes.literal(slice(flat.data, a, b));
                case Chars: return regexes.chars(slice(flat.args, a, int64_t{b} * 2));
                case Concat: return made.chain(regexes, RegexStore::kEmpty, a, b, &RegexStore::concat);
                case Union: return regexes.unite(made.list(a, b));
                case Intersection: return regexes.intersect_plainly(made.list(a, b));
                case Complement: return regexes.complement(made.at(a));
                case Repeat: return regexes.repeat(made.at(a), b, bound(c));
                case Nothing: return RegexStore::kNothing;
                case Reference:
                    if (a < 0 || static_cast<size_t>(a) >= regexes.size()) throw BadGrammar("malformed grammar: reference");
                    return {static_cast<uint32_t>(a)};
                default: throw BadGrammar("malformed grammar: operation");
            }
        };
        made.ids.push_back(read());
    }
    return std::move(made.ids);
}

void read_grammar(const FlatGrammar& flat, RegexStore& regexes, ExprStore& exprs, uint32_t fuel) {
    Made<ExprId> made{flat.args, {}};
    const auto terminal = [&](int32_t index) {
        const RegexId regex{slice(flat.terminals, index, 1)[0]};
        if (regex.value >= regexes.size()) throw BadGrammar("malformed grammar: terminal");
        regexes.set_fuel(fuel);
        const uint32_t length = regexes.min_length(regex);
        regexes.set_fuel(kInfinite);
        if (length == kInfinite) return ExprStore::kNever;
        return regex == RegexStore::kEmpty ? ExprStore::kSilent : exprs.terminal(regex, length);
    };
    for (size_t i = 0; i + 4 <= flat.nodes.size(); i += 4) {
        const int32_t a = flat.nodes[i + 1], b = flat.nodes[i + 2], c = flat.nodes[i + 3];
        const auto read = [&]() -> ExprId {
            switch (flat.nodes[i]) {
                case Terminal: return terminal(a);
                case Call:
                    if (a < 0 || static_cast<size_t>(a) >= flat.rules.size()) throw BadGrammar("malformed grammar: rule");
                    return exprs.call(a);
                case Sequence: return made.chain(exprs, ExprStore::kSilent, a, b, &ExprStore::sequence);
                case Choice: return exprs.choice(made.list(a, b));
                case Loop: return exprs.loop(made.at(a), b, bound(c));
                default: throw BadGrammar("malformed grammar: operation");
            }
        };
        made.ids.push_back(read());
    }
    std::vector<ExprId> bodies;
    for (const int32_t root : flat.rules) bodies.push_back(made.at(root));
    if (flat.start >= bodies.size()) throw BadGrammar("malformed grammar: start");
    exprs.set_rules(std::move(bodies));
}

}  // namespace core
