#include "regex.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <tuple>

namespace core {

namespace {

/// Steps of work for sorting the parts of a union or an intersection: one for 32 of them at each depth of the sort. A union is sorted up to
/// three times: by its parts, by what these begin with, and again where some were joined.
uint64_t sorting_steps(size_t parts) { return parts * std::bit_width(parts) / 32; }

}  // namespace

RegexStore::RegexStore(const ByteSet& alphabet, Work& work) : alphabet_(alphabet), work_(work) {
    single_.fill(kEmptyLanguage);
    byte_partition_.fill(kUnset);
    first_of_head_.fill(kUnset);
    split(ByteSet());  // kWhole
    add(Kind::EmptyLanguage, 0, 0, 0, combine(0, 0));
    add(Kind::Epsilon, 0, 0, 0, combine(0, 1));
}

// ---------------------------------------------------------------- construction

RegexId RegexStore::add(Kind kind, uint32_t a, uint32_t b, uint32_t c, uint64_t hash) {
    const uint32_t id = index_.find_or_insert(
        hash,
        [&](uint32_t other) {
            const Node& node = nodes_[other];
            if (node.kind != kind || node.b != b || node.c != c) return false;
            if (kind == Kind::Literal) {
                return node.a == a || std::memcmp(&literal_bytes_[node.a], &literal_bytes_[a], b) == 0;
            }
            if (kind == Kind::Union || kind == Kind::Intersection) {
                return std::equal(&children_[node.a], &children_[node.a] + b, &children_[a]);
            }
            return node.a == a;
        },
        [&] {
            Node node{kind, false, true, false, 1, 0, 0, a, b, c, kUnknown};
            const auto below = [&](RegexId part, bool deeper = true) -> const Node& {
                const Node& child = nodes_[part.value];
                node.searched |= child.searched;
                node.finite &= child.finite;
                node.parts = add_lengths(node.parts, child.parts);
                node.bound = std::max(node.bound, child.bound);
                node.bound_bytes = std::max(node.bound_bytes, child.bound_bytes);
                node.depth = std::max<uint16_t>(node.depth, child.depth + (deeper ? 1 : 0));
                return child;
            };
            switch (kind) {
                case Kind::EmptyLanguage: node.min_length = node.least = kInfinite; break;
                case Kind::Epsilon: node.nullable = true, node.min_length = 0; break;
                case Kind::Set:
                    node.min_length = node.least = node.max_length = 1;
                    if (sets_[a].count() == 1) node.head = static_cast<uint16_t>(sets_[a]._Find_first());
                    break;
                case Kind::Literal:
                    node.min_length = node.least = node.max_length = b;
                    node.head = literal_bytes_[a];
                    break;
                case Kind::Concat: {
                    const Node& left = below({a});
                    const Node& right = below({b}, false);  // chains are walked iteratively
                    node.nullable = left.nullable && right.nullable;
                    const uint16_t rest = std::max<uint16_t>(right.optional, right.nullable);
                    node.optional = left.nullable ? std::min<uint32_t>(rest + 1, UINT16_MAX) : 0;
                    node.least = add_lengths(left.least, right.least);
                    if (!node.searched) node.min_length = node.least;
                    node.max_length = add_lengths(left.max_length, right.max_length);
                    node.head = left.head;
                    break;
                }
                case Kind::Union: {
                    node.least = kInfinite;
                    for (const RegexId part : std::span(children_.data() + a, b)) {
                        const Node& child = below(part);
                        node.nullable |= child.nullable;
                        node.least = std::min(node.least, child.least);
                        node.max_length = std::max(node.max_length, child.max_length);
                    }
                    if (!node.searched) node.min_length = node.least;
                    break;
                }
                case Kind::Intersection:
                    node.nullable = true;
                    for (const RegexId part : std::span(children_.data() + a, b)) {
                        const Node& child = below(part);
                        node.nullable &= child.nullable;
                        node.least = std::max(node.least, child.least);
                    }
                    node.searched = true;
                    node.max_length = kInfinite;
                    break;
                case Kind::Complement:
                    node.nullable = !below({a}).nullable;
                    node.least = !node.nullable;
                    node.finite = false;
                    node.searched = true;
                    node.bound = node.bound_bytes = 0;
                    node.max_length = kInfinite;
                    break;
                case Kind::DecimalMultiple:
                    node.nullable = multiple_lengths_[a] == 0;
                    node.finite = false;
                    node.min_length = node.least = multiple_lengths_[a];
                    node.max_length = kInfinite;
                    break;
                case Kind::Substring:
                    node.nullable = substrings_[a].accepts;
                    node.finite = false;
                    node.min_length = node.least = substring_length(substrings_[a]);
                    node.max_length = kInfinite;
                    break;
                case Kind::Repeat: {
                    const Node& part = below({a});
                    node.nullable = b == 0 || part.nullable;
                    node.finite &= c != kInfinite;
                    if (c != kInfinite) node.bound = copies(c, node.bound), node.bound_bytes = std::max(node.bound_bytes, copies_bytes(part, c));
                    const uint64_t most = uint64_t{part.max_length} * c;
                    node.max_length = c == kInfinite || most >= kInfinite ? kInfinite : static_cast<uint32_t>(most);
                    const uint64_t least = uint64_t{part.least} * b;
                    node.least = least >= kUnknown ? kUnknown - 1 : static_cast<uint32_t>(least);
                    if (!node.searched) node.min_length = node.least;
                    break;
                }
            }
            if (node.nullable) node.min_length = node.least = 0;
            if (node.depth > kMaxDepth) throw TooLarge("a regular expression is nested too deep");
            nodes_.push_back(node);
            if (nodes_.size() >= kUnset) throw TooLarge("too many distinct residuals");
            return static_cast<uint32_t>(nodes_.size() - 1);
        });
    return {id};
}

RegexId RegexStore::add_list(Kind kind, const std::vector<RegexId>& parts) {
    const auto offset = static_cast<uint32_t>(children_.size());
    children_.insert(children_.end(), parts.begin(), parts.end());
    uint64_t hash = combine(static_cast<uint64_t>(kind), parts.size());
    for (const RegexId part : parts) hash = combine(hash, part.value);
    const size_t before = nodes_.size();
    const RegexId id = add(kind, offset, static_cast<uint32_t>(parts.size()), 0, hash);
    if (nodes_.size() == before) children_.resize(offset);  // the node existed
    return id;
}

RegexId RegexStore::set(const ByteSet& bytes) {
    const ByteSet kept = bytes & alphabet_;
    if (kept.none()) return kEmptyLanguage;
    const auto index = set_index_.find_or_insert(
        std::hash<ByteSet>()(kept), [&](uint32_t other) { return sets_[other] == kept; },
        [&] {
            sets_.push_back(kept);
            return static_cast<uint32_t>(sets_.size() - 1);
        });
    return add(Kind::Set, index, 0, 0, combine(2, index));
}

RegexId RegexStore::single(uint8_t byte) {
    if (single_[byte] == kEmptyLanguage) single_[byte] = set(ByteSet().set(byte));
    return single_[byte];
}

RegexId RegexStore::literal(std::span<const uint8_t> bytes) {
    for (const uint8_t byte : bytes) {
        if (!alphabet_[byte]) return kEmptyLanguage;
    }
    if (bytes.empty()) return kEpsilon;
    if (bytes.size() == 1) return single(bytes[0]);
    const size_t offset = literal_bytes_.size();
    literal_bytes_.insert(literal_bytes_.end(), bytes.begin(), bytes.end());
    literal_hash_.resize(literal_bytes_.size());
    uint64_t hash = 3;
    for (size_t i = literal_bytes_.size(); i-- > offset;) literal_hash_[i] = hash = combine(hash, literal_bytes_[i]);
    const size_t before = nodes_.size();
    const RegexId id =
        add(Kind::Literal, static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes.size()), 0, literal_hash_[offset]);
    if (nodes_.size() == before) {
        literal_bytes_.resize(offset);
        literal_hash_.resize(offset);
    }
    return id;
}

