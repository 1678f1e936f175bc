#include "unique_automaton.hpp"

#include <algorithm>
#include <queue>
#include <unordered_set>

namespace core {

namespace {

void remove(std::vector<uint32_t>& bits, std::span<const uint32_t> tokens) {
    for (const uint32_t token : tokens) bits[token / 32] &= ~(1u << (token % 32));
}

}  // namespace

UniqueAutomaton::UniqueAutomaton(std::shared_ptr<Shard> shard, const FlatGrammar& grammar, uint32_t fuel, size_t limit)
    : BaseAutomaton(shard), limit_(limit), inner_(std::make_unique<Automaton>(std::move(shard), grammar, fuel, limit)) {
    const std::lock_guard guard(shard_->lock);
    states_.push();  // kDead
    states_.push();  // kFinished
    push_fixed_states();
    std::vector<uint32_t> separating;
    for (const uint32_t token : shard_->trie.in_order()) {
        if (std::ranges::any_of(shard_->tokens[token], separates)) separating.push_back(token);
        if (std::ranges::any_of(shard_->tokens[token], is_mark)) mark_tokens_.push_back(token);
    }
    separators_ = Trie::build(shard_->tokens, separating);
    if (inner_->left_recursive() != UINT32_MAX || inner_->start() == kDead) return;
    std::vector<uint32_t> readings{reading(inner_->start(), ItemHistories::kNothing)};
    start_ = intern(readings);
    heads_[start_].published = true;
}

// ---------------------------------------------------------------- readings

uint32_t UniqueAutomaton::reading(uint32_t inner, HistoryId history) {
    return reading_index_.find_or_insert(
        combine(inner, history.value), [&](uint32_t id) { return readings_[id].inner == inner && readings_[id].history == history; },
        [&] {
            readings_.push_back({inner, history});
            return static_cast<uint32_t>(readings_.size() - 1);
        });
}

/// Adds the readings after one byte. A mark that may follow it is passed; the reading before it stays if the text may also
/// go on without the mark.
void UniqueAutomaton::follow(uint32_t id, uint8_t byte, std::vector<uint32_t>& next) {
    if (is_mark(byte)) return;
    const Reading before = readings_[id];
    const uint32_t after = inner_->byte_next(before.inner, byte);
    if (after == kDead) return;
    std::vector<std::pair<uint32_t, HistoryId>> work{{after, histories_.read(before.history, byte)}};
    for (size_t i = 0; i < work.size(); ++i) {
        const auto [state, history] = work[i];
        ByteSet others = inner_->first(state);
        for (const Mark mark : kMarks) {
            const auto read = static_cast<uint8_t>(mark);
            if (!others[read]) continue;
            others.reset(read);
            const auto passed = separates(byte) ? histories_.pass(history, mark) : std::nullopt;
            if (passed) work.emplace_back(inner_->byte_next(state, read), *passed);
        }
        if (others.any() || inner_->accepts(state)) next.push_back(reading(state, history));
    }
}

bool UniqueAutomaton::live(uint32_t id) {
    if (readings_[id].verdict == Verdict::Open) {
        if (differs(id)) {
            readings_[id].verdict = Verdict::Live;
            readings_[id].length = inner_->heads_[readings_[id].inner].length;
        } else {
            prove(id);
        }
    }
    return readings_[id].verdict == Verdict::Live;
}

/// Best-first search for a text after which all items differ. It tries the byte of the inner completion first, and the other
/// ones when that led nowhere.
void UniqueAutomaton::prove(uint32_t from) {
    constexpr uint64_t kLead = 2;  // weight of a remaining byte relative to a read byte
    struct Visit {
        uint32_t reading, parent, depth;
        uint8_t byte;
    };
    struct Next {
        uint64_t cost;
        uint32_t visit;
        bool all;  // bytes are to be tried
        bool operator<(const Next& other) const { return cost != other.cost ? cost > other.cost : visit < other.visit; }
    };
    std::vector<Visit> visits;
    std::priority_queue<Next> queue;
    std::unordered_set<uint32_t> seen;
    std::vector<uint32_t> after;
    const auto cost = [&](const Visit& visit) { return visit.depth + kLead * inner_->heads_[readings_[visit.reading].inner].length; };
    const auto add = [&](const Visit& visit) {
        if (readings_[visit.reading].verdict == Verdict::Dead || !seen.insert(visit.reading).second) return;
        visits.push_back(visit);
        queue.push({cost(visit), static_cast<uint32_t>(visits.size() - 1), false});
    };
    uint32_t fuel = permanent_bytes() > 4 * limit_ ? 0 : kSearchFuel;  // what a search visits stays in memory
    const auto read = [&](uint32_t at, uint8_t byte) {
        const Visit visit = visits[at];
        after.clear();
        follow(visit.reading, byte, after);
        for (const uint32_t next : after) add({next, at, visit.depth + 1, byte});
        return fuel > 0 && --fuel > 0;
    };
    const auto spread = [&](const Next& next) {
        const uint32_t state = readings_[visits[next.visit].reading].inner;
        const uint32_t ahead = inner_->nearer(state);
        const uint8_t direct = inner_->heads_[state].nearer_byte;
        if (!next.all) {
            queue.push({cost(visits[next.visit]) + kLead, next.visit, true});
            return ahead == kDead || read(next.visit, direct);
        }
        const ByteSet first = inner_->first(state);
        for (size_t byte = first._Find_first(); byte < first.size(); byte = first._Find_next(byte)) {
            if (ahead != kDead && byte == direct) continue;
            if (!read(next.visit, static_cast<uint8_t>(byte))) return false;
        }
        return true;
    };
    add({from, 0, 0, 0});
    while (!queue.empty()) {
        const Next next = queue.top();
        queue.pop();
        const uint32_t id = visits[next.visit].reading;
        if (readings_[id].verdict == Verdict::Live || differs(id)) {
            live(id);
            uint32_t length = readings_[id].length;
            for (uint32_t i = next.visit; i != 0; i = visits[i].parent) {
                Reading& before = readings_[visits[visits[i].parent].reading];
                before.verdict = Verdict::Live;
                before.length = length = add_lengths(length, 1);
                before.nearer = visits[i].byte;
            }
            return;
        }
        if (!spread(next)) {
            search_exhausted_ = true;
            readings_[from].verdict = Verdict::Dead;
            return;
        }
    }
    for (const Visit& visit : visits) readings_[visit.reading].verdict = Verdict::Dead;
}

// ---------------------------------------------------------------- states

uint32_t UniqueAutomaton::intern(std::vector<uint32_t>& readings) {
    std::ranges::sort(readings);
    const auto same = std::ranges::unique(readings);
    readings.erase(same.begin(), same.end());
    std::erase_if(readings, [&](uint32_t id) { return !live(id); });
    if (readings.empty()) return kDead;
    return index_.find_or_insert(
        hash_words(readings, 0), [&](uint32_t id) { return std::ranges::equal(held(id), readings); },
        [&] {
            const uint32_t id = states_.push();
            states_[id].at = static_cast<uint32_t>(held_.size());
            states_[id].count = static_cast<uint32_t>(readings.size());
            held_.insert(held_.end(), readings.begin(), readings.end());
            Head& head = heads_[heads_.push()];
            for (const uint32_t one : readings) {
                head.accepts |= inner_->accepts(readings_[one].inner);
                head.length = std::min(head.length, readings_[one].length);
            }
            head.content = id;
            count_.store(heads_.size(), std::memory_order_release);
            return id;
        });
}

uint32_t UniqueAutomaton::byte_next(uint32_t state, uint8_t byte) {
    const uint64_t key = (uint64_t{state} << 8 | byte) + 1;
    if (const uint32_t known = bytes_.find(key); known != Memo::kMissing) return known;
    std::vector<uint32_t> next;
    for (uint32_t i = 0; i < states_[state].count; ++i) follow(held(state)[i], byte, next);
    const uint32_t result = intern(next);
    bytes_.insert(key, result);
    return result;
}

ByteSet UniqueAutomaton::first_bytes(uint32_t state) {
    if (!states_[state].has_first) {
        ByteSet first, sure;
        for (uint32_t i = 0; i < states_[state].count; ++i) {
            const uint32_t id = held(state)[i];
            const ByteSet possible = inner_->first(readings_[id].inner);
            first |= possible;
            if (!differs(id)) continue;
            for (size_t byte = possible._Find_first(); byte < 256; byte = possible._Find_next(byte)) sure.set(byte, !separates(static_cast<uint8_t>(byte)));
        }
        for (const Mark mark : kMarks) first.reset(static_cast<uint8_t>(mark)), sure.reset(static_cast<uint8_t>(mark));
        for (size_t byte = first._Find_first(); byte < 256; byte = first._Find_next(byte)) {
            if (!sure[byte] && byte_next(state, static_cast<uint8_t>(byte)) == kDead) first.reset(byte);
        }
        states_[state].first = first;
        states_[state].has_first = true;
    }
    return states_[state].first;
}

std::pair<uint8_t, uint32_t> UniqueAutomaton::step_nearer(uint32_t state) {
    const auto all = held(state);
    const uint32_t id = *std::ranges::min_element(all, {}, [&](uint32_t one) { return readings_[one].length; });
    uint8_t byte = readings_[id].nearer;
    if (differs(id)) {
        if (inner_->nearer(readings_[id].inner) == kDead) return {0, kDead};
        byte = inner_->heads_[readings_[id].inner].nearer_byte;
    }
    const uint32_t next = byte_next(state, byte);
    if (next == kDead || heads_[next].length >= heads_[state].length) return {0, kDead};
    return {byte, next};
}

// ---------------------------------------------------------------- masks

/// The tokens on which an item that may become equal to an earlier one has no completion, or may still become equal.
void UniqueAutomaton::walk_close(uint32_t state, std::vector<uint32_t>& dead, std::vector<uint32_t>& close, uint32_t& worst) {
    const Trie& trie = shard_->trie;
    std::vector<std::pair<uint32_t, uint32_t>> work{{Trie::kRoot, state}};
    while (!work.empty()) {
        const auto [node, before] = work.back();
        work.pop_back();
        ByteSet possible;
        for (const uint32_t id : held(before)) possible |= inner_->first(readings_[id].inner);
        for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
            const uint8_t byte = trie.byte(child);
            if (!possible[byte]) continue;
            const auto apart = [&](uint32_t id) { return !inner_->first(readings_[id].inner)[byte] || histories_.differs_after(readings_[id].history, byte); };
            if (!separates(byte) && std::ranges::all_of(held(before), apart)) continue;  // most bytes; no state is made
            const uint32_t next = byte_next(before, byte);
            if (next == kDead) {
                const auto lost = trie.subtree_tokens(child);
                dead.insert(dead.end(), lost.begin(), lost.end());
                continue;
            }
            const auto after = held(next);
            if (std::ranges::all_of(after, [&](uint32_t id) { return differs(id); })) continue;
            const auto here = trie.tokens(child);
            close.insert(close.end(), here.begin(), here.end());
            if (!here.empty()) worst = std::max(worst, heads_[next].length);
            if (!trie.leaf(child)) work.emplace_back(child, next);
        }
    }
}

