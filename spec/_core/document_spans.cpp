#include "document_spans.hpp"

#include <algorithm>

namespace spec {

namespace {

bool stops(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || std::string_view(",;:!?\"()").find(c) != std::string_view::npos; }

/// The end of the span that begins at `at`; `at` if none does.
size_t span_end(std::string_view text, size_t at) {
    if (digit(text[at])) {
        size_t last = at;
        for (size_t i = at; i < text.size() && (digit(text[i]) || std::string_view(".,:/-").find(text[i]) != std::string_view::npos); ++i) {
            if (digit(text[i])) last = i;
        }
        return last + 1;
    }
    size_t end = at;
    if (letter(text[at])) {
        while (end < text.size() && !stops(text[end])) ++end;
    }
    return end;
}

uint32_t shape_of(std::string_view span) {
    const auto has = [&](std::string_view set) { return span.find_first_of(set) != std::string_view::npos; };
    if (digit(span[0])) return span.find_first_not_of("0123456789") == std::string_view::npos ? 0 : has("-:/") ? 1 : 2;
    if (has("@/")) return 3;
    if (has("0123456789_")) return 4;
    return span[0] >= 'A' && span[0] <= 'Z' ? 5 : 6;
}

}  // namespace

const ValueShapes::Counts* ValueShapes::find(uint64_t name) const {
    const auto found = counts_.find(name);
    return found == counts_.end() ? nullptr : &found->second;
}

void ValueShapes::learn(uint64_t name, uint32_t shape) {
    if (counts_.size() >= kLimit) counts_.clear();
    ++counts_[name][shape];
}

DocumentSpans::DocumentSpans(std::string text) {
    if (text.size() > kDocument) text.erase(0, text.size() - kDocument);
    auto document = std::make_shared<Document>();
    document->text = std::move(text);
    const std::string_view whole = document->text;
    std::unordered_map<std::string_view, size_t> known;
    for (size_t at = 0; at < whole.size();) {
        const size_t end = span_end(whole, at);
        if (end == at) {
            ++at;
            continue;
        }
        const std::string_view span = whole.substr(at, end - at);
        const auto [place, fresh] = known.try_emplace(span, document->spans.size());
        if (!fresh) {
            ++document->spans[place->second].count;
        } else if (document->spans.size() < kSpans) {
            Span new_span{at, end, shape_of(span), 1, {}};
            if (new_span.shape == 0 || new_span.shape == 2) {
                new_span.number = span;
                std::erase(new_span.number, ',');
            }
            document->spans.push_back(std::move(new_span));
        } else {
            known.erase(place);
        }
        at = end;
    }
    used_.assign(document->spans.size(), false);
    document_ = std::move(document);
}

void DocumentSpans::propose(const Retokenizer& retokenizer, const ValueShapes& shapes, const DraftContext& context, const Layout& layout,
                            std::vector<DraftToken>& out) const {
    const JsonPath& path = context.path;
    if (used_.empty() || path.kind != JsonPath::kValue) return;
    const std::string_view partial = path.partial();
    std::string before;
    if (path.quoted) {
        if (partial != "\"") return;
    } else {
        if (partial.empty() || std::string_view(":,[").find(partial[0]) == std::string_view::npos) return;
        if (!std::all_of(partial.begin() + 1, partial.end(), is_space)) return;
        const char usual = layout.after[partial[0] == ':' ? Layout::kColon : partial[0] == ',' ? Layout::kComma : Layout::kBracket];
        if (partial.size() == 1 && usual == '\n') return;
        if (partial.size() == 1 && usual == ' ') before = " ";
    }
    const ValueShapes::Counts* counts = shapes.find(path.name);
    uint32_t total = 0;
    for (uint32_t shape = 0; counts && shape < ValueShapes::kShapes; ++shape) total += (*counts)[shape];
    std::vector<std::pair<uint32_t, size_t>> ranked;  // (how little it is expected, number)
    const std::vector<Span>& spans = document_->spans;
    for (size_t i = 0; i < spans.size(); ++i) {
        if (used_[i] || (!path.quoted && spans[i].number.empty())) continue;
        const uint32_t came = counts ? (*counts)[spans[i].shape] : 0;
        const uint32_t level = !total ? 2 : 4 * came >= 3 * total ? 0 : 4 * came >= total ? 1 : came ? 2 : 3;
        ranked.emplace_back(level * 4 + std::min(spans[i].count, 4u) - 1, i);
    }
    const auto most = ranked.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, ranked.size()));
    std::partial_sort(ranked.begin(), most, ranked.end());
    const size_t begin = out.size();
    for (auto at = ranked.begin(); at != most; ++at) {
        const Span& span = spans[at->second];
        std::string ahead = before;
        if (!path.quoted) {
            ahead += span.number;
        } else {
            for (const char byte : std::string_view(document_->text).substr(span.begin, kAhead)) {
                if (byte == '\\' || byte == '"') ahead += '\\';
                if (byte == '\n') ahead += "\\n";
                else ahead += byte;
            }
        }
        const auto token = retokenizer.next(context.text.view(), ahead);
        if (!token) continue;
        const auto known = [&](const DraftToken& draft_token) { return draft_token.token == token->token; };
        if (std::any_of(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), known)) continue;
        const auto rank = static_cast<uint32_t>(at - ranked.begin());
        const uint32_t kind = ((rank * 16 + at->first) * 2 + (total > 0)) * 2 + path.quoted;
        out.push_back({token->token, 0.1 / (rank + 1), kind});
    }
}

void DocumentSpans::learn(ValueShapes& shapes, const DraftContext& context, std::string_view piece) {
    const JsonPath& path = context.path;
    if (used_.empty() || path.kind != JsonPath::kValue || path.escaped) return;
    std::string value(path.partial());
    if (path.quoted) {
        const size_t end = piece.find('"');
        if (end == std::string_view::npos) return;
        value.erase(0, 1);
        value += piece.substr(0, end);
    } else {
        const size_t first = value.find_first_not_of(":,[ \n\t\r");
        value.erase(0, std::min(first, value.size()));
        const size_t end = std::min(piece.find_first_not_of("0123456789.eE+-"), piece.size());
        if (value.empty() || !digit(value[0]) || end == piece.size()) return;
        value += piece.substr(0, end);
    }
    if (value.empty() || span_end(value, 0) == 0) return;
    shapes.learn(path.name, shape_of(std::string_view(value).substr(0, span_end(value, 0))));
    const size_t at = path.quoted ? document_->text.find(value) : std::string::npos;
    for (size_t i = 0; i < used_.size(); ++i) {
        const Span& span = document_->spans[i];
        const bool within = at != std::string::npos && span.begin >= at && span.begin < at + value.size();
        if (within || (!path.quoted && span.number == value)) used_[i] = true;
    }
}

}  // namespace spec