RegexId RegexStore::concat(RegexId left, RegexId right) {
    if (left == kEmptyLanguage || right == kEmptyLanguage) return kEmptyLanguage;
    if (left == kEpsilon) return right;
    if (right == kEpsilon) return left;
    if (nodes_[left.value].kind != Kind::Concat) return prepend(left, right);
    std::vector<RegexId> chain;  // left parts, outermost first
    for (; nodes_[left.value].kind == Kind::Concat; left = {nodes_[left.value].b}) chain.push_back({nodes_[left.value].a});
    copied_parts_ += chain.size();
    work_.spend(chain.size() / 2);  // parts that are found again, most often
    right = prepend(left, right);
    for (size_t i = chain.size(); i-- > 0;) right = prepend(chain[i], right);
    return right;
}

/// `concat` of a part that is not a concatenation.
RegexId RegexStore::prepend(RegexId part, RegexId right) {
    if (right == kEmptyLanguage) return kEmptyLanguage;
    if (right == kEpsilon) return part;
    // X X{m,n} is X{m+1,n+1}, X{a,b} X{c,d} is X{a+c,b+d}: a counter has one form.
    const auto [head, tail] = split_head(right);
    const Node& next = nodes_[head.value];
    if (next.kind == Kind::Repeat) {
        const Node& node = nodes_[part.value];
        if (RegexId{next.a} == part) return concat(repeat(part, add_lengths(next.b, 1), add_lengths(next.c, 1)), tail);
        if (node.kind == Kind::Repeat && node.a == next.a) {
            return concat(repeat({node.a}, add_lengths(node.b, next.b), add_lengths(node.c, next.c)), tail);
        }
    }
    return add(Kind::Concat, part.value, right.value, 0, combine(combine(4, part.value), right.value));
}

