// Residuals that cannot die inside a loop.
//
// Free strings, excluded keys, patterns that may match anywhere: all of them read any text of C* and ask a question
// only where C* is left, at the closing quote. Which tokens stay inside C* is the same for all of them.
#include <algorithm>

#include "regex.hpp"

namespace core {

namespace {
constexpr size_t kFewStates = 256;  // of a language that is looked at state by state
}

/// Sufficient conditions, by the form of the residual:
///  * a part of the sum begins with C*, or with C* but some words, so that every text of C* can be completed;
///  * every part of the sum is some text of C*, then something that begins with no byte that C begins with. As C is
///    prefix-free, such a text is no beginning of a text of C*: the residual does not end inside the loop.
std::optional<RegexStore::Carried> RegexStore::carried(RegexId id) {
    const Node node = nodes_[id.value];
    std::vector<RegexId> parts{id};
    if (node.kind == Kind::Union) parts.assign(children(node).begin(), children(node).end());
    std::optional<Carried> found;
    for (const RegexId part : parts) {
        const auto [head, tail] = split_head(part);
        const auto least = endless(head);
        if (!least) continue;
        const uint32_t rest = add_lengths(least->rest, min_length(tail));
        if (rest != kInfinite && (!found || rest < found->rest)) found = Carried{least->part, rest, {}};
    }
    if (!found || !prefix_free(found->part)) return std::nullopt;
    for (const RegexId part : parts) {
        RegexId rest = part;
        while (nodes_[rest.value].kind == Kind::Concat && inside(RegexId{nodes_[rest.value].a}, found->part)) {
            rest = {nodes_[rest.value].b};
        }
        const RegexId leaving = split_head(rest).first;
        found->ends |= first(leaving);
        if (nullable(leaving) || (found->ends & first(found->part)).any()) return std::nullopt;
    }
    return found;
}

/// C, if the language is C* with a least number of copies or without finitely many words; and a bound on what may
/// still have to be read of it at any time, between copies.
std::optional<RegexStore::Carried> RegexStore::endless(RegexId id) {
    const Node node = nodes_[id.value];
    if (node.kind == Kind::Repeat && node.c == kInfinite && !nullable({node.a})) return Carried{{node.a}, min_length(id), {}};
    if (node.kind != Kind::Intersection) return std::nullopt;
    std::optional<Carried> loop;
    uint32_t longest = 0;
    for (uint32_t i = 0; i < node.b; ++i) {
        const RegexId part = children_[node.a + i];
        const Node& child = nodes_[part.value];
        if (child.kind == Kind::Complement && nodes_[child.a].finite) {
            longest = std::max(longest, max_length({child.a}));
        } else if (loop || child.kind != Kind::Repeat || !(loop = endless(part))) {
            return std::nullopt;
        }
    }
    // Any text that is longer than all that is excluded will do.
    if (loop) loop->rest = add_lengths(loop->rest, add_lengths(longest, min_length(loop->part)));
    return loop;
}

/// No text of C begins another one.
bool RegexStore::prefix_free(RegexId part) {
    const auto [at, fresh] = prefix_free_.try_emplace(part.value, false);
    if (!fresh) return at->second;
    std::vector<RegexId> seen{part};
    for (size_t i = 0; i < seen.size(); ++i) {
        if (seen.size() > kFewStates || (nullable(seen[i]) && seen[i] != kEmpty)) return false;
        const ByteSet possible = first(seen[i]);
        for (size_t byte = possible._Find_first(); byte < possible.size(); byte = possible._Find_next(byte)) {
            const RegexId next = step(seen[i], static_cast<uint8_t>(byte));
            if (std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
        }
    }
    return prefix_free_[part.value] = true;
}

RegexId RegexStore::intersect_plainly(std::vector<RegexId> parts) {
    for (size_t i = 0; i < parts.size() && parts.size() > 1;) {
        const Node node = nodes_[parts[i].value];
        const bool loop = node.kind == Kind::Repeat && node.b == 0 && node.c == kInfinite;
        const bool idle = loop && std::ranges::any_of(parts, [&](RegexId other) {
            return other != parts[i] && inside(other, {node.a});
        });
        idle ? void(parts.erase(parts.begin() + i)) : void(++i);
    }
    return intersect(std::move(parts));
}

/// Whether every text of the language is in C*; false where that does not show.
bool RegexStore::inside(RegexId id, RegexId part) {
    const uint64_t key = uint64_t{id.value} << 32 | part.value;
    if (const auto at = inside_.find(key); at != inside_.end()) return at->second;
    const Node node = nodes_[id.value];
    bool holds = id == part;
    switch (node.kind) {
        case Kind::Nothing:
        case Kind::Empty: holds = true; break;
        case Kind::Concat: {
            holds = true;
            RegexId rest = id;
            for (; holds && nodes_[rest.value].kind == Kind::Concat; rest = {nodes_[rest.value].b}) {
                holds = inside({nodes_[rest.value].a}, part);
            }
            holds = (holds && inside(rest, part)) || spelled_inside(id, part);
            break;
        }
        case Kind::Set:
        case Kind::Literal: holds = holds || spelled_inside(id, part); break;
        case Kind::Union:
            for (uint32_t i = 0; !holds; ++i) {
                if (i == node.b) {
                    holds = true;
                } else if (!inside(children_[node.a + i], part)) {
                    break;
                }
            }
            break;
        case Kind::Intersection:
            for (uint32_t i = 0; i < node.b && !holds; ++i) holds = inside(children_[node.a + i], part);
            break;
        case Kind::Repeat: holds = holds || inside({node.a}, part); break;
        case Kind::Complement:
        case Kind::Multiple: break;
    }
    return inside_[key] = holds;
}

/// As `inside`, byte by byte.
bool RegexStore::spelled_inside(RegexId id, RegexId part) {
    const RegexId loop = repeat(part, 0, kInfinite);
    std::vector<std::pair<RegexId, RegexId>> seen{{id, loop}};
    for (size_t i = 0; i < seen.size(); ++i) {
        const auto [mine, theirs] = seen[i];
        if (seen.size() > kFewStates || (nullable(mine) && theirs != loop)) return false;
        const ByteSet possible = first(mine);
        for (size_t byte = possible._Find_first(); byte < possible.size(); byte = possible._Find_next(byte)) {
            const RegexId other = step(theirs, static_cast<uint8_t>(byte));
            if (other == kNothing) return false;
            const std::pair next{step(mine, static_cast<uint8_t>(byte)), other};
            if (std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
        }
    }
    return true;
}

}  // namespace core
