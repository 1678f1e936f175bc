#include "retokenizer.hpp"

#include <algorithm>
#include <bit>

#include "context_counts.hpp"

namespace spec {

namespace {

constexpr size_t kBefore = 24, kAfter = 40, kLongestPiece = 64, kWords = 1 << 16, kMaxCached = 1 << 12, kWindow = kBefore + kAfter;
static_assert(kWindow == 64);

bool space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool line(unsigned char c) { return c == '\r' || c == '\n'; }
bool sign(unsigned char c) { return !letter(c) && !digit(c) && !space(c); }

size_t first_two(std::string_view text) { return static_cast<unsigned char>(text[0]) * 256u + static_cast<unsigned char>(text[1]); }

/// The end of the word that begins at `at`. Words are what common pre-tokenizers split, with A for a letter (ASCII or any byte
/// from 0x80): [^\r\n0-9A]?A+ | [0-9]{1,3} | " "?[^\s0-9A]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
size_t word_end(std::string_view s, size_t at) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
    const size_t n = s.size();
    size_t end = at;
    if (!letter(byte(at)) && !digit(byte(at)) && !line(byte(at)) && at + 1 < n && letter(byte(at + 1))) ++end;
    if (letter(byte(end))) {
        while (end < n && letter(byte(end))) ++end;
        return end;
    }
    end = at;
    while (end < n && end < at + 3 && digit(byte(end))) ++end;
    if (end > at) return end;
    if (byte(end) == ' ' && end + 1 < n && sign(byte(end + 1))) ++end;
    if (sign(byte(end))) {
        while (end < n && sign(byte(end))) ++end;
        while (end < n && line(byte(end))) ++end;
        return end;
    }
    end = at;
    size_t after_line = 0;
    for (; end < n && space(byte(end)); ++end) {
        if (line(byte(end))) after_line = end + 1;
    }
    if (after_line) return after_line;
    return end == n || end - at < 2 ? end : end - 1;
}

}  // namespace

std::vector<size_t> word_ends(std::string_view text) {
    std::vector<size_t> ends;
    for (size_t at = 0; at < text.size(); ends.push_back(at)) at = word_end(text, at);
    return ends;
}

Retokenizer::Retokenizer(std::string blob, std::vector<int64_t> offsets)
    : blob_(std::move(blob)), offsets_(std::move(offsets)), cached_(kMaxCached) {
    ids_.reserve(size());
    crossing_lengths_.resize(1 << 16);
    for (uint32_t id = 0; id < size(); ++id) {
        const std::string_view piece = token(id);
        if (piece.empty()) continue;
        ids_.emplace(piece, id);
        if (word_end(piece, 0) < piece.size()) {
            crossing_.emplace(piece, id);
            if (piece.size() <= kWindow) crossing_lengths_[first_two(piece)] |= uint64_t{1} << (piece.size() - 1);
        }
    }
    for (size_t byte = 0; byte < bytes_.size(); ++byte) {
        const char text = static_cast<char>(byte);
        bytes_[byte] = id(std::string_view(&text, 1));
    }
}

std::optional<uint32_t> Retokenizer::id(std::string_view bytes) const {
    const auto found = ids_.find(bytes);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

std::optional<Retokenizer::Next> Retokenizer::next(std::string_view before, std::string_view after) const {
    if (after.empty()) return std::nullopt;
    const bool cut_off = after.size() > kAfter;
    if (before.size() > kBefore) before.remove_prefix(before.size() - kBefore);
    char buffer[kWindow];
    const size_t cut = before.copy(buffer, kBefore);
    const std::string_view window(buffer, cut + after.copy(buffer + cut, kAfter));
    // A hash collision only causes a wrong draft token.
    const uint64_t key = mix(std::hash<std::string_view>{}(window), 2 * cut + cut_off);
    {
        const std::lock_guard<std::mutex> held(lock_);
        const CachedNext& known = cached_[key % kMaxCached];
        if (known.key == key) return known.next;
    }
    const std::optional<Next> found = find(window, cut, cut_off);
    const std::lock_guard<std::mutex> held(lock_);
    cached_[key % kMaxCached] = {key, found};
    return found;
}

std::optional<Retokenizer::Next> Retokenizer::find(std::string_view window, size_t cut, bool cut_off) const {
    size_t end = 0;
    for (size_t begin = 0; begin < window.size(); begin = end) {
        end = word_end(window, begin);
        if (end <= cut) continue;
        const bool inside = end < window.size() || cut_off;
        if (begin < cut) {
            size_t at = begin;
            for (const uint32_t id : word(window.substr(begin, end - begin))) {
                if (at == cut) return Next{id, inside || at + token(id).size() < end};
                at += token(id).size();
            }
        }
        const size_t from = std::max(begin, cut);
        if (const auto across = crossing(window.substr(from), end - from)) {
            return Next{*across, cut_off || from + token(*across).size() < window.size()};
        }
        const std::vector<uint32_t> ids = word(window.substr(from, end - from));
        if (ids.empty()) return std::nullopt;
        return Next{ids[0], inside || ids.size() > 1};
    }
    return std::nullopt;
}

std::optional<uint32_t> Retokenizer::crossing(std::string_view text, size_t word) const {
    if (text.size() <= word) return std::nullopt;
    uint64_t lengths = crossing_lengths_[first_two(text)] & ~uint64_t{0} >> (kWindow - text.size());
    while (lengths >> word) {
        const auto length = static_cast<size_t>(std::bit_width(lengths));
        const auto found = crossing_.find(text.substr(0, length));
        if (found != crossing_.end()) return found->second;
        lengths ^= uint64_t{1} << (length - 1);
    }
    return std::nullopt;
}

/// The tokens of one word; empty if one of its bytes has no token.
std::vector<uint32_t> Retokenizer::word(std::string_view text) const {
    if (const auto whole = id(text)) return {*whole};
    const std::lock_guard<std::mutex> held(lock_);
    std::string key(text);
    const auto found = words_.find(key);
    if (found != words_.end()) return found->second;
    if (words_.size() >= kWords) words_.clear();
    return words_[std::move(key)] = merged(text);
}

/// Byte-pair merging: the pair with the lowest id first.
std::vector<uint32_t> Retokenizer::merged(std::string_view text) const {
    if (text.size() > kLongestPiece) text = text.substr(0, kLongestPiece);
    std::vector<size_t> cuts;
    for (size_t i = 0; i < text.size(); ++i) {
        if (!id(text.substr(i, 1))) return {};
        cuts.push_back(i);
    }
    cuts.push_back(text.size());
    while (cuts.size() > 2) {
        std::optional<uint32_t> best;
        size_t at = 0;
        for (size_t i = 0; i + 2 < cuts.size(); ++i) {
            const auto pair = id(text.substr(cuts[i], cuts[i + 2] - cuts[i]));
            if (pair && (!best || *pair < *best)) {
                best = pair;
                at = i;
            }
        }
        if (!best) break;
        cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    std::vector<uint32_t> ids;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) ids.push_back(*id(text.substr(cuts[i], cuts[i + 1] - cuts[i])));
    return ids;
}

}  // namespace spec