std::pair<RegexId, RegexId> RegexStore::split_head(RegexId id) const {
    const Node& node = nodes_[id.value];
    if (node.kind == Kind::Concat) return {{node.a}, {node.b}};
    return {id, kEpsilon};
}

/// Merges parts that differ only in a leading byte set, or only in the bounds of a leading counter. Where what follows
/// the counter may begin with any number of further copies (`X{2} C*`, X in C*), the lowest bound contains all others.
void RegexStore::merge_heads(std::vector<RegexId>& parts) {
    struct Head {
        RegexId repeated;  // kEmptyLanguage if the head is a byte set
        RegexId tail;
        uint32_t low;
        RegexId head;
        RegexId whole;
        bool operator<(const Head& other) const {
            return std::tie(repeated, tail, low) < std::tie(other.repeated, other.tail, other.low);
        }
    };
    std::vector<Head> heads;
    for (const RegexId part : parts) {
        const auto [head, tail] = split_head(part);
        const Node& node = nodes_[head.value];
        if (node.kind == Kind::Set) heads.push_back({kEmptyLanguage, tail, 0, head, part});
        if (node.kind == Kind::Repeat) heads.push_back({{node.a}, tail, node.b, head, part});
    }
    if (heads.size() < 2) return;
    std::sort(heads.begin(), heads.end());
    std::vector<RegexId> gone, added;
    for (size_t i = 0; i < heads.size();) {
        const Head first = heads[i];
        size_t end = i + 1;
        if (first.repeated == kEmptyLanguage) {
            ByteSet joined = sets_[nodes_[first.head.value].a];
            for (; end < heads.size() && heads[end].repeated == kEmptyLanguage && heads[end].tail == first.tail; ++end) {
                joined |= sets_[nodes_[heads[end].head.value].a];
            }
            if (end > i + 1) added.push_back(concat(set(joined), first.tail));
        } else {
            uint32_t high = nodes_[first.head.value].c;
            const bool several = end < heads.size() && heads[end].repeated == first.repeated && heads[end].tail == first.tail;
            const bool absorbed = several && absorbs(first.tail, first.repeated);
            if (absorbed) high = kInfinite;
            for (; end < heads.size() && heads[end].repeated == first.repeated && heads[end].tail == first.tail; ++end) {
                if (high != kInfinite && heads[end].low > high + 1) break;
                high = std::max(high, nodes_[heads[end].head.value].c);
            }
            if (end > i + 1) added.push_back(concat(repeat(first.repeated, first.low, absorbed ? first.low : high), first.tail));
        }
        if (end > i + 1) {
            for (size_t j = i; j < end; ++j) gone.push_back(heads[j].whole);
        }
        i = end;
    }
    if (gone.empty()) return;
    std::sort(gone.begin(), gone.end());
    std::erase_if(parts, [&](RegexId part) { return std::binary_search(gone.begin(), gone.end(), part); });
    parts.insert(parts.end(), added.begin(), added.end());
}

