#include "token_lexicon.hpp"

#include "trie_walk.hpp"

namespace core {

namespace {
constexpr size_t kFewTokens = 512;   // kept as a list; more are kept as bits
constexpr size_t kFewBytes = 4;      // looked up one by one
constexpr size_t kEntriesInStep = 64;  // of tables that grow or are emptied, in a step of work
constexpr size_t kBoundaryBytesInStep = 32;  // of a boundary trie that is made, in a step of work
constexpr size_t kManyExits = 4096;  // out of C*: too many to check one by one
constexpr uint32_t kUnrolledParts = 2048;  // of an expression that is not written again without its bounds
constexpr uint32_t kHighBound = 16;  // bytes of the copies of a counter: relaxed so that more residuals share an entry
}

TokenLexicon::TokenLexicon(const TokenBytes& tokens, const Trie& trie, const ByteClassTrie& byte_class_trie, RegexStore& regexes)
    : tokens_(tokens), trie_(trie), byte_class_trie_(byte_class_trie), regexes_(regexes), all_(tokens.size()), vocabulary_size_(tokens.size()),
      subtree_entry_(empty_entry()) {
    all_.add(trie.subtree_tokens(Trie::kRoot));
    all_.make_dense();
}

TokenLexicon::~TokenLexicon() { drop_entries(); }

/// A residual with the same entry, shared by as many residuals as possible: bounds that no token reaches make no difference.
TokenLexicon::Standing TokenLexicon::representative(RegexId residual) {
    const auto [relaxed, least] = regexes_.relax(residual, trie_.longest() + 1);
    if (relaxed == residual) return {residual, 0};
    const Lookup plain = at(relaxed);
    const uint64_t reach = uint64_t{plain.entry.max_remaining} + plain.extra_length + trie_.longest();
    if (reach > least) return {residual, 0};  // see `from_relaxed`
    const uint32_t length = regexes_.min_length(residual), shortest = regexes_.min_length(relaxed);
    return {relaxed, length > shortest ? length - shortest : 0};
}

TokenLexicon::Lookup TokenLexicon::at(RegexId residual) {
    if (residual.value >= representatives_.size()) {
        regexes_.work().spend((regexes_.size() - representatives_.size()) / kEntriesInStep);
        bytes_ += (regexes_.size() - representatives_.size()) * sizeof(Standing);
        representatives_.append(regexes_.size() - representatives_.size(), {});
    }
    if (representatives_[residual.value].key == RegexStore::kEmptyLanguage) {
        const Standing found = representative(residual);  // the table may grow during the call
        representatives_[residual.value] = found;
    }
    const auto [key, extra] = representatives_[residual.value];
    if (key.value >= entries_.size()) {
        bytes_ += (regexes_.size() - entries_.size()) * sizeof(void*);
        entries_.append(regexes_.size() - entries_.size(), nullptr);
    }
    if (!entries_[key.value]) {
        auto made = make(key);  // makes others, too
        entries_[key.value] = made.release();
    }
    entries_[key.value]->used = true;
    return {*entries_[key.value], key, extra};
}

std::unique_ptr<LexiconEntry> TokenLexicon::make(RegexId key) {
    std::unique_ptr<LexiconEntry> entry;
    if (regexes_.substring_head(key) || regexes_.first(key).count() <= kFewBytes) {
        entry = from_search(key);
    } else if (const auto star = regexes_.star_of(key); star && worth_star_tokens(*star)) {
        entry = from_star(key, *star);
    } else if (!(entry = from_relaxed(key)) && !(entry = from_walked(key))) {
        entry = from_walk(key);
        walked_[walks_++ % walked_.size()] = key;
    }
    finish(*entry);
    bytes_ += entry->bytes();
    ++count_;
    return entry;
}

void TokenLexicon::finish(LexiconEntry& entry) const {
    entry.boundary_nodes.shrink_to_fit();
    entry.inner_tokens.canonicalize();
    entry.inner_tokens.shrink();
    index_boundary(entry);
}

size_t LexiconEntry::bytes() const {
    size_t total = sizeof(LexiconEntry) + inner_tokens.bytes() + 4 * (boundary_nodes.capacity() + boundary_children.capacity());
    total += boundary_groups.capacity() * sizeof(BoundaryGroup);
    if (boundary_trie) total += boundary_trie->bytes();
    return total;
}

void TokenLexicon::drop_entries() {
    for (size_t key = 0; key < entries_.size(); ++key) delete entries_[key];
    entries_ = {};
}

void TokenLexicon::trim(size_t limit) {
    if (bytes_ <= limit) return;
    regexes_.work().spend(entries_.size() / kEntriesInStep);
    subtree_entries_.clear();
    bytes_ -= std::exchange(subtree_bytes_, 0);
    for (size_t key = 0; key < entries_.size(); ++key) {
        LexiconEntry*& entry = entries_[key];
        if (!entry || std::exchange(entry->used, false)) continue;
        bytes_ -= entry->bytes();
        delete std::exchange(entry, nullptr);
        --count_;
    }
    if (bytes_ <= limit / 2) return;
    representatives_ = {};
    drop_entries();
    star_tokens_.clear();
    bytes_ = count_ = 0;
}

void TokenLexicon::index_boundary(LexiconEntry& entry) const {
    if (entry.boundary_nodes.empty()) return;
    const auto for_each_child = [&](auto&& visit) {
        for (const uint32_t exit : entry.boundary_nodes) {
            for (uint32_t child = trie_.children_begin(exit); child < trie_.children_end(exit); ++child) visit(trie_.byte(child), child);
        }
    };
    std::array<uint32_t, 256> place{};  // by byte: how many, then where the next one goes
    for_each_child([&](uint8_t byte, uint32_t) { ++place[byte]; });
    entry.boundary_groups.reserve(std::ranges::count_if(place, [](uint32_t count) { return count > 0; }));
    uint32_t end = 0;
    for (size_t byte = 0; byte < place.size(); ++byte) {
        if (place[byte] == 0) continue;
        const uint32_t begin = std::exchange(end, end + place[byte]);
        place[byte] = begin;
        entry.boundary_groups.push_back({static_cast<uint8_t>(byte), begin, end});
    }
    entry.boundary_children.resize(end);
    for_each_child([&](uint8_t byte, uint32_t child) { entry.boundary_children[place[byte]++] = child; });
}

const BoundaryTrie* TokenLexicon::boundary_trie(RegexId key) {
    LexiconEntry& entry = *entries_[key.value];
    if (entry.followed == 2 || ++entry.followed < 2) return entry.boundary_trie.get();
    const size_t children = entry.boundary_children.size();
    if (children < BoundaryTrie::kFewChildren || children > BoundaryTrie::kManyChildren) return nullptr;
    entry.boundary_trie = std::make_shared<BoundaryTrie>(trie_, entry.boundary_nodes);
    bytes_ += entry.boundary_trie->bytes();
    regexes_.work().spend(entry.boundary_trie->bytes() / kBoundaryBytesInStep);
    return entry.boundary_trie.get();
}

/// Byte classes whose bytes all lead to the same residual.
const ByteSet& TokenLexicon::uniform_classes(RegexId residual) {
    const uint32_t id = regexes_.partition_id(residual);
    if (id >= uniform_.size()) uniform_.resize(id + 64);
    if (!uniform_[id]) {
        const auto& group = regexes_.partition_at(id).of;
        uniform_[id] = ByteClasses::instance().uniform(regexes_.alphabet(), [&](uint8_t byte) { return group[byte]; });
    }
    return *uniform_[id];
}

// ---------------------------------------------------------------- any residual

/// The machine of `walk_tokens` that collects ranges of allowed and refused tokens; the smaller side determines the set.
struct TokenLexicon::ResidualWalk {
    using State = RegexId;