void UniqueAutomaton::compute_mask(uint32_t state) {
    std::vector<uint32_t> bits(shard_->masks.words(), 0), base(bits.size()), dead, close;
    uint32_t worst = 0;
    for (uint32_t i = 0; i < states_[state].count; ++i) {
        const uint32_t id = held(state)[i], inner = readings_[id].inner;
        do {
            if (inner_->find_mask_id(inner) == kUnset) inner_->compute_mask(inner);
        } while (!inner_->find_mask_bits(inner, base.data()));
        worst = std::max(worst, inner_->heads_[inner].max_remaining);
        remove(base, touching(inner));
        if (!differs(id)) {
            std::vector<uint32_t> alone{id};
            dead.clear();
            walk_close(intern(alone), dead, close, worst);
            remove(base, dead);
        }
        for (size_t word = 0; word < bits.size(); ++word) bits[word] |= base[word];
    }
    remove(bits, mark_tokens_);
    for (uint32_t i = 0; i < states_[state].count; ++i) {
        for (const uint32_t token : touching(readings_[held(state)[i]].inner)) {
            const uint32_t next = token_next(state, token);
            if (next == kDead) continue;
            bits[token / 32] |= 1u << (token % 32);
            worst = std::max(worst, heads_[next].length);
        }
    }
    scratch_.clear();
    scratch_.add_bits(bits);
    if (heads_[state].accepts) add_eos(scratch_);
    publish_mask(state, shard_->masks.intern(scratch_), worst);
}

