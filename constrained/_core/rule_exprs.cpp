#include "rule_exprs.hpp"

#include <algorithm>
#include <queue>
#include <unordered_set>

#include "predecessors.hpp"

namespace core {

RuleExprStore::RuleExprStore(Work& work) : work_(work) {
    add(Kind::EmptyLanguage, 0, 0, 0);
    add(Kind::Epsilon, 0, 0, 0);
}

uint64_t RuleExprStore::hash_of(const Node& node) const {
    const auto kind = static_cast<uint64_t>(node.kind);
    if (node.kind != Kind::Choice) return combine(combine(combine(kind, node.a), node.b), node.c);
    uint64_t hash = combine(kind, node.b);
    for (uint32_t i = 0; i < node.b; ++i) hash = combine(hash, children_[node.a + i].value);
    return hash;
}

ExprId RuleExprStore::add(Kind kind, uint32_t a, uint32_t b, uint32_t c, std::optional<uint32_t> min_length) {
    return {index_.find_or_insert(
        hash_of({kind, a, b, c}),
        [&](uint32_t other) {
            const Node& node = nodes_[other];
            if (node.kind != kind || node.b != b || node.c != c) return false;
            return kind == Kind::Choice ? std::equal(&children_[node.a], &children_[node.a] + b, &children_[a])
                                        : node.a == a;
        },
        [&] {
            Node node{kind, a, b, c};
            node.min_length = min_length ? *min_length : length_of(node);
            node.tracks_distinct = kind == Kind::Consumed ? c != JsonValues::kUntracked.value : kind == Kind::Sequence && nodes_[a].tracks_distinct;
            tracks_distinct_ |= node.tracks_distinct;
            if (kind == Kind::Interleave) node.forgets = interleaves_.forgets({a});
            if (kind == Kind::Consumed) node.forgets = node.tracks_distinct ? interleaves_.forgets({a}) : interleaves_.forgets_head({a}, b);
            if (kind == Kind::Sequence) node.forgets = nodes_[a].forgets || nodes_[b].forgets;
            nodes_.push_back(node);
            return static_cast<uint32_t>(nodes_.size() - 1);
        })};
}

uint32_t RuleExprStore::length_of(const Node& node) const {
    switch (node.kind) {
        case Kind::EmptyLanguage: return kInfinite;
        case Kind::Epsilon: return 0;
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
            return bounded_length(part * node.b);
        }
        case Kind::Interleave: return interleaves_.length({node.a}, static_cast<InterleaveStore::Turn>(node.b));
        case Kind::Consumed:
            return add_lengths(nodes_[interleaves_.definition({node.a}).entries[node.b].body.value].min_length,
                               interleaves_.length_after({node.a}, node.b));
    }
    return kInfinite;
}

ExprId RuleExprStore::terminal(RegexId regex, uint32_t min_length) {
    return add(Kind::Terminal, regex.value, min_length, 0);
}

ExprId RuleExprStore::call(uint32_t rule) { return add(Kind::Call, rule, 0, 0); }

ExprId RuleExprStore::sequence(ExprId left, ExprId right) {
    if (left == kEmptyLanguage || right == kEmptyLanguage) return kEmptyLanguage;
    if (left == kEpsilon) return right;
    if (right == kEpsilon) return left;
    std::vector<ExprId> chain;
    while (nodes_[left.value].kind == Kind::Sequence) {
        chain.push_back({nodes_[left.value].a});
        left = {nodes_[left.value].b};
    }
    copied_parts_ += chain.size();
    work_.spend(chain.size());
    chain.push_back(left);
    for (size_t i = chain.size(); i-- > 0;) {
        right = add(Kind::Sequence, chain[i].value, right.value, 0);
    }
    return right;
}

ExprId RuleExprStore::choice(const std::vector<ExprId>& parts) {
    std::vector<ExprId> kept;
    for (const ExprId part : parts) {
        if (part != kEmptyLanguage) kept.push_back(part);
    }
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    if (kept.empty()) return kEmptyLanguage;
    if (kept.size() == 1) return kept[0];
    const auto offset = static_cast<uint32_t>(children_.size());
    children_.insert(children_.end(), kept.begin(), kept.end());
    const size_t before = nodes_.size();
    const ExprId id = add(Kind::Choice, offset, static_cast<uint32_t>(kept.size()), 0);
    if (nodes_.size() == before) children_.resize(offset);
    return id;
}

