#include "unique_automaton.hpp"

#include <algorithm>

#include "completion_search.hpp"

namespace core {

namespace {

void remove(std::vector<uint32_t>& bits, std::span<const uint32_t> tokens) {
    for (const uint32_t token : tokens) bits[token / 32] &= ~(1u << (token % 32));
}

bool is_space(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

}  // namespace

UniqueAutomaton::UniqueAutomaton(std::shared_ptr<Shard> shard, const FlatGrammar& grammar, uint32_t fuel, size_t limit)
    : BaseAutomaton(shard, limit), inner_(std::make_unique<Automaton>(std::move(shard), grammar, fuel, limit)),
      mark_tables_(shard_->vocabulary->mark_tables()) {
    const std::lock_guard guard(shard_->lock);
    const Work::Counted counted(shard_->work, kReadingWork, "reading its rules");
    states_.push();  // kDead
    states_.push();  // kFinished
    push_fixed_states();
    needs_trial_ = inner_->needs_trial();
    left_recursive_ = inner_->left_recursive();
    if (left_recursive_ != UINT32_MAX || inner_->start() == kDead) return;
    std::vector<uint32_t> readings{reading(inner_->start(), ItemHistories::kNothing)};
    start_ = intern(readings);
    heads_[start_].published = true;
    collect_above_ = std::max(limit_ - limit_ / 4, 2 * content_bytes());
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

/// Searches a text after which all items differ. It tries the byte of the inner completion first, and the other ones when that
/// led nowhere; when nothing else is left white space between the tokens of JSON, which makes no item another one, and so is not tried
/// twice in a row. Zeros that change nothing are not tried: 1.00 leads where 1.0 does.
void UniqueAutomaton::prove(uint32_t from) {
    const auto rest = [&](uint32_t id) { return inner_->heads_[readings_[id].inner].length; };
    CompletionSearch search(from, rest(from));
    std::vector<uint32_t> after;
    uint32_t fuel = content_bytes() > 4 * limit_ + kSearchRoom ? 0 : search_fuel_;
    const auto read = [&](uint32_t at, uint8_t byte) {
        shard_->work.spend(kSearchStep);
        const Reading before = readings_[search[at].node];
        const bool exponents = inner_->first(before.inner)['e'];
        after.clear();
        follow(search[at].node, byte, after);
        for (const uint32_t id : after) {
            if (readings_[id].verdict == Verdict::Dead) continue;
            if (byte == '0' && readings_[id].inner == before.inner && histories_.zeros_say_nothing(before.history, exponents)) continue;
            search.reach(at, byte, id, rest(id));
        }
        return fuel > 0 && --fuel > 0;
    };
    const auto spread = [&](const CompletionSearch::Next& next) {
        const uint32_t state = readings_[search[next.visit].node].inner;
        const uint32_t ahead = inner_->nearer(state);
        const uint8_t direct = inner_->heads_[state].nearer_byte;
        if (next.times == 0) {
            search.put_off(next);
            return ahead == kDead || read(next.visit, direct);
        }
        const HistoryId history = readings_[search[next.visit].node].history;
        ByteSet first = inner_->first(state);
        ByteSet between;
        for (const char byte : {' ', '\t', '\n', '\r'}) between[static_cast<uint8_t>(byte)] = first[static_cast<uint8_t>(byte)] && histories_.read(history, static_cast<uint8_t>(byte)) == history;
        const CompletionSearch::Visit& visit = search[next.visit];
        const bool behind_one = next.visit != 0 && is_space(visit.byte) && readings_[search[visit.parent].node].history == history;
        if (next.times == 1 && between.any() && !behind_one) search.put_off(next, kSpaceCost);
        first &= next.times == 1 ? ~between : between;
        for (size_t byte = first._Find_first(); byte < first.size(); byte = first._Find_next(byte)) {
            if (ahead != kDead && byte == direct) continue;
            if (!read(next.visit, static_cast<uint8_t>(byte))) return false;
        }
        return true;
    };
    while (!search.empty()) {
        const CompletionSearch::Next next = search.take();
        const uint32_t id = search[next.visit].node;
        if (readings_[id].verdict == Verdict::Live || differs(id)) {
            live(id);
            uint32_t length = readings_[id].length;
            search.way_back(next.visit, [&](uint32_t before, uint8_t byte) {
                readings_[before].verdict = Verdict::Live;
                readings_[before].length = length = add_lengths(length, 1);
                readings_[before].nearer = byte;
            });
            return;
        }
        if (!spread(next)) {
            search_exhausted_ = true;
            search_fuel_ = kSearchFuel / kLaterSearches;
            readings_[from].verdict = Verdict::Dead;
            return;
        }
    }
    for (const CompletionSearch::Visit& visit : search.visits()) readings_[visit.node].verdict = Verdict::Dead;
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
            const uint32_t id = new_id();
            for (const uint32_t one : readings) {
                heads_[id].accepts |= inner_->accepts(readings_[one].inner);
                heads_[id].length = std::min(heads_[id].length, readings_[one].length);
            }
            store_content(id, readings);
            count_.store(heads_.size(), std::memory_order_release);
            return id;
        });
}

void UniqueAutomaton::store_content(uint32_t id, std::span<const uint32_t> readings) {
    const uint32_t content = states_.push();
    State& state = states_[content];
    state.at = static_cast<uint32_t>(held_.size());
    state.count = static_cast<uint32_t>(readings.size());
    state.searched = std::ranges::none_of(readings, [&](uint32_t one) { return differs(one) && readings_[one].length == heads_[id].length; });
    held_.insert(held_.end(), readings.begin(), readings.end());
    heads_[id].content = content;
}

uint32_t UniqueAutomaton::byte_next(uint32_t state, uint8_t byte) {
    const uint64_t key = (uint64_t{state} << 8 | byte) + 1;
    if (const uint32_t known = bytes_.find(key); known != Memo::kMissing) return known;
    std::vector<uint32_t> next;
    for (uint32_t i = 0; i < state_of(state).count; ++i) follow(held(state)[i], byte, next);
    const uint32_t result = intern(next);
    bytes_.insert(key, result);
    return result;
}

ByteSet UniqueAutomaton::first_bytes(uint32_t state) {
    if (!state_of(state).has_first) {
        ByteSet first, sure;
        for (uint32_t i = 0; i < state_of(state).count; ++i) {
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
        state_of(state).first = first;
        state_of(state).has_first = true;
    }
    return state_of(state).first;
}

/// The lowest byte with which a reading as short as the state goes on: which reading is the first one a collection may change.
std::pair<uint8_t, uint32_t> UniqueAutomaton::step_nearer(uint32_t state) {
    std::optional<uint8_t> least;
    for (uint32_t i = 0; i < state_of(state).count; ++i) {
        const uint32_t id = held(state)[i], inner = readings_[id].inner;
        if (readings_[id].length != heads_[state].length || (differs(id) && inner_->nearer(inner) == kDead)) continue;
        const uint8_t byte = differs(id) ? inner_->heads_[inner].nearer_byte : readings_[id].nearer;
        least = std::min(least.value_or(byte), byte);
    }
    if (!least) return {0, kDead};
    const uint32_t next = byte_next(state, *least);
    if (next == kDead || heads_[next].length >= heads_[state].length) return {0, kDead};
    return {*least, next};
}

// ---------------------------------------------------------------- masks

/// The tokens on which an item that may become equal to an earlier one has no completion, or may still become equal.
void UniqueAutomaton::walk_close(uint32_t state, std::vector<uint32_t>& dead, std::vector<uint32_t>& close, uint32_t& worst) {
    const Trie& trie = shard_->trie;
    std::vector<std::pair<uint32_t, uint32_t>> work{{Trie::kRoot, state}};
    while (!work.empty()) {
        const auto [node, before] = work.back();
        work.pop_back();
        ByteSet possible, equal;
        for (const uint32_t id : held(before)) {
            const ByteSet first = inner_->first(readings_[id].inner);
            possible |= first;
            if (!differs(id)) equal |= first & histories_.close_bytes(readings_[id].history);
        }
        shard_->work.spend(trie.children_end(node) - trie.children_begin(node));
        for (uint32_t child = trie.children_begin(node); child < trie.children_end(node); ++child) {
            const uint8_t byte = trie.byte(child);
            if (!possible[byte]) continue;
            if (!separates(byte) && !equal[byte]) continue;  // most bytes; no state is made
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

/// Where no token reaches a mark, and no item may become equal, the mask is that of the inner state.
bool UniqueAutomaton::share_mask(uint32_t state) {
    const uint32_t id = held(state)[0], inner = readings_[id].inner;
    if (state_of(state).count != 1 || !differs(id) || !touching(inner).empty()) return false;
    if (inner_->find_mask_id(inner) == kUnset) inner_->compute_mask(inner);
    const uint32_t mask = inner_->heads_[inner].mask.load(std::memory_order_relaxed);
    if (std::ranges::any_of(mark_tables_.marked, [&](uint32_t token) { return shard_->masks.allows(mask, token); })) return false;
    publish_mask(state, mask, inner_->heads_[inner].max_remaining);
    return true;
}

void UniqueAutomaton::compute_mask(uint32_t state) {
    if (share_mask(state)) return;
    std::vector<uint32_t> bits(shard_->masks.words(), 0), base(bits.size()), dead, close;
    uint32_t worst = 0;
    for (uint32_t i = 0; i < state_of(state).count; ++i) {
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
    remove(bits, mark_tables_.marked);
    for (uint32_t i = 0; i < state_of(state).count; ++i) {
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
    for (uint32_t i = 0; i < state_of(state).count; ++i) {
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
    for (uint32_t i = 0; i < state_of(state).count; ++i) {
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
            continue;
        }
        shard_->work.spend(1 + shard_->tokens[token].size() / kBytesInStep);
        if (completes_within(token_next(state, token), budget - 1)) out[token / 32] |= 1u << (token % 32);
    }
    if (!sure.empty()) BaseAutomaton::keep_within(equivalent_state(state, 0), budget, sure, out);
}

bool UniqueAutomaton::reads_heads(uint32_t state) const {
    const auto all = held(state);
    return std::ranges::any_of(all, [&](uint32_t id) { return tracked(id) || inner_->reads_heads(readings_[id].inner); }) &&
           std::ranges::all_of(all, [&](uint32_t id) { return differs(id); });
}

uint32_t UniqueAutomaton::counting_cost(uint32_t state) const {
    const bool forgets = std::ranges::any_of(held(state), [&](uint32_t id) { return histories_.forgets(readings_[id].history) || inner_->forgets(readings_[id].inner); });
    return forgets ? kInfinite : kPlainCost;
}

std::vector<uint32_t> UniqueAutomaton::head_exits(uint32_t state) {
    std::vector<uint32_t> exits;
    for (uint32_t i = 0; i < state_of(state).count; ++i) {
        const std::vector<uint32_t> more = inner_->head_exits(readings_[held(state)[i]].inner);
        exits.insert(exits.end(), more.begin(), more.end());
    }
    return exits;
}

/// The state that forgets heads that cannot matter, and without further bytes what was written of the items: its completions are the
/// same as long as no further item begins.
uint32_t UniqueAutomaton::equivalent_state(uint32_t state, uint32_t reach) {
    if (reach == 0 && state_of(state).without_values != kUnset) return state_of(state).without_values;
    std::vector<uint32_t> readings;
    for (uint32_t i = 0; i < state_of(state).count; ++i) {
        const uint32_t id = held(state)[i];
        const auto [inner, history] = std::pair{readings_[id].inner, readings_[id].history};
        const bool heads = differs(id) && inner_->reads_heads(inner);
        readings.push_back(reading(heads ? inner_->equivalent_state(inner, reach) : inner, reach == 0 ? histories_.without_values(history) : history));
    }
    const uint32_t other = intern(readings);
    if (reach == 0) state_of(state).without_values = other;
    return other;
}

// ---------------------------------------------------------------- memory

size_t UniqueAutomaton::permanent_bytes() const {
    return content_bytes() + 4 * spelled_by_.capacity() + (heads_.size() + inner_->heads_.size()) * sizeof(Head) + 4 * (free_ids_.capacity() + inner_->free_ids_.capacity());
}

size_t UniqueAutomaton::content_bytes() const {
    return inner_->content_bytes() + histories_.bytes() + readings_.capacity() * sizeof(Reading) + reading_index_.bytes() +
           states_.size() * sizeof(State) + 4 * held_.capacity() + index_.bytes();
}

size_t UniqueAutomaton::memo_bytes() const { return inner_->memo_bytes() + tokens_.bytes() + bytes_.bytes() + touching_bytes_; }

void UniqueAutomaton::begin_call(uint32_t state) {
    search_fuel_ = kSearchFuel;
    collect_if_large(state);
    inner_->trim();
    if (memo_bytes() - inner_->memo_bytes() > limit_ / 2) forget_memos();
    restore(state);
}

void UniqueAutomaton::forget_memos() {
    const Memo::Retired retired = tokens_.retire_all();
    bytes_.retire_all();  // used only under the lock
    touching_.clear();
    touching_bytes_ = 0;
    shard_->epoch.wait_for_readers();
}

/// Adds a reading, and those on the way of its completion to where all items differ.
void UniqueAutomaton::keep_way(uint32_t id, std::vector<uint32_t>& kept) {
    std::vector<uint32_t> after;
    for (kept.push_back(id); !differs(id); kept.push_back(id)) {
        after.clear();
        follow(id, readings_[id].nearer, after);
        const uint32_t left = readings_[id].length;
        const auto next = std::ranges::find_if(after, [&](uint32_t one) { return readings_[one].verdict == Verdict::Live && readings_[one].length < left; });
        if (next == after.end()) return;
        id = *next;
    }
}

/// Without searches on the way: one that succeeded at first may now run out of fuel, because less is known.
uint32_t UniqueAutomaton::next_again(uint32_t state, uint32_t token) {
    std::vector<uint32_t> readings(held(state).begin(), held(state).end()), next;
    for (const uint8_t byte : shard_->tokens[token]) {
        next.clear();
        for (const uint32_t id : readings) follow(id, byte, next);
        std::ranges::sort(next);
        next.erase(std::ranges::unique(next).begin(), next.end());
        readings.swap(next);
    }
    return intern(readings);
}

void UniqueAutomaton::collect(const std::vector<uint32_t>& recent) {
    std::vector<uint32_t> ids = recent;
    for (uint32_t id = kFinished + 1; id < heads_.size(); ++id) {
        if (given_out(id) && heads_[id].content != kUnset && state_of(id).searched) ids.push_back(id);
    }
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    std::vector<uint32_t> kept;
    std::vector<std::pair<uint32_t, std::vector<uint32_t>>> contents;
    for (const uint32_t id : ids) {
        if (heads_[id].content == kUnset || id <= kFinished) continue;
        const auto all = held(id);
        for (const uint32_t one : std::vector<uint32_t>(all.begin(), all.end())) keep_way(one, kept);
        contents.emplace_back(id, std::vector<uint32_t>(held(id).begin(), held(id).end()));
    }
    std::ranges::sort(kept);
    kept.erase(std::ranges::unique(kept).begin(), kept.end());

    Survivors histories = histories_.nothing_kept(), numbers(readings_.size());
    std::vector<uint32_t> inner{inner_->start()};
    for (const uint32_t id : kept) {
        numbers.keep(id);
        histories.keep(readings_[id].history.value);
        inner.push_back(readings_[id].inner);
    }
    std::ranges::sort(inner);
    inner.erase(std::ranges::unique(inner).begin(), inner.end());
    histories_.collect(histories);
    inner_->collect(inner);
    numbers.number();
    std::vector<Reading> readings;
    reading_index_ = InternTable();
    for (const uint32_t id : kept) {
        Reading one = readings_[id];
        one.history = histories[one.history];
        readings.push_back(one);
        reading_index_.find_or_insert(combine(one.inner, one.history.value), [](uint32_t) { return false; }, [&] { return numbers[id]; });
    }
    readings_ = std::move(readings);

    states_.clear();
    held_ = {};
    forget_contents(ids);
    for (uint32_t id = 0; id <= kFinished; ++id) heads_[id].content = states_.push();
    for (auto& [id, held] : contents) {
        for (uint32_t& one : held) one = numbers[one];
        const uint32_t same = index_.find_or_insert(hash_words(held, 0), [&](uint32_t other) { return std::ranges::equal(this->held(other), held); }, [&] {
            store_content(id, held);
            return id;
        });
        heads_[id].content = heads_[same].content;
    }
    forget_memos();
}

}  // namespace core
