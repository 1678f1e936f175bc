#include "lexer_automaton.hpp"

#include <algorithm>
#include <unordered_set>

#include "completion_search.hpp"
#include "trie_walk.hpp"

namespace core {

/// A state under construction.
struct LexerAutomaton::StateBuilder {
    std::vector<Branch> branches;
    std::vector<Item> items;
    bool accepts = false;
};

LexerAutomaton::LexerAutomaton(std::shared_ptr<Shard> shard, const FlatGrammar& grammar, const Tokens& tokens,
                               uint32_t fuel, size_t limit)
    : BaseAutomaton(std::move(shard), limit),
      regexes_(shard_->regexes),
      lexer_(regexes_),
      basic_lexer_(tokens.basic_lexer),
      fuel_(fuel),
      search_fuel_(fuel) {
    const std::lock_guard guard(shard_->lock);
    const Work::Counted counted(shard_->work, kReadingWork, "reading its rules");
    const auto count = static_cast<uint32_t>(tokens.ranks.size());
    if (tokens.regexes.size() != count || tokens.inherits_rank_from.size() != count || tokens.shortest.size() != count) {
        throw std::invalid_argument("malformed grammar: tokens");
    }
    const auto length_of = [&](RegexId regex) {
        return regexes_.min_length_within(regex, fuel);
    };
    std::vector<Lexer::Token> made;
    std::vector<int32_t> token_of(grammar.terminals.size(), -1);  // by node
    for (uint32_t i = 0; i < count; ++i) {
        const RegexId regex = grammar.terminals[tokens.regexes[i]];
        const uint32_t length = length_of(regex);
        if (length == 0) throw std::invalid_argument("malformed grammar: empty token");
        for (const int32_t host : tokens.inherits_rank_from[i]) {
            if (static_cast<uint32_t>(host < 0 ? ~host : host) >= count) throw std::invalid_argument("malformed grammar: host");
        }
        token_of[tokens.regexes[i]] = static_cast<int32_t>(i);
        made.push_back({length == kInfinite ? RegexStore::kEmptyLanguage : regex, tokens.ranks[i], tokens.inherits_rank_from[i],
                        tokens.shortest[i]});
        if (length != kInfinite) all_tokens_.push_back(i);
    }
    lexer_.set_tokens(std::move(made));
    read_rules(grammar, exprs_, [&](int32_t row) {
        const RegexId regex = grammar.terminals[row];
        const uint32_t length = length_of(regex);
        if (length == kInfinite) return RuleExprStore::kEmptyLanguage;
        if (regex == RegexStore::kEpsilon) return RuleExprStore::kEpsilon;
        const uint32_t symbol = token_of[row] >= 0 ? static_cast<uint32_t>(token_of[row]) : count + regex.value;
        return exprs_.terminal({symbol}, length);
    });

    states_.push();  // kDead
    states_.push();  // kFinished
    push_fixed_states();
    states_[kDead].verdict = Verdict::Dead;
    states_[kFinished].verdict = Verdict::Live;
    collect_above_ = limit_ - limit_ / 4;
    left_recursive_ = exprs_.left_recursive();
    if (left_recursive_ != UINT32_MAX || exprs_.rule_length(grammar.start) == kInfinite) return;
    StateBuilder builder;
    enter(gss_.push(exprs_.call(grammar.start), Gss::kEnd), RegexStore::kEmptyLanguage, builder);
    const uint32_t start = intern(builder);
    if (live(start)) {
        start_ = start;
        heads_[start].published = true;
    } else if (!search_exhausted_) {
        explain(start);
    }
}

// ---------------------------------------------------------------- parser states

/// The parser state of a continuation.
uint32_t LexerAutomaton::parser_state(ContinuationId after) {
    if (gss_.closure(after) != kUnset) return gss_.closure(after);
    ParserState made;
    made.after = after;
    std::map<uint32_t, ContinuationId> symbols;
    made.accepts = collect_first(after, [&](uint32_t symbol, ContinuationId rest) {
        const auto [at, fresh] = symbols.try_emplace(symbol, rest);
        if (!fresh) at->second = gss_.join(at->second, rest);
    });
    const auto tokens = static_cast<uint32_t>(lexer_.token_count());
    std::vector<uint32_t> candidates;
    for (const auto& [symbol, rest] : symbols) {
        if (symbol < tokens) {
            made.tokens.emplace_back(symbol, rest);
            candidates.push_back(symbol);
        } else {
            made.items.emplace_back(RegexId{symbol - tokens}, rest);
        }
    }
    if (!candidates.empty()) made.lexer = lexer_.start(basic_lexer_ ? all_tokens_ : candidates);
    parser_state_bytes_ += sizeof made + made.tokens.capacity() * sizeof made.tokens[0] + made.items.capacity() * sizeof made.items[0];
    parser_states_.push_back(std::move(made));
    return gss_.closure(after) = static_cast<uint32_t>(parser_states_.size() - 1);
}

/// Adds the branches and items of `after` at a token boundary.
void LexerAutomaton::enter(ContinuationId after, RegexId rival, StateBuilder& builder) {
    const uint32_t at = parser_state(after);
    const ParserState& here = parser_states_[at];
    builder.accepts |= here.accepts;
    if (here.lexer != Lexer::kNone) builder.branches.push_back({at, here.lexer, rival});
    for (const auto& [residual, rest] : here.items) builder.items.push_back({residual, rest});
}

// ---------------------------------------------------------------- states

/// A lower bound of the bytes of a completion: the minimum length of its terminals, ignoring the lexer.
uint32_t LexerAutomaton::bound(const Branch& branch) {
    const auto& tokens = parser_states_[branch.parser_state].tokens;
    uint32_t least = kInfinite;
    for (const Lexer::LiveTerminal& terminal : lexer_[branch.lexer].terminals) {
        if (terminal.residual == RegexStore::kEpsilon) continue;
        const auto at = std::ranges::lower_bound(tokens, terminal.token, {}, &std::pair<uint32_t, ContinuationId>::first);
        if (at == tokens.end() || at->first != terminal.token) continue;
        const uint32_t rest = std::max(1u, regexes_.min_length(terminal.residual));
        least = std::min(least, add_lengths(rest, gss_.min_length(at->second)));
    }
    return least;
}

uint64_t LexerAutomaton::hash_of(std::span<const Branch> branches, std::span<const Item> items, bool accepts) {
    uint64_t hash = accepts;
    for (const Branch& branch : branches) hash = combine(combine(combine(hash, branch.parser_state), branch.lexer), branch.rival.value);
    for (const Item& item : items) hash = combine(combine(hash, item.residual.value), item.after.value);
    return hash;
}

uint32_t LexerAutomaton::intern(StateBuilder& builder) {
    auto& [branches, items, accepts] = builder;
    std::ranges::sort(branches);
    branches.erase(std::unique(branches.begin(), branches.end()), branches.end());
    uint32_t least = accepts ? 0 : kInfinite;
    std::erase_if(branches, [&](const Branch& branch) {
        // If every terminal of the branch would complete a rival, the branch is not the lexer's.
        const RegexId own = lexer_[branch.lexer].rival;
        if (branch.rival != RegexStore::kEmptyLanguage && regexes_.union_of({own, branch.rival}) == branch.rival) return true;
        const uint32_t length = bound(branch);
        least = std::min(least, length);
        return length == kInfinite;
    });
    merge_items(items);
    for (const Item& item : items) {
        least = std::min(least, add_lengths(regexes_.min_length(item.residual), gss_.min_length(item.after)));
    }
    if (least == kInfinite) return kDead;
    return index_.find_or_insert(
        hash_of(branches, items, accepts),
        [&](uint32_t id) {
            const State& state = state_of(id);
            return heads_[id].accepts == accepts && state.branches_count == branches.size() && state.items_count == items.size() &&
                   std::equal(branches.begin(), branches.end(), branches_.begin() + state.branches_at) &&
                   std::equal(items.begin(), items.end(), items_.begin() + state.items_at);
        },
        [&] {
            const uint32_t id = new_id(), content = states_.push();
            State& state = states_[content];
            state.branches_at = static_cast<uint32_t>(branches_.size());
            state.branches_count = static_cast<uint32_t>(branches.size());
            state.items_at = static_cast<uint32_t>(items_.size());
            state.items_count = static_cast<uint32_t>(items.size());
            Head& head = heads_[id];
            head.content = content;
            head.accepts = accepts;
            state.bound = least;
            branches_.insert(branches_.end(), branches.begin(), branches.end());
            items_.insert(items_.end(), items.begin(), items.end());
            if (accepts) state.verdict = Verdict::Live, head.length = 0;
            uint32_t partition = regexes_.partition_id(RegexStore::kEmptyLanguage);
            for (const Branch& branch : branches) {
                partition = regexes_.refine(partition, lexer_[branch.lexer].partition);
                partition = regexes_.refine(partition, regexes_.partition_id(branch.rival));
            }
            for (const Item& item : items) partition = regexes_.refine(partition, regexes_.partition_id(item.residual));
            state.partition = partition;
            count_.store(heads_.size(), std::memory_order_release);
            return id;
        });
}

/// The state after one byte, which may be a dead end.
uint32_t LexerAutomaton::unproven_next(uint32_t id, uint8_t byte) {
    if (!shard_->alphabet[byte]) return kDead;
    State& state = state_of(id);
    if (state.moves == kUnset) {
        state.moves = static_cast<uint32_t>(moves_.size());
        moves_.resize(moves_.size() + regexes_.partition_at(state.partition).count, kUnset);
    }
    const uint32_t slot = state.moves + regexes_.partition_at(state.partition).of[byte];
    if (moves_[slot] != kUnset) return moves_[slot];
    shard_->work.spend(8 + 4 * state.branches_count + state.items_count);
    StateBuilder builder;
    for (uint32_t i = 0; i < state.branches_count; ++i) {
        Branch branch = branches_[state.branches_at + i];
        branch.rival = regexes_.step(branch.rival, byte);
        if (regexes_.nullable(branch.rival)) continue;
        branch.lexer = lexer_.step(branch.lexer, byte);
        const Lexer::State& read = lexer_[branch.lexer];
        if (read.open) builder.branches.push_back(branch);
        if (read.winner == Lexer::kNoToken) continue;
        const auto& tokens = parser_states_[branch.parser_state].tokens;
        const auto at = std::ranges::lower_bound(tokens, read.winner, {}, &std::pair<uint32_t, ContinuationId>::first);
        if (at == tokens.end() || at->first != read.winner) continue;
        enter(at->second, regexes_.union_of({branch.rival, read.rival}), builder);
    }
    std::optional<ContinuationId> arrived;
    for (uint32_t i = 0; i < state.items_count; ++i) {
        const Item item = items_[state.items_at + i];
        const RegexId residual = regexes_.step(item.residual, byte);
        if (residual == RegexStore::kEmptyLanguage) continue;
        if (residual != RegexStore::kEpsilon) builder.items.push_back({residual, item.after});
        if (regexes_.nullable(residual)) arrived = arrived ? gss_.join(*arrived, item.after) : item.after;
    }
    if (arrived) enter(*arrived, RegexStore::kEmptyLanguage, builder);
    const uint32_t next = intern(builder);
    moves_[slot] = next;
    return next;
}

uint32_t LexerAutomaton::byte_next(uint32_t state, uint8_t byte) {
    const uint32_t next = unproven_next(state, byte);
    return live(next) ? next : kDead;
}

// ---------------------------------------------------------------- proofs

bool LexerAutomaton::live(uint32_t state) {
    if (state_of(state).verdict == Verdict::Open) prove(state);
    return state_of(state).verdict == Verdict::Live;
}

/// Searches a completion; it stops at a state with a known one. All states on the way are proven with it, so a growing text
/// costs one or two steps per byte.
void LexerAutomaton::prove(uint32_t from) {
    const auto rest = [&](uint32_t id) { return state_of(id).verdict == Verdict::Live ? heads_[id].length : state_of(id).bound; };
    CompletionSearch search(from, rest(from));
    for (uint32_t fuel = search_fuel_; !search.empty(); --fuel) {
        const uint32_t at = search.take().visit, here = search[at].node;
        if (state_of(here).verdict == Verdict::Live) {
            uint32_t length = heads_[here].length;
            search.way_back(at, [&](uint32_t before, uint8_t byte) {
                state_of(before).verdict = Verdict::Live;
                state_of(before).witness = byte;
                heads_[before].length = length = add_lengths(length, 1);
            });
            return;
        }
        if (fuel == 0) {  // successors of a dead end are dead ends: search less for each
            search_fuel_ = std::max(kLeastFuel, search_fuel_ / 2);
            search_exhausted_ = true;
            state_of(from).verdict = Verdict::Dead;
            return;
        }
        const std::vector<uint8_t> bytes = regexes_.bytes_of_classes(state_of(here).partition);
        shard_->work.spend(1 + bytes.size() / kMovesInStep);  // beside moves that are new
        for (const uint8_t byte : bytes) {
            const uint32_t next = unproven_next(here, byte);
            if (state_of(next).verdict != Verdict::Dead) search.reach(at, byte, next, rest(next));
        }
    }
    for (const CompletionSearch::Visit& visit : search.visits()) state_of(visit.node).verdict = Verdict::Dead;
}

/// Explains an unsatisfiable grammar: pairs of tokens that never stand next to each other in the states of a short search.
void LexerAutomaton::explain(uint32_t from) {
    constexpr size_t kLimit = 500;
    const RegexId anything = regexes_.complement(RegexStore::kEmptyLanguage);
    std::set<std::pair<uint32_t, uint32_t>> possible;
    std::vector<uint32_t> states{from};
    std::unordered_set<uint32_t> seen{from};
    for (size_t i = 0; i < states.size() && i < kLimit; ++i) {
        const State& state = state_of(states[i]);
        for (const uint8_t byte : regexes_.bytes_of_classes(state.partition)) {
            for (uint32_t k = 0; k < state.branches_count; ++k) {
                const Branch branch = branches_[state.branches_at + k];
                const RegexId rival = regexes_.step(branch.rival, byte);
                const Lexer::State& read = lexer_[lexer_.step(branch.lexer, byte)];
                if (read.winner == Lexer::kNoToken || regexes_.nullable(rival)) continue;
                for (const auto& [token, rest] : parser_states_[branch.parser_state].tokens) {
                    if (token != read.winner) continue;
                    const RegexId taken = regexes_.union_of({rival, read.rival});
                    const uint32_t follows = parser_state(rest);
                    const std::vector<std::pair<uint32_t, ContinuationId>> others = parser_states_[follows].tokens;
                    for (const auto& [other, unused] : others) {
                        const RegexId free = regexes_.intersect(
                            {lexer_.token(other).regex, regexes_.complement(regexes_.concat(taken, anything))});
                        const bool fits = regexes_.min_length(free) != kInfinite;
                        (fits ? possible : conflicting_tokens_).insert({token, other});
                    }
                }
            }
            const uint32_t next = unproven_next(states[i], byte);
            if (next != kDead && seen.insert(next).second) states.push_back(next);
        }
    }
    for (const auto& pair : possible) conflicting_tokens_.erase(pair);
}

/// Bytes that may come next.
ByteSet LexerAutomaton::first_bytes(uint32_t id) {
    constexpr uint32_t kBytesInStep = 32;
    ByteSet bytes;
    std::array<int8_t, 256> live;  // by byte class
    live.fill(-1);
    const uint32_t partition = state_of(id).partition;
    for (int byte = 0; byte < 256; ++byte) {
        if (!shard_->alphabet[byte]) continue;
        int8_t& known = live[regexes_.partition_at(partition).of[byte]];
        if (known < 0) known = byte_next(id, static_cast<uint8_t>(byte)) != kDead;
        bytes[byte] = known;
    }
    shard_->work.spend(256 / kBytesInStep + regexes_.partition_at(partition).count / kMovesInStep);
    return bytes;
}

// ---------------------------------------------------------------- masks

/// The machine of `walk_tokens` that computes a mask.
class LexerMaskWalk {
public:
    using State = LexerAutomaton::Cell*;
    LexerAutomaton& automaton;
    TokenSet& tokens;
    uint32_t worst = 0;

