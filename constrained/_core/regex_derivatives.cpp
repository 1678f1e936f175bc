// Derivatives by a byte (Brzozowski 1964), and the bytes with which texts begin.
#include "regex.hpp"

namespace core {

RegexId RegexStore::derive(RegexId id, uint8_t byte) {
    const Node node = nodes_[id.value];  // a copy: the store grows below
    work_.spend(reading_cost(id));
    switch (node.kind) {
        case Kind::EmptyLanguage:
        case Kind::Epsilon: return kEmptyLanguage;
        case Kind::Set: return sets_[node.a][byte] ? kEpsilon : kEmptyLanguage;
        case Kind::Literal:
            if (literal_bytes_[node.a] != byte) return kEmptyLanguage;
            if (node.b == 2) return single(literal_bytes_[node.a + 1]);
            return add(Kind::Literal, node.a + 1, node.b - 1, 0, literal_hash_[node.a + 1]);
        case Kind::Concat: {
            if (!nullable({node.a})) {
                const RegexId first = derive({node.a}, byte);
                if (nodes_[first.value].kind != Kind::Union) return concat(first, {node.b});
            }
            std::vector<RegexId> parts;
            const auto append = [&](RegexId first, RegexId rest) {  // distributes: a union of concatenations
                const Node& sum = nodes_[first.value];
                if (sum.kind != Kind::Union) return parts.push_back(concat(first, rest));
                const std::vector<RegexId> heads(children(sum).begin(), children(sum).end());
                for (const RegexId head : heads) parts.push_back(concat(head, rest));
            };
            // What is left of X*Y?Z may be X*Y?Z, Y?Z or Z itself. The first such rest has all later ones, because what lies between may be
            // empty.
            bool rests = false;
            for (;;) {
                const Node link = nodes_[id.value];
                if (link.kind != Kind::Concat) {
                    const RegexId last = derive(id, byte);
                    if (last != id || !rests) parts.push_back(last);
                    break;
                }
                const RegexId first = derive({link.a}, byte);
                const bool optional = nullable({link.a});
                if (!optional || (first != RegexId{link.a} && first != kEpsilon)) {
                    append(first, {link.b});
                } else if (!std::exchange(rests, true)) {
                    parts.push_back(first == kEpsilon ? RegexId{link.b} : id);
                }
                if (!optional) break;
                id = {link.b};
            }
            return parts.size() == 1 ? parts[0] : union_of(std::move(parts));
        }
        case Kind::Union: {
            std::vector<RegexId> parts;
            for (uint32_t i = 0; i < node.b; ++i) {
                const RegexId child = children_[node.a + i];
                const uint16_t head = nodes_[child.value].head;
                if (head != kManyHeads && head != byte) continue;
                if (head == kManyHeads && node.b > kFewParts && !nodes_[child.value].searched && !first(child)[byte]) continue;
                const RegexId part = derive(child, byte);
                if (part != kEmptyLanguage) parts.push_back(part);
            }
            return parts.size() == 1 ? parts[0] : union_of(std::move(parts));
        }
        case Kind::Intersection: {
            std::vector<RegexId> parts;
            parts.reserve(node.b);
            for (uint32_t i = 0; i < node.b; ++i) {
                parts.push_back(raw_step(children_[node.a + i], byte));
                if (parts.back() == kEmptyLanguage) return kEmptyLanguage;
            }
            return intersect(std::move(parts));
        }
        case Kind::Complement: return complement(raw_step({node.a}, byte));
        case Kind::DecimalMultiple: {
            const auto left = alphabet_[byte] ? multiples_[node.a].after(byte) : std::nullopt;
            return left ? rest(*left) : kEmptyLanguage;
        }
        case Kind::Substring: return derive_substring(node.a, byte);
        case Kind::Repeat: {
            const RegexId rest = repeat({node.a}, node.b == 0 ? 0 : node.b - 1, node.c == kInfinite ? node.c : node.c - 1);
            const RegexId first = derive({node.a}, byte);
            if (nodes_[first.value].kind != Kind::Union) return concat(first, rest);
            std::vector<RegexId> parts(children(nodes_[first.value]).begin(), children(nodes_[first.value]).end());
            for (RegexId& part : parts) part = concat(part, rest);
            return union_of(std::move(parts));
        }
    }
    return kEmptyLanguage;
}

/// The derivative by `byte`, which may be empty.
RegexId RegexStore::raw_step(RegexId id, uint8_t byte) {
    const uint16_t head = nodes_[id.value].head;
    if (head != kManyHeads && head != byte) return kEmptyLanguage;
    const uint32_t known = *move(id, byte);
    if (known != kUnset) return {known & ~kSettled};
    const RegexId target = derive(id, byte);
    *move(id, byte) = target.value | (nodes_[target.value].searched ? 0 : kSettled);
    return target;
}

/// The memo cell of the derivative by `byte`; invalid after the store grows.
uint32_t* RegexStore::move(RegexId id, uint8_t byte) {
    Node& node = nodes_[id.value];
    if (node.head != kManyHeads) return &node.ahead;
    if (node.moves == kNoMoves) {
        if (node.asked == kManyHeads) node.asked = byte;
        if (node.asked == byte) return &node.ahead;
        const Partition& partition = this->partition(id);
        node.moves = static_cast<uint32_t>(moves_.size());
        moves_.append(partition.count, kUnset);
        moves_[node.moves + partition.of[node.asked]] = node.ahead;
    }
    return &moves_[node.moves + partitions_[node.partition].of[byte]];
}

RegexId RegexStore::settle(RegexId id, uint8_t byte) {
    RegexId target = raw_step(id, byte);
    if (min_length(target) == kInfinite) target = kEmptyLanguage;
    *move(id, byte) = target.value | kSettled;
    return target;
}

RegexStore::Read RegexStore::read(RegexId id, std::span<const uint8_t> bytes) {
    size_t at = 0;
    while (at < bytes.size() && id != kEmptyLanguage && (at == 0 || !nullable(id))) {
        const std::span<const uint8_t> left = bytes.subspan(at);
        size_t count = left.size() > 1 ? read_literal(id, left) : 0;
        if (count == 0 && left.size() > 1) count = read_excluding(id, left);
        if (count == 0) id = step(id, left[0]), count = 1;
        at += count;
    }
    return {id, id == kEmptyLanguage ? bytes.size() : at};
}

/// Reads bytes of the literal at the start of a residual that can be completed; returns their number, 0 if it has no such form.
size_t RegexStore::read_literal(RegexId& id, std::span<const uint8_t> bytes) {
    const auto [head, tail] = split_head(id);
    const Node node = nodes_[head.value];
    if (node.kind != Kind::Literal) return 0;
    const size_t count = std::min<size_t>(bytes.size(), node.b);
    if (std::memcmp(&literal_bytes_[node.a], bytes.data(), count) != 0) {
        id = kEmptyLanguage;
    } else if (const auto left = static_cast<uint32_t>(node.b - count); left == 0) {
        id = tail;
    } else {
        const auto from = static_cast<uint32_t>(node.a + count);
        id = concat(left == 1 ? single(literal_bytes_[from]) : add(Kind::Literal, from, left, 0, literal_hash_[from]), tail);
    }
    return count;
}

/// Reads bytes of free text that excludes some words, up to the first one that can end it: of L & ~W, and of what follows it.
/// Returns their number, 0 if the residual has no such form.
size_t RegexStore::read_excluding(RegexId& id, std::span<const uint8_t> bytes) {
    const auto [head, tail] = split_head(id);
    const Node& node = nodes_[head.value];
    if (node.kind != Kind::Intersection || node.b != 2 || nullable(tail)) return 0;
    RegexId text = children_[node.a], words = children_[node.a + 1];
    if (nodes_[text.value].kind == Kind::Complement) std::swap(text, words);
    if (nodes_[words.value].kind != Kind::Complement || nodes_[text.value].searched) return 0;
    words = {nodes_[words.value].a};
    if (!nodes_[words.value].finite) return 0;
    const ByteSet& ends = first(tail);
    size_t count = 0;
    for (; count < bytes.size() && !ends[bytes[count]]; ++count) {
        text = raw_step(text, bytes[count]);
        words = raw_step(words, bytes[count]);
        if (text == kEmptyLanguage) {
            id = kEmptyLanguage;
            return count + 1;
        }
        if (words == kEmptyLanguage) {  // nothing is excluded any more
            ++count;
            break;
        }
    }
    if (count < 2) return 0;
    const RegexId left = intersect({text, complement(words)});
    if (nodes_[left.value].kind == Kind::Union) return 0;  // `derive` distributes over it
    const RegexId whole = concat(left, tail);
    id = min_length(whole) == kInfinite ? kEmptyLanguage : whole;
    return count;
}

const ByteSet& RegexStore::find_first(RegexId id) {
    const Node node = nodes_[id.value];
    ByteSet bytes;
    if (node.head != kManyHeads && min_length(id) != kInfinite) {
        uint32_t& known = first_of_head_[node.head];
        if (known == kUnset) {
            known = static_cast<uint32_t>(first_.size());
            first_.emplace_back(bytes.set(node.head));
        }
        nodes_[id.value].first = known;
        return first_[known];
    }
    switch (node.kind) {
        case Kind::EmptyLanguage:
        case Kind::Epsilon: break;
        case Kind::Set: bytes = sets_[node.a]; break;
        case Kind::Literal: bytes.set(literal_bytes_[node.a]); break;
        case Kind::Concat:
            if (min_length(id) == kInfinite) break;
            for (RegexId rest = id;; rest = {nodes_[rest.value].b}) {
                const bool last = nodes_[rest.value].kind != Kind::Concat;
                const RegexId part = last ? rest : RegexId{nodes_[rest.value].a};
                bytes |= first(part);
                if (last || !nullable(part)) break;
            }
            break;
        case Kind::Union:
            for (uint32_t i = 0; i < node.b; ++i) bytes |= first(children_[node.a + i]);
            break;
        case Kind::Repeat: bytes = first({node.a}); break;
        case Kind::Substring: bytes = substring_first(substrings_[node.a]); break;
        case Kind::Intersection:
        case Kind::Complement: bytes = first_by_steps(id); break;
        case Kind::DecimalMultiple:
            for (const char byte : std::string_view(".0123456789")) {
                const auto left = alphabet_[static_cast<uint8_t>(byte)] ? multiples_[node.a].after(static_cast<uint8_t>(byte)) : std::nullopt;
                bytes[static_cast<uint8_t>(byte)] = left && length_of(*left) != kInfinite;
            }
            break;
    }
    nodes_[id.value].first = static_cast<uint32_t>(first_.size());
    return first_.emplace_back(bytes);
}

/// First bytes by trial: one byte of each class.
ByteSet RegexStore::first_by_steps(RegexId id) {
    for (const RegexId part : loops(id)) {  // a byte that begins a copy can be followed by the rest of it, and completed
        if (completion(id, part) != kInfinite && subset_of_star(id, part)) return first(part);
    }
    std::array<int8_t, 256> possible;  // by byte class
    possible.fill(-1);
    const uint32_t partition = partition_id(id);
    ByteSet bytes;
    for (int byte = 0; byte < 256; ++byte) {
        if (!alphabet_[byte]) continue;
        int8_t& live = possible[partitions_[partition].of[byte]];
        if (live < 0) live = step(id, static_cast<uint8_t>(byte)) != kEmptyLanguage;
        bytes[byte] = live;
    }
    return bytes;
}

}  // namespace core
