// What may follow a terminal: a hash-consed graph-structured stack without positions.
//
// A continuation is a set of frames; a frame says what is left of a rule and how the text goes on after that rule.
// Invariants
//  * Frames of one continuation have distinct expressions: two frames with the same one are joined by joining what
//    follows them, so that ambiguity costs a bounded number of frames a level.
//  * No frame is silent but the one that marks the end of the text, which has nothing after it.
//  * Item k and item k + 1 of an array have the same continuation.
// Nothing recurses over the depth of a stack. Not thread-safe: guarded by the vocabulary's lock.
#pragma once

#include <unordered_map>

#include "common.hpp"
#include "expr.hpp"

namespace core {

struct Frame {
    ExprId expr;
    ContId after;
    bool operator==(const Frame&) const = default;
    auto operator<=>(const Frame&) const = default;
};

class StackStore {
public:
    static constexpr ContId kEnd{1};  ///< the text ends here

    explicit StackStore(ExprStore& exprs) : exprs_(exprs) {
        intern({});
        intern({{ExprStore::kSilent, {0}}});
    }

    /// First `expr`, then `after`.
    ContId push(ExprId expr, ContId after) {
        return expr == ExprStore::kSilent ? after : intern({{expr, after}});
    }

    /// Either.
    ContId join(ContId left, ContId right) {
        if (left == right) return left;
        // Depth-first over pairs of continuations whose frames have an expression in common.
        std::vector<std::pair<ContId, ContId>> work{ordered(left, right)};
        while (!work.empty()) {
            const auto [a, b] = work.back();
            if (joined_.contains(key(a, b))) {
                work.pop_back();
                continue;
            }
            std::vector<Frame> frames;
            bool ready = true;
            const std::span<const Frame> x = this->frames(a), y = this->frames(b);
            for (size_t i = 0, j = 0; i < x.size() || j < y.size();) {
                if (j == y.size() || (i < x.size() && x[i].expr < y[j].expr)) {
                    frames.push_back(x[i++]);
                } else if (i == x.size() || y[j].expr < x[i].expr) {
                    frames.push_back(y[j++]);
                } else {
                    const ContId p = x[i++].after, q = y[j++].after;
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
            const ContId result = intern(frames);
            joined_[key(a, b)] = result;
            work.pop_back();
        }
        return joined_[key(left, right)];
    }

    /// Whether what is read of the terminal is kept (`ExprStore::keeps`).
    bool keeps(ContId id) const { return nodes_[id.value].keeps; }
    /// What follows a terminal of which one more byte was read.
    ContId read(ContId id, uint8_t byte) {
        return mapped(id, [&](ExprId expr) { return exprs_.read(expr, byte); });
    }
    /// What follows a terminal that differs from all others.
    ContId forgetful(ContId id) {
        return mapped(id, [&](ExprId expr) { return exprs_.forgetful(expr); });
    }
    /// `min_length` after a shortest text of `rest`, which is what is left of the terminal.
    uint32_t length_behind(ContId id, RegexId rest) {
        uint32_t least = kInfinite;
        for (uint32_t i = 0; i < nodes_[id.value].count; ++i) {
            const Frame frame = frames(id)[i];
            const uint32_t length = exprs_.keeps(frame.expr) ? exprs_.length_behind(frame.expr, rest) : exprs_.min_length(frame.expr);
            least = std::min(least, add_lengths(length, frame.after.value == 0 ? 0 : min_length(frame.after)));
        }
        return least;
    }
    /// A bound on that, whatever is read of the terminal.
    uint32_t bound_behind(ContId id) const {
        uint32_t least = kInfinite;
        for (const Frame& frame : frames(id)) {
            const uint32_t length = exprs_.keeps(frame.expr) ? exprs_.bound_behind(frame.expr) : exprs_.min_length(frame.expr);
            least = std::min(least, add_lengths(length, frame.after.value == 0 ? 0 : min_length(frame.after)));
        }
        return least;
    }
    /// The smallest `ExprStore::least_until_equal` of the frames that keep what is read.
    uint32_t least_until_equal(ContId id) const {
        uint32_t least = kInfinite;
        for (const Frame& frame : frames(id)) {
            if (exprs_.keeps(frame.expr)) least = std::min(least, exprs_.least_until_equal(frame.expr));
        }
        return least;
    }

    std::span<const Frame> frames(ContId id) const { return {frames_.data() + nodes_[id.value].at, nodes_[id.value].count}; }
    /// Bytes of the shortest text that can follow.
    uint32_t min_length(ContId id) const { return nodes_[id.value].min_length; }
    /// State reached by following this continuation without reading; set by the automaton.
    uint32_t& closure(ContId id) { return nodes_[id.value].closure; }

    /// Forgets which continuations were joined, not what came of it.
    void forget_joins() { joined_.clear(); }

    size_t size() const { return nodes_.size(); }
    size_t bytes() const { return nodes_.capacity() * sizeof(Node) + frames_.capacity() * sizeof(Frame) + index_.bytes(); }
    size_t joined_bytes() const { return joined_.size() * 48; }

private:
    struct Node {
        uint32_t at, count;
        uint32_t min_length;
        bool keeps;
        uint32_t closure = UINT32_MAX;
    };

    static std::pair<ContId, ContId> ordered(ContId a, ContId b) { return a < b ? std::pair{a, b} : std::pair{b, a}; }
    static uint64_t key(ContId a, ContId b) {
        const auto [low, high] = ordered(a, b);
        return uint64_t{low.value} << 32 | high.value;
    }

    /// The same with other expressions where they keep what is read.
    template <class Map>
    ContId mapped(ContId id, Map&& map) {
        ContId result{0};
        const std::vector<Frame> before(frames(id).begin(), frames(id).end());
        for (const Frame& frame : before) {
            const ContId one = intern({{exprs_.keeps(frame.expr) ? map(frame.expr) : frame.expr, frame.after}});
            result = result.value == 0 ? one : join(result, one);
        }
        return result;
    }

    /// `frames` sorted by expression.
    ContId intern(const std::vector<Frame>& frames) {
        uint64_t hash = frames.size();
        for (const Frame& frame : frames) hash = combine(combine(hash, frame.expr.value), frame.after.value);
        return {index_.find_or_make(
            hash,
            [&](uint32_t id) {
                const auto held = this->frames({id});
                return std::equal(held.begin(), held.end(), frames.begin(), frames.end());
            },
            [&] {
                uint32_t least = kInfinite;
                bool keeps = false;
                for (const Frame& frame : frames) {
                    keeps |= exprs_.keeps(frame.expr);
                    const uint32_t rest = frame.after.value == 0 ? 0 : min_length(frame.after);
                    least = std::min(least, add_lengths(exprs_.min_length(frame.expr), rest));
                }
                nodes_.push_back({static_cast<uint32_t>(frames_.size()), static_cast<uint32_t>(frames.size()), least, keeps});
                frames_.insert(frames_.end(), frames.begin(), frames.end());
                return static_cast<uint32_t>(nodes_.size() - 1);
            })};
    }

    ExprStore& exprs_;
    std::vector<Node> nodes_;
    std::vector<Frame> frames_;
    InternTable index_;
    std::unordered_map<uint64_t, ContId> joined_;
};

}  // namespace core