// ---------------------------------------------------------------- token limits

/// The tokens of a state of which the inner automaton does not know how they go on, ascending: those that reach a mark or may
/// still lead to an equal item.
std::vector<uint32_t> UniqueAutomaton::apart(uint32_t state) {
    std::vector<uint32_t> tokens;
    uint32_t worst = 0;
    for (uint32_t i = 0; i < states_[state].count; ++i) {
        const uint32_t id = held(state)[i];
        const Touching& reaching = touching(readings_[id].inner);
        tokens.insert(tokens.end(), reaching.begin(), reaching.end());
        if (differs(id)) continue;
        std::vector<uint32_t> alone{id};
        const uint32_t one = intern(alone);
        walk_close(one, tokens, tokens, worst);
    }
    std::ranges::sort(tokens);
    return tokens;
}

const TokenSet* UniqueAutomaton::within_budget(uint32_t state, uint32_t budget) {
    const std::vector<uint32_t> unsure = apart(state);
    std::vector<uint32_t> bits(shard_->masks.words(), 0);
    for (uint32_t i = 0; i < states_[state].count; ++i) {
        const TokenSet* sure = inner_->within_budget(readings_[held(state)[i]].inner, budget);
        for (size_t word = 0; word < bits.size(); ++word) bits[word] |= sure->bits()[word];
    }
    remove(bits, unsure);
    scratch_.clear();
    scratch_.add_bits(bits);
    return &scratch_;
}

