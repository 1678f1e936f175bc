// The sources of guesses, as in spec/sources/: each looks at a place and appends guesses.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "counts.hpp"
#include "pieces.hpp"
#include "place.hpp"
#include "table.hpp"

namespace spec {

/// What is asked of the automaton, remembered by state: for all texts of one automaton. Not for several threads at once.
class Grammar {
public:
    /// `owner` keeps the table.
    Grammar(const AutomatonTable& table, std::shared_ptr<void> owner, std::shared_ptr<const Pieces> pieces)
        : table_(table), owner_(std::move(owner)), pieces_(std::move(pieces)) {}

    uint32_t next(uint32_t state, uint32_t token) const { return table_.next(table_.automaton, state, token); }
    /// What every completion begins with.
    const std::string& forced(uint32_t state);
    /// What may come first, as far as it is then forced; empty where much is possible.
    const std::vector<std::string>& literals(uint32_t state);
    const Pieces& pieces() const { return *pieces_; }

private:
    std::vector<std::string> find(uint32_t state);
    bool many(uint32_t state) const;
    std::string ask(uint32_t state, size_t room) const;

    AutomatonTable table_;
    std::shared_ptr<void> owner_;
    std::shared_ptr<const Pieces> pieces_;
    std::unordered_map<uint32_t, std::string> forced_;
    std::unordered_map<uint32_t, std::vector<std::string>> literals_;
};

using Guesses = std::vector<Guess>;

void propose_forced(Grammar& grammar, const Place& place, Guesses& out);

/// Hashes of the last tokens of a place: entry i of i + 1 tokens. Made once for all scopes.
inline constexpr uint32_t kLongestOrder = 6;
using Contexts = std::array<uint64_t, kLongestOrder>;
Contexts contexts_of(const Place& place);
void propose_ngrams(const Counts& counts, uint32_t scope, const Place& place, const Contexts& contexts, Guesses& out);
void learn_ngrams(Counts& counts, const Place& place, const Contexts& contexts, uint32_t token);

/// Slots under one constraint (by path, by state) and under all.
struct Slots {
    Counts* paths;
    Counts* states;
    Counts* world;
};
void propose_slots(const Slots& slots, const Place& place, bool is_json, Guesses& out);
void learn_slots(const Slots& slots, const Place& place, bool is_json, uint32_t token);

/// A document, with its ends in order: the places where some bytes stand are neighbours there.
class Document {
public:
    explicit Document(std::string text);
    void propose(const Pieces& pieces, const Place& place, bool is_json, Guesses& out) const;

private:
    std::string text_;
    std::vector<uint32_t> order_;
};

/// Texts that were written, and where contexts of kLeast tokens stood.
class Past {
public:
    static constexpr uint32_t kLeast = 4;
    static constexpr size_t kLimit = 1 << 20, kEnds = 8;

    void learn(const Place& place, uint32_t token);
    void propose(const Place& place, Guesses& out) const;

private:
    std::vector<uint32_t> tokens_;
    std::unordered_map<uint64_t, std::vector<uint32_t>, AsItIs> ends_;
};

}  // namespace spec
