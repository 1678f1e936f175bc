#include "lexicon.hpp"

#include "walk.hpp"

namespace core {

namespace {
constexpr size_t kFewTokens = 512;   // as a list; more than that as bits
constexpr size_t kFewBytes = 4;      // worth looking up one by one
constexpr uint32_t kHighBound = 16;  // of a counter: lifted for the sake of sharing
}

Lexicon::Lexicon(const Trie& trie, const Quotient& quotient, RegexStore& regexes, uint32_t vocabulary_size)
    : trie_(trie), quotient_(quotient), regexes_(regexes), all_(vocabulary_size), vocabulary_size_(vocabulary_size) {
    all_.add(trie.below(Trie::kRoot));
    all_.make_dense();
}

/// A residual with the same tokens and exits, shared by as many others as possible: bounds that no token reaches are
/// all the same.
RegexId Lexicon::representative(RegexId residual) {
    if (const auto counter = regexes_.counter(residual)) {
        if (const Ladder& steps = ladder(counter->part, counter->tail); steps.valid) {
            const uint32_t low = std::min(counter->low, steps.top + 1);
            const uint32_t high = counter->high > steps.top ? kInfinite : counter->high;
            return regexes_.concat(regexes_.repeat(counter->part, low, high), counter->tail);
        }
    }
    const auto [relaxed, least] = regexes_.relax(residual, trie_.longest() + 1);
    if (relaxed == residual) return residual;
    const Found plain = at(relaxed);
    const uint64_t reach = uint64_t{plain.entry.worst_length} + plain.extra_length + trie_.longest();
    return reach <= least ? relaxed : residual;  // see `from_relaxed`
}

Lexicon::Found Lexicon::at(RegexId residual) {
    if (residual.value >= representatives_.size()) representatives_.resize(regexes_.size(), RegexStore::kNothing);
    if (representatives_[residual.value] == RegexStore::kNothing) {
        const RegexId found = representative(residual);  // the table may grow meanwhile
        representatives_[residual.value] = found;
    }
    const RegexId key = representatives_[residual.value];
    if (key.value >= entries_.size()) entries_.resize(regexes_.size());
    if (!entries_[key.value]) {
        auto made = make(key);
        entries_[key.value] = std::move(made);
    }
    const uint32_t length = regexes_.min_length(residual), looked_at = regexes_.min_length(key);
    return {*entries_[key.value], key, length > looked_at ? length - looked_at : 0};
}

std::unique_ptr<LexEntry> Lexicon::make(RegexId key) {
    std::unique_ptr<LexEntry> entry;
    const auto counter = regexes_.counter(key);
    if (regexes_.first(key).count() <= kFewBytes) {
        entry = from_search(key);
    } else if (const RegexId base = regexes_.base(key); base != key) {
        entry = from_base(key, base);
    } else if (counter && ladder(counter->part, counter->tail).valid) {
        entry = from_ladder(ladder(counter->part, counter->tail), *counter);
    } else if (!(entry = from_relaxed(key))) {
        entry = from_walk(key);
    }
    entry->within.settle();
    entry->within.shrink();
    entry->exits.shrink_to_fit();
    index_exits(*entry);
    bytes_ += sizeof(LexEntry) + entry->within.bytes() + 12 * entry->exits.capacity();
    ++count_;
    return entry;
}

void Lexicon::index_exits(LexEntry& entry) const {
    std::array<std::vector<uint32_t>, 256> by_byte;
    if (entry.exits.empty()) return;
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
    ResidualMachine machine(*this);
    walk_tokens(trie_, quotient_, machine, residual);
    auto entry = std::make_unique<LexEntry>(LexEntry{TokenSet(vocabulary_size_), machine.worst_length, std::move(machine.exits), {}});
    std::sort(entry->exits.begin(), entry->exits.end());
    if (machine.allowed_count > kFewTokens && machine.refused_count < machine.allowed_count) {
        entry->within = all_;
        for (const auto run : machine.refused) entry->within.remove(run);
    } else {
        if (machine.allowed_count > kFewTokens) entry->within.make_dense();
        for (const auto run : machine.allowed) entry->within.add(run);
    }
    return entry;
}

/// From a residual that few bytes can go on the rest is mostly a literal: bytes are looked up, not scanned for.
std::unique_ptr<LexEntry> Lexicon::from_search(RegexId residual) {
    auto entry = std::make_unique<LexEntry>(LexEntry{TokenSet(vocabulary_size_), 0, {}, {}});
    std::vector<std::pair<uint32_t, RegexId>> work{{Trie::kRoot, residual}};
    const auto visit = [&](uint32_t node, RegexId before) {
        const RegexId next = regexes_.step(before, trie_.byte(node));
        if (const auto tokens = trie_.tokens(node); !tokens.empty()) {
            entry->within.add(tokens);
            entry->worst_length = std::max(entry->worst_length, regexes_.min_length(next));
        }
        if (trie_.leaf(node)) return;
        if (regexes_.nullable(next)) entry->exits.push_back(node);
        if (next != RegexStore::kEmpty) work.emplace_back(node, next);
    };
    while (!work.empty()) {
        const auto [node, state] = work.back();
        work.pop_back();
        const ByteSet& first = regexes_.first(state);
        const uint32_t begin = trie_.children_begin(node), end = trie_.children_end(node);
        if (node == Trie::kRoot || (end - begin) > 8 * first.count()) {
            for (size_t byte = first._Find_first(); byte < first.size(); byte = first._Find_next(byte)) {
                const uint32_t child = trie_.child(node, static_cast<uint8_t>(byte));
                if (child != Trie::kNone) visit(child, state);
            }
        } else {
            for (uint32_t child = begin; child < end; ++child) {
                if (first[trie_.byte(child)]) visit(child, state);
            }
        }
    }
    std::sort(entry->exits.begin(), entry->exits.end());
    return entry;
}

// ---------------------------------------------------------------- any text but some words

/// Walks both residuals side by side and looks only where they differ: on the paths of the excluded words, and below
/// only where tokens of more than `agree` bytes end (on shorter ones the two are known to agree).
std::unique_ptr<LexEntry> Lexicon::from_base(RegexId residual, RegexId base, uint32_t agree) {
    const Found plain = at(base);
    auto entry = std::make_unique<LexEntry>(LexEntry{plain.entry.within, plain.entry.worst_length, plain.entry.exits, {}});
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

// ---------------------------------------------------------------- counted copies

struct Lexicon::CountingMachine {
    struct State {
        RegexId rest;     // of the copy that was begun (empty between copies), or of the tail
        uint32_t copies;  // begun so far
        bool in_tail;
    };
    Lexicon& lexicon;
    Ladder& ladder;
    RegexId part, tail, start;  // X, the tail, X* tail
    bool counts = true;

    bool between(const State& state) const { return !state.in_tail && state.rest == RegexStore::kEmpty; }
    RegexId ahead(const State& state) const { return between(state) ? start : state.rest; }
    const ByteSet& first(const State& state) { return lexicon.regexes_.first(ahead(state)); }
    const ByteSet& uniform(const State& state) { return lexicon.uniform_atoms(ahead(state)); }
    State step(State state, uint8_t byte) {
        RegexStore& regexes = lexicon.regexes_;
        if (!between(state)) {
            state.rest = regexes.step(state.rest, byte);
        } else if (regexes.first(part)[byte]) {
            state.rest = regexes.step(part, byte);
            ++state.copies;
        } else {
            state.rest = regexes.step(tail, byte);
            state.in_tail = true;
        }
        // A copy that may end and may go on cannot be counted.
        if (!state.in_tail && state.rest != RegexStore::kEmpty && regexes.nullable(state.rest)) counts = false;
        return state;
    }
    bool finished(const State& state) { return state.in_tail && state.rest == RegexStore::kEmpty; }
    bool exit(const State& state) {
        return state.in_tail ? lexicon.regexes_.nullable(state.rest) : between(state) && lexicon.regexes_.nullable(tail);
    }
    void allow(std::span<const uint32_t> run, const State& state) {
        if (run.empty()) return;
        ladder.worst_rest = std::max(ladder.worst_rest, lexicon.regexes_.min_length(state.rest));
        if (state.in_tail) {
            ladder.after.emplace_back(run, state.copies);
        } else {
            if (ladder.begun.size() <= state.copies) ladder.begun.resize(state.copies + 1);
            ladder.begun[state.copies].push_back(run);
        }
        ladder.top = std::max(ladder.top, state.copies);
    }
    void refuse(std::span<const uint32_t>) {}
    void leave(uint32_t node, const State& state) {
        ladder.exits.emplace_back(node, state.copies);
        ladder.top = std::max(ladder.top, state.copies);
    }
    bool ok() const { return counts; }
};

Ladder& Lexicon::ladder(RegexId part, RegexId tail) {
    const auto [at, fresh] = ladders_.try_emplace({part, tail});
    Ladder& ladder = at->second;
    if (!fresh) return ladder;
    if (regexes_.nullable(part) || (regexes_.first(part) & regexes_.first(tail)).any()) return ladder;
    const RegexId start = regexes_.concat(regexes_.repeat(part, 0, kInfinite), tail);
    CountingMachine machine{*this, ladder, part, tail, start};
    walk_tokens(trie_, quotient_, machine, {RegexStore::kEmpty, 0, false});
    ladder.valid = machine.counts;
    if (!ladder.valid) return ladder = Ladder{};
    ladder.begun.resize(ladder.top + 1);
    TokenSet seen(vocabulary_size_);
    for (const auto& runs : ladder.begun) {
        for (const auto run : runs) seen.add(run);
        ladder.up_to.push_back(seen);
        bytes_ += seen.bytes();
    }
    return ladder;
}

std::unique_ptr<LexEntry> Lexicon::from_ladder(Ladder& ladder, const RegexStore::Counter& counter) {
    auto entry = std::make_unique<LexEntry>(LexEntry{ladder.up_to[std::min(counter.high, ladder.top)], 0, {}, {}});
    const auto fits = [&](uint32_t copies) { return copies >= counter.low && copies <= counter.high; };
    for (const auto& [run, copies] : ladder.after) {
        if (fits(copies)) entry->within.add(run);
    }
    for (const auto& [node, copies] : ladder.exits) {
        if (fits(copies)) entry->exits.push_back(node);
    }
    std::sort(entry->exits.begin(), entry->exits.end());
    const RegexId whole = regexes_.concat(regexes_.repeat(counter.part, counter.low, counter.high), counter.tail);
    entry->worst_length = add_lengths(regexes_.min_length(whole), ladder.worst_rest);
    return entry;
}

}  // namespace core
