// Residuals that cannot die inside a loop C*.
//
// Free strings, excluded keys, and patterns that may match anywhere read any text of C* and decide only where C* is left, at
// the closing quote. The tokens that stay inside C* are the same for all of them.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "regex.hpp"

namespace core {

namespace {
constexpr size_t kFewStates = 256;  // of a language that is explored exhaustively
constexpr size_t kFewFactors = 4;   // of one character
constexpr uint32_t kNested = 8;     // explorations, one inside of another
constexpr size_t kFoundInStep = 16;  // of the states that were seen, compared with one, in a step of work
constexpr uint64_t kExploredParts = 1 << 25;  // of the expressions whose derivatives one exploration takes, all together

/// Counts one of them while it runs.
class Nested {
public:
    explicit Nested(uint32_t& count) : count_(count) { ++count_; }
    ~Nested() { --count_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

private:
    uint32_t& count_;
};
}  // namespace

/// Sufficient conditions on the form of the residual:
///  * every text of C* can be completed, see `completion`;
///  * every part of the union is a subset of C* followed by a language whose first bytes do not begin C. As C is
///    prefix-free, such a text is not a prefix of a text of C*: the residual does not end inside the loop.
std::optional<RegexStore::StarOf> RegexStore::star_of(RegexId id) {
    for (const RegexId part : loops(id)) {
        if (const auto found = star_of(id, part)) return found;
    }
    return std::nullopt;
}

std::optional<RegexStore::StarOf> RegexStore::star_of(RegexId id, RegexId part) {
    StarOf found{part, completion(id, part), {}};
    if (found.rest == kInfinite || !prefix_free(part)) return std::nullopt;
    const Node node = nodes_[id.value];
    std::vector<RegexId> ways{id};
    if (node.kind == Kind::Union) ways.assign(children(node).begin(), children(node).end());
    for (const RegexId way : ways) {
        const RegexId leaving = split_head(behind_star(way, part)).first;
        found.exit_bytes |= first(leaving);
        if (nullable(leaving) || (found.exit_bytes & first(part)).any()) return std::nullopt;
    }
    return found;
}

/// What is left of a concatenation behind the factors that are subsets of C*. A character may take several factors: an
/// escape and what it stands for.
RegexId RegexStore::behind_star(RegexId rest, RegexId part) {
    RegexId read = kEpsilon, after = rest;
    for (size_t factors = 0; factors < kFewFactors && nodes_[after.value].kind == Kind::Concat;) {
        const auto [head, tail] = split_head(after);
        read = concat(read, head);
        after = tail;
        ++factors;
        if (subset_of_star(read, part)) rest = after, read = kEpsilon, factors = 0;
    }
    return rest;
}

/// The C of all loops C* that texts of the language may begin with, of those that `completion` looks at.
std::vector<RegexId> RegexStore::loops(RegexId id) const {
    std::vector<RegexId> found, work{id};
    std::unordered_set<uint32_t> seen;  // unions and intersections below the first one
    while (!work.empty()) {
        const RegexId head = split_head(work.back()).first;
        const Node& node = nodes_[head.value];
        work.pop_back();
        if (node.kind == Kind::Union || node.kind == Kind::Intersection) {
            if (head != id && !seen.insert(head.value).second) continue;
            work.insert(work.end(), children(node).begin(), children(node).end());
        } else if (node.kind == Kind::Repeat && node.c == kInfinite && !nullable({node.a})) {
            if (std::ranges::find(found, RegexId{node.a}) == found.end()) found.push_back({node.a});
        }
    }
    return found;
}

/// Bound on the bytes that complete any text of C* to a text of the language; kInfinite if the form does not show one.
///  * C* with a lower bound, whatever follows it;
///  * a union, of which one part has this;
///  * an intersection of such subsets of C*, if a text is in each of them whatever is read after it: it is completed for one
///    after the other. One part may do without that: it comes last. Finitely many words may be excluded: a longer text is none.
uint32_t RegexStore::completion(RegexId id, RegexId part) {
    const Node node = nodes_[id.value];
    if (node.kind == Kind::Repeat) return RegexId{node.a} == part && node.c == kInfinite && !nullable(part) ? min_length(id) : kInfinite;
    if (node.kind == Kind::Concat) {
        const uint32_t head = completion({node.a}, part);
        return head == kInfinite ? head : add_lengths(head, min_length({node.b}));
    }
    if (node.kind != Kind::Union && node.kind != Kind::Intersection) return kInfinite;
    const uint64_t key = uint64_t{id.value} << 32 | part.value;
    const auto [known, fresh] = completion_.try_emplace(key, kInfinite);
    if (!fresh) return known->second;
    const Provisional entry(completion_, key);
    if (node.kind == Kind::Union) {
        uint32_t least = kInfinite;
        for (uint32_t i = 0; i < node.b; ++i) least = std::min(least, completion(children_[node.a + i], part));
        return completion_[key] = least;
    }
    uint32_t total = 0, longest = 0;
    bool looped = false, last = false;
    for (uint32_t i = 0; i < node.b; ++i) {
        const RegexId child = children_[node.a + i];
        const Node held = nodes_[child.value];
        if (held.kind == Kind::Complement && nodes_[held.a].finite) {
            longest = std::max(longest, max_length({held.a}));
            continue;
        }
        total = add_lengths(total, completion(child, part));
        if (total == kInfinite || !subset_of_star(child, part)) return kInfinite;
        if (!stays(child, part) && std::exchange(last, true)) return kInfinite;
        looped = true;
    }
    if (looped) completion_[key] = add_lengths(total, add_lengths(longest, min_length(part)));
    return completion_[key];
}

/// Whether a text of the language followed by one of C* is a text of the language, decided by form.
bool RegexStore::stays(RegexId id, RegexId part) {
    while (nodes_[id.value].kind == Kind::Concat) id = {nodes_[id.value].b};
    const Node node = nodes_[id.value];
    switch (node.kind) {
        case Kind::Repeat: return RegexId{node.a} == part && node.c == kInfinite;
        case Kind::Union:
        case Kind::Intersection: {
            const auto [at, fresh] = stays_.try_emplace(uint64_t{id.value} << 32 | part.value, false);
            bool& known = at->second;  // stays where it is when the table grows
            const Provisional entry(stays_, at->first);
            if (fresh) known = std::ranges::all_of(children(node), [&](RegexId child) { return stays(child, part); });
            return known;
        }
        default: return false;
    }
}

/// One of these bytes from each class of the partition: the others lead to the same derivatives.
std::vector<uint8_t> RegexStore::one_of_each_class(const ByteSet& bytes, uint32_t partition) const {
    const Partition& classes = partitions_[partition];
    std::vector<uint8_t> found;
    std::bitset<256> done;
    for (size_t byte = bytes._Find_first(); byte < bytes.size(); byte = bytes._Find_next(byte)) {
        if (done[classes.of[byte]]) continue;
        done.set(classes.of[byte]);
        found.push_back(static_cast<uint8_t>(byte));
    }
    return found;
}

/// Explores the states: none that is nullable may have a continuation. Where emptiness needs a search, nothing is shown.
bool RegexStore::prefix_free(RegexId part) {
    const auto [at, fresh] = prefix_free_.try_emplace(part.value, false);
    if (!fresh) return at->second;
    const Provisional entry(prefix_free_, part.value);
    std::vector<RegexId> seen{part};
    uint64_t read = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
        if (seen.size() > kFewStates || needs_search(seen[i]) || (nullable(seen[i]) && seen[i] != kEpsilon)) return false;
        const ByteSet possible = first(seen[i]);
        read += possible.count() * parts(seen[i]);
        if (read > kExploredParts) return false;
        for (const uint8_t byte : one_of_each_class(possible, partition_id(seen[i]))) {
            const RegexId next = step(seen[i], byte);
            if (std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
            work_.spend(1 + seen.size() / kFoundInStep);
        }
    }
    return prefix_free_[part.value] = true;
}

RegexId RegexStore::intersect_unsimplified(std::vector<RegexId> parts) {
    for (size_t i = 0; i < parts.size() && parts.size() > 1;) {
        const Node node = nodes_[parts[i].value];
        const bool loop = node.kind == Kind::Repeat && node.b == 0 && node.c == kInfinite;
        const bool idle = loop && std::ranges::any_of(parts, [&](RegexId other) {
            return other != parts[i] && subset_of_star(other, {node.a});
        });
        idle ? void(parts.erase(parts.begin() + i)) : void(++i);
    }
    return intersect(std::move(parts));
}

/// Whether the language is a subset of C*, decided by form (false if the form does not show it). False while it is being decided:
/// an exploration makes unions, and those may ask again.
bool RegexStore::subset_of_star(RegexId id, RegexId part) {
    const uint64_t key = uint64_t{id.value} << 32 | part.value;
    if (const auto [at, fresh] = subset_of_star_.try_emplace(key, false); !fresh) return at->second;
    const Provisional entry(subset_of_star_, key);
    const Node node = nodes_[id.value];
    bool holds = id == part;
    switch (node.kind) {
        case Kind::EmptyLanguage:
        case Kind::Epsilon: holds = true; break;
        case Kind::Concat: {
            holds = true;
            RegexId rest = id;
            for (; holds && nodes_[rest.value].kind == Kind::Concat; rest = {nodes_[rest.value].b}) {
                holds = subset_of_star({nodes_[rest.value].a}, part);
            }
            holds = (holds && subset_of_star(rest, part)) || literal_in_star(id, part);
            break;
        }
        case Kind::Set:
        case Kind::Literal: holds = holds || literal_in_star(id, part); break;
        case Kind::Union:
            for (uint32_t i = 0; !holds; ++i) {
                if (i == node.b) {
                    holds = true;
                } else if (!subset_of_star(children_[node.a + i], part)) {
                    break;
                }
            }
            break;
        case Kind::Intersection:
            for (uint32_t i = 0; i < node.b && !holds; ++i) holds = subset_of_star(children_[node.a + i], part);
            break;
        case Kind::Repeat: holds = holds || subset_of_star({node.a}, part); break;
        case Kind::Complement:
        case Kind::DecimalMultiple:
        case Kind::Substring: break;
    }
    return subset_of_star_[key] = holds;
}

/// Whether the language begins with C* for a C whose loop contains `part`: `part` before it adds nothing.
bool RegexStore::absorbs(RegexId tail, RegexId part) {
    const Node loop = nodes_[split_head(tail).first.value];
    return loop.kind == Kind::Repeat && loop.b == 0 && loop.c == kInfinite && subset_of_star(part, {loop.a});
}

/// Whether every text of `id` is a text of `whole`, decided by form (false if the form does not show it). A text that an
/// excluded pattern matches from now on, whatever follows, has derivatives of this form.
bool RegexStore::contains(RegexId whole, RegexId id, uint32_t& steps) {
    if (whole == id) return true;
    if (steps == 0) return false;
    --steps;
    const Node outer = nodes_[whole.value], inner = nodes_[id.value];
    if (inner.kind == Kind::Union) {
        for (uint32_t i = 0; i < inner.b; ++i) {
            if (!contains(whole, children_[inner.a + i], steps)) return false;
        }
        return true;
    }
    if (outer.kind == Kind::Union) {
        for (uint32_t i = 0; i < outer.b; ++i) {
            if (contains(children_[outer.a + i], id, steps)) return true;
        }
        return false;
    }
    if (outer.kind == Kind::Concat && inner.kind == Kind::Concat && outer.a == inner.a) return contains({outer.b}, {inner.b}, steps);
    const bool loops = inner.kind == Kind::Repeat || (inner.kind == Kind::Concat && nodes_[inner.a].kind == Kind::Repeat);
    return loops && outer.kind == Kind::Repeat && outer.b == 0 && outer.c == kInfinite && subset_of_star(id, {outer.a});
}

/// As `subset_of_star`, by exploring the derivatives of both languages in parallel. Where emptiness needs a search, nothing is shown:
/// searches have limits of their own, which depend on who asks.
bool RegexStore::literal_in_star(RegexId id, RegexId part) {
    if (explorations_ == kNested) return false;
    const Nested nested(explorations_);
    const RegexId loop = repeat(part, 0, kInfinite);
    std::vector<std::pair<RegexId, RegexId>> seen{{id, loop}};
    uint64_t read = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
        const auto [mine, theirs] = seen[i];
        if (seen.size() > kFewStates || needs_search(mine) || needs_search(theirs) || (nullable(mine) && theirs != loop)) return false;
        const ByteSet possible = first(mine);
        read += possible.count() * (uint64_t{parts(mine)} + parts(theirs));
        if (read > kExploredParts) return false;
        for (const uint8_t byte : one_of_each_class(possible, refine(partition_id(mine), partition_id(theirs)))) {
            const RegexId other = step(theirs, byte);
            if (other == kEmptyLanguage) return false;
            const std::pair next{step(mine, byte), other};
            if (std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
            work_.spend(1 + seen.size() / kFoundInStep);
        }
    }
    return true;
}

}  // namespace core