    explicit ResidualWalk(TokenLexicon& lexicon) : lexicon(lexicon) {}

    const ByteSet& first(State state) const { return lexicon.regexes_.first(state); }
    const ByteSet& uniform(State state) const { return lexicon.uniform_classes(state); }
    State step(State state, uint8_t byte) const {
        lexicon.regexes_.work().spend(1);
        return lexicon.regexes_.step(state, byte);
    }
    static bool finished(State state) { return state == RegexStore::kEpsilon; }
    bool exit(State state) const { return lexicon.regexes_.nullable(state); }
    void allow(Run run, State state) {
        if (run.empty()) return;
        add(allowed, run);
        allowed_count += run.size();
        max_remaining = std::max(max_remaining, lexicon.regexes_.min_length(state));
    }
    void refuse(Run run) {
        if (run.empty()) return;
        add(refused, run);
        refused_count += run.size();
    }
    void leave(uint32_t node, State) { boundary_nodes.push_back(node); }
    static bool ok() { return true; }

    TokenLexicon& lexicon;
    std::vector<Run> allowed, refused;
    size_t allowed_count = 0, refused_count = 0;
    uint32_t max_remaining = 0;
    std::vector<uint32_t> boundary_nodes;

private:
    static void add(std::vector<Run>& runs, Run run) {
        if (!runs.empty() && runs.back().data() + runs.back().size() == run.data()) {
            runs.back() = Run(runs.back().data(), runs.back().size() + run.size());
        } else {
            runs.push_back(run);
        }
    }
};

std::unique_ptr<LexiconEntry> TokenLexicon::from_walk(RegexId residual) {
    auto entry = std::make_unique<LexiconEntry>(LexiconEntry{TokenSet(vocabulary_size_), nullptr, 0, {}, {}});
    walk_into(*entry, residual);
    std::sort(entry->boundary_nodes.begin(), entry->boundary_nodes.end());
    return entry;
}

/// Adds the inner tokens and boundary nodes of the residual to an entry.
void TokenLexicon::walk_into(LexiconEntry& entry, RegexId residual) {
    if (regexes_.first(residual).count() <= kFewBytes) return search_subtree(entry, Trie::kRoot, residual);
    ResidualWalk walk(*this);
    walk_tokens(trie_, byte_class_trie_, walk, residual);
    entry.max_remaining = std::max(entry.max_remaining, walk.max_remaining);
    entry.boundary_nodes.insert(entry.boundary_nodes.end(), walk.boundary_nodes.begin(), walk.boundary_nodes.end());
    if (walk.allowed_count > kFewTokens && walk.refused_count < walk.allowed_count) {
        TokenSet most = all_;
        for (const Run run : walk.refused) most.remove(run);
        entry.inner_tokens.add(most);
    } else {
        if (walk.allowed_count > kFewTokens) entry.inner_tokens.make_dense();
        for (const Run run : walk.allowed) entry.inner_tokens.add(run);
    }
}

/// A residual with few first bytes is mostly a literal: its bytes are looked up.
std::unique_ptr<LexiconEntry> TokenLexicon::from_search(RegexId residual) {
    auto entry = std::make_unique<LexiconEntry>(LexiconEntry{TokenSet(vocabulary_size_), nullptr, 0, {}, {}});
    search_subtree(*entry, Trie::kRoot, residual);
    std::sort(entry->boundary_nodes.begin(), entry->boundary_nodes.end());
    entry->boundary_nodes.erase(std::unique(entry->boundary_nodes.begin(), entry->boundary_nodes.end()), entry->boundary_nodes.end());
    return entry;
}

// ---------------------------------------------------------------- loops

/// All tokens of C* are inner tokens; the few that leave C* are checked one trie node at a time.
std::unique_ptr<LexiconEntry> TokenLexicon::from_star(RegexId residual, const RegexStore::StarOf& star) {
    StarTokens& star_tokens = this->star_tokens(star.part);
    const uint32_t worst = add_lengths(star_tokens.max_copy_remaining(), star.rest);
    auto entry = std::make_unique<LexiconEntry>(LexiconEntry{TokenSet(vocabulary_size_), &star_tokens.all_tokens(), worst, {}, {}});
    std::vector<std::pair<uint32_t, RegexId>> work;
    for (size_t byte = star.exit_bytes._Find_first(); byte < 256; byte = star.exit_bytes._Find_next(byte)) {
        const auto& [arrays, trie, nodes] = star_tokens.exit_tokens(static_cast<uint8_t>(byte));
        work.emplace_back(Trie::kRoot, residual);
        while (!work.empty()) {
            const auto [node, state] = work.back();
            work.pop_back();
            regexes_.work().spend(trie.children_end(node) - trie.children_begin(node));
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                const RegexId next = regexes_.step(state, trie.byte(child));
                if (next == RegexStore::kEmptyLanguage) continue;
                if (const auto tokens = trie.tokens(child); !tokens.empty()) {
                    entry->inner_tokens.add(tokens);
                    entry->max_remaining = std::max(entry->max_remaining, regexes_.min_length(next));
                }
                if (regexes_.nullable(next) && !trie_.leaf(nodes[child])) entry->boundary_nodes.push_back(nodes[child]);
                if (next != RegexStore::kEpsilon && !trie.leaf(child)) work.emplace_back(child, next);
            }
        }
    }
    std::sort(entry->boundary_nodes.begin(), entry->boundary_nodes.end());
    return entry;
}

