#include "drafter.hpp"

#include <algorithm>
#include <queue>

namespace spec {

namespace {

constexpr double kLeast = 1e-5;       // nodes of a smaller pi are left out
constexpr size_t kPrompt = 4096;      // tokens of a prompt, from its end, whose n-grams are learned
constexpr size_t kRows = 1 << 18;     // tokens whose favourites are kept
constexpr uint32_t kKinds = 24;       // bits of a kind below the source's number

}  // namespace

double Calibration::probability(uint32_t kind, double prior) const {
    const uint32_t found = places_.find(mix(0, kind));
    if (found == Places::kNone) return prior;
    const Count& count = counts_[found].second;
    return (count.hits + kStrength * prior) / (count.tries + kStrength);
}

Calibration::Count& Calibration::of(uint32_t kind) {
    uint32_t place = places_.find(mix(0, kind));
    if (place == Places::kNone) {
        place = static_cast<uint32_t>(counts_.size());
        places_.insert(mix(0, kind), place);
        counts_.push_back({kind, {}});
    }
    return counts_[place].second;
}

void Calibration::learn(uint32_t kind, bool hit) {
    Count& count = of(kind);
    count.tries += 1.0;
    count.hits += hit;
    if (count.tries >= kMany) {
        count.hits /= 2;
        count.tries /= 2;
    }
}

Tree::Tree(uint32_t state_) { add(-1, static_cast<uint32_t>(-1), state_, 1.0, 0); }

int32_t Tree::add(int32_t parent_, uint32_t token_, uint32_t state_, double pi_, uint32_t sources_) {
    const auto node = static_cast<int32_t>(size());
    token.push_back(static_cast<int32_t>(token_));
    parent.push_back(parent_);
    first_child.push_back(-1);
    next_sibling.push_back(parent_ < 0 ? -1 : first_child[static_cast<size_t>(parent_)]);
    if (parent_ >= 0) first_child[static_cast<size_t>(parent_)] = node;
    depth.push_back(parent_ < 0 ? 0 : depth[static_cast<size_t>(parent_)] + 1);
    pi.push_back(pi_);
    state.push_back(state_);
    sources.push_back(sources_);
    return node;
}

int32_t Tree::child(int32_t node, int64_t token_) const {
    if (node < 0 || static_cast<size_t>(node) >= size()) return -1;
    int32_t found = first_child[static_cast<size_t>(node)];
    while (found >= 0 && token[static_cast<size_t>(found)] != token_) found = next_sibling[static_cast<size_t>(found)];
    return found;
}

std::vector<int32_t> Tree::path(int32_t node) const {
    std::vector<int32_t> found;
    for (; node > 0 && static_cast<size_t>(node) < size(); node = parent[static_cast<size_t>(node)]) found.push_back(node);
    std::reverse(found.begin(), found.end());
    return found;
}

Drafter::Drafter(std::shared_ptr<Grammar> grammar, std::shared_ptr<Memory> memory, std::shared_ptr<Scope> scope,
                 uint32_t start, const std::vector<uint32_t>& prompt, uint32_t sources, bool is_json,
                 std::vector<uint32_t> ends, bool chains)
    : grammar_(std::move(grammar)),
      memory_(std::move(memory)),
      scope_(std::move(scope)),
      own_(std::make_shared<Counts>(1 << 16)),
      sources_(sources),
      is_json_(is_json),
      ends_(std::move(ends)),
      chains_(chains) {
    place_.state = start;
    const size_t skipped = prompt.size() > kPrompt ? prompt.size() - kPrompt : 0;
    std::string text;
    for (size_t i = 0; i < prompt.size(); ++i) {
        if (has(kCopying)) text += grammar_->pieces().token(prompt[i]);
        if (i > skipped && has(kNgram)) learn_ngrams(*own_, place_, contexts_of(place_), prompt[i]);
        if (i >= skipped) place_.append(prompt[i]);
    }
    document_ = std::make_shared<const Document>(std::move(text));
}

void Drafter::propose(uint32_t source, const Place& place, Guesses& out) {
    switch (source) {
        case kForced: return propose_forced(*grammar_, place, out);
        case kNgram: return propose_ngrams(*own_, 0, place, contexts_, out);
        case kSkeleton: return propose_slots({&scope_->paths, &scope_->states, &memory_->slots}, place, is_json_, out);
        case kCopying: return document_->propose(grammar_->pieces(), place, is_json_, out);
        case kSuffix: return scope_->past.propose(place, out);
        case kRecycle: {
            if (!place.tail_size) return;
            const auto row = memory_->rows.find(place.last(0));
            if (row == memory_->rows.end()) return;
            for (uint32_t rank = 0; rank < row->second.size(); ++rank) {
                out.push_back({row->second[rank], 0.3 / std::pow(rank + 1, 1.5), rank});
            }
            return;
        }
        case kNgramScope: return propose_ngrams(scope_->ngrams, 1, place, contexts_, out);
        case kNgramWorld: return propose_ngrams(memory_->ngrams, 2, place, contexts_, out);
    }
}

std::shared_ptr<Tree> Drafter::draft(size_t nodes_, size_t depth) {
    const std::lock_guard<std::mutex> held(memory_->lock);
    struct Candidate {
        double worth;
        uint32_t count;
        int32_t parent;
        uint32_t token, bits;
        bool operator<(const Candidate& other) const {
            return worth != other.worth ? worth < other.worth : count > other.count;
        }
    };
    struct Fused {
        uint32_t token, bits;
        double missed;
    };
    tree_ = std::make_shared<Tree>(place_.state);
    Tree& tree = *tree_;
    said_.clear();
    node_ = 0;
    std::vector<Place> places{place_};
    places.reserve(nodes_ + 1);
    std::priority_queue<Candidate> heap;
    uint32_t counted = 0;
    Guesses guesses;
    std::vector<Fused> fused;
    const auto look = [&](uint32_t node) {
        fused.clear();
        if (has(kNgram)) contexts_ = contexts_of(places[node]);
        for (uint32_t source = 0; source < kSources; ++source) {
            if (!has(static_cast<Source>(source))) continue;
            guesses.clear();
            propose(source, places[node], guesses);
            for (const Guess& guess : guesses) {
                const uint32_t kind = guess.kind | source << kKinds;
                const double p = memory_->calibration.probability(kind, guess.prior);
                said_.push_back({node, guess.token, kind});
                auto known = std::find_if(fused.begin(), fused.end(), [&](const Fused& f) { return f.token == guess.token; });
                if (known == fused.end()) {
                    fused.push_back({guess.token, 1u << source, 1.0 - p});
                } else {
                    known->missed = std::min(known->missed, 1.0 - p);
                    known->bits |= 1u << source;
                }
            }
        }
        for (const Fused& one : fused) {
            const double worth = tree.pi[node] * (1.0 - one.missed);
            if (worth < kLeast || std::find(ends_.begin(), ends_.end(), one.token) != ends_.end()) continue;
            heap.push({worth, ++counted, static_cast<int32_t>(node), one.token, one.bits});
        }
    };
    if (depth) look(0);
    while (!heap.empty() && tree.size() <= nodes_) {
        const Candidate best = heap.top();
        heap.pop();
        const uint32_t state = grammar_->next(tree.state[static_cast<size_t>(best.parent)], best.token);
        if (!state) continue;
        const int32_t node = tree.add(best.parent, best.token, state, best.worth, best.bits);
        places.push_back(after(places[static_cast<size_t>(best.parent)], best.token, state));
        if (chains_) heap = {};
        if (tree.size() <= nodes_ && static_cast<size_t>(tree.depth[static_cast<size_t>(node)]) < depth) {
            look(static_cast<uint32_t>(node));
        }
    }
    return tree_;
}

Place Drafter::after(const Place& place, uint32_t token, uint32_t state) const {
    Place next = place;
    const std::string_view piece = grammar_->pieces().token(token);
    next.state = state;
    next.append(token);
    next.text.append(piece);
    if (is_json_) next.path.read(piece);
    return next;
}

void Drafter::read(size_t nodes_) {
    read_ = nodes_;
    if (!tree_) return;
    nodes += nodes_;
    for (size_t node = 1; node <= nodes_ && node < tree_->size(); ++node) count(drafted, tree_->sources[node]);
}

void Drafter::commit(uint32_t token) {
    const std::lock_guard<std::mutex> held(memory_->lock);
    judge(token);
    learn(place_, token);
    place_ = after(place_, token, grammar_->next(place_.state, token));
}

void Drafter::learn(const Place& place, uint32_t token) {
    if (has(kNgram)) {
        const Contexts contexts = contexts_of(place);
        for (Counts* counts : {own_.get(), &scope_->ngrams, &memory_->ngrams}) learn_ngrams(*counts, place, contexts, token);
    }
    if (has(kSkeleton)) learn_slots({&scope_->paths, &scope_->states, &memory_->slots}, place, is_json_, token);
    if (has(kSuffix)) scope_->past.learn(place, token);
}

void Drafter::rehearse(const std::vector<uint32_t>& tokens) {
    const std::lock_guard<std::mutex> held(memory_->lock);
    if (!has(kSkeleton) || !is_json_) return;
    Place place = place_;
    Counts nothing(1);
    for (const uint32_t token : tokens) {
        if (place.path.kind != Path::kValue) learn_slots({&scope_->paths, &nothing, &nothing}, place, true, token);
        place = after(place, token, 0);
    }
}

void Drafter::see(std::vector<uint32_t> favourites) {
    const std::lock_guard<std::mutex> held(memory_->lock);
    if (!has(kRecycle) || !place_.tail_size) return;
    if (memory_->rows.size() > kRows) memory_->rows.clear();
    memory_->rows[place_.last(0)] = std::move(favourites);
}

/// Counts which guesses about this token were right; those that the automaton refuses were never made.
void Drafter::judge(uint32_t token) {
    if (!tree_ || node_ < 0) return;
    const auto begin = std::lower_bound(said_.begin(), said_.end(), static_cast<uint32_t>(node_),
                                        [](const Said& said, uint32_t node) { return said.node < node; });
    for (auto said = begin; said != said_.end() && said->node == static_cast<uint32_t>(node_); ++said) {
        if (said->token == token || grammar_->next(place_.state, said->token)) {
            memory_->calibration.learn(said->kind, said->token == token);
        }
    }
    node_ = tree_->child(node_, token);
    if (node_ > static_cast<int32_t>(read_)) node_ = -1;
    if (node_ < 0) return;
    ++hits;
    count(accepted, tree_->sources[static_cast<size_t>(node_)]);
}

/// A source counts once, in however many scopes it guessed.
void Drafter::count(std::array<size_t, kNamed>& counts, uint32_t bits) {
    if (bits >> kNamed) bits |= 1u << kNgram;
    for (uint32_t source = 0; source < kNamed; ++source) counts[source] += bits >> source & 1;
}

}  // namespace spec
