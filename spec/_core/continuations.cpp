#include "continuations.hpp"

#include <algorithm>

#include "sources.hpp"

namespace spec {

namespace {

constexpr std::string_view kProbes = "aeT1 \xc3", kClosing = ",}]", kNumber = "0123456789.eE+-";
constexpr uint32_t kCopied = 1 << 14;  // kinds of ends of values that are copied from a document
constexpr size_t kFew = 12, kBranches = 24, kLongestText = 48, kMemo = 1 << 16;
constexpr uint32_t kChoices = 2;  // with several outcomes, in one continuation

bool contains(std::string_view set, char byte) { return set.find(byte) != std::string_view::npos; }

}  // namespace

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

uint32_t byte_class(char byte) {
    if ((byte >= 'a' && byte <= 'z') || static_cast<unsigned char>(byte) >= 0x80) return 0;
    if (byte >= 'A' && byte <= 'Z') return 1;
    if (byte >= '0' && byte <= '9') return 2;
    return is_space(byte) ? 3 : 4;
}

uint32_t length_class(size_t length) {
    uint32_t digits = 0;
    for (; length; length >>= 1) ++digits;
    return std::min(digits, 7u);
}

LayoutReader LayoutReader::at(const DraftContext& context) {
    LayoutReader reader;
    const std::string_view text = context.text.view();
    if (context.path.quoted) {
        reader.quoted = true;
        reader.escaped = context.path.escaped;
    } else if (!text.empty()) {
        reader.quoted = text.back() == '"';  // the quote that ended a string
        reader.read(text.back());
    }
    return reader;
}

void LayoutReader::read(char byte, Layout* learned) {
    if (quoted) {
        if (escaped) {
            escaped = false;
        } else if (byte == '\\') {
            escaped = true;
        } else if (byte == '"') {
            quoted = false;
            place = Layout::kOther;
        }
        return;
    }
    if (is_space(byte)) {
        if (learned && place != Layout::kNowhere) learned->after[static_cast<size_t>(place)] = byte == ' ' ? ' ' : '\n';
        place = Layout::kNowhere;
        return;
    }
    if (learned && place != Layout::kNowhere) learned->after[static_cast<size_t>(place)] = '\0';
    quoted = byte == '"';
    place = quoted           ? Layout::kNowhere
            : byte == ':'    ? Layout::kColon
            : byte == ','    ? Layout::kComma
            : byte == '{'    ? Layout::kBrace
            : byte == '['    ? Layout::kBracket
                             : Layout::kOther;
}

/// A continuation that is being written.
struct AutomatonView::Walk {
    uint32_t state;
    LayoutReader reader;
    std::string text;
    size_t forced = std::string::npos;
    uint32_t choice = Continuation::kNone;
    uint32_t choices = kChoices;

