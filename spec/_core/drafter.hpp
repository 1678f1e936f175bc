// Speculation: learned state (Memory, ConstraintMemory), the best-first draft tree (Tree), and its builder (Drafter).
//
// Invariants of a tree: node 0 is the root, the end of the text; parents precede children; path_probability does not increase
// with the node number.
// Thread safety: a Drafter and its trees belong to one thread at a time. `Memory::lock` guards the shared tables; `draft`,
// `commit` and `prime` take it.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "mixer.hpp"
#include "sources.hpp"

namespace spec {

/// Numbers of the sources; the last two are kNgram with other tables.
enum Source : uint32_t { kForced, kNgram, kSlotNgram, kPromptLookup, kAssistant, kSlotFavourites, kNgramConstraint, kNgramVocabulary, kSources };
inline constexpr uint32_t kNamedSources = kNgramConstraint;
static_assert(kSources == Mixer::kSources);

/// The acceptance rate of proposals, by kind (source and rank); the source's own probability counts as kStrength trials.
class Calibration {
public:
    static constexpr double kStrength = 3.0, kMany = 4096.0;

    struct Count {
        double hits = 0.0, trials = 0.0;
    };
    double probability(uint32_t kind, double prior) const;
    void learn(uint32_t kind, bool hit);
    const std::vector<std::pair<uint32_t, Count>>& counts() const { return counts_; }
    void set(uint32_t kind, Count count) { of(kind) = count; }
    void clear() {
        counts_.clear();
        key_index_.clear();
    }

private:
    Count& of(uint32_t kind);

    std::vector<std::pair<uint32_t, Count>> counts_;
    KeyIndex key_index_;
};

/// Tables learned under one constraint.
struct ConstraintMemory {
    ContextCounts ngrams{1 << 17}, paths{1 << 17}, states{1 << 17};
    Layout layout;  // of the last text
    std::vector<std::vector<uint32_t>> openings;  // texts up to the values of members: what probes ask the model about

    /// Bytes of memory, about.
    size_t bytes() const { return ngrams.bytes() + paths.bytes() + states.bytes(); }
};

/// Tables learned over one vocabulary; `lock` guards them and all ConstraintMemory of the vocabulary.
struct Memory {
    std::mutex lock;
    Calibration calibration;
    Mixer mixer;
    ContextCounts ngrams{1 << 18}, slots{1 << 18};

    Memory() = default;
    /// Begins with what another one knows, whose tables must not change any more.
    explicit Memory(const std::shared_ptr<Memory>& from)
        : calibration(from->calibration),
          mixer(from->mixer),
          ngrams(std::shared_ptr<const ContextCounts>(from, &from->ngrams)),
          slots(std::shared_ptr<const ContextCounts>(from, &from->slots)) {}
};

struct Tree {
    std::vector<int32_t> token, parent, first_child, next_sibling, depth;
    std::vector<double> path_probability;
    std::vector<uint32_t> state, sources;
    std::vector<int32_t> asked;  // nodes whose likeliest tokens the drafter wants to know

    explicit Tree(uint32_t state);
    size_t size() const { return token.size(); }
    int32_t add(int32_t parent, uint32_t token, uint32_t state, double path_probability, uint32_t sources);
    int32_t child(int32_t node, int64_t token) const;
    std::vector<int32_t> path(int32_t node) const;
};

class Drafter {
public:
    Drafter(std::shared_ptr<AutomatonView> automaton, std::shared_ptr<Memory> memory, std::shared_ptr<ConstraintMemory> constraint_memory,
            uint32_t start, const std::vector<uint32_t>& prompt, uint32_t sources, bool is_json,
            std::vector<uint32_t> eos_ids, bool chain_drafts);

    /// The draft tree with the most expected accepted tokens: that is the sum of the path probabilities, so the nodes are those of
    /// the largest ones, which a heap finds (OPT-Tree, DySpec). Proposals of one token by several sources are mixed, the tokens
    /// behind a node share its probability, and a token that the automaton refuses never becomes a node.
    /// `assisted`: tokens that an assistant would write next, with their probabilities.
    std::shared_ptr<Tree> draft(size_t max_nodes, size_t depth, const std::vector<std::pair<uint32_t, double>>& assisted);
    /// The openings of slots behind what is written, as branches, up to `max_nodes` nodes; the first time only. They are read for the logits
    /// behind them and are no draft tokens.
    std::shared_ptr<Tree> probe(size_t max_nodes);
    /// The top tokens of the model behind a node of the last draft tree or, if `probed`, of the last probe.
    void observe_slot(int32_t node, std::vector<uint32_t> top_tokens, bool probed);
    /// The model verified the first `nodes` nodes of the tree.
    void mark_verified(size_t nodes);
    /// Appends a token to the text; learns from it and updates the calibration.
    void commit(uint32_t token);
    /// Learns the member names and their order from a sample text of the constraint, not its values.
    void prime(const std::vector<uint32_t>& tokens);
    /// Texts of the constraint up to the values of members; checked ids.
    void set_openings(std::vector<std::vector<uint32_t>> openings);

    size_t drafted_total = 0, accepted_total = 0;
    std::array<size_t, kNamedSources> drafted_by_source{}, accepted_by_source{};

private:
    struct Proposal {
        uint32_t node, token, kind;
    };
    /// A token that was proposed behind a node, by any source.
    struct Candidate {
        uint32_t node, token, bits;
        Mixer::Features features;
    };
    /// The sets of weights that count for a token that some sources proposed.
    MixerPlace place(const DraftContext& context, uint32_t token, uint32_t bits) const;
    bool has(Source source) const { return sources_ >> source & 1; }
    void propose(uint32_t source, const DraftContext& context, DraftTokens& out);
    void learn(const DraftContext& context, uint32_t token);
    void learn_layout(const DraftContext& context, uint32_t token);
    void update_calibration(uint32_t token);
    DraftContext after(const DraftContext& context, uint32_t token, uint32_t state) const;
    static void count(std::array<size_t, kNamedSources>& counts, uint32_t bits);

    std::shared_ptr<AutomatonView> automaton_;
    std::shared_ptr<Memory> memory_;
    std::shared_ptr<ConstraintMemory> constraint_memory_;
    std::shared_ptr<ContextCounts> own_;
    std::shared_ptr<const PromptSuffixArray> prompt_suffix_array_;
    uint32_t sources_;
    bool is_json_;
    std::vector<uint32_t> eos_ids_;
    bool chain_drafts_;  // chains: one child per node
    DraftContext context_;
    Layout layout_;
    std::shared_ptr<Tree> tree_;
    ContextHashes context_hashes_{};         // of the current node
    Following following_ = Following::kUnknown;  // likewise
    std::vector<Proposal> proposals_;    // in ascending order of nodes
    std::vector<Candidate> candidates_;  // likewise
    SlotFavourites favourites_;
    std::vector<uint64_t> slots_, probed_slots_;  // of the nodes of the last tree and of the last probe
    std::vector<uint32_t> written_;               // the first committed tokens, until the first probe
    bool probed_ = false;
    int32_t node_ = 0;
    size_t verified_ = 0;
};

}  // namespace spec
