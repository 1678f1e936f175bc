#include "draft_context.hpp"

namespace spec {

namespace {

uint64_t hash_of(std::string_view bytes) {
    uint64_t hash = bytes.size() + 2;
    for (const char byte : bytes) hash = mix(hash, static_cast<unsigned char>(byte));
    return hash;
}

}  // namespace

uint64_t JsonPath::partial_hash() const { return hash_of(partial()); }


void JsonPath::read(std::string_view bytes) {
    for (const char byte : bytes) {
        if (quoted) {
            append_partial(byte);
            if (escaped) {
                escaped = false;
            } else if (byte == '\\') {
                escaped = true;
            } else if (byte == '"') {
                quoted = false;
                if (kind == kKey) {
                    name = hash_of(partial());
                    kind = kColon;
                } else {
                    kind = kAfter;
                }
                partial_size = 0;
            }
        } else if (byte == '"') {
            quoted = true;
            set_partial(byte);
        } else if (byte == '{' || byte == '[') {
            if (depth == kDeepest) {
                std::copy(names.begin() + 1, names.end(), names.begin());
                --depth;
            }
            names[depth++] = name;
            name = byte == '[' ? kArray : 0;
            kind = byte == '[' ? kValue : kKey;
            set_partial(byte);
        } else if (byte == '}' || byte == ']') {
            name = depth ? names[--depth] : 0;
            kind = kAfter;
            partial_size = 0;
        } else if (byte == ',') {
            kind = name == kArray ? kValue : kKey;
            set_partial(byte);
        } else if (byte == ':') {
            kind = kValue;
            set_partial(byte);
        } else {
            append_partial(byte);
        }
    }
}

}  // namespace spec