ExprId RuleExprStore::loop(ExprId part, uint32_t low, uint32_t high) {
    if (high == 0 || part == kEpsilon) return kEpsilon;
    if (part == kEmptyLanguage) return low == 0 ? kEpsilon : kEmptyLanguage;
    if (low == 1 && high == 1) return part;
    if (nullable(part)) low = 0;
    return add(Kind::Loop, part.value, low, high);
}

ExprId RuleExprStore::interleave(InterleaveStore::Definition definition) {
    for (InterleaveStore::Entry& entry : definition.entries) {
        if (!entry.distinct) continue;
        const Node& head = nodes_[entry.head.value];
        if (!interleaves_.values()) throw std::invalid_argument("entries with distinct heads are not supported behind a lexer");
        if (head.kind == Kind::EmptyLanguage) continue;
        if (head.kind != Kind::Terminal || entry.alternative != InterleaveStore::kRepeatable) {
            throw std::invalid_argument("malformed grammar: a distinct head must be a terminal without an alternative");
        }
        entry.language = {head.a};
    }
    const InterleaveId start = interleaves_.add(std::move(definition));
    read_interleaves_.push_back(start);
    interleaves_.measure(start, [&](ExprId part) { return min_length(part); });
    return interleave(start, InterleaveStore::Turn::First);
}

ExprId RuleExprStore::interleave(InterleaveId state, InterleaveStore::Turn turn) {
    return add(Kind::Interleave, state.value, static_cast<uint32_t>(turn), 0);
}

ExprId RuleExprStore::consumed(uint32_t state, uint32_t entry, ScalarPrefixId head) {
    const ExprId any = add(Kind::Consumed, state, entry, JsonValues::kUntracked.value);
    return head == JsonValues::kUntracked ? any : add(Kind::Consumed, state, entry, head.value, nodes_[any.value].min_length);
}

const RuleExprStore::Node& RuleExprStore::first_of(ExprId id) const {
    const Node& node = nodes_[id.value];
    return node.kind == Kind::Sequence ? nodes_[node.a] : node;
}

ExprId RuleExprStore::with_first(ExprId id, ExprId first) {
    const Node node = nodes_[id.value];
    return node.kind == Kind::Sequence ? sequence(first, {node.b}) : first;
}

ExprId RuleExprStore::read(ExprId id, uint8_t byte) {
    const Node node = first_of(id);
    return with_first(id, consumed(node.a, node.b, interleaves_.values()->append({node.c}, byte)));
}

ExprId RuleExprStore::assume_distinct(ExprId id) {
    const Node node = first_of(id);
    return with_first(id, consumed(node.a, node.b, JsonValues::kUntracked));
}

std::optional<ExprId> RuleExprStore::entered_body(ExprId id) const {
    const Node& node = first_of(id);
    if (node.kind != Kind::Consumed) return std::nullopt;
    const ExprId body = interleaves_.definition({node.a}).entries[node.b].body;
    if (nullable(body)) return std::nullopt;
    return body;
}

ExprId RuleExprStore::after_body(ExprId id) {
    const Node node = first_of(id);
    return with_first(id, interleave(interleaves_.consume_entry({node.a}, node.b), InterleaveStore::Turn::After));
}

uint32_t RuleExprStore::min_length_after(ExprId id, RegexId rest) {
    const Node& node = first_of(id);
    if (!needs_head(id)) return min_length(id);
    const ScalarPrefixId head{node.c};
    return min_length_after(nodes_[id.value], head == JsonValues::kStart ? head : interleaves_.values()->complete(head, rest));
}

/// Minimum length after a head with this text.
uint32_t RuleExprStore::min_length_after(const Node& whole, ScalarPrefixId head) const {
    const Node& node = whole.kind == Kind::Sequence ? nodes_[whole.a] : whole;
    const uint32_t body = nodes_[interleaves_.definition({node.a}).entries[node.b].body.value].min_length;
    const uint32_t length = add_lengths(body, interleaves_.length_after({node.a}, node.b, head));
    return whole.kind == Kind::Sequence ? add_lengths(length, nodes_[whole.b].min_length) : length;
}

uint32_t RuleExprStore::min_bytes_until_equal(ExprId id) const {
    const Node& node = first_of(id);
    if (!interleaves_.always_extensible({node.a})) return 0;
    const InterleaveStore::Definition& interleave = interleaves_.definition({node.a});
    const uint32_t body = nodes_[interleave.entries[node.b].body.value].min_length, separator = nodes_[interleave.separator.value].min_length;
    return add_lengths(interleaves_.values()->min_text_length({node.c}), add_lengths(body, separator));
}