    const ByteSet& first(State cell) { return spread(cell).first; }
    const ByteSet& uniform(State cell) { return spread(cell).uniform; }
    State step(State cell, uint8_t byte) { return spread(cell).next[byte]; }
    bool finished(State cell) { return spread(cell).first.none(); }
    bool exit(State) const { return false; }
    void allow(std::span<const uint32_t> run, State cell) {
        if (run.empty()) return;
        tokens.add(run);
        worst = std::max(worst, cell->length);
    }
    void refuse(std::span<const uint32_t>) {}
    void leave(uint32_t, State) {}
    bool ok() const { return true; }

private:
    const LexerAutomaton::Cell& spread(State cell) {
        if (!cell->spread) automaton.spread(*cell);
        return *cell;
    }
};

LexerAutomaton::Cell* LexerAutomaton::cell(uint32_t state) {
    if (state == kDead) return nullptr;
    if (cell_of_.size() <= state) cell_of_.resize(heads_.size(), nullptr);
    if (!cell_of_[state]) {
        if (cells_used_ == cells_.size()) cells_.emplace_back();
        Cell& made = *(cell_of_[state] = &cells_[cells_used_++]);
        made.state = state;
        made.length = heads_[state].length;
        made.spread = false;
    }
    return cell_of_[state];
}

void LexerAutomaton::spread(Cell& made) {
    const RegexStore::Partition partition = regexes_.partition_at(state_of(made.state).partition);  // a copy: the store grows
    std::array<Cell*, 256> after;
    ByteSet known;  // partition classes
    made.first.reset();
    for (int byte = 0; byte < 256; ++byte) {
        made.next[byte] = nullptr;
        if (!shard_->alphabet[byte]) continue;
        const uint8_t group = partition.of[byte];
        if (!known[group]) after[group] = cell(byte_next(made.state, static_cast<uint8_t>(byte)));
        known.set(group);
        made.next[byte] = after[group];
        made.first[byte] = after[group] != nullptr;
    }
    made.uniform = ByteClasses::instance().uniform(shard_->alphabet, [&](uint8_t byte) { return made.next[byte]; });
    made.spread = true;
}

void LexerAutomaton::compute_mask(uint32_t id) {
    scratch_.clear();
    const uint32_t worst = id > kFinished ? walk_mask(id) : 0;
    if (heads_[id].accepts) add_eos(scratch_);
    publish_mask(id, shard_->masks.intern(scratch_), worst);
}

uint32_t LexerAutomaton::walk_mask(uint32_t id) {
    constexpr int kFewBytes = 8;
    cells_used_ = 0;
    LexerMaskWalk walk{*this, scratch_};
    Cell* const from = cell(id);
    const ByteSet first = walk.first(from);
    if (first.count() <= kFewBytes) {
        const Trie& trie = shard_->trie;
        for (size_t byte = first._Find_first(); byte < first.size(); byte = first._Find_next(byte)) {
            const uint32_t node = trie.child(Trie::kRoot, static_cast<uint8_t>(byte));
            if (node != Trie::kNone) walk_subtree(trie, walk, from, node);
        }
    } else {
        walk_tokens(shard_->trie, shard_->vocabulary->tables.byte_class_trie, walk, from);
    }
    State& state = state_of(id);
    state.walked_at = static_cast<uint32_t>(walked_.size()), state.walked_count = static_cast<uint32_t>(cells_used_);
    for (size_t i = 0; i < cells_used_; ++i) {
        cell_of_[cells_[i].state] = nullptr;
        walked_.push_back(cells_[i].state);
    }
    return walk.worst;
}

// ---------------------------------------------------------------- completions

/// The states on the path of the stored completion store its rest.
std::pair<uint8_t, uint32_t> LexerAutomaton::step_nearer(uint32_t id) {
    const uint8_t byte = state_of(id).witness;
    return {byte, unproven_next(id, byte)};
}

// ---------------------------------------------------------------- memory

size_t LexerAutomaton::permanent_bytes() const {
    return content_bytes() + heads_.size() * sizeof(Head) + cells_.size() * sizeof(Cell) + 8 * cell_of_.capacity() + 4 * (free_ids_.capacity() + spelled_by_.capacity());
}

size_t LexerAutomaton::content_bytes() const {
    return states_.size() * sizeof(State) + branches_.capacity() * sizeof(Branch) + items_.capacity() * sizeof(Item) + 4 * (moves_.capacity() + walked_.capacity()) +
           parser_state_bytes_ + index_.bytes() + lexer_.bytes() + exprs_.bytes() + gss_.bytes();
}

size_t LexerAutomaton::memo_bytes() const { return tokens_.bytes() + gss_.join_memo_bytes() + opening_bytes(); }

void LexerAutomaton::begin_call(uint32_t state) {
    search_fuel_ = fuel_;  // in every call: what a mask found to have a completion is found again when that was forgotten
    collect_if_large(state);
    if (memo_bytes() > limit_ / 4) forget_memos();
}

void LexerAutomaton::forget_memos() {
    const Memo::Retired retired = tokens_.retire_all();
    gss_.clear_join_memo();
    openings_.clear();
    openings_count_ = 0;
    shard_->epoch.wait_for_readers();
}

/// Keeps what was given out, whenever it was used, what the masks of the recent states went through, and the completions of both.
void LexerAutomaton::collect(const std::vector<uint32_t>& recent) {
    std::vector<uint32_t> ids;
    std::vector<bool> kept(heads_.size()), used(heads_.size());
    const auto keep = [&](uint32_t id) {
        while (id != kDead && !kept[id]) {
            kept[id] = true;
            ids.push_back(id);
            id = heads_[id].length == 0 ? kDead : unproven_next(id, state_of(id).witness);
        }
    };
    for (uint32_t id = kFinished + 1; id < kept.size(); ++id) {
        if (given_out(id)) keep(id);
    }
    for (const uint32_t id : recent) {
        used[id] = true;
        for (uint32_t i = 0; i < state_of(id).walked_count; ++i) keep(walked_[state_of(id).walked_at + i]);
    }
    std::ranges::sort(ids);

    std::vector<std::pair<State, std::pair<std::vector<Branch>, std::vector<Item>>>> contents;
    Survivors continuations = gss_.nothing_kept(), parsers(parser_states_.size()), lexers = lexer_.nothing_kept();
    for (const uint32_t id : ids) {
        const State& state = state_of(id);
        const auto branches = branches_.begin() + state.branches_at;
        const auto items = items_.begin() + state.items_at;
        auto& [content, parts] = contents.emplace_back(state, std::pair(std::vector(branches, branches + state.branches_count), std::vector(items, items + state.items_count)));
        for (const Branch& branch : parts.first) parsers.keep(branch.parser_state), lexers.keep(branch.lexer);
        for (const Item& item : parts.second) continuations.keep(item.after.value);
    }
    for (uint32_t at = 0; at < parsers.size(); ++at) {
        if (!parsers.kept(at)) continue;
        const ParserState& state = parser_states_[at];
        continuations.keep(state.after.value), lexers.keep(state.lexer);
        for (const auto& [token, rest] : state.tokens) continuations.keep(rest.value);
        for (const auto& [residual, rest] : state.items) continuations.keep(rest.value);
    }
    gss_.collect(continuations);
    lexer_.collect(lexers);
    parsers.number();
    std::deque<ParserState> parser_states;
    parser_state_bytes_ = 0;
    for (uint32_t at = 0; at < parsers.size(); ++at) {
        if (!parsers.kept(at)) continue;
        ParserState& state = parser_states.emplace_back(std::move(parser_states_[at]));
        state.after = continuations[state.after];
        state.lexer = lexers[state.lexer];
        for (auto& [token, rest] : state.tokens) rest = continuations[rest];
        for (auto& [residual, rest] : state.items) rest = continuations[rest];
        gss_.closure(state.after) = parsers[at];
        parser_state_bytes_ += sizeof state + state.tokens.capacity() * sizeof state.tokens[0] + state.items.capacity() * sizeof state.items[0];
    }
    parser_states_ = std::move(parser_states);

    states_.clear();
    branches_ = {}, moves_ = {};
    const std::vector<uint32_t> walked = std::exchange(walked_, {});
    forget_contents(ids);
    for (uint32_t id = 0; id <= kFinished; ++id) {
        heads_[id].content = states_.push();
        state_of(id).verdict = id == kDead ? Verdict::Dead : Verdict::Live;
    }
    for (size_t i = 0; i < ids.size(); ++i) {
        auto& [state, parts] = contents[i];
        auto& [branches, items] = parts;
        for (Branch& branch : branches) branch.parser_state = parsers[branch.parser_state], branch.lexer = lexers[branch.lexer];
        for (Item& item : items) item.after = continuations[item.after];
        state.branches_at = static_cast<uint32_t>(branches_.size()), state.items_at = static_cast<uint32_t>(items_.size());
        state.moves = kUnset;
        const auto went = walked.begin() + state.walked_at;
        state.walked_at = static_cast<uint32_t>(walked_.size()), state.walked_count = used[ids[i]] ? state.walked_count : 0;
        walked_.insert(walked_.end(), went, went + state.walked_count);
        branches_.insert(branches_.end(), branches.begin(), branches.end());
        items_.insert(items_.end(), items.begin(), items.end());
        heads_[ids[i]].content = states_.push();
        state_of(ids[i]) = state;
        index_.find_or_insert(hash_of(branches, items, heads_[ids[i]].accepts), [](uint32_t) { return false; }, [&] { return ids[i]; });
    }
    forget_memos();
}

}  // namespace core