RegexId RegexStore::union_of(std::vector<RegexId> parts) {
    const RegexId anything = complement(kEmptyLanguage);
    std::vector<RegexId> flat;
    for (const RegexId part : parts) {
        const Node& node = nodes_[part.value];
        if (part == kEmptyLanguage) continue;
        if (part == anything) return anything;
        if (node.kind == Kind::Union) {
            flat.insert(flat.end(), children(node).begin(), children(node).end());
        } else {
            flat.push_back(part);
        }
    }
    work_.spend(sorting_steps(flat.size()));
    const auto tidy = [&] {
        std::sort(flat.begin(), flat.end());
        flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
    };
    tidy();
    if (flat.size() > 1) {
        merge_heads(flat);
        tidy();
    }
    if (flat.size() > 1 && flat[0] == kEpsilon) {  // the empty string adds nothing to a nullable part
        const bool covered = std::any_of(flat.begin() + 1, flat.end(), [&](RegexId part) { return nullable(part); });
        if (covered) flat.erase(flat.begin());
    }
    if (flat.empty()) return kEmptyLanguage;
    return flat.size() == 1 ? flat[0] : add_list(Kind::Union, flat);
}

RegexId RegexStore::intersect(std::vector<RegexId> parts) {
    const RegexId anything = complement(kEmptyLanguage);
    std::vector<RegexId> flat;
    flat.reserve(parts.size());
    bool excludes = false;
    for (const RegexId part : parts) {
        const Node& node = nodes_[part.value];
        if (part == kEmptyLanguage) return kEmptyLanguage;
        if (part == anything) continue;
        if (node.kind == Kind::Intersection) {
            for (const RegexId child : children(node)) excludes |= nodes_[child.value].kind == Kind::Complement;
            flat.insert(flat.end(), children(node).begin(), children(node).end());
        } else {
            excludes |= node.kind == Kind::Complement;
            flat.push_back(part);
        }
    }
    work_.spend(sorting_steps(flat.size()));
    std::sort(flat.begin(), flat.end());
    flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
    if (flat.empty()) return anything;
    if (flat.size() == 1) return flat[0];
    if (flat[0] == kEpsilon) {
        const bool all = std::all_of(flat.begin(), flat.end(), [&](RegexId part) { return nullable(part); });
        return all ? kEpsilon : kEmptyLanguage;
    }
    if (!excludes) return add_list(Kind::Intersection, flat);
    for (const RegexId part : flat) {
        const Node& node = nodes_[part.value];
        if (node.kind == Kind::Complement && std::binary_search(flat.begin(), flat.end(), RegexId{node.a})) {
            return kEmptyLanguage;
        }
    }
    for (const RegexId excluded : flat) {
        if (nodes_[excluded.value].kind != Kind::Complement) continue;
        uint64_t compared = 0;
        for (const RegexId part : flat) {
            uint32_t steps = kContainSteps;
            if (part != excluded && contains({nodes_[excluded.value].a}, part, steps)) return kEmptyLanguage;
            compared += kContainSteps - steps;
        }
        work_.spend(compared / kComparedInStep);
    }
    return add_list(Kind::Intersection, flat);
}

RegexId RegexStore::complement(RegexId part) {
    const Node& node = nodes_[part.value];
    if (node.kind == Kind::Complement) return {node.a};
    return add(Kind::Complement, part.value, 0, 0, combine(5, part.value));
}