/// Whether few tokens leave C*.
bool TokenLexicon::worth_star_tokens(const RegexStore::StarOf& star) {
    size_t count = 0;
    for (size_t byte = star.exit_bytes._Find_first(); byte < 256; byte = star.exit_bytes._Find_next(byte)) {
        count += star_tokens(star.part).exit_nodes(static_cast<uint8_t>(byte)).size();
    }
    return count <= kManyExits;
}

StarTokens& TokenLexicon::star_tokens(RegexId part) {
    std::unique_ptr<StarTokens>& known = star_tokens_[part.value];
    if (!known) {
        known = std::make_unique<StarTokens>(part, tokens_, trie_, byte_class_trie_, regexes_,
                                       [this](RegexId residual) -> const ByteSet& { return uniform_classes(residual); },
                                       bytes_);
    }
    return *known;
}

// ---------------------------------------------------------------- residuals like others

/// Walks both residuals in parallel where they differ. `relaxed`: the base is the residual with its high bounds lifted; then only
/// what is long enough to reach a bound is visited, see `from_relaxed`.
std::unique_ptr<LexiconEntry> TokenLexicon::from_base(RegexId residual, RegexId base, bool relaxed) {
    const Lookup plain = at(base);
    auto entry = std::make_unique<LexiconEntry>(LexiconEntry{plain.entry.inner_tokens, nullptr, plain.entry.max_remaining, plain.entry.boundary_nodes, {}});
    if (plain.entry.star_tokens) entry->inner_tokens.add(*plain.entry.star_tokens);
    entry->max_remaining = add_lengths(entry->max_remaining, plain.extra_length);
    const uint32_t rest = entry->max_remaining;
    /// Bytes of the rest of a token up to which both treat it alike.
    const auto alike = [&](RegexId mine, RegexId theirs) -> uint32_t {
        if (!relaxed || mine == RegexStore::kEmptyLanguage) return 0;
        for (const uint32_t bound : {kHighBound, kHighBound / 2}) {  // what was read may have used up some copies
            const auto [lifted, least] = regexes_.relax(mine, bound);
            if (lifted == theirs) return least > rest ? least - rest : 0;
        }
        return 0;
    };
    struct Pair {
        uint32_t node, depth;
        RegexId mine, theirs;
    };
    std::vector<Pair> work{{Trie::kRoot, 0, residual, base}};
    std::vector<uint32_t> gained, lost;
    const auto step = [&](RegexId state, uint8_t byte) {
        return state == RegexStore::kEmptyLanguage ? state : regexes_.step(state, byte);
    };
    while (!work.empty()) {
        const auto [node, depth, mine, theirs] = work.back();
        work.pop_back();
        regexes_.work().spend(trie_.children_end(node) - trie_.children_begin(node));
        const uint32_t agree = depth + alike(mine, theirs);
        for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
            if (trie_.longest_in_subtree(child) <= agree) continue;
            const RegexId next = step(mine, trie_.byte(child)), other = step(theirs, trie_.byte(child));
            if (next == other) continue;
            const bool allowed = next != RegexStore::kEmptyLanguage, was_allowed = other != RegexStore::kEmptyLanguage;
            const auto tokens = trie_.tokens(child);
            if (allowed && !tokens.empty()) {
                if (!was_allowed) entry->inner_tokens.add(tokens);
                entry->max_remaining = std::max(entry->max_remaining, regexes_.min_length(next));
            } else if (was_allowed) {
                entry->inner_tokens.remove(tokens);
            }
            if (trie_.leaf(child)) continue;
            const bool exit = allowed && regexes_.nullable(next), was_exit = was_allowed && regexes_.nullable(other);
            if (exit != was_exit) (exit ? gained : lost).push_back(child);
            work.push_back({child, depth + 1, next, other});
        }
    }
    std::vector<uint32_t>& nodes = entry->boundary_nodes;  // free text may end anywhere: there are many of them
    std::sort(lost.begin(), lost.end());
    std::sort(gained.begin(), gained.end());
    if (!lost.empty()) std::erase_if(nodes, [&](uint32_t node) { return std::binary_search(lost.begin(), lost.end(), node); });
    const auto middle = nodes.insert(nodes.end(), gained.begin(), gained.end());
    std::inplace_merge(nodes.begin(), middle, nodes.end());
    return entry;
}