    void choose(uint32_t made) {
        if (choice != Continuation::kNone) return;
        choice = made;
        forced = text.size();
    }
};

uint32_t AutomatonView::next_byte(uint32_t state, char byte) const {
    const auto token = retokenizer_->id(static_cast<unsigned char>(byte));
    return token ? next(state, *token) : 0;
}

const AutomatonView::FirstBytes& AutomatonView::first_bytes(uint32_t state) {
    if (first_bytes_.size() > kMemo) first_bytes_.clear();
    const auto [at, fresh] = first_bytes_.try_emplace(state);
    FirstBytes& found = at->second;
    if (!fresh) return found;
    std::array<uint64_t, 4> words{};
    table_.first_bytes(table_.automaton, state, words.data());
    const auto allowed = [&](char byte) {
        const auto value = static_cast<unsigned char>(byte);
        return (words[value / 64] >> value % 64 & 1) != 0 && retokenizer_->id(value).has_value();
    };
    found.many = std::count_if(kProbes.begin(), kProbes.end(), allowed) > 2;
    for (int value = 0; value < 256 && !found.many; ++value) {
        if (allowed(static_cast<char>(value))) found.bytes += static_cast<char>(value);
    }
    return found;
}

const std::vector<Continuation>& AutomatonView::continuations(const DraftContext& context, const Layout& layout, bool is_json) {
    if (continuations_.size() > kMemo) continuations_.clear();
    LayoutReader reader;
    if (is_json) reader = LayoutReader::at(context);
    uint64_t key = mix(context.state, static_cast<uint64_t>(reader.place + 1) * 4 + reader.quoted * 2u + reader.escaped);
    for (const char byte : layout.after) key = mix(key, static_cast<uint64_t>(byte));
    const auto [at, fresh] = continuations_.try_emplace(mix(key, is_json));
    if (fresh) walk({context.state, reader, {}}, layout, is_json, at->second);
    return at->second;
}

bool AutomatonView::append(Walk& walk, char byte) const {
    const uint32_t after = next_byte(walk.state, byte);
    if (!after) return false;
    walk.state = after;
    walk.text += byte;
    walk.reader.read(byte);
    return true;
}

bool AutomatonView::append_forced(Walk& walk) const {
    std::string text(kLongestText - walk.text.size(), '\0');
    text.resize(table_.forced(table_.automaton, walk.state, text.data(), text.size()));
    for (const char byte : text) {
        if (!append(walk, byte)) return false;
    }
    return !text.empty();
}

void AutomatonView::walk(Walk walk, const Layout& layout, bool is_json, std::vector<Continuation>& out) {
    const auto end = [&] {
        if (walk.text.empty() || out.size() >= kBranches) return;
        out.push_back({walk.text, std::min(walk.forced, walk.text.size()), walk.choice});
    };
    while (walk.text.size() < kLongestText) {
        if (append_forced(walk)) continue;
        const FirstBytes& first = first_bytes(walk.state);
        const LayoutReader& reader = walk.reader;
        if (first.many || (!is_json && first.bytes.size() > kFew)) {
            if (!is_json || !walk.text.empty() || !reader.quoted || reader.escaped) return end();
            walk.choose(Continuation::kStringEnd);
            if (!append(walk, '"')) return end();
            continue;
        }
        std::string bytes = first.bytes;
        uint32_t choice = Continuation::kNone;
        if (is_json && !reader.quoted) {
            const bool spaces = std::any_of(bytes.begin(), bytes.end(), is_space);
            if (spaces && reader.place != Layout::kNowhere) {
                const char usual = layout.after[static_cast<size_t>(reader.place)];
                if (usual == '\n' && reader.place != Layout::kOther) return end();
                if (usual == ' ') {
                    walk.choose(Continuation::kLayout);
                    if (!append(walk, ' ')) return end();
                    continue;
                }
            }
            std::erase_if(bytes, is_space);
            if (spaces) choice = Continuation::kLayout;
            if (std::any_of(bytes.begin(), bytes.end(), [](char byte) { return byte_class(byte) == 2; })) {
                if (!walk.text.empty()) return end();
                std::erase_if(bytes, [](char byte) { return contains(kNumber, byte); });
                choice = Continuation::kNumberEnd;
            }
        }
        if (bytes.empty() || bytes.size() > kFew) return end();
        if (bytes.size() > 1 && choice != Continuation::kNumberEnd) {
            const bool separates = is_json && !reader.quoted && std::all_of(bytes.begin(), bytes.end(), [](char byte) { return contains(kClosing, byte); });
            choice = separates ? Continuation::kSeparator : Continuation::kLiteral + static_cast<uint32_t>(bytes.size());
        }
        if (bytes.size() > 1 && (!walk.choices || (!is_json && !walk.text.empty()))) return end();
        if (choice != Continuation::kNone) walk.choose(choice);
        if (bytes.size() > 1) {
            --walk.choices;
            for (const char byte : bytes) {
                Walk branch = walk;
                if (append(branch, byte)) this->walk(std::move(branch), layout, is_json, out);
            }
            return;
        }
        if (!append(walk, bytes[0])) return end();
    }
    end();
}

void propose_forced(AutomatonView& automaton, const DraftContext& context, const Layout& layout, bool is_json, Following following, DraftTokens& out) {
    const Retokenizer& retokenizer = automaton.retokenizer();
    const size_t begin = out.size();
    for (const Continuation& continuation : automaton.continuations(context, layout, is_json)) {
        const auto token = retokenizer.next(context.text.view(), continuation.text);
        if (!token) continue;
        const auto known = [&](const DraftToken& draft_token) { return draft_token.token == token->token; };
        if (std::any_of(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), known)) continue;
        const std::string_view bytes = retokenizer.token(token->token);
        if (bytes.size() <= continuation.forced) {
            out.push_back({token->token, token->certain ? 0.99 : 0.5, token->certain ? 1u : 0u});
            continue;
        }
        const auto last = std::find_if_not(bytes.rbegin(), bytes.rend(), is_space);
        const size_t closing = last == bytes.rend() ? std::string_view::npos : std::string_view(",}]\":").find(*last);
        constexpr double kPriors[] = {0.5, 0.9, 0.1, 0.3, 0.4};
        double prior = continuation.choice > Continuation::kLiteral ? 1.0 / (continuation.choice - Continuation::kLiteral) : kPriors[continuation.choice];
        uint32_t kind = continuation.choice * 8 + static_cast<uint32_t>(closing == std::string_view::npos ? 5 : closing);
        const bool ends = continuation.choice == Continuation::kStringEnd || continuation.choice == Continuation::kNumberEnd;
        if (ends && following != Following::kUnknown) {
            constexpr double kEnds[] = {0.0, 0.02, 0.2, 0.4, 0.1};
            prior = kEnds[static_cast<uint32_t>(following)];
            kind = kCopied + (kind * 8 + static_cast<uint32_t>(following)) * 8 + byte_class(context.text.view().back());
        } else if (ends) {
            kind = (kind * 8 + length_class(context.path.partial_size)) * 8 + byte_class(context.text.view().back()) + 1;
        } else {
            kind = kind * 64 + token->certain * 8u;
        }
        out.push_back({token->token, prior, kind + 2});
    }
}

}  // namespace spec
