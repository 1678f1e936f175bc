// Continuations of a terminal: a hash-consed graph-structured stack (Tomita 1986) without positions.
//
// A continuation is a set of frames; a frame is the residual of a rule and the continuation of that rule.
// Invariants
//  * Frames of one continuation have distinct expressions: frames with equal expressions are merged by joining their
//    continuations, so ambiguity costs a bounded number of frames per level.
//  * No frame is epsilon except the one that marks the end of the text, which has no continuation.
//  * Items k and k + 1 of an array have the same continuation.
//  * No function recurses over the depth of a stack.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <map>
#include <unordered_map>

#include "common.hpp"
#include "rule_exprs.hpp"
#include "work.hpp"

namespace core {

struct Frame {
    ExprId expr;
    ContinuationId after;
    bool operator==(const Frame&) const = default;
    auto operator<=>(const Frame&) const = default;
};

class Gss {
public:
    static constexpr ContinuationId kEnd{1};  ///< the text ends here
    static constexpr size_t kFew = 64;        ///< continuations that are united by twos
    static constexpr uint32_t kStepsOfMapped = 4;  ///< of a frame that is made anew, for each byte of a name that is told apart

    /// `work`: counts the frames that are joined.
    Gss(RuleExprStore& exprs, Work& work) : exprs_(exprs), work_(work) {
        const Frame end{RuleExprStore::kEpsilon, {0}};
        intern({});
        intern({&end, 1});
    }

    /// The continuation that reads `expr`, then `after`.
    ContinuationId push(ExprId expr, ContinuationId after) {
        const Frame frame{expr, after};
        return expr == RuleExprStore::kEpsilon ? after : intern({&frame, 1});
    }

    /// The union of two continuations.
    ContinuationId join(ContinuationId left, ContinuationId right) {
        if (left == right) return left;
        // Depth-first over pairs of continuations whose frames share an expression.
        std::vector<std::pair<ContinuationId, ContinuationId>> work{ordered(left, right)};
        while (!work.empty()) {
            const auto [a, b] = work.back();
            if (joined_.contains(key(a, b))) {
                work.pop_back();
                continue;
            }
            std::vector<Frame> frames;
            bool ready = true;
            const std::span<const Frame> x = this->frames(a), y = this->frames(b);
            work_.spend(2 + x.size() + y.size());
            for (size_t i = 0, j = 0; i < x.size() || j < y.size();) {
                if (j == y.size() || (i < x.size() && x[i].expr < y[j].expr)) {
                    frames.push_back(x[i++]);
                } else if (i == x.size() || y[j].expr < x[i].expr) {
                    frames.push_back(y[j++]);
                } else {
                    const ContinuationId p = x[i++].after, q = y[j++].after;
                    const ExprId expr = x[i - 1].expr;
                    if (p == q) {
                        frames.push_back({expr, p});
                    } else if (const auto at = joined_.find(key(p, q)); at != joined_.end()) {
                        frames.push_back({expr, at->second});
                    } else {
                        work.push_back(ordered(p, q));
                        ready = false;
                    }
                }
            }
            if (!ready) continue;
            const ContinuationId result = intern(frames);
            joined_[key(a, b)] = result;
            work.pop_back();
        }
        return joined_[key(left, right)];
    }

    /// The union of these continuations, at least one. A few by twos: the next letter of an ambiguous text mostly adds one to those
    /// that were united before, and then each level of the stacks costs one pair that is remembered.
    ContinuationId join(std::vector<ContinuationId> all) {
        normalise(all);
        if (all.size() > kFew) return join_many(all);
        ContinuationId both = all[0];
        for (size_t i = 1; i < all.size(); ++i) both = join(both, all[i]);
        return both;
    }

    /// The union of many continuations, level by level, without keeping the unions of some of them: by twos each one would cost
    /// the depth of all.
    ContinuationId join_many(const std::vector<ContinuationId>& all) {
        std::map<std::vector<ContinuationId>, ContinuationId> known;
        std::vector<std::vector<ContinuationId>> work{all};  // depth first, as for two
        while (!work.empty()) {
            const std::vector<ContinuationId> at = work.back();
            std::vector<Frame> frames;
            for (const ContinuationId one : at) {
                const std::span<const Frame> held = this->frames(one);
                frames.insert(frames.end(), held.begin(), held.end());
            }
            work_.spend(2 + frames.size());
            std::ranges::sort(frames);
            const size_t before = work.size();
            merge(frames, [&](std::vector<ContinuationId>& afters) -> ContinuationId {
                if (const auto found = known.find(afters); found != known.end()) return found->second;
                if (afters.size() == 2) return join(afters[0], afters[1]);
                work.push_back(afters);
                return {};
            });
            if (work.size() > before) continue;
            known[at] = at.size() == 1 ? at[0] : intern(frames);
            work.pop_back();
        }
        return known[all];
    }

