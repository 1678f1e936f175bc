// A place in a text, as sources see it: spec/place.py and spec/json_path.py. Plain data, copied for every node.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "counts.hpp"

namespace spec {

/// The last bytes of something, at most N.
template <size_t N>
class Last {
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

/// Where in a JSON value a text stands. Names are hashes; `kArray` for an array.
struct Path {
    enum Kind : uint8_t { kKey, kColon, kValue, kAfter };
    static constexpr size_t kDeepest = 12, kLongest = 48;
    static constexpr uint64_t kArray = 1;

    std::array<uint64_t, kDeepest> names{};
    uint32_t depth = 0;  // names that are kept
    uint64_t name = 0;
    Kind kind = kValue;
    bool quoted = false;
    bool escaped = false;
    uint8_t said_size = 0;
    std::array<char, kLongest> said_{};

    std::string_view said() const { return {said_.data(), said_size}; }
    void read(std::string_view bytes);
    uint64_t said_hash() const;

private:
    void say(char byte) {
        if (said_size < kLongest) said_[said_size++] = byte;
    }
    void say_only(char byte) {
        said_[0] = byte;
        said_size = 1;
    }
};

struct Place {
    static constexpr size_t kTokens = 8, kBytes = 64;

    uint32_t state = 0;
    std::array<uint32_t, kTokens> tail_{};
    uint32_t tail_size = 0;
    Last<kBytes> text;
    Path path;

    /// The i-th token from the end, from 0.
    uint32_t last(uint32_t i) const { return tail_[tail_size - 1 - i]; }
    void append(uint32_t token) {
        if (tail_size == kTokens) {
            std::copy(tail_.begin() + 1, tail_.end(), tail_.begin());
            --tail_size;
        }
        tail_[tail_size++] = token;
    }
    /// Hash of the last `order` tokens.
    uint64_t context(uint32_t order) const {
        uint64_t hash = order;
        for (uint32_t i = 0; i < order; ++i) hash = mix(hash, last(i));
        return hash;
    }
};

}  // namespace spec
