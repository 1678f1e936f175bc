#include "sources.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace spec {

namespace {

constexpr size_t kLengths[] = {24, 16, 12, 8, 6, 5, 4, 3, 2, 1};
constexpr size_t kOccurrences = 3, kCompared = 64;
constexpr std::ptrdiff_t kScanned = 256;  // occurrences that are gone through: from more on it is faster to look for the first ones

bool word_byte(char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
}

/// The part of a value that is compared with a document.
std::string_view copied(const JsonPath& path) {
    std::string_view partial = path.partial();
    if (!partial.empty() && std::string_view("\":,[").find(partial[0]) != std::string_view::npos) partial.remove_prefix(1);
    return partial;
}

}  // namespace

ContextHashes context_hashes(const DraftContext& context) {
    ContextHashes found{};
    for (uint32_t order = std::min(kLongestOrder, context.tail_size); order > 0; --order) {
        found[order - 1] = context.hash(order);
    }
    return found;
}

void propose_ngrams(const ContextCounts& counts, uint32_t level, const DraftContext& context, const ContextHashes& hashes, DraftTokens& out) {
    WittenBellBlend blend(level * 1024, out);
    for (uint32_t order = std::min(kLongestOrder, context.tail_size); order > 0; --order) {
        const ContextCounts::Entry* entry = counts.find(hashes[order - 1]);
        if (entry && !blend.add(order, *entry)) return;
    }
}

void learn_ngrams(ContextCounts& counts, const DraftContext& context, const ContextHashes& hashes, uint32_t token) {
    for (uint32_t order = std::min(kLongestOrder, context.tail_size); order > 0; --order) {
        counts.learn(hashes[order - 1], token);
    }
}

namespace {

uint64_t partial_key(const JsonPath& path) {
    return mix(path.partial_hash(), static_cast<uint64_t>(path.kind) * 4 + path.quoted * 2u + path.escaped);
}

}  // namespace

uint64_t slot_key(const DraftContext& context) {
    const JsonPath& path = context.path;
    uint64_t whole = mix(partial_key(path), path.name);
    for (uint32_t i = 0; i < path.depth; ++i) whole = mix(whole, path.names[i]);
    return mix(whole, path.depth);
}

namespace {

/// Calls `use(order, table, key)` for the slots of a context, most specific first, until it returns false.
template <class Use>
void each_slot(const Slots& slots, const DraftContext& context, bool is_json, Use use) {
    const JsonPath& path = context.path;
    uint64_t partial = 0;
    if (is_json) {
        partial = partial_key(path);
        if (!use(0, *slots.paths, slot_key(context))) return;
    }
    if (!use(1, *slots.states, mix(context.tail_size ? context.last(0) + 1 : 0, context.state))) return;
    if (!is_json) return;
    const uint64_t named = mix(partial, path.name);
    if (!use(2, *slots.all_constraints, mix(mix(named, path.depth ? path.names[path.depth - 1] : 0), 2))) return;
    if (!use(3, *slots.all_constraints, mix(named, 3))) return;
    if (!use(4, *slots.all_constraints, mix(mix(partial, path.depth > 1), 4))) return;
    const uint64_t place = static_cast<uint64_t>(path.kind) * 8 + path.quoted * 4u + path.escaped * 2u + (path.name == JsonPath::kArray);
    const std::string_view text = context.text.view();
    use(5, *slots.all_constraints, mix(mix(place * 8 + length_class(path.partial_size), text.empty() ? 5 : byte_class(text.back())), 5));
}

}  // namespace

void propose_slots(const Slots& slots, const DraftContext& context, bool is_json, DraftTokens& out) {
    WittenBellBlend blend(0, out);
    each_slot(slots, context, is_json, [&](uint32_t order, const ContextCounts& table, uint64_t key) {
        const ContextCounts::Entry* entry = table.find(key);
        return !entry || blend.add(order, *entry);
    });
}

void learn_slots(const Slots& slots, const DraftContext& context, bool is_json, uint32_t token) {
    each_slot(slots, context, is_json, [&](uint32_t, ContextCounts& table, uint64_t key) {
        table.learn(key, token);
        return true;
    });
}

void teach_slot(ContextCounts& all_constraints, const DraftContext& context, uint32_t order, uint32_t token, uint32_t count) {
    each_slot({&all_constraints, &all_constraints, &all_constraints}, context, true, [&](uint32_t at, ContextCounts& table, uint64_t key) {
        if (at == order) table.learn(key, token, count);
        return at < order;
    });
}

void SlotFavourites::learn(uint64_t slot, std::vector<uint32_t> tokens, bool tentative) {
    if (favourites_.size() >= kLimit) favourites_.clear();
    favourites_[slot] = {std::move(tokens), tentative};
}

void SlotFavourites::propose(const DraftContext& context, DraftTokens& out) const {
    const auto found = favourites_.find(slot_key(context));
    if (found == favourites_.end()) return;
    const auto& [tokens, tentative] = found->second;
    const bool in_array = context.path.name == JsonPath::kArray;
    for (uint32_t rank = 0; rank < tokens.size(); ++rank) {
        out.push_back({tokens[rank], 0.7 / std::pow(rank + 1, 3), rank * 4 + tentative * 2u + in_array});
    }
}

