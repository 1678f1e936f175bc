// Approximates how a tokenizer writes bytes as tokens, without the tokenizer. Shared by all texts over a vocabulary.
//
// Within a word the adjacent pair whose token has the lowest id is merged first, as byte-pair encodings do: they number their
// tokens in the order of the merges. A token that is longer than its first word is tried before. A wrong split costs a draft
// token, never a wrong text.
//
// Thread safety: may be used from any thread; a lock guards the caches.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace spec {

/// Letters and digits as pre-tokenizers split them: each byte from 0x80 is a letter.
inline bool letter(unsigned char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c >= 0x80; }
inline bool digit(unsigned char c) { return c >= '0' && c <= '9'; }

/// The end of each word of a text: a token does not cross it.
std::vector<size_t> word_ends(std::string_view text);

class Retokenizer {
public:
    /// Token t is blob[offsets[t] .. offsets[t + 1]].
    Retokenizer(std::string blob, std::vector<int64_t> offsets);

    std::string_view token(uint32_t id) const {
        return std::string_view(blob_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
    }
    size_t size() const { return offsets_.size() - 1; }
    /// The lowest id with these bytes.
    std::optional<uint32_t> id(std::string_view bytes) const;
    /// The lowest id of the token with this single byte.
    std::optional<uint32_t> id(unsigned char byte) const { return bytes_[byte]; }

    struct Next {
        uint32_t token;
        bool certain;  // the token cannot extend beyond `after`
    };
    /// The first token of `after` in the context of `before`.
    std::optional<Next> next(std::string_view before, std::string_view after) const;

private:
    std::optional<Next> find(std::string_view window, size_t cut, bool cut_off) const;
    /// The longest token that `text`, of at most 64 bytes, begins with and that is longer than its first word of so many bytes.
    std::optional<uint32_t> crossing(std::string_view text, size_t word) const;
    std::vector<uint32_t> word(std::string_view text) const;
    std::vector<uint32_t> merged(std::string_view text) const;

    std::string blob_;
    std::vector<int64_t> offsets_;
    std::unordered_map<std::string_view, uint32_t> ids_;
    std::unordered_map<std::string_view, uint32_t> crossing_;  // tokens that are longer than their first word
    std::vector<uint64_t> crossing_lengths_;  // of these: by their first two bytes, bit n for tokens of n bytes
    std::array<std::optional<uint32_t>, 256> bytes_{};
    mutable std::mutex lock_;
    struct CachedNext {
        uint64_t key = 0;
        std::optional<Next> next;
    };
    mutable std::vector<CachedNext> cached_;  // results of `next`, by hash; a newer result replaces an older one
    mutable std::unordered_map<std::string, std::vector<uint32_t>> words_;
};

}  // namespace spec
