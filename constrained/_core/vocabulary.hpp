// What automata over the same tokens share: tables, rows, and what was learned about languages.
//
// A vocabulary has one set of tables and one store of rows. What is learned about languages lies in lanes. A lane has
// one lock, for itself and for every automaton in it; automata of different lanes never wait for each other. A lane
// keeps residuals as long as it lives, for states are made of them. So a lane that has grown too large is left to its
// automata, a new one is opened for those to come, and the last automaton takes the old one along.
// Invariants
//  * Whatever a lane knows can be learned again from the tables.
//  * Locks are taken in the order: lanes of a vocabulary, lane, rows, readers.
#pragma once

#include <mutex>

#include "lexicon.hpp"
#include "readers.hpp"
#include "rows.hpp"
#include "tables.hpp"

namespace core {

class Lane;

class Vocabulary {
public:
    /// `limit`: bytes that rows and one generation of lanes may take, besides the tables: a quarter for rows, a quarter
    /// for residuals, half for the lexica.
    Vocabulary(Image image, size_t limit, uint32_t lanes)
        : tables(std::move(image)),
          lanes(std::max(lanes, 1u)),
          residual_limit(limit / 4 / this->lanes),
          lexicon_limit(limit / 2 / this->lanes),
          rows(tables.size, limit / 4, readers) {}

    struct Size {
        size_t lanes = 0, residuals = 0, residual_bytes = 0, entries = 0, entry_bytes = 0;
    };
    /// Of every lane that is alive.
    Size size();

    const Tables tables;
    const uint32_t lanes;
    const size_t residual_limit, lexicon_limit;  // of one lane
    Readers readers;
    RowStore rows;

private:
    friend class Lane;
    std::mutex lock_;
    std::vector<Lane*> alive_;
};

class Lane {
public:
    explicit Lane(std::shared_ptr<Vocabulary> shared)
        : vocabulary(std::move(shared)),
          tokens(vocabulary->tables.tokens),
          size(vocabulary->tables.size),
          eos(vocabulary->tables.eos),
          alphabet(vocabulary->tables.alphabet),
          trie(vocabulary->tables.trie),
          rows(vocabulary->rows),
          readers(vocabulary->readers),
          regexes(alphabet),
          lexicon(tokens, trie, vocabulary->tables.quotient, regexes) {
        const std::lock_guard guard(vocabulary->lock_);
        vocabulary->alive_.push_back(this);
    }
    ~Lane() {
        const std::lock_guard guard(vocabulary->lock_);
        std::erase(vocabulary->alive_, this);
    }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    bool is_eos(uint32_t token) const { return std::ranges::find(eos, token) != eos.end(); }

    /// Forgets what can be learned again, if it has grown too large. Under the lock, while nothing of it is in use.
    void trim() { lexicon.trim(vocabulary->lexicon_limit); }
    /// Whether new automata had better go to a new lane.
    bool full() {
        const std::lock_guard guard(lock);
        return regexes.bytes() > vocabulary->residual_limit;
    }

    const std::shared_ptr<Vocabulary> vocabulary;
    const TokenBytes& tokens;
    const uint32_t size;
    const std::vector<uint32_t>& eos;
    const ByteSet& alphabet;
    const Trie& trie;
    RowStore& rows;
    Readers& readers;
    std::mutex lock;  // guards what follows, and the stores of every automaton in this lane
    RegexStore regexes;
    Lexicon lexicon;
};

inline Vocabulary::Size Vocabulary::size() {
    const std::lock_guard guard(lock_);
    Size size;
    for (Lane* lane : alive_) {
        const std::lock_guard held(lane->lock);
        ++size.lanes;
        size.residuals += lane->regexes.size();
        size.residual_bytes += lane->regexes.bytes();
        size.entries += lane->lexicon.size();
        size.entry_bytes += lane->lexicon.bytes();
    }
    return size;
}

}  // namespace core
