// Regular expressions: numbers of which the remainder by a large modulus is told apart.
#include "regex.hpp"

namespace core {

bool RegexStore::many_remainders(RegexId id, bool deeper) const {
    const Node& node = nodes_[split_head(id).first.value];
    if (node.kind == Kind::DecimalMultiple) return multiples_[node.a].of->common > NumberRests::kMany;
    if (!deeper || (node.kind != Kind::Union && node.kind != Kind::Intersection)) return false;
    const auto few = children(node).first(std::min(node.b, kFewParts));
    return std::ranges::any_of(few, [&](RegexId part) { return many_remainders(part, false); });
}

bool RegexStore::add_numbers(RegexId id, uint32_t item, ContinuationId after, uint32_t behind, NumberRests& out) {
    const auto add = [&](RegexId part) {
        const auto [head, tail] = split_head(part);
        const Node& node = nodes_[head.value];
        if (node.kind != Kind::DecimalMultiple || (node.nullable && tail != kEpsilon)) return false;
        const DecimalMultiple number = multiples_[node.a];
        out.add({number, tail, item, after, add_lengths(min_length(tail), behind), 0}, node.min_length);
        return true;
    };
    const Node node = nodes_[id.value];
    if (node.kind != Kind::Union) return add(id);
    for (uint32_t i = 0; i < node.b; ++i) {
        if (!add(children_[node.a + i])) return false;
    }
    return true;
}

RegexId RegexStore::from_numbers(std::span<const NumberRest> rests) {
    std::vector<RegexId> parts;
    for (const NumberRest& rest : rests) parts.push_back(concat(this->rest(rest.number), rest.tail));
    return parts.size() == 1 ? parts[0] : union_of(std::move(parts));
}

}  // namespace core
