#include "drafter.hpp"

#include <algorithm>
#include <queue>
#include <stdexcept>

namespace spec {

namespace {

constexpr double kLeast = 1e-5;       // minimum path probability of a node
constexpr double kWorthAsking = 0.02; // probability from which the automaton is asked about a token that shares with others
constexpr size_t kPrompt = 4096;      // tokens at the end of a prompt whose n-grams are learned
constexpr uint32_t kKinds = 24;       // bits of a kind below the source's number

}  // namespace

double Calibration::probability(uint32_t kind, double prior) const {
    const uint32_t found = key_index_.find(mix(0, kind));
    if (found == KeyIndex::kNone) return prior;
    const Count& count = counts_[found].second;
    return (count.hits + kStrength * prior) / (count.trials + kStrength);
}

Calibration::Count& Calibration::of(uint32_t kind) {
    uint32_t index = key_index_.find(mix(0, kind));
    if (index == KeyIndex::kNone) {
        index = static_cast<uint32_t>(counts_.size());
        key_index_.insert(mix(0, kind), index);
        counts_.push_back({kind, {}});
    }
    return counts_[index].second;
}

void Calibration::learn(uint32_t kind, bool hit) {
    Count& count = of(kind);
    count.trials += 1.0;
    count.hits += hit;
    if (count.trials >= kMany) {
        count.hits /= 2;
        count.trials /= 2;
    }
}

Tree::Tree(uint32_t state_) { add(-1, static_cast<uint32_t>(-1), state_, 1.0, 0); }

int32_t Tree::add(int32_t parent_, uint32_t token_, uint32_t state_, double path_probability_, uint32_t sources_) {
    const auto node = static_cast<int32_t>(size());
    token.push_back(static_cast<int32_t>(token_));
    parent.push_back(parent_);
    first_child.push_back(-1);
    next_sibling.push_back(parent_ < 0 ? -1 : first_child[static_cast<size_t>(parent_)]);
    if (parent_ >= 0) first_child[static_cast<size_t>(parent_)] = node;
    depth.push_back(parent_ < 0 ? 0 : depth[static_cast<size_t>(parent_)] + 1);
    path_probability.push_back(path_probability_);
    state.push_back(state_);
    sources.push_back(sources_);
    return node;
}

int32_t Tree::child(int32_t node, int64_t token_) const {
    if (node < 0 || static_cast<size_t>(node) >= size()) return -1;
    int32_t child = first_child[static_cast<size_t>(node)];
    while (child >= 0 && token[static_cast<size_t>(child)] != token_) child = next_sibling[static_cast<size_t>(child)];
    return child;
}

std::vector<int32_t> Tree::path(int32_t node) const {
    std::vector<int32_t> nodes;
    for (; node > 0 && static_cast<size_t>(node) < size(); node = parent[static_cast<size_t>(node)]) nodes.push_back(node);
    std::reverse(nodes.begin(), nodes.end());
    return nodes;
}

Drafter::Drafter(std::shared_ptr<AutomatonView> automaton, std::shared_ptr<Memory> memory, std::shared_ptr<ConstraintMemory> constraint_memory,
                 uint32_t start, const std::vector<uint32_t>& prompt, uint32_t sources, bool is_json,
                 std::vector<uint32_t> eos_ids, bool chain_drafts)
    : automaton_(std::move(automaton)),
      memory_(std::move(memory)),
      constraint_memory_(std::move(constraint_memory)),
      own_(std::make_shared<ContextCounts>(1 << 16)),
      sources_(sources),
      is_json_(is_json),
      eos_ids_(std::move(eos_ids)),
      chain_drafts_(chain_drafts) {
    context_.state = start;
    {
        const std::lock_guard<std::mutex> held(memory_->lock);
        layout_ = constraint_memory_->layout;
    }
    const size_t skipped = prompt.size() > kPrompt ? prompt.size() - kPrompt : 0;
    std::string text;
    for (size_t i = 0; i < prompt.size(); ++i) {
        if (has(kPromptLookup)) text += automaton_->retokenizer().token(prompt[i]);
        if (i > skipped && has(kNgram)) learn_ngrams(*own_, context_, context_hashes(context_), prompt[i]);
        if (i >= skipped) context_.append(prompt[i]);
    }
    prompt_suffix_array_ = std::make_shared<const PromptSuffixArray>(std::move(text));
}

MixerPlace Drafter::place(const DraftContext& context, uint32_t token, uint32_t bits) const {
    const JsonPath& path = context.path;
    const std::string_view piece = automaton_->retokenizer().token(token), text = context.text.view();
    const uint32_t first = piece.empty() ? 0 : byte_class(piece.front()), last = piece.empty() ? 0 : byte_class(piece.back());
    const uint32_t before = text.empty() ? 5 : byte_class(text.back());
    const uint32_t size = path.partial_size;
    const uint32_t written = size < 2 ? 0 : size < 6 ? 1 : size < 20 ? 2 : 3;
    if (bits >> kNamedSources) bits |= 1u << kNgram;
    const uint32_t together = bits & (Mixer::kTogether - 1);
    return {is_json_ ? path.kind * 2u + path.quoted : 0u, is_json_ ? written : 0u, (before * 5 + first) * 5 + last, together};
}

void Drafter::propose(uint32_t source, const DraftContext& context, DraftTokens& out) {
    switch (source) {
        case kForced: return propose_forced(*automaton_, context, layout_, is_json_, following_, out);
        case kNgram: return propose_ngrams(*own_, 0, context, context_hashes_, out);
        case kSlotNgram: return propose_slots({&constraint_memory_->paths, &constraint_memory_->states, &memory_->slots}, context, is_json_, out);
        case kPromptLookup: return prompt_suffix_array_->propose(automaton_->retokenizer(), context, is_json_, following_, out);
        case kSlotFavourites: return favourites_.propose(context, out);
        case kNgramConstraint: return propose_ngrams(constraint_memory_->ngrams, 1, context, context_hashes_, out);
        case kNgramVocabulary: return propose_ngrams(memory_->ngrams, 2, context, context_hashes_, out);
    }
}

std::shared_ptr<Tree> Drafter::draft(size_t max_nodes, size_t depth, const std::vector<std::pair<uint32_t, double>>& assisted) {
    for (const auto& [token, probability] : assisted) {
        if (token >= automaton_->retokenizer().size()) throw std::out_of_range("token id outside the vocabulary");
        if (!(probability > 0.0 && probability <= 1.0)) throw std::invalid_argument("a probability is not above 0 and up to 1");
    }
    const std::lock_guard<std::mutex> held(memory_->lock);
    struct Expansion {
        double worth;
        uint32_t count;
        int32_t parent;
        uint32_t token, bits;
        bool operator<(const Expansion& other) const {
            return worth != other.worth ? worth < other.worth : count > other.count;
        }
    };
    tree_ = std::make_shared<Tree>(context_.state);
    Tree& tree = *tree_;
    proposals_.clear();
    candidates_.clear();
    slots_.clear();
    node_ = 0;
    std::vector<size_t> assisted_at{0};  // by node: which token of the assistant may follow; behind the last one: none
    std::vector<DraftContext> contexts{context_};
    contexts.reserve(max_nodes + 1);
    std::priority_queue<Expansion> heap;
    uint32_t counted = 0;
    DraftTokens draft_tokens;
    std::vector<double> worths, chances;
    const auto look = [&](uint32_t node) {
        const size_t begin = candidates_.size();
        if (has(kNgram)) {
            context_hashes_ = context_hashes(contexts[node]);
            for (uint32_t i = 0; i < std::min(kLongestOrder, contexts[node].tail_size); ++i) {
                for (const ContextCounts* counts : {own_.get(), &constraint_memory_->ngrams, &memory_->ngrams}) counts->prefetch(context_hashes_[i]);
            }
        }
        following_ = is_json_ ? prompt_suffix_array_->following(contexts[node]) : Following::kUnknown;
        for (uint32_t source = 0; source < kSources; ++source) {
            if (!has(static_cast<Source>(source))) continue;
            draft_tokens.clear();
            if (source != kAssistant) {
                propose(source, contexts[node], draft_tokens);
            } else if (assisted_at[node] < assisted.size()) {
                const auto& [token, probability] = assisted[assisted_at[node]];
                draft_tokens.push_back({token, probability, static_cast<uint32_t>(std::min(15.0, -2.0 * std::log2(probability)))});
            }
            for (const DraftToken& draft_token : draft_tokens) {
                const uint32_t kind = draft_token.kind | source << kKinds;
                const double logit = Mixer::logit(memory_->calibration.probability(kind, draft_token.prior));
                proposals_.push_back({node, draft_token.token, kind});
                auto known = std::find_if(candidates_.begin() + static_cast<std::ptrdiff_t>(begin), candidates_.end(),
                                          [&](const Candidate& candidate) { return candidate.token == draft_token.token; });
                if (known == candidates_.end()) {
                    candidates_.push_back({node, draft_token.token, 0, {}});
                    known = candidates_.end() - 1;
                    known->features[Mixer::kSurest] = -Mixer::kBound;
                }
                known->bits |= 1u << source;
                known->features[2 * source] = logit;
                known->features[2 * source + 1] = 1.0;
                known->features[Mixer::kSurest] = std::max(known->features[Mixer::kSurest], logit);
            }
        }
        chances.clear();
        double total = 0.0, first = -Mixer::kBound, second = -Mixer::kBound;  // the two surest
        for (size_t i = begin; i < candidates_.size(); ++i) {
            const double surest = candidates_[i].features[Mixer::kSurest];
            chances.push_back(1.0 / (1.0 + std::exp(-surest)));
            total += chances.back();
            second = std::max(second, std::min(first, surest));
            first = std::max(first, surest);
        }
        const double depth_feature = std::log2(1.0 + tree.depth[node]);
        const double surprise = std::min(6.0, -std::log(tree.path_probability[node]));
        double sum = 0.0;
        worths.clear();
        for (size_t i = begin; i < candidates_.size(); ++i) {
            Mixer::Features& features = candidates_[i].features;
            const double surest = features[Mixer::kSurest];
            const double others = total - chances[i - begin];
            features[Mixer::kCompetitor] = surest == first ? second : first;
            features[Mixer::kOthers] = Mixer::logit(std::min(0.999, std::max(0.001, others)));
            features[Mixer::kConstant] = 1.0;
            features[Mixer::kDepth] = depth_feature;
            features[candidates_[i].bits & tree.sources[node] ? Mixer::kTrusted : Mixer::kDoubted] = surprise;
            worths.push_back(memory_->mixer.probability(place(contexts[node], candidates_[i].token, candidates_[i].bits), features));
            sum += worths.back();
        }
        if (sum > 1.0) {  // tokens that the automaton refuses leave before the others share the probability
            sum = 0.0;
            for (size_t i = begin; i < candidates_.size(); ++i) {
                double& worth = worths[i - begin];
                if (worth >= kWorthAsking && !automaton_->next(tree.state[node], candidates_[i].token)) worth = 0.0;
                sum += worth;
            }
        }
        const double share = tree.path_probability[node] / std::max(1.0, sum);
        for (size_t i = begin; i < candidates_.size(); ++i) {
            const Candidate& candidate = candidates_[i];
            const double worth = share * worths[i - begin];
            if (worth < kLeast || std::find(eos_ids_.begin(), eos_ids_.end(), candidate.token) != eos_ids_.end()) continue;
            heap.push({worth, ++counted, static_cast<int32_t>(node), candidate.token, candidate.bits});
        }
    };
    if (depth) look(0);
    while (!heap.empty() && tree.size() <= max_nodes) {
        const Expansion best = heap.top();
        heap.pop();
        const uint32_t state = automaton_->next(tree.state[static_cast<size_t>(best.parent)], best.token);
        if (!state) continue;
        const int32_t node = tree.add(best.parent, best.token, state, best.worth, best.bits);
        const size_t at = assisted_at[static_cast<size_t>(best.parent)];
        assisted_at.push_back(at < assisted.size() && assisted[at].first == best.token ? at + 1 : assisted.size());
        contexts.push_back(after(contexts[static_cast<size_t>(best.parent)], best.token, state));
        if (chain_drafts_) heap = {};
        if (tree.size() <= max_nodes && static_cast<size_t>(tree.depth[static_cast<size_t>(node)]) < depth) {
            look(static_cast<uint32_t>(node));
        }
    }
    if (has(kSlotFavourites) && is_json_) {
        for (const DraftContext& context : contexts) {
            const bool names = context.path.kind == JsonPath::kKey && context.path.quoted;
            if (names || context.path.kind == JsonPath::kValue) tree.asked.push_back(static_cast<int32_t>(slots_.size()));
            slots_.push_back(slot_key(context));
        }
    }
    return tree_;
}

std::shared_ptr<Tree> Drafter::probe(size_t max_nodes) {
    auto tree = std::make_shared<Tree>(context_.state);
    probed_slots_.assign(1, 0);
    if (probed_ || chain_drafts_ || !is_json_ || !has(kSlotFavourites)) return tree;
    probed_ = true;
    const std::vector<uint32_t> written = std::move(written_);
    const std::lock_guard<std::mutex> held(memory_->lock);
    for (const std::vector<uint32_t>& whole : constraint_memory_->openings) {
        if (whole.size() <= written.size() || !std::equal(written.begin(), written.end(), whole.begin())) continue;
        const std::vector<uint32_t> opening(whole.begin() + static_cast<std::ptrdiff_t>(written.size()), whole.end());
        int32_t node = 0;
        size_t shared = 0;
        for (int32_t child = 0; shared < opening.size() && (child = tree->child(node, opening[shared])) >= 0; ++shared) node = child;
        if (tree->size() + opening.size() - shared > max_nodes + 1) continue;
        if (shared == opening.size()) tree->asked.push_back(node);
        DraftContext context = context_;
        for (size_t i = 0; i < opening.size(); ++i) {
            context = after(context, opening[i], 0);
            if (i < shared) continue;
            node = tree->add(node, opening[i], 0, 0.0, 0);
            probed_slots_.push_back(slot_key(context));
            const bool names = context.path.kind == JsonPath::kKey && context.path.partial() == "\"";
            if (names || i + 1 == opening.size()) tree->asked.push_back(node);  // the first name of an object costs nothing to ask
        }
    }
    return tree;
}

void Drafter::observe_slot(int32_t node, std::vector<uint32_t> top_tokens, bool probed) {
    const std::vector<uint64_t>& slots = probed ? probed_slots_ : slots_;
    if (node < 0 || static_cast<size_t>(node) >= slots.size()) return;
    favourites_.learn(slots[static_cast<size_t>(node)], std::move(top_tokens), probed);
}

DraftContext Drafter::after(const DraftContext& context, uint32_t token, uint32_t state) const {
    DraftContext next = context;
    next.state = state;
    next.read(token, automaton_->retokenizer().token(token), is_json_);
    return next;
}

void Drafter::mark_verified(size_t nodes) {
    verified_ = nodes;
    if (!tree_) return;
    drafted_total += nodes;
    for (size_t node = 1; node <= nodes && node < tree_->size(); ++node) count(drafted_by_source, tree_->sources[node]);
}

void Drafter::commit(uint32_t token) {
    const std::lock_guard<std::mutex> held(memory_->lock);
    if (!probed_) written_.push_back(token);
    update_calibration(token);
    learn(context_, token);
    context_ = after(context_, token, automaton_->next(context_.state, token));
}

void Drafter::learn(const DraftContext& context, uint32_t token) {
    if (has(kNgram)) {
        const ContextHashes hashes = context_hashes(context);
        for (ContextCounts* counts : {own_.get(), &constraint_memory_->ngrams, &memory_->ngrams}) learn_ngrams(*counts, context, hashes, token);
    }
    if (has(kSlotNgram)) learn_slots({&constraint_memory_->paths, &constraint_memory_->states, &memory_->slots}, context, is_json_, token);
    if (is_json_) learn_layout(context, token);
}

void Drafter::learn_layout(const DraftContext& context, uint32_t token) {
    LayoutReader reader = LayoutReader::at(context);
    for (const char byte : automaton_->retokenizer().token(token)) reader.read(byte, &layout_);
    constraint_memory_->layout = layout_;
}

void Drafter::prime(const std::vector<uint32_t>& tokens) {
    const std::lock_guard<std::mutex> held(memory_->lock);
    if (!has(kSlotNgram) || !is_json_) return;
    DraftContext context = context_;
    ContextCounts nothing(1);
    for (const uint32_t token : tokens) {
        learn_layout(context, token);
        if (context.path.kind != JsonPath::kValue) learn_slots({&constraint_memory_->paths, &nothing, &nothing}, context, true, token);
        context = after(context, token, 0);
    }
}

void Drafter::set_openings(std::vector<std::vector<uint32_t>> openings) {
    for (const std::vector<uint32_t>& opening : openings) {
        for (const uint32_t token : opening) {
            if (token >= automaton_->retokenizer().size()) throw std::out_of_range("token id outside the vocabulary");
        }
    }
    const std::lock_guard<std::mutex> held(memory_->lock);
    constraint_memory_->openings = std::move(openings);
}

/// Calibrates the sources with this token. Draft tokens that the automaton refuses do not count.
void Drafter::update_calibration(uint32_t token) {
    if (!tree_ || node_ < 0) return;
    const auto begin = std::lower_bound(proposals_.begin(), proposals_.end(), static_cast<uint32_t>(node_),
                                        [](const Proposal& proposal, uint32_t node) { return proposal.node < node; });
    for (auto proposal = begin; proposal != proposals_.end() && proposal->node == static_cast<uint32_t>(node_); ++proposal) {
        if (proposal->token == token || automaton_->next(context_.state, proposal->token)) {
            memory_->calibration.learn(proposal->kind, proposal->token == token);
        }
    }
    const auto first = std::lower_bound(candidates_.begin(), candidates_.end(), static_cast<uint32_t>(node_),
                                        [](const Candidate& candidate, uint32_t node) { return candidate.node < node; });
    for (auto candidate = first; candidate != candidates_.end() && candidate->node == static_cast<uint32_t>(node_); ++candidate) {
        if (candidate->token == token || automaton_->next(context_.state, candidate->token)) {
            memory_->mixer.learn(place(context_, candidate->token, candidate->bits), candidate->features, candidate->token == token);
        }
    }
    node_ = tree_->child(node_, token);
    if (node_ > static_cast<int32_t>(verified_)) node_ = -1;
    if (node_ < 0) return;
    ++accepted_total;
    count(accepted_by_source, tree_->sources[static_cast<size_t>(node_)]);
}

/// Counts a source once, however many of its tables proposed the node.
void Drafter::count(std::array<size_t, kNamedSources>& counts, uint32_t bits) {
    if (bits >> kNamedSources) bits |= 1u << kNgram;
    for (uint32_t source = 0; source < kNamedSources; ++source) counts[source] += bits >> source & 1;
}

}  // namespace spec