PromptSuffixArray::PromptSuffixArray(std::string text) : text_(std::move(text)) {
    if (text_.size() > kDocument) text_.erase(0, text_.size() - kDocument);
    order_.resize(text_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    const std::string_view whole = text_;
    std::sort(order_.begin(), order_.end(), [whole](uint32_t a, uint32_t b) {
        return whole.substr(a, kCompared) < whole.substr(b, kCompared);
    });
}

void PromptSuffixArray::propose(const Retokenizer& retokenizer, const DraftContext& context, bool is_json, Following following, DraftTokens& out) const {
    std::string_view partial = context.text.view();
    if (is_json) {
        if (context.path.kind != JsonPath::kValue) return;
        partial = copied(context.path);
    }
    const std::string_view whole = text_;
    for (uint32_t level = 0; level < std::size(kLengths); ++level) {
        const size_t length = kLengths[level];
        if (length > partial.size()) continue;
        const std::string_view end = partial.substr(partial.size() - length);
        const auto low = std::lower_bound(order_.begin(), order_.end(), end, [whole](uint32_t at, std::string_view key) {
            return whole.substr(at, key.size()) < key;
        });
        const auto high = std::upper_bound(low, order_.end(), end, [whole](std::string_view key, uint32_t at) {
            return key < whole.substr(at, key.size());
        });
        if (low == high) continue;
        const size_t hits = std::min(kOccurrences, static_cast<size_t>(high - low));
        std::array<uint32_t, kOccurrences> occurrences{};  // the first ones in the document
        if (high - low <= kScanned) {
            std::partial_sort_copy(low, high, occurrences.begin(), occurrences.begin() + static_cast<std::ptrdiff_t>(hits));
        } else {
            size_t from = 0;
            for (size_t i = 0; i < hits; ++i, ++from) {
                from = whole.find(end, from);
                occurrences[i] = static_cast<uint32_t>(from);
            }
        }
        const bool entire = length == partial.size();
        std::vector<std::pair<uint32_t, uint32_t>> found;  // token, how often
        for (size_t i = 0; i < hits; ++i) {
            const size_t at = occurrences[i];
            // A short prefix must begin at the start of a word.
            if (entire && length < 4 && at && word_byte(whole[at - 1]) && word_byte(whole[at])) continue;
            std::string ahead;
            for (const char byte : whole.substr(at + length, kAhead)) {
                if (byte == '\\' || byte == '"') ahead += '\\';
                if (byte == '\n') ahead += "\\n";
                else ahead += byte;
            }
            const auto token = retokenizer.next(context.text.view(), ahead);
            if (!token) continue;
            auto same = std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.first == token->token; });
            if (same == found.end()) found.emplace_back(token->token, 1);
            else ++same->second;
        }
        if (found.empty()) continue;
        std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
        // Where the word ends in the document, the value often does.
        const uint32_t ends = entire ? static_cast<uint32_t>(following) : 0;
        const bool goes_on = ends < static_cast<uint32_t>(Following::kSpace);
        constexpr double kPriors[] = {0.6, 0.6, 0.4, 0.2, 0.3};
        const uint32_t kind = level * 16 + entire * 8 + 4 * (hits > 1) + (goes_on ? 0 : 256 * ends);
        for (uint32_t rank = 0; rank < found.size(); ++rank) {
            out.push_back({found[rank].first, kPriors[ends] / (rank + 1), kind + std::min(rank, 3u)});
        }
        return;
    }
}

Following PromptSuffixArray::following(const DraftContext& context) const {
    std::string_view value = copied(context.path);
    if (!context.path.quoted) value.remove_prefix(std::min(value.find_first_not_of(" \n\t\r"), value.size()));
    if (context.path.kind != JsonPath::kValue || value.empty() || context.path.partial_size == JsonPath::kLongest) return Following::kUnknown;
    const std::string_view whole = text_;
    const auto low = std::lower_bound(order_.begin(), order_.end(), value, [whole](uint32_t at, std::string_view key) {
        return whole.substr(at, key.size()) < key;
    });
    const auto inside = [&](size_t at) { return at < whole.size() && (word_byte(whole[at]) || static_cast<unsigned char>(whole[at]) >= 0x80); };
    Following found = Following::kUnknown;
    size_t hits = 0;
    for (auto one = low; one != order_.end() && hits < kCompared && whole.substr(*one, value.size()) == value; ++one, ++hits) {
        if (*one && inside(*one - 1) && inside(*one)) continue;
        const size_t next = *one + value.size();
        const bool ended = next >= whole.size();
        const Following here = !ended && (inside(next) || (!is_space(whole[next]) && inside(next + 1))) ? Following::kWord
                               : !ended && is_space(whole[next])                                         ? Following::kSpace
                                                                                                         : Following::kEnd;
        if (found != Following::kUnknown && found != here) return Following::kMixed;
        found = here;
    }
    return found;
}

}  // namespace spec
