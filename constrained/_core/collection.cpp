// Collection: what bounds the memory of the states of an automaton.
//
// Every byte of a text may intern a state of its own, with the expressions and continuations it consists of: the keys of an
// object that must differ, or the height of a stack. A collection keeps the states that were used last and what they consist
// of, and drops the rest. A state that `next` gave out keeps its id and its token: where its content was dropped,
// `Automaton::restore` computes it again from the state before that token. Ids of other states are used again.
// Invariants
//  * A collection runs only at the start of a call, under the lock: nothing else holds an id of a state or of a part.
//  * New numbers ascend as the old ones do (`Survivors`).
//  * The bodies of all rules are kept, so nothing is asked from Python again.
#include "lexer_automaton.hpp"
#include "unique_automaton.hpp"

namespace core {

// ---------------------------------------------------------------- parts

void JsonValues::collect(Kept& kept) {
    for (const auto& [language, ranking] : rankings_) kept.sets.keep(ranking.held.value);
    kept.sets.keep(kNone.value);
    collect_texts(kept.texts);
    collect_sets(kept.sets);
    added_.clear();
    free_.clear();
    begun_ = Begun();
    first_steps_.clear();
    excluding_.clear();
    spellings_.clear();
    characters_.clear();
}

void JsonValues::collect_texts(Survivors& texts) {
    for (uint32_t id = 0; id <= kAnyScalar.value; ++id) texts.keep(id);
    for (auto id = static_cast<uint32_t>(texts.size()); id-- > 0;) {
        if (texts.kept(id)) texts.keep(texts_[id].parent);
    }
    texts.number();
    std::vector<Text> kept;
    text_index_ = InternTable();
    for (uint32_t id = 0; id < texts.size(); ++id) {
        if (!texts.kept(id)) continue;
        Text text = texts_[id];
        text.parent = texts[text.parent];
        const auto number = static_cast<uint32_t>(kept.size());
        kept.push_back(text);
        if (number <= kAnyScalar.value) continue;
        text_index_.find_or_insert(combine(text.parent, text.byte), [](uint32_t) { return false; }, [&] { return number; });
    }
    texts_ = std::move(kept);
}

void JsonValues::collect_sets(Survivors& sets) {
    Survivors numbers(values_.size());
    for (uint32_t id = 0; id < sets.size(); ++id) {
        if (!sets.kept(id)) continue;
        for (const uint32_t number : seen_[id]) numbers.keep(number);
    }
    for (const auto& [language, ranking] : rankings_) {
        for (const auto& [number, length] : ranking.values) numbers.keep(number);
    }
    sets.number();
    numbers.number();
    bytes_ = 0;
    std::vector<Numbers::const_iterator> values;
    for (uint32_t number = 0; number < numbers.size(); ++number) {
        if (!numbers.kept(number)) {
            value_index_.erase(values_[number]);
            continue;
        }
        values.push_back(values_[number]);
        value_index_.find(values.back()->first)->second = numbers[number];
        bytes_ += values.back()->first.size() + 64;
    }
    values_ = std::move(values);
    std::vector<std::vector<uint32_t>> seen;
    seen_index_.clear();
    for (uint32_t id = 0; id < sets.size(); ++id) {
        if (!sets.kept(id)) continue;
        std::vector<uint32_t>& set = seen_[id];
        for (uint32_t& number : set) number = numbers[number];
        seen_index_.emplace(set, static_cast<uint32_t>(seen.size()));
        bytes_ += 8 * set.size() + 96;
        seen.push_back(std::move(set));
    }
    seen_ = std::move(seen);
    for (auto& [language, ranking] : rankings_) {
        ranking.held = sets[ranking.held];
        for (auto& [number, length] : ranking.values) number = numbers[number];
    }
}

void InterleaveStore::mark_sets(const Survivors& states, Survivors& sets) const {
    for (uint32_t id = 0; id < states.size(); ++id) {
        if (states.kept(id)) sets.keep(states_[id].seen.value);
    }
}

void InterleaveStore::collect(Survivors& states, const Survivors& sets) {
    states.number();
    covers_.of = fills_.of = kNoState;
    forget_lengths();
    std::vector<State> kept;
    std::vector<uint32_t> words;
    index_ = InternTable();
    for (uint32_t id = 0; id < states.size(); ++id) {
        if (!states.kept(id)) continue;
        State state = states_[id];
        const std::span open(words_.data() + state.at, definitions_[state.interleave].required_words.size());
        state.seen = sets[state.seen];
        state.at = static_cast<uint32_t>(words.size());
        words.insert(words.end(), open.begin(), open.end());
        const auto number = static_cast<uint32_t>(kept.size());
        kept.push_back(state);
        index_.find_or_insert(hash_of(state, open), [](uint32_t) { return false; }, [&] { return number; });
    }
    states_ = std::move(kept);
    words_ = std::move(words);
}

void RuleExprStore::collect(Survivors& exprs) {
    exprs.keep(kEmptyLanguage.value);
    exprs.keep(kEpsilon.value);
    for (const Rule& rule : rules_) {
        exprs.keep(rule.body.value);
    }
    interleaves_.for_each_expr([&](ExprId& expr) { exprs.keep(expr.value); });
    Survivors states = interleaves_.nothing_kept();
    JsonValues* const heads = interleaves_.values();  // none where no head must be distinct
    JsonValues::Kept values = heads ? heads->nothing_kept() : JsonValues::Kept{Survivors(JsonValues::kAnyScalar.value + 1), Survivors(1)};
    for (uint32_t id = 0; !heads && id < values.texts.size(); ++id) values.texts.keep(id);
    for (const InterleaveId start : read_interleaves_) states.keep(start.value);
    for (auto id = static_cast<uint32_t>(exprs.size()); id-- > 0;) {
        if (!exprs.kept(id)) continue;
        const Node& node = nodes_[id];
        switch (node.kind) {
            case Kind::Sequence: exprs.keep(node.a), exprs.keep(node.b); break;
            case Kind::Loop: exprs.keep(node.a); break;
            case Kind::Choice:
                for (uint32_t i = 0; i < node.b; ++i) exprs.keep(children_[node.a + i].value);
                break;
            case Kind::Interleave: states.keep(node.a); break;
            case Kind::Consumed:
                states.keep(node.a), values.texts.keep(node.c);
                break;
            default: break;
        }
    }
    interleaves_.mark_sets(states, values.sets);
    if (heads) heads->collect(values);
    else values.texts.number(), values.sets.number();
    interleaves_.collect(states, values.sets);
    exprs.number();
    std::vector<Node> nodes;
    nodes.swap(nodes_);
    std::vector<ExprId> children;
    children.swap(children_);
    moves_ = std::vector<Move>();
    index_ = InternTable();
    for (uint32_t id = 0; id < nodes.size(); ++id) {
        if (!exprs.kept(id)) continue;
        Node node = nodes[id];
        node.moves_at = kNoMoves, node.moves_count = 0;
        switch (node.kind) {
            case Kind::Sequence: node.a = exprs[node.a], node.b = exprs[node.b]; break;
            case Kind::Loop: node.a = exprs[node.a]; break;
            case Kind::Choice: {
                const auto offset = static_cast<uint32_t>(children_.size());
                for (uint32_t i = 0; i < node.b; ++i) children_.push_back(exprs[children[node.a + i]]);
                node.a = offset;
                break;
            }
            case Kind::Interleave: node.a = states[node.a]; break;
            case Kind::Consumed: node.a = states[node.a], node.c = values.texts[node.c]; break;
            default: break;
        }
        const auto number = static_cast<uint32_t>(nodes_.size());
        nodes_.push_back(node);
        index_.find_or_insert(hash_of(node), [](uint32_t) { return false; }, [&] { return number; });
    }
    for (Rule& rule : rules_) {
        rule.body = exprs[rule.body];
    }
    for (InterleaveId& start : read_interleaves_) start = states[start];
    interleaves_.for_each_expr([&](ExprId& expr) { expr = exprs[expr]; });
}

void Gss::collect(Survivors& continuations) {
    continuations.keep(0);
    continuations.keep(kEnd.value);
    Survivors exprs = exprs_.nothing_kept();
    for (auto id = static_cast<uint32_t>(continuations.size()); id-- > 0;) {
        if (!continuations.kept(id)) continue;
        for (const Frame& frame : frames({id})) continuations.keep(frame.after.value), exprs.keep(frame.expr.value);
    }
    continuations.number();
    exprs_.collect(exprs);
    std::vector<Node> nodes;
    std::vector<Frame> kept;
    index_ = InternTable();
    clear_join_memo();
    for (uint32_t id = 0; id < continuations.size(); ++id) {
        if (!continuations.kept(id)) continue;
        Node node = nodes_[id];
        const std::span<const Frame> held = frames({id});
        node.at = static_cast<uint32_t>(kept.size());
        node.closure = UINT32_MAX;
        for (const Frame& frame : held) kept.push_back({exprs[frame.expr], continuations[frame.after]});
        const auto number = static_cast<uint32_t>(nodes.size());
        nodes.push_back(node);
        index_.find_or_insert(hash_of(std::span(kept).subspan(node.at)), [](uint32_t) { return false; }, [&] { return number; });
    }
    nodes_ = std::move(nodes);
    frames_ = std::move(kept);
}

void UniqueValues::collect(Survivors& values, Survivors& sets, Survivors& lists) {
    sets.keep(kNone.value), lists.keep(kEmpty.value), lists.keep(kWhole.value);
    for (auto id = static_cast<uint32_t>(sets.size()); id-- > 1;) {
        if (sets.kept(id)) sets.keep(sets_[id].rest), values.keep(sets_[id].value);
    }
    const auto consists_of_values = [](Kind kind) { return kind == Kind::Array || kind == Kind::Object; };
    for (auto id = static_cast<uint32_t>(values.size()); id-- > 0;) {
        if (!values.kept(id) || !consists_of_values(values_[id].kind)) continue;
        for (const uint32_t part : words({id})) values.keep(part);
    }
    sets.number(), lists.number(), values.number();
    sets_.collect(sets, [&](const Set& set) { return Set{sets[set.rest], values[set.value]}; });

    std::vector<Value> kept_values;
    std::vector<uint32_t> kept_words;
    value_index_ = InternTable();
    for (uint32_t id = 0; id < values.size(); ++id) {
        if (!values.kept(id)) continue;
        Value value = values_[id];
        const auto held = words({id});
        value.at = static_cast<uint32_t>(kept_words.size());
        for (const uint32_t word : held) kept_words.push_back(consists_of_values(value.kind) ? values[word] : word);
        const auto number = static_cast<uint32_t>(kept_values.size());
        kept_values.push_back(value);
        const std::span made(kept_words.data() + value.at, value.count);
        value_index_.find_or_insert(hash_words(made, static_cast<uint64_t>(value.kind)), [](uint32_t) { return false; }, [&] { return number; });
    }
    values_ = std::move(kept_values);
    words_ = std::move(kept_words);

    std::vector<List> kept_lists;
    std::vector<uint32_t> kept_listed;
    list_index_ = InternTable();
    for (uint32_t id = 0; id < lists.size(); ++id) {
        if (!lists.kept(id)) continue;
        const auto at = static_cast<uint32_t>(kept_listed.size()), number = static_cast<uint32_t>(kept_lists.size());
        for (const uint32_t value : listed({id})) kept_listed.push_back(values[value]);  // of a set that is kept
        kept_lists.push_back({at, lists_[id].count});
        const std::span made(kept_listed.data() + at, lists_[id].count);
        if (number > kWhole.value) list_index_.find_or_insert(hash_words(made, 0), [](uint32_t) { return false; }, [&] { return number; });
    }
    lists_ = std::move(kept_lists);
    listed_ = std::move(kept_listed);
}

ValueTexts::Kept ValueTexts::mark(Survivors texts, Survivors& values) const {
    Kept kept{std::move(texts), Survivors(opens_.size()), Survivors(parts_.size()), Survivors(units_.size())};
    kept.texts.keep(kNoText.value), kept.texts.keep(kAnyText.value), kept.opens.keep(0), kept.parts.keep(0), kept.units.keep(0);
    for (uint32_t id = 0; id < texts_.size(); ++id) {
        if (!kept.texts.kept(id)) continue;
        const Text& text = texts_[id];
        kept.opens.keep(text.open);
        if (text.begun == Begun::Value) values.keep(text.units);
        else if (text.begun != Begun::Word) kept.units.keep(text.units);
    }
    for (auto id = static_cast<uint32_t>(opens_.size()); id-- > 1;) {
        if (!kept.opens.kept(id)) continue;
        kept.opens.keep(opens_[id].around), kept.parts.keep(opens_[id].parts);
        if (opens_[id].name != kNoName) values.keep(opens_[id].name);
    }
    for (auto id = static_cast<uint32_t>(parts_.size()); id-- > 1;) {
        if (!kept.parts.kept(id)) continue;
        kept.parts.keep(parts_[id].rest), values.keep(parts_[id].value);
        if (parts_[id].name != kNoName) values.keep(parts_[id].name);
    }
    for (auto id = static_cast<uint32_t>(units_.size()); id-- > 1;) {
        if (kept.units.kept(id)) kept.units.keep(units_[id].before);
    }
    return kept;
}

void ValueTexts::collect(Kept& kept, const Survivors& values) {
    kept.texts.number(), kept.opens.number(), kept.parts.number(), kept.units.number();
    const auto name = [&](uint32_t old) { return old == kNoName ? old : values[old]; };
    units_.collect(kept.units, [&](Unit unit) { return unit.before = kept.units[unit.before], unit; });
    parts_.collect(kept.parts, [&](Part part) {
        part.rest = kept.parts[part.rest], part.name = name(part.name), part.value = values[part.value];
        return part;
    });
    opens_.collect(kept.opens, [&](Open open) {
        open.around = kept.opens[open.around], open.parts = kept.parts[open.parts], open.name = name(open.name);
        return open;
    });
    texts_.collect(kept.texts, [&](Text text) {
        text.open = kept.opens[text.open];
        if (text.begun == Begun::Value) text.units = values[text.units];
        else if (text.begun != Begun::Word) text.units = kept.units[text.units];
        return text;
    });
}

void ItemHistories::collect(Survivors& histories) {
    Survivors levels(levels_.size()), texts = texts_.nothing_kept(), values = values_.no_values_kept(), sets = values_.no_sets_kept(), lists = values_.no_lists_kept();
    histories.keep(kNothing.value);
    for (const uint32_t id : plain_levels_) levels.keep(id);
    for (uint32_t id = 0; id < histories.size(); ++id) {
        if (histories.kept(id)) levels.keep(histories_[id].level), texts.keep(histories_[id].text.value);
    }
    for (auto id = static_cast<uint32_t>(levels.size()); id-- > 0;) {
        if (levels.kept(id)) levels.keep(levels_[id].around), sets.keep(levels_[id].items.value), lists.keep(levels_[id].possible.value);
    }
    ValueTexts::Kept kept_texts = texts_.mark(std::move(texts), values);
    values_.collect(values, sets, lists);
    texts_.collect(kept_texts, values);
    levels.number(), histories.number();

    std::vector<Level> kept_levels;
    level_index_ = InternTable();
    for (uint32_t id = 0; id < levels.size(); ++id) {
        if (!levels.kept(id)) continue;
        Level level = levels_[id];
        level.around = levels[level.around];
        level.items = sets[level.items], level.possible = lists[level.possible];
        const auto number = static_cast<uint32_t>(kept_levels.size());
        kept_levels.push_back(level);
        if (number > 0) level_index_.find_or_insert(hash_of(level), [](uint32_t) { return false; }, [&] { return number; });
    }
    levels_ = std::move(kept_levels);
    for (uint32_t& id : plain_levels_) id = levels[id];

    std::vector<History> kept;
    history_index_ = InternTable();
    for (uint32_t id = 0; id < histories.size(); ++id) {
        if (!histories.kept(id)) continue;
        const History history{kept_texts.texts[histories_[id].text], levels[histories_[id].level]};
        const auto number = static_cast<uint32_t>(kept.size());
        kept.push_back(history);
        history_index_.find_or_insert(combine(history.text.value, history.level), [](uint32_t) { return false; }, [&] { return number; });
    }
    histories_ = std::move(kept);
}

// ---------------------------------------------------------------- states

void BaseAutomaton::publish_state(uint32_t state, uint32_t before, uint32_t token) {
    Head& head = heads_[state];
    if (!head.published.load(std::memory_order_relaxed)) {
        head.before = before, head.token = token;
        ++published_count_;
        head.published.store(true, std::memory_order_release);
    }
    note_use(state);
}

/// The distinct states that were used last, at most so many of them.
std::vector<uint32_t> BaseAutomaton::recent_states(size_t most) const {
    std::vector<uint32_t> states;
    for (size_t i = 0; i < std::min({most, recent_count_, recent_.size()}); ++i) states.push_back(recent_[(recent_count_ - 1 - i) % recent_.size()]);
    if (start_ != kDead) states.push_back(start_);
    std::ranges::sort(states);
    const auto same = std::ranges::unique(states);
    states.erase(same.begin(), same.end());
    return states;
}

/// An id that names no state: a new one, or one that a collection has freed.
uint32_t BaseAutomaton::new_id() {
    if (free_ids_.empty()) return heads_.push();
    const uint32_t id = free_ids_.back();
    free_ids_.pop_back();
    heads_[id].max_remaining = 0;
    heads_[id].length = kInfinite;
    heads_[id].accepts = false;
    heads_[id].mask.store(kUnset, std::memory_order_relaxed);
    return id;
}

/// Above three quarters of the limit (the rest is for memos): keeps fewer states until a quarter of that is left, or only the
/// last one.
void BaseAutomaton::collect_if_large(uint32_t used) {
    if (content_bytes() <= collect_above_) return;
    note_use(used);
    for (size_t most = recent_.size();; most /= 4) {
        collect(recent_states(most));
        if (content_bytes() <= collect_above_ / 4 || most <= 1) break;
    }
    collect_above_ = std::max(limit_ - limit_ / 4, 2 * content_bytes());
    ++collections_;
}

/// Forgets the contents of all states, and what is remembered of them but their masks. The ids of those that nobody was
/// given are free again, but for the kept ones, ascending, whose contents the caller puts back.
void BaseAutomaton::forget_contents(std::span<const uint32_t> kept) {
    free_ids_.clear();
    for (uint32_t id = kFinished + 1; id < heads_.size(); ++id) {
        Head& head = heads_[id];
        head.content = head.nearer = kUnset;
        head.completion.store(kUnset, std::memory_order_release);
        head.rest = Rest::Unknown;
        if (!given_out(id) && !std::ranges::binary_search(kept, id)) free_ids_.push_back(id);
    }
    spelled_by_ = {};
    index_ = InternTable();
    items_ = {};
}

/// Computes the content of a state again if it was dropped.
void BaseAutomaton::restore(uint32_t id) {
    if (heads_[id].content != kUnset) return;
    if (!given_out(id)) throw std::invalid_argument("not a state of this automaton");
    std::vector<uint32_t> way;
    for (uint32_t at = id; heads_[at].content == kUnset; at = heads_[at].before) way.push_back(at);
    for (size_t i = way.size(); i-- > 0;) {
        const Head& head = heads_[way[i]];
        heads_[way[i]].content = heads_[next_again(head.before, head.token)].content;
    }
    note_use(id);
}

size_t Automaton::content_bytes() const {
    return states_.size() * sizeof(State) + aheads_.capacity() * sizeof(Ahead) + items_.capacity() * sizeof(Item) + index_.bytes() + exprs_.bytes() + gss_.bytes() + values_.bytes();
}

void Automaton::collect(const std::vector<uint32_t>& kept) {
    Survivors continuations = gss_.nothing_kept();
    std::vector<std::pair<uint32_t, std::vector<Item>>> contents;
    for (const uint32_t id : kept) {
        if (heads_[id].content == kUnset) continue;
        const auto held = items(id);
        for (const Item& item : held) continuations.keep(item.after.value);
        contents.emplace_back(id, std::vector<Item>(held.begin(), held.end()));
    }
    gss_.collect(continuations);
    states_.clear();
    aheads_ = {};
    forget_contents(kept);
    for (uint32_t id = 0; id <= kFinished; ++id) heads_[id].content = states_.push();
    for (auto& [id, items] : contents) {
        for (Item& item : items) item.after = continuations[item.after];
        const uint32_t same = index_.find_or_insert(hash_of(items, heads_[id].accepts), [&](uint32_t other) { return has_content(other, items, heads_[id].accepts); }, [&] {
            store_content(id, items);
            return id;
        });
        heads_[id].content = heads_[same].content;
    }
    forget_memos();
}

}  // namespace core
