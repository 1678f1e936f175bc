// Regular expressions: memory accounting and a readable form.
#include "regex.hpp"

#include <cstring>
#include <string>

namespace core {

size_t RegexStore::bytes() const {
    return nodes_.bytes() + children_.capacity() * sizeof(RegexId) + index_.bytes() +
           sets_.capacity() * (sizeof(ByteSet) + 300) + literal_bytes_.capacity() * 9 +
           partitions_.capacity() * (sizeof(Partition) + sizeof(std::vector<uint8_t>) + 32) + partition_index_.bytes() + moves_.bytes() +
           multiples_.capacity() * sizeof(DecimalMultiple) + 4 * multiple_lengths_.capacity() + multiple_index_.bytes() + moduli_.size() * (sizeof(Moduli) + 128) + substring_bytes_ + substring_table_.bytes() + refinements_.size() * 64 + (relaxed_.size() + subset_of_star_.size() + stays_.size() + completion_.size()) * 48 + first_.size() * sizeof(ByteSet) + literal_hash_.capacity() * 8 +
           chars_index_.size() * 100;
}

std::string RegexStore::describe(RegexId id, size_t limit) const {
    std::string out;
    describe(id, limit, out);
    if (out.size() > limit) out.resize(limit), out += "...";
    return out;
}

void RegexStore::describe(RegexId id, size_t limit, std::string& out) const {
    if (out.size() > limit) return;
    const Node& node = nodes_[id.value];
    const auto show = [&](uint8_t byte) {
        constexpr char digits[] = "0123456789abcdef";
        if (byte > 32 && byte < 127) {
            if (std::strchr("\\[]()|&~{}*", byte)) out += '\\';
            out += static_cast<char>(byte);
        } else {
            out += "\\x";
            out += digits[byte >> 4];
            out += digits[byte & 15];
        }
    };
    switch (node.kind) {
        case Kind::EmptyLanguage: out += "[]"; break;
        case Kind::Epsilon: out += "()"; break;
        case Kind::Set: {
            const ByteSet& bytes = sets_[node.a];
            if (bytes.count() != 1) out += '[';
            for (int low = 0; low < 256; ++low) {
                if (!bytes[low]) continue;
                int high = low;
                while (high < 255 && bytes[high + 1]) ++high;
                show(static_cast<uint8_t>(low));
                if (high > low + 1) out += '-';
                if (high > low) show(static_cast<uint8_t>(high));
                low = high;
            }
            if (bytes.count() != 1) out += ']';
            break;
        }
        case Kind::Literal:
            for (uint32_t i = 0; i < node.b && out.size() <= limit; ++i) show(literal_bytes_[node.a + i]);
            break;
        case Kind::Concat:
            for (; nodes_[id.value].kind == Kind::Concat && out.size() <= limit; id = {nodes_[id.value].b}) {
                describe({nodes_[id.value].a}, limit, out);
            }
            describe(id, limit, out);
            break;
        case Kind::Union:
        case Kind::Intersection:
            out += '(';
            for (uint32_t i = 0; i < node.b && out.size() <= limit; ++i) {
                if (i) out += node.kind == Kind::Union ? '|' : '&';
                describe(children_[node.a + i], limit, out);
            }
            out += ')';
            break;
        case Kind::DecimalMultiple: out += multiples_[node.a].describe(); break;
        case Kind::Substring: out += "<substring>"; break;
        case Kind::Complement:
            out += "~(";
            describe({node.a}, limit, out);
            out += ')';
            break;
        case Kind::Repeat:
            out += '(';
            describe({node.a}, limit, out);
            out += ")";
            if (node.b == 0 && node.c == kInfinite) {
                out += '*';
            } else {
                out += '{' + std::to_string(node.b) + ',' + (node.c == kInfinite ? "" : std::to_string(node.c)) + '}';
            }
            break;
    }
}

}  // namespace core