RegexId RegexStore::multiple(std::span<const uint8_t> packed) {
    const Moduli moduli = DecimalMultiple::read_moduli(packed);
    std::vector<uint64_t> all{moduli.modulus};
    all.insert(all.end(), moduli.excluded.begin(), moduli.excluded.end());
    const RegexId made = rest(DecimalMultiple::read(packed, moduli_.try_emplace(std::move(all), moduli).first->second));
    for (const uint8_t byte : std::string_view("0123456789.")) {
        // Without all digits in the alphabet, whether a number can be completed needs a search.
        if (!alphabet_[byte]) return intersect({made, repeat(set(alphabet_), 0, kInfinite)});
    }
    return made;
}

RegexId RegexStore::rest(const DecimalMultiple& number) {
    const uint32_t index = multiple_index_.find_or_insert(
        number.hash(), [&](uint32_t other) { return multiples_[other] == number; },
        [&] {
            const uint32_t length = length_of(number);
            multiples_.push_back(number);
            multiple_lengths_.push_back(length);
            return static_cast<uint32_t>(multiples_.size() - 1);
        });
    if (multiple_lengths_[index] == kInfinite) return kEmptyLanguage;
    return add(Kind::DecimalMultiple, index, 0, 0, combine(7, index));
}

uint32_t RegexStore::length_of(const DecimalMultiple& number) {
    uint64_t remainders = 0;
    const uint32_t length = number.min_length(remainders);
    work_.spend(1 + remainders / DecimalMultiple::kRemaindersInStep);
    return length;
}

RegexId RegexStore::repeat(RegexId part, uint32_t low, uint32_t high) {
    if (high == 0 || part == kEpsilon) return kEpsilon;
    if (part == kEmptyLanguage) return low == 0 ? kEpsilon : kEmptyLanguage;
    const Node& node = nodes_[part.value];
    if (node.nullable) low = 0;
    if (low == 1 && high == 1) return part;
    if (node.kind == Kind::Repeat) {  // (X{a,b}){m,n} is X{am,bn} when the counts in between leave no gap
        const uint64_t a = node.b, b = node.c;
        if (a <= 1 || low == high || (b == kInfinite && low >= 1)) {
            const uint64_t least = a * low;
            const uint64_t most = b == kInfinite || high == kInfinite ? kInfinite : b * high;
            if (least < kInfinite) {
                return repeat({node.a}, static_cast<uint32_t>(least),
                              most >= kInfinite ? kInfinite : static_cast<uint32_t>(most));
            }
        }
    }
    return add(Kind::Repeat, part.value, low, high, combine(combine(combine(6, part.value), low), high));
}

RegexStore::Relaxed RegexStore::relax(RegexId id, uint32_t from) {
    if (nodes_[id.value].bound_bytes < from) return {id, kInfinite};
    const uint64_t key = uint64_t{id.value} << 32 | from;
    if (const auto at = relaxed_.find(key); at != relaxed_.end()) return at->second;
    const Node node = nodes_[id.value];
    work_.spend(reading_cost(id));
    Relaxed result{id, kInfinite};
    const auto part = [&](RegexId child) {
        const Relaxed relaxed = relax(child, from);
        result.least = std::min(result.least, relaxed.least);
        return relaxed.id;
    };
    switch (node.kind) {
        case Kind::Concat: {
            std::vector<RegexId> chain;
            RegexId rest = id;
            for (; nodes_[rest.value].kind == Kind::Concat; rest = {nodes_[rest.value].b}) chain.push_back({nodes_[rest.value].a});
            work_.spend(chain.size() / 2);
            result.id = part(rest);
            for (size_t i = chain.size(); i-- > 0;) result.id = concat(part(chain[i]), result.id);
            break;
        }
        case Kind::Union:
        case Kind::Intersection: {
            std::vector<RegexId> parts(children(node).begin(), children(node).end());
            for (RegexId& child : parts) child = part(child);
            result.id = node.kind == Kind::Union ? union_of(std::move(parts)) : intersect(std::move(parts));
            break;
        }
        case Kind::Repeat: {
            uint32_t high = node.c;
            if (const uint32_t bytes = high == kInfinite ? 0 : copies_bytes(nodes_[node.a], high); bytes >= from && !nullable({node.a})) {
                result.least = bytes;
                high = kInfinite;
            }
            result.id = repeat(part({node.a}), node.b, high);
            break;
        }
        default: break;
    }
    return relaxed_[key] = result;
}

}  // namespace core