void UniqueAutomaton::keep_within(uint32_t state, uint32_t budget, std::span<const uint32_t> places, uint32_t* out) {
    const std::vector<uint32_t> unsure = apart(state);
    std::vector<uint32_t> sure;
    for (const uint32_t place : places) {
        const uint32_t token = shard_->trie.in_order()[place];
        if (!std::ranges::binary_search(unsure, token)) {
            sure.push_back(place);
        } else if (completes_within(token_next(state, token), budget - 1)) {
            out[token / 32] |= 1u << (token % 32);
        }
    }
    if (!sure.empty()) BaseAutomaton::keep_within(interchangeable(state, 0), budget, sure, out);
}

bool UniqueAutomaton::reads_heads(uint32_t state) const {
    const auto all = held(state);
    return std::ranges::any_of(all, [&](uint32_t id) { return tracked(id); }) && std::ranges::all_of(all, [&](uint32_t id) { return differs(id); });
}

/// The state that forgets what was written of the items: its completions are the same as long as no further item begins.
uint32_t UniqueAutomaton::interchangeable(uint32_t state, uint32_t reach) {
    if (reach > 0) return state;
    if (states_[state].without_values == kUnset) {
        std::vector<uint32_t> readings;
        for (uint32_t i = 0; i < states_[state].count; ++i) {
            const Reading held = readings_[this->held(state)[i]];
            readings.push_back(reading(held.inner, histories_.without_values(held.history)));
        }
        const uint32_t other = intern(readings);
        states_[state].without_values = other;
    }
    return states_[state].without_values;
}

// ---------------------------------------------------------------- memory

size_t UniqueAutomaton::permanent_bytes() const {
    return inner_->permanent_bytes() + histories_.bytes() + readings_.capacity() * sizeof(Reading) + reading_index_.bytes() +
           states_.size() * (sizeof(State) + sizeof(Head)) + 4 * (held_.capacity() + spelled_by_.capacity()) + index_.bytes();
}

size_t UniqueAutomaton::memo_bytes() const { return inner_->memo_bytes() + tokens_.bytes() + bytes_.bytes() + touching_bytes_ + 64 * spelled_.size(); }

void UniqueAutomaton::begin_call(uint32_t) {
    inner_->trim();
    if (memo_bytes() - inner_->memo_bytes() <= limit_ / 2) return;
    const Memo::Retired retired = tokens_.retire_all();
    bytes_.retire_all();  // used only under the lock
    touching_.clear();
    touching_bytes_ = 0;
    spelled_.clear();
    shard_->epoch.wait_for_readers();
}

}  // namespace core
