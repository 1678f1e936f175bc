// What an automaton keeps, what it may drop, and when.
#include "automaton.hpp"

namespace core {

/// States, and what they are made of: they last as long as the automaton.
size_t Automaton::kept_bytes() const {
    return states_.size() * (sizeof(State) + sizeof(Head)) + items_.capacity() * sizeof(Item) + index_.bytes() + exprs_.bytes() + stacks_.bytes() +
           values_.bytes();
}

/// What can be computed again.
size_t Automaton::memo_bytes() const {
    return tokens_.bytes() + bytes_.bytes() + made_bytes_ + row_index_.bytes() + stacks_.joined_bytes();
}

/// Drops what can be computed again, if there is more of it than the limit leaves room for. A quarter of the limit is
/// always left to it: with room for nothing, every call would begin by dropping what the last one found.
/// At the beginning of a call and under the lock, so that only readers without a lock can see what is dropped.
void Automaton::trim() {
    vocabulary_->trim();
    const size_t kept = kept_bytes();
    if (memo_bytes() <= std::max(limit_ > kept ? limit_ - kept : 0, limit_ / 4)) return;
    const Memo::Retired retired = tokens_.empty();
    bytes_.empty();  // read under the lock only
    made_rows_ = {};
    made_bytes_ = 0;
    row_index_ = InternTable();
    stacks_.forget_joins();
    vocabulary_->readers.wait();
}

/// Rows are dropped by the store of rows, for all automata at once.
void Automaton::forget_dropped_rows() {
    const uint32_t first = vocabulary_->rows.first();
    if (first == first_row_) return;
    first_row_ = first;
    made_rows_.clear();
    made_bytes_ = 0;
    row_index_ = InternTable();
}

}  // namespace core