std::optional<uint32_t> RuleExprStore::reach_without_head(ExprId id) const {
    const Node& node = first_of(id);
    const auto irrelevant = [&](uint32_t more) { return !interleaves_.may_need_value({node.a}, node.b, more, {node.c}); };
    if (!irrelevant(0)) return std::nullopt;
    const uint32_t until_equal = std::min(min_bytes_until_equal(id), kLongReach - 1);
    if (until_equal > 0 && irrelevant(until_equal + 1)) return until_equal;  // and one byte that the head still takes
    return body_reach(node);
}

/// Bytes within which no other entry begins: the last one of the head, and the body.
uint32_t RuleExprStore::body_reach(const Node& node) const {
    const InterleaveStore::Definition& interleave = interleaves_.definition({node.a});
    if (nullable(interleave.separator)) return 0;
    return add_lengths(nodes_[interleave.entries[node.b].body.value].min_length, 1);
}

uint32_t RuleExprStore::least_reach_without_head(ExprId id) const {
    const uint32_t until_equal = std::min(min_bytes_until_equal(id), kLongReach - 1), body = body_reach(first_of(id));
    return until_equal > 0 ? std::min(until_equal, body) : body;
}

bool RuleExprStore::needs_head(ExprId id) const {
    const Node& node = first_of(id);
    return interleaves_.may_need_value({node.a}, node.b, 0, {node.c});
}

bool RuleExprStore::needs_head_after(ExprId id, uint8_t byte) const {
    const Node& node = first_of(id);
    return interleaves_.may_need_value({node.a}, node.b, 0, interleaves_.values()->append({node.c}, byte));
}

ByteSet RuleExprStore::may_need_head_after(ExprId id) const {
    const Node& node = first_of(id);
    return interleaves_.may_need_value_after({node.a}, node.b, {node.c});
}

void RuleExprStore::set_rules(std::vector<ExprId> bodies) {
    rules_.clear();
    for (const ExprId body : bodies) rules_.push_back({body});
    // Least fixed point of the minimum lengths. Children have smaller ids than parents, and callers usually precede the
    // rules they call, so visiting the rules backwards needs two rounds for most grammars; long chains of rules need one for each.
    bool changed = true;
    for (int round = 0; changed && round < kRounds; ++round) {
        changed = false;
        for (Node& node : nodes_) {
            if (node.kind == Kind::Interleave) interleaves_.measure({node.a}, [&](ExprId part) { return min_length(part); });
            node.min_length = length_of(node);
        }
        for (size_t i = bodies.size(); i-- > 0;) {
            const uint32_t length = nodes_[rules_[i].body.value].min_length;
            if (length < rules_[i].min_length) rules_[i].min_length = length, changed = true;
        }
    }
    if (changed) measure_chains();
    for (const InterleaveId start : read_interleaves_) {
        for (const InterleaveStore::Entry& entry : interleaves_.definition(start).entries) has_nullable_entries_ |= nullable(entry.head);
    }
    find_left_recursion();
}

