#include "expr.hpp"

#include <algorithm>
#include <unordered_set>

namespace core {

ExprStore::ExprStore() {
    add(Kind::Never, 0, 0, 0, combine(0, 0));
    add(Kind::Silent, 0, 0, 0, combine(0, 1));
}

ExprId ExprStore::add(Kind kind, uint32_t a, uint32_t b, uint32_t c, uint64_t hash) {
    return {index_.find_or_make(
        hash,
        [&](uint32_t other) {
            const Node& node = nodes_[other];
            if (node.kind != kind || node.b != b || node.c != c) return false;
            return kind == Kind::Choice ? std::equal(&children_[node.a], &children_[node.a] + b, &children_[a])
                                        : node.a == a;
        },
        [&] {
            Node node{kind, a, b, c};
            node.min_length = length_of(node);
            node.keeps = kind == Kind::Taken ? c != Values::kNoText.value : kind == Kind::Sequence && nodes_[a].keeps;
            keeps_ |= node.keeps;
            nodes_.push_back(node);
            return static_cast<uint32_t>(nodes_.size() - 1);
        })};
}

uint32_t ExprStore::length_of(const Node& node) const {
    switch (node.kind) {
        case Kind::Never: return kInfinite;
        case Kind::Silent: return 0;
        case Kind::Terminal: return node.b;
        case Kind::Call: return node.a < rules_.size() ? rules_[node.a].min_length : kInfinite;
        case Kind::Sequence: return add_lengths(nodes_[node.a].min_length, nodes_[node.b].min_length);
        case Kind::Choice: {
            uint32_t least = kInfinite;
            for (uint32_t i = 0; i < node.b; ++i) least = std::min(least, nodes_[children_[node.a + i].value].min_length);
            return least;
        }
        case Kind::Loop: {
            const uint64_t part = nodes_[node.a].min_length;
            if (node.b == 0) return 0;
            if (part == kInfinite) return kInfinite;
            return static_cast<uint32_t>(std::min<uint64_t>(part * node.b, kInfinite - 1));
        }
        case Kind::Bag: return bags_.length({node.a}, static_cast<BagStore::Turn>(node.b));
        case Kind::Taken:
            return add_lengths(nodes_[bags_.definition({node.a}).entries[node.b].body.value].min_length,
                               bags_.length_after({node.a}, node.b));
    }
    return kInfinite;
}

ExprId ExprStore::terminal(RegexId regex, uint32_t min_length) {
    return add(Kind::Terminal, regex.value, min_length, 0, combine(2, regex.value));
}

ExprId ExprStore::call(uint32_t rule) { return add(Kind::Call, rule, 0, 0, combine(3, rule)); }

ExprId ExprStore::sequence(ExprId left, ExprId right) {
    if (left == kNever || right == kNever) return kNever;
    if (left == kSilent) return right;
    if (right == kSilent) return left;
    std::vector<ExprId> chain;
    while (nodes_[left.value].kind == Kind::Sequence) {
        chain.push_back({nodes_[left.value].a});
        left = {nodes_[left.value].b};
    }
    chain.push_back(left);
    for (size_t i = chain.size(); i-- > 0;) {
        right = add(Kind::Sequence, chain[i].value, right.value, 0, combine(combine(4, chain[i].value), right.value));
    }
    return right;
}

ExprId ExprStore::choice(const std::vector<ExprId>& parts) {
    std::vector<ExprId> kept;
    for (const ExprId part : parts) {
        if (part != kNever) kept.push_back(part);
    }
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    if (kept.empty()) return kNever;
    if (kept.size() == 1) return kept[0];
    const auto offset = static_cast<uint32_t>(children_.size());
    children_.insert(children_.end(), kept.begin(), kept.end());
    uint64_t hash = combine(5, kept.size());
    for (const ExprId part : kept) hash = combine(hash, part.value);
    const size_t before = nodes_.size();
    const ExprId id = add(Kind::Choice, offset, static_cast<uint32_t>(kept.size()), 0, hash);
    if (nodes_.size() == before) children_.resize(offset);
    return id;
}

ExprId ExprStore::loop(ExprId part, uint32_t low, uint32_t high) {
    if (high == 0 || part == kSilent) return kSilent;
    if (part == kNever) return low == 0 ? kSilent : kNever;
    if (low == 1 && high == 1) return part;
    if (nullable(part)) low = 0;
    return add(Kind::Loop, part.value, low, high, combine(combine(combine(6, part.value), low), high));
}

ExprId ExprStore::bag(BagStore::Definition definition) {
    for (BagStore::Entry& entry : definition.entries) {
        if (!entry.distinct) continue;
        const Node& head = nodes_[entry.head.value];
        if (!bags_.values()) throw std::invalid_argument("entries with different heads cannot stand behind a lexer");
        if (head.kind == Kind::Never) continue;
        if (head.kind != Kind::Terminal || entry.slot != BagStore::kFree) {
            throw std::invalid_argument("malformed grammar: a head that must differ is a terminal without a slot");
        }
        entry.language = {head.a};
    }
    const StateOfBag start = bags_.add(std::move(definition));
    read_bags_.push_back(start);
    bags_.measure(start, [&](ExprId part) { return min_length(part); });
    return bag(start, BagStore::Turn::First);
}

ExprId ExprStore::bag(StateOfBag state, BagStore::Turn turn) {
    const auto when = static_cast<uint32_t>(turn);
    return add(Kind::Bag, state.value, when, 0, combine(combine(7, state.value), when));
}

ExprId ExprStore::taken(uint32_t state, uint32_t entry, TextId head) {
    return add(Kind::Taken, state, entry, head.value, combine(combine(combine(8, state), entry), head.value));
}

const ExprStore::Node& ExprStore::first_of(ExprId id) const {
    const Node& node = nodes_[id.value];
    return node.kind == Kind::Sequence ? nodes_[node.a] : node;
}

ExprId ExprStore::with_first(ExprId id, ExprId first) {
    const Node node = nodes_[id.value];
    return node.kind == Kind::Sequence ? sequence(first, {node.b}) : first;
}

ExprId ExprStore::read(ExprId id, uint8_t byte) {
    const Node node = first_of(id);
    return with_first(id, taken(node.a, node.b, bags_.values()->append({node.c}, byte)));
}

ExprId ExprStore::forgetful(ExprId id) {
    const Node node = first_of(id);
    return with_first(id, taken(node.a, node.b, Values::kNoText));
}

uint32_t ExprStore::length_behind(ExprId id, RegexId rest) {
    const Node& node = first_of(id);
    if (!bags_.undecided({node.a}, node.b)) return min_length(id);
    return length_behind(nodes_[id.value], bags_.values()->complete({node.c}, rest));
}

/// Bytes after a head with this text.
uint32_t ExprStore::length_behind(const Node& whole, TextId head) const {
    const Node& node = whole.kind == Kind::Sequence ? nodes_[whole.a] : whole;
    const uint32_t body = nodes_[bags_.definition({node.a}).entries[node.b].body.value].min_length;
    const uint32_t length = add_lengths(body, bags_.length_after({node.a}, node.b, head));
    return whole.kind == Kind::Sequence ? add_lengths(length, nodes_[whole.b].min_length) : length;
}

uint32_t ExprStore::least_until_equal(ExprId id) const {
    const Node& node = first_of(id);
    const BagStore::Definition& bag = bags_.definition({node.a});
    for (const auto& group : bag.distinct) {
        if (!bags_.values()->endless(bag.entries[group[0]].language)) return 0;
    }
    const uint32_t body = nodes_[bag.entries[node.b].body.value].min_length, separator = nodes_[bag.separator.value].min_length;
    return add_lengths(add_lengths(bags_.values()->least_length({node.c}), 1), add_lengths(body, separator));
}

void ExprStore::expect(std::span<const Later> later) {
    for (const auto& [rule, length] : later) {
        if (rule >= rules_.size()) rules_.resize(rule + 1);
        rules_[rule] = {kLater, length, UINT32_MAX};  // it calls nothing before it reads, so it may be entered last
    }
}

void ExprStore::add_bodies(std::span<const uint32_t> rules, const std::vector<ExprId>& bodies) {
    for (size_t i = 0; i < rules.size(); ++i) {
        Rule& rule = rules_.at(rules[i]);
        if (rule.body != kLater) continue;
        const bool begins = std::ranges::none_of(moves(bodies[i]), [](const Move& move) { return move.call; });
        if (!begins || min_length(bodies[i]) != rule.min_length) {
            throw std::invalid_argument("malformed grammar: a body that came later is not what was said of it");
        }
        rule.body = bodies[i];
    }
}

void ExprStore::set_rules(std::vector<ExprId> bodies, std::span<const Later> later) {
    rules_.clear();
    for (const ExprId body : bodies) rules_.push_back({body});
    expect(later);
    // Least fixed point of the shortest lengths. Children have smaller ids than parents, and callers usually come
    // before the rules they call, so going through the rules backwards settles most grammars in two rounds.
    for (bool changed = true; changed;) {
        changed = false;
        for (Node& node : nodes_) {
            if (node.kind == Kind::Bag) bags_.measure({node.a}, [&](ExprId part) { return min_length(part); });
            node.min_length = length_of(node);
        }
        for (size_t i = bodies.size(); i-- > 0;) {
            const uint32_t length = nodes_[rules_[i].body.value].min_length;
            if (length < rules_[i].min_length) rules_[i].min_length = length, changed = true;
        }
    }
    for (const StateOfBag start : read_bags_) {
        for (const BagStore::Entry& entry : bags_.definition(start).entries) empty_entries_ |= nullable(entry.head);
    }
    find_left_recursion();
}

/// Tarjan's strongly connected components over "may begin by calling"; a component is harmful when one of its calls
/// leaves something to return to, because that grows the stack without reading.
void ExprStore::find_left_recursion() {
    struct Edge {
        uint32_t rule;
        bool grows;
    };
    const auto count = static_cast<uint32_t>(rules_.size());
    std::vector<std::vector<Edge>> edges(count);
    for (uint32_t rule = 0; rule < count; ++rule) {
        if (!has_body(rule)) continue;
        std::vector<std::pair<ExprId, bool>> work{{rules_[rule].body, false}};
        std::unordered_set<uint64_t> seen;
        while (!work.empty()) {
            const auto [id, rest] = work.back();
            work.pop_back();
            if (!seen.insert(uint64_t{id.value} * 2 + rest).second) continue;
            const Node& node = nodes_[id.value];
            if (node.min_length == kInfinite) continue;
            switch (node.kind) {
                case Kind::Call: edges[rule].push_back({node.a, rest}); break;
                case Kind::Sequence:
                    work.push_back({{node.a}, true});
                    if (nodes_[node.a].min_length == 0) work.push_back({{node.b}, rest});
                    break;
                case Kind::Choice:
                    for (uint32_t i = 0; i < node.b; ++i) work.push_back({children_[node.a + i], rest});
                    break;
                case Kind::Loop: work.push_back({{node.a}, rest || node.c != 1}); break;
                case Kind::Bag:
                    for (const BagStore::Entry& entry : bags_.definition({node.a}).entries) work.push_back({entry.head, true});
                    break;
                default: break;
            }
        }
    }
    std::vector<uint32_t> order(count, 0), low(count, 0), component(count, UINT32_MAX), stack;
    uint32_t clock = 0, components = 0;
    for (uint32_t root = 0; root < count; ++root) {
        if (order[root]) continue;
        std::vector<std::pair<uint32_t, size_t>> path{{root, 0}};
        order[root] = low[root] = ++clock;
        stack.push_back(root);
        while (!path.empty()) {
            auto& [rule, at] = path.back();
            if (at < edges[rule].size()) {
                const uint32_t next = edges[rule][at++].rule;
                if (!order[next]) {
                    order[next] = low[next] = ++clock;
                    stack.push_back(next);
                    path.push_back({next, 0});
                } else if (component[next] == UINT32_MAX) {
                    low[rule] = std::min(low[rule], order[next]);
                }
                continue;
            }
            const uint32_t done = rule;
            path.pop_back();
            if (!path.empty()) low[path.back().first] = std::min(low[path.back().first], low[done]);
            if (low[done] != order[done]) continue;
            for (uint32_t member = UINT32_MAX; member != done;) {
                member = stack.back();
                stack.pop_back();
                component[member] = components;
            }
            ++components;
        }
    }
    for (uint32_t rule = 0; rule < count; ++rule) {
        rules_[rule].rank = components - 1 - component[rule];  // callees are finished first
        for (const Edge& edge : edges[rule]) {
            if (edge.grows && component[edge.rule] == component[rule]) {
                left_recursive_ = rule;
                return;
            }
        }
    }
}

std::span<const Move> ExprStore::moves(ExprId id) {
    if (nodes_[id.value].moves_at == kNoMoves) {
        std::vector<Move> found;
        std::vector<std::pair<ExprId, ExprId>> work{{id, kSilent}};  // (expression, what follows it)
        while (!work.empty()) {
            const auto [part, rest] = work.back();
            work.pop_back();
            const Node node = nodes_[part.value];
            if (node.min_length == kInfinite || nodes_[rest.value].min_length == kInfinite) continue;
            switch (node.kind) {
                case Kind::Never:
                case Kind::Silent: break;
                case Kind::Terminal: found.push_back({false, node.a, rest}); break;
                case Kind::Call: found.push_back({true, node.a, rest}); break;
                case Kind::Sequence:
                    if (nullable({node.a})) work.push_back({{node.b}, rest});
                    work.push_back({{node.a}, sequence({node.b}, rest)});
                    break;
                case Kind::Choice:
                    for (uint32_t i = 0; i < node.b; ++i) work.push_back({children_[node.a + i], rest});
                    break;
                case Kind::Loop: {
                    const ExprId again = loop({node.a}, node.b == 0 ? 0 : node.b - 1, node.c == kInfinite ? node.c : node.c - 1);
                    work.push_back({{node.a}, sequence(again, rest)});
                    break;
                }
                case Kind::Bag: {
                    const StateOfBag state{node.a};
                    if (static_cast<BagStore::Turn>(node.b) == BagStore::Turn::After) {
                        const ExprId next = bag(state, BagStore::Turn::Entry);
                        if (nodes_[next.value].min_length == kInfinite) break;
                        const ExprId separator = bags_.definition(state).separator;
                        if (nullable(separator)) work.push_back({next, rest});
                        work.push_back({separator, sequence(next, rest)});
                        break;
                    }
                    for (uint32_t i = 0; i < bags_.definition(state).entries.size(); ++i) {
                        if (!bags_.open(state, i)) continue;
                        const BagStore::Entry& entry = bags_.definition(state).entries[i];
                        if (!entry.distinct) {
                            work.push_back({entry.head, sequence(taken(node.a, i, Values::kNoText), rest)});
                        } else if (entry.length != kInfinite) {
                            const RegexId left = bags_.values()->without(entry.language, bags_.seen(state));
                            const auto lengths = bags_.values()->shortest(entry.language, bags_.seen(state), 1);
                            if (lengths.empty()) continue;
                            work.push_back({terminal(left, lengths[0]), sequence(taken(node.a, i, Values::kStart), rest)});
                        }
                    }
                    break;
                }
                case Kind::Taken: {
                    const ExprId after = bag(bags_.take({node.a}, node.b, {node.c}), BagStore::Turn::After);
                    const ExprId body = bags_.definition({node.a}).entries[node.b].body;
                    if (nullable(body)) work.push_back({after, rest});
                    work.push_back({body, sequence(after, rest)});
                    break;
                }
            }
        }
        Node& node = nodes_[id.value];
        node.moves_at = static_cast<uint32_t>(moves_.size());
        node.moves_count = static_cast<uint32_t>(found.size());
        moves_.insert(moves_.end(), found.begin(), found.end());
    }
    const Node& node = nodes_[id.value];
    return {moves_.data() + node.moves_at, node.moves_count};
}

}  // namespace core
