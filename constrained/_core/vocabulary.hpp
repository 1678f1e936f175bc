// A vocabulary: the tables, masks and shards that automata over the same tokens share.
//
// A vocabulary has one set of tables and one mask store. Residuals and lexicon entries live in shards. A shard has one lock
// for itself and all its automata; automata of different shards never wait for each other. A shard keeps its residuals for
// its lifetime because automaton states consist of them. A shard that has grown too large therefore gets no new automata;
// a new shard is opened, and the old one is freed with its last automaton.
// Invariants
//  * Everything in a shard can be recomputed from the tables.
//  * Lock order: list of shards, shard, mask store, read epoch.
// Thread safety: `Vocabulary` may be used from any thread; the members of a `Shard` after `lock` need that lock.
#pragma once

#include <mutex>
#include <optional>

#include "marks.hpp"
#include "token_lexicon.hpp"
#include "read_epoch.hpp"
#include "mask_store.hpp"
#include "vocabulary_tables.hpp"

namespace core {

class Shard;

/// The tokens that matter to marks.
struct MarkTables {
    explicit MarkTables(const VocabularyTables& tables)
        : arrays(Trie::build(tables.tokens, with_byte(tables, separates))), separators(arrays), marked(with_byte(tables, is_mark)) {}
    MarkTables(const MarkTables&) = delete;

    const Trie::Arrays arrays;
    const Trie separators;               // tokens with a byte that a mark can follow
    const std::vector<uint32_t> marked;  // with a byte that is taken as a mark

private:
    static std::vector<uint32_t> with_byte(const VocabularyTables& tables, bool (*is)(uint8_t)) {
        std::vector<uint32_t> found;
        for (const uint32_t token : tables.trie.in_order()) {
            if (std::ranges::any_of(tables.tokens[token], is)) found.push_back(token);
        }
        return found;
    }
};

class Vocabulary {
public:
    /// `limit`: bytes of the masks and one generation of shards, without the tables: a quarter for masks, a quarter for
    /// residuals, half for lexicons.
    Vocabulary(const TokenBytes& tokens, std::vector<uint32_t> eos, size_t limit, uint32_t shards)
        : tables(tokens, std::move(eos)),
          shards(std::max(shards, 1u)),
          residual_limit(limit / 4 / this->shards),
          lexicon_limit(limit / 2 / this->shards),
          masks(tables.size, limit / 4, epoch) {}

    struct Size {
        size_t shards = 0, residuals = 0, residual_bytes = 0, entries = 0, entry_bytes = 0;
    };
    /// Summed over all live shards.
    Size size();
    /// Made when a constraint with marks first asks for them.
    const MarkTables& mark_tables() {
        std::call_once(mark_tables_once_, [&] { mark_tables_.emplace(tables); });
        return *mark_tables_;
    }

    const VocabularyTables tables;
    const uint32_t shards;
    const size_t residual_limit, lexicon_limit;  // per shard
    ReadEpoch epoch;
    MaskStore masks;

private:
    friend class Shard;
    std::mutex lock_;
    std::vector<Shard*> alive_;
    std::once_flag mark_tables_once_;
    std::optional<MarkTables> mark_tables_;
};

class Shard {
public:
    /// `marks`: its languages may contain marks.
    explicit Shard(std::shared_ptr<Vocabulary> shared, bool marks = false)
        : marks(marks),
          vocabulary(std::move(shared)),
          tokens(vocabulary->tables.tokens),
          size(vocabulary->tables.size),
          eos(vocabulary->tables.eos),
          alphabet(vocabulary->tables.alphabet),
          trie(vocabulary->tables.trie),
          masks(vocabulary->masks),
          epoch(vocabulary->epoch),
          regexes(marks ? with_marks(alphabet) : alphabet, work),
          lexicon(tokens, trie, vocabulary->tables.byte_class_trie, regexes),
          row(size),
          crossing_row(size) {
        const std::lock_guard guard(vocabulary->lock_);
        vocabulary->alive_.push_back(this);
    }
    ~Shard() {
        const std::lock_guard guard(vocabulary->lock_);
        std::erase(vocabulary->alive_, this);
    }
    Shard(const Shard&) = delete;
    Shard& operator=(const Shard&) = delete;

    bool is_eos(uint32_t token) const { return std::ranges::find(eos, token) != eos.end(); }

    /// Evicts lexicon entries if they exceed the limit. Under the lock, while no entry is in use.
    void trim() { lexicon.trim(vocabulary->lexicon_limit); }
    /// Whether new automata should use a new shard.
    bool full() {
        const std::lock_guard guard(lock);
        return regexes.bytes() > vocabulary->residual_limit;
    }

    const bool marks;
    const std::shared_ptr<Vocabulary> vocabulary;
    const TokenBytes& tokens;
    const uint32_t size;
    const std::vector<uint32_t>& eos;
    const ByteSet& alphabet;
    const Trie& trie;
    MaskStore& masks;
    ReadEpoch& epoch;
    std::mutex lock;  // guards the members below, and the stores of all automata in this shard
    Work work;         // of the current call, or the last one
    RegexStore regexes;
    TokenLexicon lexicon;
    RowBuilder row, crossing_row;  // of the mask that is being made, and of the tokens inside of a body, see crossing.cpp
};

inline Vocabulary::Size Vocabulary::size() {
    const std::lock_guard guard(lock_);
    Size size;
    for (Shard* shard : alive_) {
        const std::lock_guard held(shard->lock);
        ++size.shards;
        size.residuals += shard->regexes.size();
        size.residual_bytes += shard->regexes.bytes();
        size.entries += shard->lexicon.size();
        size.entry_bytes += shard->lexicon.bytes();
    }
    return size;
}

}  // namespace core
