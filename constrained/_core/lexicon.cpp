#include "lexicon.hpp"

#include "walk.hpp"

namespace core {

namespace {
constexpr size_t kFewTokens = 512;   // as a list; more than that as bits
constexpr size_t kFewBytes = 4;      // worth looking up one by one
constexpr size_t kManyWays = 4096;   // out of a loop: too many to look at one by one
constexpr uint32_t kHighBound = 16;  // of a counter: lifted for the sake of sharing
}

Lexicon::Lexicon(const TokenBytes& tokens, const Trie& trie, const Quotient& quotient, RegexStore& regexes)
    : tokens_(tokens), trie_(trie), quotient_(quotient), regexes_(regexes), all_(tokens.size()), vocabulary_size_(tokens.size()) {
    all_.add(trie.below(Trie::kRoot));
    all_.make_dense();
}

/// A residual with the same tokens and exits, shared by as many others as possible: bounds that no token reaches are
/// all the same, and so are excluded words that no token ends.
Lexicon::Standing Lexicon::representative(RegexId residual) {
    const auto with_length = [&](RegexId key) {
        const uint32_t length = regexes_.min_length(residual), looked_at = regexes_.min_length(key);
        return Standing{key, length > looked_at ? length - looked_at : 0};
    };
    const auto counter = regexes_.counter(residual);
    if (counter && (counter->low > 0 || counter->high != kInfinite) && counts(*counter)) {
        const uint32_t top = loop(counter->part).top();
        const uint32_t low = std::min(counter->low, top + 1);
        const uint32_t high = counter->high > top ? kInfinite : counter->high;
        return with_length(regexes_.concat(regexes_.repeat(counter->part, low, high), counter->tail));
    }
    const auto [relaxed, least] = regexes_.relax(residual, trie_.longest() + 1);
    if (relaxed == residual) return without_words(residual);
    const Found plain = at(relaxed);
    const uint64_t reach = uint64_t{plain.entry.worst_length} + plain.extra_length + trie_.longest();
    return with_length(reach <= least ? relaxed : residual);  // see `from_relaxed`
}

/// The residual without the words it excludes, if that goes unnoticed: it can be completed after any text of C*, so
/// only tokens that leave C* could end one of these words.
Lexicon::Standing Lexicon::without_words(RegexId residual) {
    const Standing itself{residual, 0};
    const RegexId base = regexes_.base(residual);
    if (base == residual) return itself;
    const auto carried = regexes_.carried(residual), free = regexes_.carried(base);
    if (!carried || !free || carried->part != free->part || carried->ends != free->ends || !worth_a_loop(*carried)) return itself;
    Loop& loop = this->loop(carried->part);
    uint32_t worst = add_lengths(loop.worst_rest(), carried->rest);
    struct Pair {
        uint32_t node;
        RegexId mine, theirs;
    };
    std::vector<Pair> work;
    for (size_t byte = carried->ends._Find_first(); byte < 256; byte = carried->ends._Find_next(byte)) {
        const Trie& trie = loop.leaving(static_cast<uint8_t>(byte)).trie;
        work.push_back({Trie::kRoot, residual, base});
        while (!work.empty()) {
            const auto [node, mine, theirs] = work.back();
            work.pop_back();
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                const RegexId next = regexes_.step(mine, trie.byte(child)), other = regexes_.step(theirs, trie.byte(child));
                if (next == other) continue;
                if (next == RegexStore::kNothing || regexes_.nullable(next) != regexes_.nullable(other)) return itself;
                worst = std::max(worst, regexes_.min_length(next));
                if (!trie.leaf(child)) work.push_back({child, next, other});
            }
        }
    }
    const auto [entry, key, extra] = at(base);
    const uint32_t known = add_lengths(entry.worst_length, extra);
    return {key, worst > known ? add_lengths(extra, worst - known) : extra};
}

Lexicon::Found Lexicon::at(RegexId residual) {
    if (residual.value >= representatives_.size()) {
        bytes_ += (regexes_.size() - representatives_.size()) * sizeof(Standing);
        representatives_.resize(regexes_.size());
    }
    if (representatives_[residual.value].key == RegexStore::kNothing) {
        const Standing found = representative(residual);  // the table may grow meanwhile
        representatives_[residual.value] = found;
    }
    const auto [key, extra] = representatives_[residual.value];
    if (key.value >= entries_.size()) {
        bytes_ += (regexes_.size() - entries_.size()) * sizeof(void*);
        entries_.resize(regexes_.size());
    }
    if (!entries_[key.value]) {
        auto made = make(key);
        entries_[key.value] = std::move(made);
    }
    entries_[key.value]->used = true;
    return {*entries_[key.value], key, extra};
}

