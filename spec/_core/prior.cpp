#include "prior.hpp"

namespace spec {

namespace {

/// A token of a text, and where it begins.
struct Placed {
    uint32_t token;
    size_t begin;
};

/// The tokens of `text` from `at` on, as far as the vocabulary can write it.
void append_tokens(const Retokenizer& retokenizer, std::string_view text, size_t at, std::vector<Placed>& out) {
    while (at < text.size()) {
        const auto next = retokenizer.next(text.substr(0, at), text.substr(at));
        if (!next) return;
        out.push_back({next->token, at});
        at += retokenizer.token(next->token).size();
    }
}

bool comma(const JsonPath& path) { return path.partial().starts_with(','); }

}  // namespace

void teach_slots(Memory& memory, const Retokenizer& retokenizer, uint32_t order, const std::string& opening, const WordCounts& words) {
    const std::lock_guard<std::mutex> held(memory.lock);
    DraftContext begin;
    begin.text.append(opening);
    begin.path.read(opening);
    std::vector<Placed> tokens;
    for (const auto& [word, count] : words) {
        tokens.clear();
        append_tokens(retokenizer, opening + word, opening.size(), tokens);
        DraftContext context = begin;
        for (const Placed& placed : tokens) {
            teach_slot(memory.slots, context, order, placed.token, count);
            context.read(placed.token, retokenizer.token(placed.token), true);
            // Behind its container and behind a comma the opening does not say where the text stands.
            if (context.path.depth < begin.path.depth || (comma(context.path) && !comma(begin.path))) break;
        }
    }
}

void teach_ngrams(Memory& memory, const Retokenizer& retokenizer, const std::string& text, size_t first, const WordCounts& words) {
    const std::lock_guard<std::mutex> held(memory.lock);
    std::vector<Placed> begin, tokens;
    append_tokens(retokenizer, text, 0, begin);
    for (const auto& [word, count] : words) {
        tokens = begin;
        append_tokens(retokenizer, text + word, text.size(), tokens);
        DraftContext context;
        for (size_t i = 0; i < tokens.size(); ++i) {
            const size_t taught_to = text.empty() ? word.size() : first;
            for (uint32_t order = 1; tokens[i].begin >= text.size() && order <= kLongestOrder && order <= context.tail_size; ++order) {
                if (tokens[i - order].begin < taught_to) memory.ngrams.learn(context.hash(order), tokens[i].token, count);
            }
            context.append(tokens[i].token);
        }
    }
}

}  // namespace spec
