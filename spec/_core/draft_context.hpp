// The context of a draft token, as the sources see it: the automaton's state, the last tokens and bytes, and the position in
// the JSON value.
//
// Thread safety: plain data, copied for every node.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "context_counts.hpp"

namespace spec {

/// Bytes of a document that are kept, its last ones, and of those how many a draft reads ahead.
inline constexpr size_t kDocument = 1 << 18, kAhead = 40;

/// The last N bytes of a text.
template <size_t N>
class TailBuffer {
public:
    void append(std::string_view more) {
        if (more.size() > N) more.remove_prefix(more.size() - N);
        if (size_ + more.size() > N) {
            const size_t gone = size_ + more.size() - N;
            std::copy(data_.begin() + gone, data_.begin() + size_, data_.begin());
            size_ -= gone;
        }
        more.copy(data_.data() + size_, more.size());
        size_ += more.size();
    }
    std::string_view view() const { return {data_.data(), size_}; }

private:
    std::array<char, N> data_;
    size_t size_ = 0;
};

/// The position in a JSON value, followed byte by byte: equal positions are one slot. Elements of an array are not numbered, so
/// they share their slots. Any bytes may come; for what is not JSON the position means nothing and does no harm.
///
/// `names` are those of the open containers, outermost first, and `name` that of the last member, as hashes; `kArray` stands for
/// an array. `partial` has the bytes since the name, the value or the separator began.
struct JsonPath {
    enum Kind : uint8_t { kKey, kColon, kValue, kAfter };
    static constexpr size_t kDeepest = 12, kLongest = 48;
    static constexpr uint64_t kArray = 1;

    std::array<uint64_t, kDeepest> names{};
    uint32_t depth = 0;  // number of names
    uint64_t name = 0;
    Kind kind = kValue;
    bool quoted = false;
    bool escaped = false;
    uint8_t partial_size = 0;
    std::array<char, kLongest> partial_{};

    std::string_view partial() const { return {partial_.data(), partial_size}; }
    void read(std::string_view bytes);
    uint64_t partial_hash() const;

private:
    void append_partial(char byte) {
        if (partial_size < kLongest) partial_[partial_size++] = byte;
    }
    void set_partial(char byte) {
        partial_[0] = byte;
        partial_size = 1;
    }
};

struct DraftContext {
    static constexpr size_t kTokens = 8, kBytes = 64;

    uint32_t state = 0;
    std::array<uint32_t, kTokens> tail_{};
    uint32_t tail_size = 0;
    TailBuffer<kBytes> text;
    JsonPath path;

    /// The i-th token from the end, from 0.
    uint32_t last(uint32_t i) const { return tail_[tail_size - 1 - i]; }
    void append(uint32_t token) {
        if (tail_size == kTokens) {
            std::copy(tail_.begin() + 1, tail_.end(), tail_.begin());
            --tail_size;
        }
        tail_[tail_size++] = token;
    }
    /// Goes on by a token with these bytes.
    void read(uint32_t token, std::string_view piece, bool is_json) {
        append(token);
        text.append(piece);
        if (is_json) path.read(piece);
    }
    /// Hash of the last `order` tokens.
    uint64_t hash(uint32_t order) const {
        uint64_t hash = order;
        for (uint32_t i = 0; i < order; ++i) hash = mix(hash, last(i));
        return hash;
    }
};

}  // namespace spec
