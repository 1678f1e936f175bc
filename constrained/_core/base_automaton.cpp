#include "base_automaton.hpp"

#include <algorithm>

namespace core {

void BaseAutomaton::push_fixed_states() {
    heads_.push();
    heads_.push();
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
        state = byte_next(state, byte);
        if (state == kDead) break;
    }
    return state;
}

uint32_t BaseAutomaton::next(uint32_t state, uint32_t token) {
    const std::lock_guard guard(shard_->lock);
    begin_call();
    const uint32_t result = token_next(state, token);
    tokens_.insert(token_key(state, token), result);
    return result;
}

uint32_t BaseAutomaton::mask_id(uint32_t state) {
    const uint32_t known = find_mask_id(state);
    if (known != kUnset) return known;
    const std::lock_guard guard(shard_->lock);
    begin_call();
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
    for (size_t i = 0; i < items.size(); ++i) {
        if (kept && items[kept - 1].residual == items[i].residual) {
            items[kept - 1].after = gss_.join(items[kept - 1].after, items[i].after);
        } else {
            items[kept++] = items[i];
        }
    }
    items.resize(kept);
}

std::string BaseAutomaton::forced(uint32_t state) {
    const std::lock_guard guard(shard_->lock);
    begin_call();
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

BaseAutomaton::Size BaseAutomaton::size() {
    const std::lock_guard guard(shard_->lock);
    const size_t memo = memo_bytes();
    return {heads_.size(), gss_.size(), exprs_.size(), mask_keys(), exprs_.body_count(), permanent_bytes() + memo, memo};
}

}  // namespace core
