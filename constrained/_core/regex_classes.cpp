// Regular expressions: classes of bytes with equal derivatives.
#include "regex.hpp"

#include <algorithm>
#include <cstring>

namespace core {

uint32_t RegexStore::intern_partition(const Partition& partition) {
    work_.spend(4);  // each of the 256 bytes was put into a class
    uint64_t hash = partition.count;
    for (size_t i = 0; i < 256; i += 8) {
        uint64_t word;
        std::memcpy(&word, &partition.of[i], 8);
        hash = combine(hash, word);
    }
    return partition_index_.find_or_insert(
        hash, [&](uint32_t other) { return partitions_[other].of == partition.of; },
        [&] {
            partitions_.push_back(partition);
            const auto made = static_cast<uint32_t>(partitions_.size() - 1);
            bytes_of_classes_.push_back(one_of_each_class(alphabet_, made));
            return made;
        });
}

uint32_t RegexStore::refine(uint32_t left, uint32_t right) {
    if (left == right || partitions_[right].count == 1) return left;
    if (partitions_[left].count == 1) return right;
    if (left > right) std::swap(left, right);
    const auto [at, fresh] = refinements_.try_emplace(uint64_t{left} << 32 | right, 0);
    if (!fresh) return at->second;
    const Provisional entry(refinements_, at->first);
    Partition both;
    std::vector<int> number(partitions_[left].count * partitions_[right].count, -1);
    both.count = 0;
    for (int byte = 0; byte < 256; ++byte) {
        int& group = number[partitions_[left].of[byte] * partitions_[right].count + partitions_[right].of[byte]];
        if (group < 0) group = static_cast<int>(both.count++);
        both.of[byte] = static_cast<uint8_t>(group);
    }
    return at->second = intern_partition(both);
}

/// A set and its complement. Classes are numbered by first occurrence, so equal partitions compare equal.
uint32_t RegexStore::split(const ByteSet& bytes) {
    Partition partition;
    const bool flip = bytes[0];
    for (int byte = 0; byte < 256; ++byte) partition.of[byte] = bytes[byte] != flip;
    partition.count = bytes.all() || bytes.none() ? 1 : 2;
    return intern_partition(partition);
}

/// One class per byte of a set, and one for all other bytes.
uint32_t RegexStore::single_out(const ByteSet& bytes) {
    if (bytes.count() == 1) {
        uint32_t& known = byte_partition_[bytes._Find_first()];
        if (known == kUnset) known = split(bytes);
        return known;
    }
    Partition partition;
    partition.count = 0;
    int others = -1;
    for (int byte = 0; byte < 256; ++byte) {
        if (!bytes[byte] && others < 0) others = static_cast<int>(partition.count++);
        partition.of[byte] = static_cast<uint8_t>(bytes[byte] ? partition.count++ : others);
    }
    return intern_partition(partition);
}

/// One class per digit, one for the point, one for all other bytes.
uint32_t RegexStore::digits() {
    if (digits_ == kUnset) {
        Partition partition;
        partition.of.fill(0);
        partition.count = 1;
        partition.of['.'] = static_cast<uint8_t>(partition.count++);
        for (int byte = '0'; byte <= '9'; ++byte) partition.of[byte] = static_cast<uint8_t>(partition.count++);
        digits_ = intern_partition(partition);
    }
    return digits_;
}

uint32_t RegexStore::make_partition(RegexId id) {
    if (nodes_[id.value].partition == kUnset) {
        const uint32_t made = partition_of(id);
        nodes_[id.value].partition = made;
    }
    return nodes_[id.value].partition;
}

uint32_t RegexStore::partition_of(RegexId id) {
    const Node node = nodes_[id.value];
    switch (node.kind) {
        case Kind::EmptyLanguage:
        case Kind::Epsilon: return kWhole;
        case Kind::Set: return split(sets_[node.a]);
        case Kind::Literal: return single_out(ByteSet().set(literal_bytes_[node.a]));
        case Kind::Concat: {
            uint32_t result = kWhole;
            for (;; id = {nodes_[id.value].b}) {
                if (nodes_[id.value].kind != Kind::Concat) return refine(result, make_partition(id));
                const RegexId left{nodes_[id.value].a};
                result = refine(result, make_partition(left));
                if (!nullable(left)) return result;
            }
        }
        case Kind::Union:
        case Kind::Intersection: {
            uint32_t result = kWhole;
            ByteSet heads;
            for (uint32_t i = 0; i < node.b; ++i) {
                const RegexId child = children_[node.a + i];
                const uint16_t head = nodes_[child.value].head;
                if (head != kManyHeads) {
                    heads.set(head);
                } else {
                    result = refine(result, make_partition(child));
                }
            }
            return heads.none() ? result : refine(result, single_out(heads));
        }
        case Kind::Complement:
        case Kind::Repeat: return make_partition({node.a});
        case Kind::DecimalMultiple: return digits();
        case Kind::Substring: return single_out(first(id));
    }
    return kWhole;
}

}  // namespace core
