// The sources of draft tokens, listed in spec/sources.py: each takes a context and appends the tokens that may follow.
//
// Thread safety: not thread-safe; `Memory::lock` guards the tables, and an AutomatonView belongs to one thread at a time.
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
#include "retokenizer.hpp"
#include "draft_context.hpp"
#include "automaton_table.hpp"

namespace spec {

/// The queries of an automaton, memoised by state; shared by all texts of one automaton. Not thread-safe.
class AutomatonView {
public:
    /// `owner` keeps the table alive.
    AutomatonView(const AutomatonTable& table, std::shared_ptr<void> owner, std::shared_ptr<const Retokenizer> retokenizer)
        : table_(table), owner_(std::move(owner)), retokenizer_(std::move(retokenizer)) {}

    uint32_t next(uint32_t state, uint32_t token) const { return table_.next(table_.automaton, state, token); }
    /// How texts usually go on after a context, with what is forced first.
    const std::vector<Continuation>& continuations(const DraftContext& context, const Layout& layout, bool is_json);
    const Retokenizer& retokenizer() const { return *retokenizer_; }

private:
    struct Walk;
    /// The bytes that are allowed in a state; `many`: so many that they were not counted.
    struct FirstBytes {
        bool many;
        std::string bytes;
    };
    const FirstBytes& first_bytes(uint32_t state);
    uint32_t next_byte(uint32_t state, char byte) const;
    bool append(Walk& walk, char byte) const;
    bool append_forced(Walk& walk) const;
    void walk(Walk walk, const Layout& layout, bool is_json, std::vector<Continuation>& out);

    AutomatonTable table_;
    std::shared_ptr<void> owner_;
    std::shared_ptr<const Retokenizer> retokenizer_;
    std::unordered_map<uint32_t, FirstBytes> first_bytes_;
    std::unordered_map<uint64_t, std::vector<Continuation>, IdentityHash> continuations_;
};

using DraftTokens = std::vector<DraftToken>;

/// What stands in a document behind a value that is being copied from it: nothing is known; the word goes on; white space; another
/// end of a word; several of these.
enum class Following : uint32_t { kUnknown, kWord, kSpace, kEnd, kMixed };

/// `following`: see `PromptSuffixArray::following`.
void propose_forced(AutomatonView& automaton, const DraftContext& context, const Layout& layout, bool is_json, Following following, DraftTokens& out);

/// Hashes of the last tokens of a context: entry i of i + 1 tokens. Computed once for all tables.
inline constexpr uint32_t kLongestOrder = 6;
using ContextHashes = std::array<uint64_t, kLongestOrder>;
ContextHashes context_hashes(const DraftContext& context);
void propose_ngrams(const ContextCounts& counts, uint32_t level, const DraftContext& context, const ContextHashes& hashes, DraftTokens& out);
void learn_ngrams(ContextCounts& counts, const DraftContext& context, const ContextHashes& hashes, uint32_t token);

/// Slot tables of one constraint (by path, by state) and of all constraints.
struct Slots {
    ContextCounts* paths;
    ContextCounts* states;
    ContextCounts* all_constraints;
};
void propose_slots(const Slots& slots, const DraftContext& context, bool is_json, DraftTokens& out);
void learn_slots(const Slots& slots, const DraftContext& context, bool is_json, uint32_t token);
/// Adds to one order of the slots of all constraints: 2 (name and the one above), 3 (name), 4 (what was written), 5 (shape).
void teach_slot(ContextCounts& all_constraints, const DraftContext& context, uint32_t order, uint32_t token, uint32_t count);

/// The slot of a context: its path and what was written since the last turn.
uint64_t slot_key(const DraftContext& context);

/// What the model ranked highest in a slot, in this sequence, whether or not that token was drawn.
class SlotFavourites {
public:
    static constexpr size_t kLimit = 1 << 12;

    /// Favourites, best first; `tentative`: read behind other tokens than those of the text.
    void learn(uint64_t slot, std::vector<uint32_t> tokens, bool tentative);
    void propose(const DraftContext& context, DraftTokens& out) const;

private:
    struct Favourites {
        std::vector<uint32_t> tokens;
        bool tentative;
    };
    std::unordered_map<uint64_t, Favourites, IdentityHash> favourites_;
};

/// Prompt lookup: a suffix array of the prompt (Manber and Myers 1993), where all occurrences of a string are adjacent.
class PromptSuffixArray {
public:
    explicit PromptSuffixArray(std::string text);
    void propose(const Retokenizer& retokenizer, const DraftContext& context, bool is_json, Following following, DraftTokens& out) const;
    /// What stands behind the whole of the value that is being written.
    Following following(const DraftContext& context) const;

private:
    std::string text_;
    std::vector<uint32_t> order_;
};

}  // namespace spec