std::unique_ptr<LexEntry> Lexicon::make(RegexId key) {
    std::unique_ptr<LexEntry> entry;
    const auto counter = regexes_.counter(key);
    if (regexes_.first(key).count() <= kFewBytes) {
        entry = from_search(key);
    } else if (counter && counts(*counter) && (entry = from_counter(*counter))) {
        // made
    } else if (const auto carried = regexes_.carried(key); carried && worth_a_loop(*carried)) {
        entry = from_loop(key, *carried);
    } else if (const RegexId base = regexes_.base(key); base != key) {
        entry = from_base(key, base);
    } else if (!(entry = from_relaxed(key))) {
        entry = from_walk(key);
    }
    entry->within.settle();
    entry->within.shrink();
    entry->exits.shrink_to_fit();
    index_exits(*entry);
    bytes_ += entry->bytes();
    ++count_;
    return entry;
}

size_t LexEntry::bytes() const {
    size_t total = sizeof(LexEntry) + within.bytes() + 4 * exits.capacity();
    for (const auto& [byte, nodes] : onward) total += sizeof(Onward) + 4 * nodes.capacity();
    return total;
}

void Lexicon::trim(size_t limit) {
    if (bytes_ <= limit) return;
    below_.clear();
    bytes_ -= std::exchange(below_bytes_, 0);
    for (auto& entry : entries_) {
        if (!entry || std::exchange(entry->used, false)) continue;
        bytes_ -= entry->bytes();
        entry.reset();
        --count_;
    }
    if (bytes_ <= limit / 2) return;
    representatives_ = std::vector<Standing>();
    entries_ = std::vector<std::unique_ptr<LexEntry>>();
    loops_.clear();
    bytes_ = count_ = 0;
}

void Lexicon::index_exits(LexEntry& entry) const {
    if (entry.exits.empty()) return;
    std::array<std::vector<uint32_t>, 256> by_byte;
    for (const uint32_t exit : entry.exits) {
        for (uint32_t child = trie_.children_begin(exit); child < trie_.children_end(exit); ++child) {
            by_byte[trie_.byte(child)].push_back(child);
        }
    }
    for (size_t byte = 0; byte < by_byte.size(); ++byte) {
        if (!by_byte[byte].empty()) entry.onward.push_back({static_cast<uint8_t>(byte), std::move(by_byte[byte])});
    }
}

/// Atoms whose bytes all lead the residual to the same place.
const ByteSet& Lexicon::uniform_atoms(RegexId residual) {
    const uint32_t id = regexes_.partition_id(residual);
    if (id >= uniform_.size()) uniform_.resize(id + 64);
    if (!uniform_[id]) {
        const auto& group = regexes_.partition(residual).of;
        std::array<int, 256> of_atom;
        of_atom.fill(-1);
        ByteSet& uniform = uniform_[id].emplace().set();
        for (int byte = 0; byte < 256; ++byte) {
            if (!regexes_.alphabet()[byte]) continue;
            const uint8_t atom = Quotient::atom(static_cast<uint8_t>(byte));
            if (of_atom[atom] >= 0 && of_atom[atom] != group[byte]) uniform.reset(atom);
            of_atom[atom] = group[byte];
        }
    }
    return *uniform_[id];
}

// ---------------------------------------------------------------- any residual

/// Runs of tokens found allowed and found refused: the smaller side is written into the row.
struct Lexicon::ResidualMachine {
    explicit ResidualMachine(Lexicon& lexicon) : lexicon(lexicon) {}

    using State = RegexId;
    Lexicon& lexicon;
    std::vector<std::span<const uint32_t>> allowed, refused;
    size_t allowed_count = 0, refused_count = 0;
    std::vector<uint32_t> exits;
    uint32_t worst_length = 0;

    const ByteSet& first(State state) { return lexicon.regexes_.first(state); }
    const ByteSet& uniform(State state) { return lexicon.uniform_atoms(state); }
    State step(State state, uint8_t byte) { return lexicon.regexes_.step(state, byte); }
    bool finished(State state) { return state == RegexStore::kEmpty; }
    bool exit(State state) { return lexicon.regexes_.nullable(state); }
    void allow(std::span<const uint32_t> run, State state) {
        if (run.empty()) return;
        allowed.push_back(run);
        allowed_count += run.size();
        worst_length = std::max(worst_length, lexicon.regexes_.min_length(state));
    }
    void refuse(std::span<const uint32_t> run) {
        if (run.empty()) return;
        refused.push_back(run);
        refused_count += run.size();
    }
    void leave(uint32_t node, State) { exits.push_back(node); }
    bool ok() const { return true; }
};

