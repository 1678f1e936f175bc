#include "sources.hpp"

#include <algorithm>
#include <numeric>

namespace spec {

namespace {

constexpr std::string_view kProbes = "aeT1 \xc3";
constexpr size_t kFew = 12, kLiteral = 40, kForced = 256, kStates = 1 << 16;
constexpr size_t kLengths[] = {24, 16, 12, 8, 6, 5, 4, 3, 2, 1};
constexpr size_t kAhead = 40, kOccurrences = 3, kCompared = 64, kDocument = 1 << 18;

bool word_byte(char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
}

}  // namespace

std::string AutomatonView::forced_bytes(uint32_t state, size_t room) const {
    std::string text(room, '\0');
    text.resize(table_.forced(table_.automaton, state, text.data(), room));
    return text;
}

const std::string& AutomatonView::forced(uint32_t state) {
    if (forced_.size() > kStates) forced_.clear();
    const auto [at, fresh] = forced_.try_emplace(state);
    if (fresh) at->second = forced_bytes(state, kForced);
    return at->second;
}

const std::vector<std::string>& AutomatonView::literal_continuations(uint32_t state) {
    if (literal_continuations_.size() > kStates) literal_continuations_.clear();
    const auto [at, fresh] = literal_continuations_.try_emplace(state);
    if (fresh) at->second = find(state);
    return at->second;
}

bool AutomatonView::many(uint32_t state) const {
    int allowed = 0;
    for (const char byte : kProbes) {
        const auto token = retokenizer_->id(static_cast<unsigned char>(byte));
        allowed += token && next(state, *token) != 0;
    }
    return allowed > 2;
}

std::vector<std::string> AutomatonView::find(uint32_t state) {
    std::vector<std::string> found;
    if (many(state)) return found;
    for (int value = 0; value < 256; ++value) {
        const char byte = static_cast<char>(value);
        const auto token = retokenizer_->id(static_cast<unsigned char>(byte));
        if (!token) continue;
        const uint32_t after = next(state, *token);
        if (!after) continue;
        if (found.size() == kFew) return {};
        found.push_back(byte + forced_bytes(after, kLiteral - 1));
    }
    return found;
}

void propose_forced(AutomatonView& automaton, const DraftContext& context, DraftTokens& out) {
    const Retokenizer& retokenizer = automaton.retokenizer();
    const std::string& forced = automaton.forced(context.state);
    if (!forced.empty()) {
        if (const auto token = retokenizer.next(context.text.view(), forced)) {
            out.push_back({token->token, token->certain ? 0.99 : 0.5, token->certain ? 1u : 0u});
        }
        return;
    }
    const auto& literals = automaton.literal_continuations(context.state);
    const size_t begin = out.size();
    for (const std::string& literal : literals) {
        const auto token = retokenizer.next(context.text.view(), literal);
        if (!token) continue;
        const bool known = std::any_of(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
                                       [&](const DraftToken& draft_token) { return draft_token.token == token->token; });
        if (known) continue;
        const auto kind = static_cast<uint32_t>(2 + 16 * token->certain + literals.size());
        out.push_back({token->token, 1.0 / static_cast<double>(literals.size()), kind});
    }
}

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

/// Calls `use(order, table, key)` for the slots of a context, most specific first, until it returns false.
template <class Use>
void each_slot(const Slots& slots, const DraftContext& context, bool is_json, Use use) {
    const JsonPath& path = context.path;
    uint64_t partial = 0;
    if (is_json) {
        partial = mix(path.partial_hash(), static_cast<uint64_t>(path.kind) * 4 + path.quoted * 2u + path.escaped);
        uint64_t whole = mix(partial, path.name);
        for (uint32_t i = 0; i < path.depth; ++i) whole = mix(whole, path.names[i]);
        if (!use(0, *slots.paths, mix(whole, path.depth))) return;
    }
    if (!use(1, *slots.states, mix(context.tail_size ? context.last(0) + 1 : 0, context.state))) return;
    if (!is_json) return;
    const uint64_t named = mix(partial, path.name);
    if (!use(2, *slots.all_constraints, mix(mix(named, path.depth ? path.names[path.depth - 1] : 0), 2))) return;
    if (!use(3, *slots.all_constraints, mix(named, 3))) return;
    use(4, *slots.all_constraints, mix(mix(partial, path.depth > 1), 4));
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

PromptSuffixArray::PromptSuffixArray(std::string text) : text_(std::move(text)) {
    if (text_.size() > kDocument) text_.erase(0, text_.size() - kDocument);
    order_.resize(text_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    const std::string_view whole = text_;
    std::sort(order_.begin(), order_.end(), [whole](uint32_t a, uint32_t b) {
        return whole.substr(a, kCompared) < whole.substr(b, kCompared);
    });
}

void PromptSuffixArray::propose(const Retokenizer& retokenizer, const DraftContext& context, bool is_json, DraftTokens& out) const {
    std::string_view partial = context.text.view();
    if (is_json) {
        if (context.path.kind != JsonPath::kValue) return;
        partial = context.path.partial();
        if (!partial.empty() && std::string_view("\":,[").find(partial[0]) != std::string_view::npos) partial.remove_prefix(1);
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
        std::vector<uint32_t> occurrences(low, high);
        const size_t hits = std::min(kOccurrences, occurrences.size());
        std::partial_sort(occurrences.begin(), occurrences.begin() + static_cast<std::ptrdiff_t>(hits), occurrences.end());
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
        const uint32_t kind = level * 16 + entire * 8 + 4 * (hits > 1);
        for (uint32_t rank = 0; rank < found.size(); ++rank) {
            out.push_back({found[rank].first, 0.6 / (rank + 1), kind + std::min(rank, 3u)});
        }
        return;
    }
}

void OutputHistory::learn(const DraftContext& context, uint32_t token) {
    if (tokens_.size() >= kLimit) {
        tokens_.clear();
        ends_.clear();
    }
    tokens_.push_back(token);
    if (context.tail_size < kLeast) return;
    auto& ends = ends_[context.hash(kLeast)];
    if (ends.size() == kEnds) ends.erase(ends.begin());
    ends.push_back(static_cast<uint32_t>(tokens_.size()) - 1);
}

void OutputHistory::propose(const DraftContext& context, DraftTokens& out) const {
    if (context.tail_size < kLeast) return;
    const auto known = ends_.find(context.hash(kLeast));
    if (known == ends_.end()) return;
    uint32_t best = 0, total = 0;
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (auto end = known->second.rbegin(); end != known->second.rend(); ++end) {
        uint32_t length = kLeast;
        while (length < context.tail_size && length < *end && tokens_[*end - 1 - length] == context.last(length)) ++length;
        if (length > best) {
            best = length;
            total = 0;
            found.clear();
        }
        if (length < best) continue;
        ++total;
        auto same = std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.first == tokens_[*end]; });
        if (same == found.end()) found.emplace_back(tokens_[*end], 1);
        else ++same->second;
    }
    for (const auto& [token, count] : found) {
        const uint32_t kind = best * 64 + std::min(count, 7u) * 8 + std::min(total, 7u);
        out.push_back({token, count / static_cast<double>(total + 1), kind});
    }
}

}  // namespace spec