/// The rest of the rounds, only for what a rule of which a shorter text was found is part of: parts before the wholes, which have higher ids.
void RuleExprStore::measure_chains() {
    std::vector<std::pair<uint32_t, uint32_t>> uses, bodies;  // a part and a whole; a body and its rule
    std::vector<uint32_t> call_of(rules_.size(), kEmptyLanguage.value);
    for (uint32_t id = 0; id < nodes_.size(); ++id) {
        const Node& node = nodes_[id];
        switch (node.kind) {
            case Kind::Call:
                if (node.a < rules_.size()) call_of[node.a] = id;
                break;
            case Kind::Sequence: uses.insert(uses.end(), {{node.a, id}, {node.b, id}}); break;
            case Kind::Loop: uses.emplace_back(node.a, id); break;
            case Kind::Choice:
                for (uint32_t i = 0; i < node.b; ++i) uses.emplace_back(children_[node.a + i].value, id);
                break;
            case Kind::Interleave: {
                const InterleaveStore::Definition& definition = interleaves_.definition({node.a});
                uses.emplace_back(definition.separator.value, id);
                for (const InterleaveStore::Entry& entry : definition.entries) uses.insert(uses.end(), {{entry.head.value, id}, {entry.body.value, id}});
                break;
            }
            default: break;
        }
    }
    for (uint32_t rule = 0; rule < rules_.size(); ++rule) bodies.emplace_back(rules_[rule].body.value, rule);
    const Predecessors wholes(uses, nodes_.size()), rules_of(bodies, nodes_.size());
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> due;
    std::vector<bool> waits(nodes_.size());
    const auto ask = [&](uint32_t id) {
        if (!waits[id]) waits[id] = true, due.push(id);
    };
    const auto found = [&](uint32_t rule, uint32_t length) {
        rules_[rule].min_length = length;
        ask(call_of[rule]);
    };
    for (uint32_t rule = 0; rule < rules_.size(); ++rule) {
        if (rules_[rule].min_length != kInfinite) ask(call_of[rule]);
    }
    while (!due.empty()) {
        const uint32_t id = due.top();
        due.pop();
        waits[id] = false;
        Node& node = nodes_[id];
        if (node.kind == Kind::Interleave) interleaves_.measure({node.a}, [&](ExprId part) { return min_length(part); });
        const uint32_t length = length_of(node);
        work_.spend(1 + wholes.of(id).size());
        if (length == node.min_length) continue;
        node.min_length = length;
        for (const uint32_t whole : wholes.of(id)) ask(whole);
        for (const uint32_t rule : rules_of.of(id)) {
            if (length < rules_[rule].min_length) found(rule, length);
        }
    }
}

/// Strongly connected components (Tarjan 1972) of the relation "may begin with a call of". A component is left-recursive if
/// one of its calls has a continuation, because the stack then grows without reading.
void RuleExprStore::find_left_recursion() {
    struct Edge {
        uint32_t rule;
        bool grows;
    };
    const auto count = static_cast<uint32_t>(rules_.size());
    std::vector<std::vector<Edge>> edges(count);
    for (uint32_t rule = 0; rule < count; ++rule) {
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
                case Kind::Interleave:
                    for (const InterleaveStore::Entry& entry : interleaves_.definition({node.a}).entries) work.push_back({entry.head, true});
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

std::span<const Move> RuleExprStore::moves(ExprId id) {
    if (nodes_[id.value].moves_at == kNoMoves) {
        std::vector<Move> found;
        std::vector<std::pair<ExprId, ExprId>> work{{id, kEpsilon}};  // (expression, continuation)
        while (!work.empty()) {
            const auto [part, rest] = work.back();
            work.pop_back();
            work_.spend(1);
            const Node node = nodes_[part.value];
            if (node.min_length == kInfinite || nodes_[rest.value].min_length == kInfinite) continue;
            switch (node.kind) {
                case Kind::EmptyLanguage:
                case Kind::Epsilon: break;
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
                case Kind::Interleave: {
                    const InterleaveId state{node.a};
                    if (static_cast<InterleaveStore::Turn>(node.b) == InterleaveStore::Turn::After) {
                        const ExprId next = interleave(state, InterleaveStore::Turn::Entry);
                        if (nodes_[next.value].min_length == kInfinite) break;
                        const ExprId separator = interleaves_.definition(state).separator;
                        if (nullable(separator)) work.push_back({next, rest});
                        work.push_back({separator, sequence(next, rest)});
                        break;
                    }
                    for (uint32_t i = 0; i < interleaves_.definition(state).entries.size(); ++i) {
                        if (!interleaves_.can_enter(state, i)) continue;
                        const InterleaveStore::Entry& entry = interleaves_.definition(state).entries[i];
                        if (!entry.distinct) {
                            work.push_back({entry.head, sequence(consumed(node.a, i, JsonValues::kUntracked), rest)});
                        } else if (entry.length != kInfinite) {
                            const RegexId left = interleaves_.values()->excluding(entry.language, interleaves_.seen(state));
                            const auto lengths = interleaves_.values()->shortest_lengths(entry.language, interleaves_.seen(state), 1);
                            if (lengths.empty()) continue;
                            work.push_back({terminal(left, lengths[0]), sequence(consumed(node.a, i, JsonValues::kStart), rest)});
                        }
                    }
                    break;
                }
                case Kind::Consumed: {
                    const ExprId after = interleave(interleaves_.consume_entry({node.a}, node.b, {node.c}), InterleaveStore::Turn::After);
                    const ExprId body = interleaves_.definition({node.a}).entries[node.b].body;
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
