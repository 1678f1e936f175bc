#include "flat_grammar.hpp"

namespace core {

namespace {

template <class AnyId>
std::vector<AnyId> list(const std::vector<AnyId>& made, const std::vector<int32_t>& args, const FlatNode& node) {
    std::vector<AnyId> parts;
    parts.reserve(node.b);
    for (int32_t i = 0; i < node.b; ++i) parts.push_back(made[args[node.a + i]]);
    return parts;
}

constexpr uint64_t kMaxCopiedParts = 1'000'000;

/// The nodes of a list one behind the other, made from the right, so that shared tails stay shared. Sequences in the list are written
/// out: nodes that share their parts would double its length again and again.
template <class AnyId, class Store, class Join>
AnyId row(Store& store, const std::vector<AnyId>& parts, uint64_t copied_before, AnyId empty, Join&& join) {
    AnyId last = empty;
    for (size_t i = parts.size(); i-- > 0;) {
        last = join(parts[i], last);
        if (store.copied_parts() - copied_before > kMaxCopiedParts) throw TooLarge("its sequences have too many parts when they are written out");
    }
    return last;
}

/// Checks the bounds of a repetition and returns the upper one.
uint32_t bound(int32_t low, int32_t high) {
    if (low < 0 || high < -1 || (high >= 0 && high < low)) throw std::invalid_argument("malformed grammar: counts");
    return high < 0 ? kInfinite : static_cast<uint32_t>(high);
}

std::span<const int32_t> code_points(std::span<const int32_t> ranges) {
    for (size_t i = 0; i < ranges.size(); ++i) {  // ranges ascend and do not overlap
        const bool ascends = i == 0 || (i % 2 ? ranges[i] >= ranges[i - 1] : ranges[i] > ranges[i - 1]);
        if (ranges[i] < 0 || ranges[i] > 0x10ffff || !ascends) throw std::invalid_argument("malformed grammar: characters");
    }
    return ranges;
}

InterleaveStore::Definition interleave(const std::vector<ExprId>& made, std::span<const int32_t> args) {
    const auto alternative = [](int32_t slot) {
        if (slot < 0 || slot >= InterleaveStore::kMaxAlternatives) throw std::invalid_argument("malformed grammar: a slot");
        return static_cast<uint32_t>(slot);
    };
    if (args[2] < 0 || args[2] >= 1 << InterleaveStore::kMaxObligations) throw std::invalid_argument("malformed grammar: obligations");
    InterleaveStore::Definition found;
    found.low = args[0], found.high = bound(args[0], args[1]);
    found.obligations = args[2], found.ordered = args[3] != 0, found.separator = made[args[4]];
    const std::span<const int32_t> entries = args.subspan(7, size_t{5} * args[5]), required = args.subspan(7 + entries.size(), args[6]);
    for (size_t i = 0; i < entries.size(); i += 5) {
        const uint32_t slot = entries[i + 2] == -1 ? InterleaveStore::kRepeatable : alternative(entries[i + 2]);
        found.entries.push_back({made[entries[i]], made[entries[i + 1]], slot, static_cast<uint32_t>(entries[i + 3]), entries[i + 4] != 0});
    }
    for (const int32_t slot : required) found.required.push_back(alternative(slot));
    return found;
}

}  // namespace

std::vector<RegexId> read_regexes(const FlatRegexes& flat, RegexStore& regexes, uint64_t limit) {
    const Work::Counted counted(regexes.work(), limit, "reading its regular expressions");
    std::vector<RegexId> made;
    made.reserve(flat.nodes.size());
    const uint64_t copied = regexes.copied_parts();
    const auto read = [&](const FlatNode& node) -> RegexId {
        const auto& [op, a, b, c] = node;
        switch (op) {
            case Op::Literal: return regexes.literal(std::span(flat.data).subspan(a, b));
            case Op::Chars: return regexes.chars(code_points(std::span(flat.args).subspan(a, size_t{2} * b)));
            case Op::Concat:
                return row(regexes, list(made, flat.args, node), copied, RegexStore::kEpsilon, [&](RegexId left, RegexId right) { return regexes.concat(left, right); });
            case Op::Union: return regexes.union_of(list(made, flat.args, node));
            case Op::Intersection: return regexes.intersect_unsimplified(list(made, flat.args, node));
            case Op::Complement: return regexes.complement(made[a]);
            case Op::Repeat: return regexes.repeat(made[a], b, bound(b, c));
            case Op::DecimalMultiple: return regexes.multiple(std::span(flat.data).subspan(a, b));
            case Op::Substring: return regexes.substring(std::span(flat.data).subspan(a, b));
            case Op::Reference: return {static_cast<uint32_t>(a)};
            default: return RegexStore::kEmptyLanguage;
        }
    };
    for (const FlatNode& node : flat.nodes) {
        made.push_back(read(node));
        regexes.check_size(made.back());
        regexes.work().spend(regexes.reading_cost(made.back()));
    }
    return made;
}

namespace {

/// The expression of each node.
std::vector<ExprId> read_exprs(const FlatGrammar& flat, RuleExprStore& exprs, const std::function<ExprId(int32_t)>& terminal) {
    std::vector<ExprId> made;
    made.reserve(flat.nodes.size());
    const uint64_t copied = exprs.copied_parts();
    const auto read = [&](const FlatNode& node) -> ExprId {
        const auto& [op, a, b, c] = node;
        switch (op) {
            case Op::Terminal: return terminal(a);
            case Op::Call: return exprs.call(a);
            case Op::Sequence:
                return row(exprs, list(made, flat.args, node), copied, RuleExprStore::kEpsilon, [&](ExprId left, ExprId right) { return exprs.sequence(left, right); });
            case Op::Choice: return exprs.choice(list(made, flat.args, node));
            case Op::Loop: return exprs.loop(made[a], b, bound(b, c));
            case Op::Interleave: return exprs.interleave(interleave(made, std::span(flat.args).subspan(a)));
            default: return RuleExprStore::kEmptyLanguage;
        }
    };
    for (const FlatNode& node : flat.nodes) made.push_back(read(node));
    return made;
}

std::vector<ExprId> bodies(const FlatGrammar& flat, const std::vector<ExprId>& made) {
    std::vector<ExprId> found;
    for (const int32_t root : flat.rules) found.push_back(made[root]);
    return found;
}

std::function<ExprId(int32_t)> terminals(const FlatGrammar& flat, RegexStore& regexes, RuleExprStore& exprs, uint32_t fuel) {
    return [&flat, &regexes, &exprs, fuel](int32_t row) {
        const RegexId regex = flat.terminals[row];
        const uint32_t length = regexes.min_length_within(regex, fuel);
        if (length == kInfinite) return RuleExprStore::kEmptyLanguage;
        return regex == RegexStore::kEpsilon ? RuleExprStore::kEpsilon : exprs.terminal(regex, length);
    };
}

}  // namespace

void read_grammar(const FlatGrammar& flat, RegexStore& regexes, RuleExprStore& exprs, uint32_t fuel) {
    read_rules(flat, exprs, terminals(flat, regexes, exprs, fuel));
}

void read_rules(const FlatGrammar& flat, RuleExprStore& exprs, const std::function<ExprId(int32_t)>& terminal) {
    const std::vector<ExprId> made = read_exprs(flat, exprs, terminal);
    exprs.set_rules(bodies(flat, made));
    if (exprs.has_nullable_entries()) throw std::invalid_argument("malformed grammar: an entry of an interleave has a nullable head");
}

}  // namespace core