std::unique_ptr<LexEntry> Lexicon::from_walk(RegexId residual) {
    auto entry = std::make_unique<LexEntry>(LexEntry{TokenSet(vocabulary_size_), nullptr, 0, {}, {}});
    walk_into(*entry, residual);
    std::sort(entry->exits.begin(), entry->exits.end());
    return entry;
}

/// Adds the tokens of the residual, and its exits, to an entry.
void Lexicon::walk_into(LexEntry& entry, RegexId residual) {
    if (regexes_.first(residual).count() <= kFewBytes) return search_below(entry, Trie::kRoot, residual);
    ResidualMachine machine(*this);
    walk_tokens(trie_, quotient_, machine, residual);
    entry.worst_length = std::max(entry.worst_length, machine.worst_length);
    entry.exits.insert(entry.exits.end(), machine.exits.begin(), machine.exits.end());
    if (machine.allowed_count > kFewTokens && machine.refused_count < machine.allowed_count) {
        TokenSet most = all_;
        for (const auto run : machine.refused) most.remove(run);
        entry.within.add(most);
    } else {
        if (machine.allowed_count > kFewTokens) entry.within.make_dense();
        for (const auto run : machine.allowed) entry.within.add(run);
    }
}

/// From a residual that few bytes can go on the rest is mostly a literal: bytes are looked up, not scanned for.
std::unique_ptr<LexEntry> Lexicon::from_search(RegexId residual) {
    auto entry = std::make_unique<LexEntry>(LexEntry{TokenSet(vocabulary_size_), nullptr, 0, {}, {}});
    search_below(*entry, Trie::kRoot, residual);
    std::sort(entry->exits.begin(), entry->exits.end());
    return entry;
}

// ---------------------------------------------------------------- loops

/// The tokens of the loop are all allowed; those that leave it are few, and are looked at one trie node at a time.
std::unique_ptr<LexEntry> Lexicon::from_loop(RegexId residual, const RegexStore::Carried& carried) {
    Loop& loop = this->loop(carried.part);
    const uint32_t worst = add_lengths(loop.worst_rest(), carried.rest);
    auto entry = std::make_unique<LexEntry>(LexEntry{TokenSet(vocabulary_size_), &loop.inside(), worst, {}, {}});
    std::vector<std::pair<uint32_t, RegexId>> work;
    for (size_t byte = carried.ends._Find_first(); byte < 256; byte = carried.ends._Find_next(byte)) {
        const auto& [arrays, trie, nodes] = loop.leaving(static_cast<uint8_t>(byte));
        work.emplace_back(Trie::kRoot, residual);
        while (!work.empty()) {
            const auto [node, state] = work.back();
            work.pop_back();
            for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
                const RegexId next = regexes_.step(state, trie.byte(child));
                if (next == RegexStore::kNothing) continue;
                if (const auto tokens = trie.tokens(child); !tokens.empty()) {
                    entry->within.add(tokens);
                    entry->worst_length = std::max(entry->worst_length, regexes_.min_length(next));
                }
                if (regexes_.nullable(next) && !trie_.leaf(nodes[child])) entry->exits.push_back(nodes[child]);
                if (next != RegexStore::kEmpty && !trie.leaf(child)) work.emplace_back(child, next);
            }
        }
    }
    std::sort(entry->exits.begin(), entry->exits.end());
    return entry;
}

/// Few tokens leave C*.
bool Lexicon::worth_a_loop(const RegexStore::Carried& carried) {
    size_t count = 0;
    for (size_t byte = carried.ends._Find_first(); byte < 256; byte = carried.ends._Find_next(byte)) {
        count += loop(carried.part).onward(static_cast<uint8_t>(byte)).size();
    }
    return count <= kManyWays;
}

/// Copies of C can be told from what follows them, byte by byte.
bool Lexicon::counts(const RegexStore::Counter& counter) {
    return !(regexes_.first(counter.part) & regexes_.first(counter.tail)).any() && !regexes_.nullable(counter.tail) &&
           regexes_.prefix_free(counter.part);
}

