// Drafts: what was learned (Memory, Scope), the best-first tree (Tree), and the drafts of one text (Drafter).
// Invariant of a tree: node 0 is the end of the text; parents come before children; pi falls along the nodes.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "sources.hpp"

namespace spec {

/// Numbers of the sources; the last two are scopes of kNgram.
enum Source : uint32_t { kForced, kNgram, kSkeleton, kCopying, kSuffix, kRecycle, kNgramScope, kNgramWorld, kSources };
inline constexpr uint32_t kNamed = kNgramScope;

class Calibration {
public:
    static constexpr double kStrength = 3.0, kMany = 4096.0;

    struct Count {
        double hits = 0.0, tries = 0.0;
    };
    double probability(uint32_t kind, double prior) const;
    void learn(uint32_t kind, bool hit);
    const std::vector<std::pair<uint32_t, Count>>& counts() const { return counts_; }
    void set(uint32_t kind, Count count) { of(kind) = count; }
    void clear() {
        counts_.clear();
        places_.clear();
    }

private:
    Count& of(uint32_t kind);

    std::vector<std::pair<uint32_t, Count>> counts_;
    Places places_;
};

/// What was learned under one constraint.
struct Scope {
    Counts ngrams{1 << 17}, paths{1 << 17}, states{1 << 17};
    Past past;
};

/// What was learned over one vocabulary; the lock is held by whoever drafts or learns.
struct Memory {
    std::mutex lock;
    Calibration calibration;
    Counts ngrams{1 << 18}, slots{1 << 18};
    std::unordered_map<uint32_t, std::vector<uint32_t>> rows;
};

struct Tree {
    std::vector<int32_t> token, parent, first_child, next_sibling, depth;
    std::vector<double> pi;
    std::vector<uint32_t> state, sources;

    explicit Tree(uint32_t state);
    size_t size() const { return token.size(); }
    int32_t add(int32_t parent, uint32_t token, uint32_t state, double pi, uint32_t sources);
    int32_t child(int32_t node, int64_t token) const;
    std::vector<int32_t> path(int32_t node) const;
};

class Drafter {
public:
    Drafter(std::shared_ptr<Grammar> grammar, std::shared_ptr<Memory> memory, std::shared_ptr<Scope> scope,
            uint32_t start, const std::vector<uint32_t>& prompt, uint32_t sources, bool is_json,
            std::vector<uint32_t> ends, bool chains);

    std::shared_ptr<Tree> draft(size_t nodes, size_t depth);
    /// So many nodes of the tree were read by the model.
    void read(size_t nodes);
    /// The text went on with a token.
    void commit(uint32_t token);
    /// Learns the names of a made-up text of the constraint, and their order; nothing of its values.
    void rehearse(const std::vector<uint32_t>& tokens);
    /// What the model finds likely after the last token, best first.
    void see(std::vector<uint32_t> favourites);

    size_t nodes = 0, hits = 0;
    std::array<size_t, kNamed> drafted{}, accepted{};

private:
    struct Said {
        uint32_t node, token, kind;
    };
    bool has(Source source) const { return sources_ >> source & 1; }
    void propose(uint32_t source, const Place& place, Guesses& out);
    void learn(const Place& place, uint32_t token);
    void judge(uint32_t token);
    Place after(const Place& place, uint32_t token, uint32_t state) const;
    static void count(std::array<size_t, kNamed>& counts, uint32_t bits);

    std::shared_ptr<Grammar> grammar_;
    std::shared_ptr<Memory> memory_;
    std::shared_ptr<Scope> scope_;
    std::shared_ptr<Counts> own_;
    std::shared_ptr<const Document> document_;
    uint32_t sources_;
    bool is_json_;
    std::vector<uint32_t> ends_;
    bool chains_;  // one child a node
    Place place_;
    std::shared_ptr<Tree> tree_;
    Contexts contexts_{};         // of the place that is looked at
    std::vector<Said> said_;  // by node, in the order of the nodes
    int32_t node_ = 0;
    size_t read_ = 0;
};

}  // namespace spec
