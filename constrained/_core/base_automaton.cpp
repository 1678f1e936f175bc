#include "base_automaton.hpp"

#include <algorithm>

namespace core {

void BaseAutomaton::push_fixed_states() {
    for (const uint32_t state : {kDead, kFinished}) heads_[heads_.push()].published = true, heads_[state].content = state;
    count_ = 2;
    TokenSet none(shard_->size), eos(shard_->size);
    add_eos(eos);
    heads_[kDead].mask = shard_->masks.intern(none);
    heads_[kFinished].mask = shard_->masks.intern(eos);
    heads_[kFinished].accepts = true;
    heads_[kFinished].length = 0;
}

uint32_t BaseAutomaton::token_next(uint32_t state, uint32_t token) {
    if (shard_->is_eos(token)) return heads_[state].accepts ? kFinished : kDead;
    const auto bytes = shard_->tokens[token];
    if (bytes.empty() || state <= kFinished) return kDead;
    for (const uint8_t byte : bytes) {
        if (!shard_->alphabet[byte]) return kDead;
    }
    return bytes_next(state, bytes);
}

uint32_t BaseAutomaton::bytes_next(uint32_t state, std::span<const uint8_t> bytes) {
    for (size_t at = 0; at < bytes.size() && state != kDead; ++at) state = byte_next(state, bytes[at]);
    return state;
}

uint32_t BaseAutomaton::next(uint32_t state, uint32_t token) {
    const Call call(*this, state);
    const uint32_t result = token_next(state, token);
    if (result > kFinished) publish_state(result, state, token);
    tokens_.insert(token_key(state, token), result);
    return result;
}

uint32_t BaseAutomaton::mask_id(uint32_t state) {
    const uint32_t known = find_mask_id(state);
    if (known != kUnset) return known;
    const Call call(*this, state);
    if (find_mask_id(state) == kUnset) compute_mask(state);
    return heads_[state].mask.load(std::memory_order_relaxed);
}

void BaseAutomaton::publish_mask(uint32_t state, uint32_t mask, uint32_t max_remaining) {
    Head& head = heads_[state];
    if (head.mask.load(std::memory_order_relaxed) == kUnset) head.max_remaining = max_remaining;  // once: lock-free readers may use it
    head.mask.store(mask, std::memory_order_release);
}

void BaseAutomaton::merge_items(std::vector<Item>& items) {
    std::ranges::sort(items);
    size_t kept = 0;
    for (size_t i = 0; i < items.size();) {
        const Item first = items[i];
        size_t end = i + 1;
        while (end < items.size() && items[end].residual == first.residual) ++end;
        items[kept++] = {first.residual, joined(std::span<const Item>(&items[i], end - i), &Item::after)};
        i = end;
    }
    items.resize(kept);
}

/// A continuation whose frame may be empty begins as the one below it does, too. The one below keeps its openings, so that
/// a stack of such frames costs one level, and not its height, when it grows.
void BaseAutomaton::opening(ContinuationId after, Openings& made) {
    const auto lacks = [&](const Frame& frame) { return frame.after.value && exprs_.nullable(frame.expr) && !openings_.contains(frame.after.value); };
    if (std::ranges::none_of(gss_.frames(after), lacks)) return open_frames(after, made);  // nearly always
    std::vector<ContinuationId> work{after};
    for (;;) {
        const ContinuationId top = work.back();
        if (work.size() > 1 && openings_.contains(top.value)) {  // two frames lead there
            work.pop_back();
            continue;
        }
        const size_t before = work.size();
        for (const Frame& frame : gss_.frames(top)) {
            if (lacks(frame)) work.push_back(frame.after);
        }
        if (work.size() > before) {
            shard_->work.spend(2 + gss_.frames(top).size());
            continue;
        }
        open_frames(top, made);
        work.pop_back();
        if (work.empty()) return;
        openings_count_ += made.ways.size();
        openings_.emplace(top.value, made);
    }
}

/// `opening` where those of the continuations below are known.
void BaseAutomaton::open_frames(ContinuationId after, Openings& made) {
    made.accepts = false;
    made.ways.clear();
    const size_t count = gss_.frames(after).size();
    shard_->work.spend(2 + count);
    for (size_t i = 0; i < count; ++i) {
        const Frame frame = gss_.frames(after)[i];  // pushing moves the frames
        if (frame.after.value == 0) {
            made.accepts = true;
            continue;
        }
        const auto moves = exprs_.moves(frame.expr);
        shard_->work.spend(16 * moves.size());
        for (const Move& move : moves) made.ways.push_back({move.call, move.target, gss_.push(move.rest, frame.after)});
        if (!exprs_.nullable(frame.expr)) continue;
        const Openings& below = openings_.at(frame.after.value);
        shard_->work.spend(below.ways.size());
        made.accepts |= below.accepts;
        made.ways.insert(made.ways.end(), below.ways.begin(), below.ways.end());
    }
    std::ranges::sort(made.ways);
    size_t kept = 0;
    for (size_t i = 0; i < made.ways.size();) {
        const Opening first = made.ways[i];
        size_t end = i + 1;
        while (end < made.ways.size() && made.ways[end].call == first.call && made.ways[end].symbol == first.symbol) ++end;
        made.ways[kept++] = {first.call, first.symbol, joined(std::span<const Opening>(&made.ways[i], end - i), &Opening::rest)};
        i = end;
    }
    made.ways.resize(kept);
}

size_t BaseAutomaton::opening_bytes() const { return openings_.size() * 64 + openings_count_ * sizeof(Opening); }

std::string BaseAutomaton::forced(uint32_t state) {
    const Call call(*this, state);
    std::string text;
    while (state > kFinished && !heads_[state].accepts && text.size() < kLongForced) {
        const ByteSet bytes = first_bytes(state);
        if (bytes.count() != 1) break;
        const auto byte = static_cast<uint8_t>(bytes._Find_first());
        text.push_back(static_cast<char>(byte));
        state = byte_next(state, byte);
    }
    return text;
}

ByteSet BaseAutomaton::allowed_bytes(uint32_t state) {
    const Call call(*this, state);
    return state > kFinished ? first_bytes(state) : ByteSet();
}

bool BaseAutomaton::outgrown() {
    size_t given = 0;
    {
        const std::lock_guard guard(shard_->lock);
        given = published_count_;
        if (over_limit()) return true;
    }
    return given > kManyStates || (given > kSomeStates && shard_->full());
}

BaseAutomaton::Size BaseAutomaton::size() {
    const std::lock_guard guard(shard_->lock);
    const size_t memo = memo_bytes();
    return {heads_.size(), gss_.size(), exprs_.size(), mask_keys(), exprs_.rule_count(), permanent_bytes() + memo, memo, collections_, published_count_};
}

}  // namespace core