/// Where the copies end the tail is read, in the few places where tokens go on with one of its bytes. Returns nullptr
/// if these are too many to look at one by one.
std::unique_ptr<LexEntry> Lexicon::from_counter(const RegexStore::Counter& counter) {
    Loop& loop = this->loop(counter.part);
    const ByteSet& ends = regexes_.first(counter.tail);
    size_t ways = 0;
    for (size_t byte = ends._Find_first(); byte < ends.size(); byte = ends._Find_next(byte)) {
        ways += loop.onward(static_cast<uint8_t>(byte)).size();
    }
    if (ways > kManyWays) return nullptr;
    const RegexId whole = regexes_.concat(regexes_.repeat(counter.part, counter.low, counter.high), counter.tail);
    const uint32_t worst = add_lengths(regexes_.min_length(whole), loop.worst_rest());
    auto entry = std::make_unique<LexEntry>(LexEntry{TokenSet(vocabulary_size_), &loop.up_to(counter.high), worst, {}, {}});
    if (counter.low == 0) walk_into(*entry, counter.tail);
    for (size_t byte = ends._Find_first(); byte < ends.size(); byte = ends._Find_next(byte)) {
        const RegexId next = regexes_.step(counter.tail, static_cast<uint8_t>(byte));
        for (const auto& [node, copies] : loop.onward(static_cast<uint8_t>(byte))) {
            if (copies >= counter.low && copies <= counter.high) search_below(*entry, node, next);
        }
    }
    std::sort(entry->exits.begin(), entry->exits.end());
    return entry;
}

Loop& Lexicon::loop(RegexId part) {
    std::unique_ptr<Loop>& known = loops_[part.value];
    if (!known) {
        known = std::make_unique<Loop>(part, tokens_, trie_, quotient_, regexes_,
                                       [this](RegexId residual) -> const ByteSet& { return uniform_atoms(residual); },
                                       bytes_);
    }
    return *known;
}

// ---------------------------------------------------------------- any text but some words

/// Walks both residuals side by side and looks only where they differ: on the paths of the excluded words, and below
/// only where tokens of more than `agree` bytes end (on shorter ones the two are known to agree).
std::unique_ptr<LexEntry> Lexicon::from_base(RegexId residual, RegexId base, uint32_t agree) {
    const Found plain = at(base);
    auto entry = std::make_unique<LexEntry>(LexEntry{plain.entry.within, nullptr, plain.entry.worst_length, plain.entry.exits, {}});
    if (plain.entry.loop) entry->within.add(*plain.entry.loop);
    entry->worst_length = add_lengths(entry->worst_length, plain.extra_length);
    struct Pair {
        uint32_t node;
        RegexId mine, theirs;
    };
    std::vector<Pair> work{{Trie::kRoot, residual, base}};
    std::vector<uint32_t> gained, lost;
    const auto step = [&](RegexId state, uint8_t byte) {
        return state == RegexStore::kNothing ? state : regexes_.step(state, byte);
    };
    while (!work.empty()) {
        const auto [node, mine, theirs] = work.back();
        work.pop_back();
        for (uint32_t child = trie_.children_begin(node); child < trie_.children_end(node); ++child) {
            if (trie_.longest_below(child) <= agree) continue;
            const RegexId next = step(mine, trie_.byte(child)), other = step(theirs, trie_.byte(child));
            if (next == other) continue;
            const bool allowed = next != RegexStore::kNothing, was_allowed = other != RegexStore::kNothing;
            const auto tokens = trie_.tokens(child);
            if (allowed && !tokens.empty()) {
                if (!was_allowed) entry->within.add(tokens);
                entry->worst_length = std::max(entry->worst_length, regexes_.min_length(next));
            } else if (was_allowed) {
                entry->within.remove(tokens);
            }
            if (trie_.leaf(child)) continue;
            const bool exit = allowed && regexes_.nullable(next), was_exit = was_allowed && regexes_.nullable(other);
            if (exit != was_exit) (exit ? gained : lost).push_back(child);
            work.push_back({child, next, other});
        }
    }
    std::sort(lost.begin(), lost.end());
    std::erase_if(entry->exits, [&](uint32_t node) { return std::binary_search(lost.begin(), lost.end(), node); });
    entry->exits.insert(entry->exits.end(), gained.begin(), gained.end());
    std::sort(entry->exits.begin(), entry->exits.end());
    return entry;
}

/// Let R be the residual and S the same with high bounds lifted, the least of them n. S contains R, and a text of S of
/// at most n bytes is in R: no bound can be exceeded by so few. A token of S with a completion of w bytes is therefore
/// a token of R if it has at most n - w bytes, and no completion needs more than the entry's `worst_length`.
std::unique_ptr<LexEntry> Lexicon::from_relaxed(RegexId residual) {
    const auto [relaxed, least] = regexes_.relax(residual, kHighBound);
    if (relaxed == residual) return nullptr;
    const Found plain = at(relaxed);
    const uint32_t worst = add_lengths(plain.entry.worst_length, plain.extra_length);
    return worst < least ? from_base(residual, relaxed, least - worst) : nullptr;
}

}  // namespace core