/// Returns nullptr where no residual that was walked agrees with this one behind nearly all bytes.
std::unique_ptr<LexiconEntry> TokenLexicon::from_walked(RegexId residual) {
    for (size_t i = 0; i < std::min(walks_, walked_.size()); ++i) {
        const RegexId other = walked_[i];
        if (other.value >= entries_.size() || !entries_[other.value]) continue;  // evicted
        size_t different = 0;
        for (uint32_t child = trie_.children_begin(Trie::kRoot); child < trie_.children_end(Trie::kRoot); ++child) {
            const uint8_t byte = trie_.byte(child);
            different += regexes_.step(residual, byte) != regexes_.step(other, byte);
            if (different > kFewBytes) break;
        }
        if (different <= kFewBytes) return from_base(residual, other);
    }
    return nullptr;
}

/// Let S be the residual R with its high bounds lifted, and n the bytes of the copies of the smallest of them. S contains R, and
/// every text of S of at most n bytes is in R because n bytes cannot exceed a bound. So a token of S that can be completed with
/// w bytes is a token of R if it has at most n - w bytes; w is at most the entry's `max_remaining`. The same holds of what is
/// left of a token where the derivatives of R and S are again such a pair.
std::unique_ptr<LexiconEntry> TokenLexicon::from_relaxed(RegexId residual) {
    if (regexes_.parts(residual) > kUnrolledParts) return nullptr;
    const auto [relaxed, least] = regexes_.relax(residual, kHighBound);
    if (relaxed == residual) return nullptr;
    const Lookup plain = at(relaxed);
    const uint32_t worst = add_lengths(plain.entry.max_remaining, plain.extra_length);
    return worst < least ? from_base(residual, relaxed, true) : nullptr;
}

}  // namespace core