    /// Whether a frame depends on the bytes of the terminal (`RuleExprStore::tracks_distinct`).
    bool tracks_distinct(ContinuationId id) const { return nodes_[id.value].tracks_distinct; }
    /// As `RuleExprStore::forgets`, of any frame.
    bool forgets(ContinuationId id) const { return nodes_[id.value].forgets; }
    /// The continuation after one more byte of the terminal.
    ContinuationId read(ContinuationId id, uint8_t byte) {
        return mapped(id, [&](ExprId expr) { return exprs_.read(expr, byte); });
    }
    /// The continuation if the terminal differs from all others.
    ContinuationId assume_distinct(ContinuationId id) {
        return mapped(id, [&](ExprId expr) { return exprs_.assume_distinct(expr); });
    }
    /// As `RuleExprStore::entered_body`, if there is a single frame.
    std::optional<ExprId> entered_body(ContinuationId id) const {
        if (nodes_[id.value].count != 1) return std::nullopt;
        return exprs_.entered_body(frames(id)[0].expr);
    }
    /// What follows this body if the head differs from all others.
    ContinuationId after_body(ContinuationId id) {
        const Frame frame = frames(id)[0];
        return push(exprs_.after_body(frame.expr), frame.after);
    }
    /// `min_length` after a shortest text of `rest`, the residual of the terminal.
    uint32_t min_length_after(ContinuationId id, RegexId rest) {
        uint32_t least = kInfinite;
        for (uint32_t i = 0; i < nodes_[id.value].count; ++i) {
            const Frame frame = frames(id)[i];
            const uint32_t length = exprs_.tracks_distinct(frame.expr) ? exprs_.min_length_after(frame.expr, rest) : exprs_.min_length(frame.expr);
            least = std::min(least, add_lengths(length, frame.after.value == 0 ? 0 : min_length(frame.after)));
        }
        return least;
    }
    /// An upper bound of it for every terminal.
    uint32_t min_length_bound_after(ContinuationId id) const {
        uint32_t least = kInfinite;
        for (const Frame& frame : frames(id)) {
            const uint32_t length = exprs_.tracks_distinct(frame.expr) ? exprs_.min_length_bound_after(frame.expr) : exprs_.min_length(frame.expr);
            least = std::min(least, add_lengths(length, frame.after.value == 0 ? 0 : min_length(frame.after)));
        }
        return least;
    }
    /// The smallest `RuleExprStore::min_bytes_until_equal` of the frames that track a distinct head.
    uint32_t min_bytes_until_equal(ContinuationId id) const {
        uint32_t least = kInfinite;
        for (const Frame& frame : frames(id)) {
            if (exprs_.tracks_distinct(frame.expr)) least = std::min(least, exprs_.min_bytes_until_equal(frame.expr));
        }
        return least;
    }

    /// The smallest `RuleExprStore::reach_without_head` of the frames that track a distinct head.
    std::optional<uint32_t> reach_without_head(ContinuationId id) const {
        std::optional<uint32_t> least;
        for (const Frame& frame : frames(id)) {
            if (!exprs_.tracks_distinct(frame.expr)) continue;
            const std::optional<uint32_t> reach = exprs_.reach_without_head(frame.expr);
            if (!reach) return std::nullopt;
            least = least ? std::min(*least, *reach) : reach;
        }
        return least;
    }

    /// `RuleExprStore::least_reach_without_head` of all frames that track a distinct head.
    uint32_t least_reach_without_head(ContinuationId id) const {
        uint32_t least = kInfinite;
        for (const Frame& frame : frames(id)) {
            if (exprs_.tracks_distinct(frame.expr)) least = std::min(least, exprs_.least_reach_without_head(frame.expr));
        }
        return least;
    }
    /// Whether one of them needs its head.
    bool needs_head(ContinuationId id) const {
        return std::ranges::any_of(frames(id), [&](const Frame& frame) { return exprs_.tracks_distinct(frame.expr) && exprs_.needs_head(frame.expr); });
    }
    bool needs_head_after(ContinuationId id, uint8_t byte) const {
        return std::ranges::any_of(frames(id), [&](const Frame& frame) { return exprs_.tracks_distinct(frame.expr) && exprs_.needs_head_after(frame.expr, byte); });
    }
    ByteSet may_need_head_after(ContinuationId id) const {
        ByteSet bytes;
        for (const Frame& frame : frames(id)) {
            if (exprs_.tracks_distinct(frame.expr)) bytes |= exprs_.may_need_head_after(frame.expr);
        }
        return bytes;
    }

