// Regular expressions: emptiness and minimum lengths.
#include "predecessors.hpp"
#include "regex.hpp"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_set>

namespace core {

void RegexStore::check_size(RegexId id) const {
    // Derivatives may be a few levels deeper than their expression.
    if (nodes_[id.value].depth > kMaxDepth / 2) throw TooLarge("a regular expression is nested too deep");
    if (nodes_[id.value].optional > kMaxOptional) {
        throw TooLarge("a regular expression has too many parts in a row that may be empty");
    }
}

uint32_t RegexStore::min_length(RegexId id) {
    if (nodes_[id.value].min_length != kUnknown) return nodes_[id.value].min_length;
    const Node node = nodes_[id.value];
    uint32_t length = kInfinite;
    switch (node.kind) {
        case Kind::Concat: {
            constexpr size_t kLinksInStep = 4;
            std::vector<RegexId> chain;  // all are remembered: each byte of a long text asks for the next one
            RegexId rest = id;
            for (; nodes_[rest.value].kind == Kind::Concat && nodes_[rest.value].min_length == kUnknown; rest = {nodes_[rest.value].b}) chain.push_back(rest);
            work_.spend(chain.size() / kLinksInStep);
            length = min_length(rest);
            for (size_t i = chain.size(); i-- > 0;) {
                length = add_lengths(min_length({nodes_[chain[i].value].a}), length);
                nodes_[chain[i].value].min_length = length;
            }
            return length;
        }
        case Kind::Union:
            for (uint32_t i = 0; i < node.b; ++i) length = std::min(length, min_length(children_[node.a + i]));
            break;
        case Kind::Repeat: {
            const uint64_t part = min_length({node.a});
            length = part == kInfinite ? kInfinite : static_cast<uint32_t>(std::min<uint64_t>(part * node.b, kUnknown - 1));
            break;
        }
        default: return search(id);
    }
    nodes_[id.value].min_length = length;
    return length;
}

bool RegexStore::may_blow_up(RegexId id) const {
    std::vector<RegexId> work{id};
    std::unordered_set<uint32_t> seen;
    while (!work.empty()) {
        const RegexId at = work.back();
        work.pop_back();
        const Node& node = nodes_[at.value];
        if (!node.searched || !seen.insert(at.value).second) continue;
        switch (node.kind) {
            case Kind::Complement:
                if (!nodes_[node.a].finite && nodes_[node.a].bound >= kManyCopies) return true;
                break;
            case Kind::Intersection: {
                size_t patterns = 0, excluded = 0;
                for (const RegexId part : children(node)) {
                    const Node& child = nodes_[part.value];
                    const bool length = child.kind == Kind::Repeat && nodes_[child.a].finite && nodes_[child.a].bound == 0;
                    patterns += !length && child.kind != Kind::Complement;
                    excluded += child.kind == Kind::Complement && !nodes_[child.a].finite;
                    work.push_back(part);
                }
                if (patterns > 1 || (patterns == 1 && excluded > 0)) return true;
                break;
            }
            case Kind::Union: work.insert(work.end(), children(node).begin(), children(node).end()); break;
            case Kind::Concat: work.push_back({node.b}); [[fallthrough]];
            case Kind::Repeat: work.push_back({node.a}); break;
            default: break;
        }
    }
    return false;
}

bool RegexStore::counts_copies(RegexId id, uint32_t least) const {
    std::vector<RegexId> work{id};
    std::unordered_set<uint32_t> seen;
    while (!work.empty()) {
        const RegexId at = work.back();
        work.pop_back();
        const Node& node = nodes_[at.value];
        if (node.bound < 2 && node.kind != Kind::Repeat) continue;  // nothing in it is counted
        if (!seen.insert(at.value).second) continue;
        switch (node.kind) {
            case Kind::Repeat: {
                const uint32_t count = node.c == kInfinite ? node.b : node.c, inside = nodes_[node.a].bound;
                if (count > 1 && inside > kManyCopies && copies(count, inside) >= least) return true;
                work.push_back({node.a});
                break;
            }
            case Kind::Concat: work.push_back({node.b}), work.push_back({node.a}); break;
            case Kind::Union:
            case Kind::Intersection: work.insert(work.end(), children(node).begin(), children(node).end()); break;
            default: break;
        }
    }
    return false;
}

/// What a search has found out about the languages on its way: by Dijkstra's algorithm, back from those that it did not expand.
/// A length is exact where the nearest one of these has a known length, else it is a lower bound. Expanded languages from which none
/// of them is reached are empty.
void RegexStore::keep_lengths(std::span<const Reached> reached, std::span<const std::pair<uint32_t, uint32_t>> moves) {
    struct Label {
        uint32_t length;
        bool bound;  // among equals the exact one comes first
        uint32_t number;
        bool operator<(const Label& other) const { return std::tie(length, bound) > std::tie(other.length, other.bound); }
    };
    std::priority_queue<Label> open;
    for (uint32_t number = 0; number < reached.size(); ++number) {
        const Node& node = nodes_[reached[number].id.value];
        const bool known = node.min_length != kUnknown;
        const uint32_t length = known ? node.min_length : node.least;
        if ((known || !reached[number].expanded) && length != kInfinite) open.push({length, !known, number});
    }
    const Predecessors before(moves, reached.size());
    std::vector<bool> seen(reached.size());
    for (; !open.empty();) {
        const Label now = open.top();
        open.pop();
        if (seen[now.number]) continue;
        seen[now.number] = true;
        Node& node = nodes_[reached[now.number].id.value];
        if (node.min_length == kUnknown) {
            if (now.bound) {
                node.least = std::max(node.least, now.length);
            } else {
                node.min_length = now.length;
            }
        }
        for (const uint32_t from : before.of(now.number)) {
            if (!seen[from]) open.push({add_lengths(now.length, 1), now.bound, from});
        }
    }
    for (uint32_t number = 0; number < reached.size(); ++number) {
        uint32_t& length = nodes_[reached[number].id.value].min_length;
        if (!seen[number] && length == kUnknown) length = kInfinite;
    }
}

/// Searches the derivatives of an intersection or complement for the nearest nullable one by A* (Hart, Nilsson and
/// Raphael 1968); the lower bound of an intersection is the largest one of its parts. Some languages have exponentially
/// many derivatives on the way. With limited fuel (while compiling) that is an error. Without a limit (while decoding) the
/// search becomes greedy after `kPatience` steps and accepts the first completion: the length is then an upper bound, but
/// every byte of that completion still decreases it. After `kDive` steps it gives up: the language counts as empty, so a mask
/// lacks what leads there. What a search has found stays found, so no text comes to a dead end. What it has shown to be
/// empty stays so too, also where it gives up: the searches for languages near to this one go on from there.
uint32_t RegexStore::search(RegexId id) {
    struct Visit {
        RegexId id;
        uint32_t from;
        uint32_t distance;
    };
    struct Place {
        uint32_t rank, behind, visit;
        bool operator<(const Place& other) const {  // visited later; among equals, found earlier
            return std::tie(rank, behind, other.visit) > std::tie(other.rank, other.behind, visit);
        }
    };
    std::vector<Visit> visits;
    std::priority_queue<Place> open;
    std::vector<Reached> reached;
    InternTable numbers;  // of `reached`
    std::vector<std::pair<uint32_t, uint32_t>> moves;  // a derivative, and the one that it is of
    uint32_t best = kInfinite, best_at = 0;
    bool diving = false;
    const auto least = [&](RegexId at) {
        const Node& node = nodes_[at.value];
        return node.min_length != kUnknown ? node.min_length : node.least;
    };
    const auto effort = [&](RegexId at) {  // for an intersection: the sum over its parts
        const Node& node = nodes_[at.value];
        if (node.kind != Kind::Intersection || node.min_length != kUnknown) return least(at);
        uint32_t sum = 0;
        for (const RegexId part : children(node)) sum = add_lengths(sum, least(part));
        return sum;
    };
    const auto place = [&](uint32_t visit) {
        const uint32_t left = least(visits[visit].id);
        if (left == kInfinite) return;
        const uint32_t behind = effort(visits[visit].id);
        open.push({diving ? behind : add_lengths(visits[visit].distance, left), behind, visit});
    };
    const auto number_of = [&](RegexId at) {
        return numbers.find_or_insert(
            combine(0, at.value), [&](uint32_t number) { return reached[number].id == at; },
            [&] {
                reached.push_back({at, kInfinite});
                return static_cast<uint32_t>(reached.size() - 1);
            });
    };
    const auto visit = [&](RegexId next, uint32_t from, uint32_t distance) {
        const uint32_t number = number_of(next);
        if (reached[number].distance > distance) {
            reached[number].distance = distance;
            visits.push_back({next, from, distance});
            place(static_cast<uint32_t>(visits.size() - 1));
        }
        return number;
    };
    visit(id, 0, 0);
    for (size_t steps = 0, parts = 0; !open.empty(); ++steps) {
        const uint32_t at = open.top().visit;
        const Visit now = visits[at];
        if (best != kInfinite && (diving || add_lengths(now.distance, least(now.id)) >= best)) break;
        open.pop();
        const uint32_t number = number_of(now.id);
        if (reached[number].distance < now.distance) continue;
        const Kind kind = nodes_[now.id.value].kind;
        if ((kind != Kind::Intersection && kind != Kind::Complement) || nodes_[now.id.value].min_length != kUnknown) {
            const uint32_t total = add_lengths(now.distance, min_length(now.id));
            if (total < best) best = total, best_at = at;
            continue;
        }
        const uint64_t spent = work_.spent();
        reached[number].expanded = true;
        const std::vector<uint8_t> bytes = bytes_of_classes(partition_id(now.id));
        for (size_t i = bytes.size(); i-- > 0;) {  // pushes in descending order, so the lowest byte is visited first
            const RegexId next = raw_step(now.id, bytes[i]);
            if (next != kEmptyLanguage) moves.emplace_back(visit(next, at, now.distance + 1), number);
        }
        if (fuel_ != kInfinite) {
            const uint64_t burnt = 1 + (work_.spent() - spent) / kStepsOfFuel;
            if (burnt > fuel_) throw TooLarge("deciding whether an intersection or complement of regular expressions is empty");
            fuel_ -= static_cast<uint32_t>(burnt);
        }
        work_.spend(bytes.size());  // beside what their derivatives take
        if (fuel_ != kInfinite) continue;
        if (!diving && steps >= kPatience) {
            diving = true;
            open = {};
            for (uint32_t i = 0; i < visits.size(); ++i) {
                if (reached[number_of(visits[i].id)].distance == visits[i].distance) place(i);
            }
        } else if ((parts += std::max(width(now.id) / kFewParts, 1u)) >= kDive) {
            break;  // as if there were none
        }
    }
    keep_lengths(reached, moves);
    if (best == kInfinite && nodes_[id.value].min_length != kUnknown) return nodes_[id.value].min_length;
    if (best == kInfinite) {
        nodes_[id.value].min_length = kInfinite;
        return best;
    }
    for (uint32_t i = best_at;; i = visits[i].from) {
        uint32_t& length = nodes_[visits[i].id.value].min_length;
        length = std::min(length, best - visits[i].distance);
        if (i == 0) break;
    }
    return best;
}

}  // namespace core
