// Draft source `spans`: at the start of a JSON value, words and numbers of the document that no value has used yet. They are
// ranked by how often values of this name began with a word of that shape, then by how rare the word is in the document.
//
// Thread safety: not thread-safe; a DocumentSpans belongs to one text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "context_counts.hpp"
#include "continuations.hpp"
#include "draft_context.hpp"
#include "retokenizer.hpp"

namespace spec {

/// How often the values of each name began with a word of each shape; `Memory::lock` guards it.
class ValueShapes {
public:
    /// Digits, dates and times, other numbers, addresses, codes, capitalised words, other words.
    static constexpr uint32_t kShapes = 7;
    using Counts = std::array<uint32_t, kShapes>;

    const Counts* find(uint64_t name) const;
    void learn(uint64_t name, uint32_t shape);

private:
    static constexpr size_t kLimit = 1 << 16;

    std::unordered_map<uint64_t, Counts, IdentityHash> counts_;
};

class DocumentSpans {
public:
    DocumentSpans() = default;
    explicit DocumentSpans(std::string document);
    /// First tokens of spans, at the start of a value.
    void propose(const Retokenizer& retokenizer, const ValueShapes& shapes, const DraftContext& context, const Layout& layout, std::vector<DraftToken>& out) const;
    /// Learns from a token that ends a value: what it used, and the shape that it had.
    void learn(ValueShapes& shapes, const DraftContext& context, std::string_view piece);

private:
    struct Span {
        size_t begin, end;
        uint32_t shape, count;
        std::string number;  // without separators, as JSON has it; empty: it is none
    };
    struct Document {
        std::string text;
        std::vector<Span> spans;
    };
    static constexpr size_t kMost = 8, kSpans = 1024;

    std::shared_ptr<const Document> document_;
    std::vector<bool> used_;
};

}  // namespace spec