    std::span<const Frame> frames(ContinuationId id) const { return {frames_.data() + nodes_[id.value].at, nodes_[id.value].count}; }
    /// Bytes of the shortest completion.
    uint32_t min_length(ContinuationId id) const { return nodes_[id.value].min_length; }
    /// Frames of the highest stack: what joining it with another one may cost.
    uint32_t height(ContinuationId id) const { return nodes_[id.value].height; }
    /// Levels of the stacks with several frames, each of which is joined with another one: none as long as a text is unambiguous.
    uint32_t forks(ContinuationId id) const { return nodes_[id.value].forks; }
    /// The state or parser state that the automaton assigned to this continuation.
    uint32_t& closure(ContinuationId id) { return nodes_[id.value].closure; }

    /// Clears the memo of `join`, not the continuations.
    void clear_join_memo() { joined_.clear(); }

    Survivors nothing_kept() const { return Survivors(nodes_.size()); }
    /// Keeps the marked continuations and what they consist of, and gives them new numbers. Forgets `closure` and the memo.
    void collect(Survivors& continuations);

    size_t size() const { return nodes_.size(); }
    size_t bytes() const { return nodes_.capacity() * sizeof(Node) + frames_.capacity() * sizeof(Frame) + index_.bytes(); }
    size_t join_memo_bytes() const { return joined_.size() * 48; }

private:
    struct Node {
        uint32_t at, count;
        uint32_t min_length;
        uint32_t height, forks;
        bool tracks_distinct, forgets;
        uint32_t closure = UINT32_MAX;
    };

    static std::pair<ContinuationId, ContinuationId> ordered(ContinuationId a, ContinuationId b) { return a < b ? std::pair{a, b} : std::pair{b, a}; }
    static uint64_t key(ContinuationId a, ContinuationId b) {
        const auto [low, high] = ordered(a, b);
        return uint64_t{low.value} << 32 | high.value;
    }

    /// Maps the expressions that track a distinct head.
    template <class Map>
    ContinuationId mapped(ContinuationId id, Map&& map) {
        std::vector<Frame> made(frames(id).begin(), frames(id).end());
        work_.spend(kStepsOfMapped * made.size());
        for (Frame& frame : made) {
            if (exprs_.tracks_distinct(frame.expr)) frame.expr = map(frame.expr);
        }
        std::ranges::sort(made);
        merge(made, [&](const std::vector<ContinuationId>& afters) { return join(afters); });
        return intern(made);
    }

    static void normalise(std::vector<ContinuationId>& ids) {
        std::ranges::sort(ids);
        const auto same = std::ranges::unique(ids);
        ids.erase(same.begin(), same.end());
    }

    /// Makes one frame of sorted frames with equal expressions; `united` gives the continuation of several different ones.
    template <class United>
    static void merge(std::vector<Frame>& frames, United&& united) {
        size_t kept = 0;
        std::vector<ContinuationId> afters;
        for (size_t i = 0; i < frames.size();) {
            const ExprId expr = frames[i].expr;
            afters.clear();
            for (; i < frames.size() && frames[i].expr == expr; ++i) afters.push_back(frames[i].after);
            normalise(afters);
            frames[kept++] = {expr, afters.size() == 1 ? afters[0] : united(afters)};
        }
        frames.resize(kept);
    }

    static uint64_t hash_of(std::span<const Frame> frames) {
        uint64_t hash = frames.size();
        for (const Frame& frame : frames) hash = combine(combine(hash, frame.expr.value), frame.after.value);
        return hash;
    }

    /// `frames` sorted by expression, and not those of a continuation.
    ContinuationId intern(std::span<const Frame> frames) {
        return {index_.find_or_insert(
            hash_of(frames),
            [&](uint32_t id) {
                const auto held = this->frames({id});
                return std::equal(held.begin(), held.end(), frames.begin(), frames.end());
            },
            [&] {
                uint32_t least = kInfinite, height = 0, forks = 0;
                bool tracks_distinct = false, forgets = false;
                for (const Frame& frame : frames) {
                    tracks_distinct |= exprs_.tracks_distinct(frame.expr);
                    forgets |= exprs_.forgets(frame.expr) || (frame.after.value != 0 && nodes_[frame.after.value].forgets);
                    if (frame.after.value != 0) {
                        height = std::max(height, nodes_[frame.after.value].height + 1);
                        forks = std::max(forks, nodes_[frame.after.value].forks + (frames.size() > 1));
                    }
                    const uint32_t rest = frame.after.value == 0 ? 0 : min_length(frame.after);
                    least = std::min(least, add_lengths(exprs_.min_length(frame.expr), rest));
                }
                nodes_.push_back({static_cast<uint32_t>(frames_.size()), static_cast<uint32_t>(frames.size()), least, height, forks, tracks_distinct, forgets});
                frames_.insert(frames_.end(), frames.begin(), frames.end());
                return static_cast<uint32_t>(nodes_.size() - 1);
            })};
    }

    RuleExprStore& exprs_;
    Work& work_;
    std::vector<Node> nodes_;
    std::vector<Frame> frames_;
    InternTable index_;
    std::unordered_map<uint64_t, ContinuationId> joined_;
};

}  // namespace core
