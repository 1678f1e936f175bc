// Residuals of rules: hash-consed expressions over terminals and calls, and their first moves.
//
// Invariants
//  * Equal ids mean equal expressions. A counted loop carries its remaining bounds; a loop without bounds has the same id
//    after every item.
//  * `moves(e)`: every way to begin e with a symbol: (terminal or call, residual of e). These are partial derivatives
//    (Antimirov 1996) by symbols instead of characters. Moves also skip nullable parts, so callers need not check whether a
//    called rule is nullable.
//  * `min_length(e)`: bytes of the shortest text of e; `kInfinite` if e is the empty language. Moves that cannot be
//    completed are left out.
//  * No function recurses over expressions.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "common.hpp"
#include "interleave.hpp"
#include "work.hpp"

namespace core {

struct Move {
    bool call;        // a call of rule `target`; otherwise terminal `target` (a RegexId)
    uint32_t target;
    ExprId rest;
};

class RuleExprStore {
public:
    static constexpr ExprId kEmptyLanguage{0};
    static constexpr ExprId kEpsilon{1};

    /// `work`: counts the parts of expressions that are gone through.
    explicit RuleExprStore(Work& work);

    /// `min_length`: of the language of the terminal, in bytes.
    ExprId terminal(RegexId regex, uint32_t min_length);
    ExprId call(uint32_t rule);
    ExprId sequence(ExprId left, ExprId right);
    ExprId choice(const std::vector<ExprId>& parts);
    ExprId loop(ExprId part, uint32_t low, uint32_t high);
    /// How many parts of sequences were written again, in front of what follows a sequence, so far.
    uint64_t copied_parts() const { return copied_parts_; }
    ExprId interleave(InterleaveStore::Definition definition);

    /// Required for interleaves with distinct heads.
    void set_values(JsonValues* values) { interleaves_.set_values(values); }
    /// Whether some expression tracks a distinct head, see below.
    bool tracks_distinct() const { return tracks_distinct_; }
    /// Whether e follows a head that must be distinct, and so depends on the bytes of the head.
    bool tracks_distinct(ExprId id) const { return nodes_[id.value].tracks_distinct; }
    /// Whether some text of it may repeat the value of a distinct head that was forgotten (`assume_distinct`).
    bool forgets(ExprId id) const { return nodes_[id.value].forgets; }
    /// `e` after one more byte of the head.
    ExprId read(ExprId id, uint8_t byte);
    /// `e` if the head differs from all others.
    ExprId assume_distinct(ExprId id);
    /// `min_length` after the first shortest text of `rest`, the residual of the head.
    uint32_t min_length_after(ExprId id, RegexId rest);
    /// An upper bound of it for every head.
    uint32_t min_length_bound_after(ExprId id) const { return min_length_after(nodes_[id.value], JsonValues::kAnyScalar); }
    /// Minimum number of bytes after this head until a later head can equal it; 0 if distinctness may matter earlier.
    uint32_t min_bytes_until_equal(ExprId id) const;

    /// If e begins with an entry whose head was read: the body of the entry, unless it may be empty.
    std::optional<ExprId> entered_body(ExprId id) const;
    /// What follows this body if the head differs from all others.
    ExprId after_body(ExprId id);

    /// How many bytes may follow before the head can change a shortest completion; none if it can already. It changes nothing
    /// while it is no value that the completion contains, whichever entries begin within these bytes.
    std::optional<uint32_t> reach_without_head(ExprId id) const;
    /// A bound that it does not fall below, also after more bytes of the head, found without counting values.
    uint32_t least_reach_without_head(ExprId id) const;
    /// Whether the head can change a shortest completion: there is no such reach.
    bool needs_head(ExprId id) const;
    /// The same after one more byte of the head.
    bool needs_head_after(ExprId id, uint8_t byte) const;
    /// The bytes after which it may be so.
    ByteSet may_need_head_after(ExprId id) const;

    /// Sets the bodies of the rules, computes minimum lengths and detects left recursion.
    void set_rules(std::vector<ExprId> bodies);

    /// See `InterleaveStore::demanding`.
    bool demanding() const { return interleaves_.demanding(); }
    size_t rule_count() const { return rules_.size(); }
    ExprId body(uint32_t rule) const { return rules_[rule].body; }
    uint32_t rule_length(uint32_t rule) const { return rules_[rule].min_length; }
    /// A left-recursive rule, or UINT32_MAX.
    uint32_t left_recursive() const { return left_recursive_; }
    /// Whether an entry of an interleave has a nullable head: such a grammar is malformed.
    bool has_nullable_entries() const { return has_nullable_entries_; }

    /// Whether e contains the empty text.
    bool nullable(ExprId id) const { return min_length(id) == 0; }
    /// Topological order by first calls: no rule begins with a call of a rule of lower rank, except unit cycles.
    uint32_t rank(uint32_t rule) const { return rules_[rule].rank; }
    uint32_t min_length(ExprId id) const { return nodes_[id.value].min_length; }
    std::span<const Move> moves(ExprId id);

    Survivors nothing_kept() const { return Survivors(nodes_.size()); }
    /// Keeps the marked expressions, the bodies of the rules and what all of them consist of, and gives them new numbers.
    void collect(Survivors& exprs);

    size_t size() const { return nodes_.size(); }
    size_t bytes() const {
        return nodes_.capacity() * sizeof(Node) + children_.capacity() * 4 + moves_.capacity() * sizeof(Move) + index_.bytes() +
               interleaves_.bytes();
    }

private:
    enum class Kind : uint8_t { EmptyLanguage, Epsilon, Terminal, Call, Sequence, Choice, Loop, Interleave, Consumed };
    static constexpr uint32_t kNoMoves = UINT32_MAX;
    static constexpr int kRounds = 16;  // of measuring all rules
    static constexpr uint32_t kLongReach = 64;  // longer tokens are read with their heads
    struct Node {
        Kind kind;
        uint32_t a, b, c;  // Terminal: regex, its length; Call: rule; Sequence: left, right; Choice: offset, count in
                           // children_; Loop: part, low, high; Interleave: state of it, turn; Consumed (an entry of which the
                           // head was read): state before it, entry, what was read of the head
        bool tracks_distinct = false, forgets = false;
        uint32_t min_length = kInfinite;
        uint32_t moves_at = kNoMoves;
        uint32_t moves_count = 0;
    };
    struct Rule {
        ExprId body;
        uint32_t min_length = kInfinite;
        uint32_t rank = 0;
    };

    uint64_t hash_of(const Node& node) const;
    ExprId add(Kind kind, uint32_t a, uint32_t b, uint32_t c, std::optional<uint32_t> min_length = std::nullopt);
    ExprId interleave(InterleaveId state, InterleaveStore::Turn turn);
    ExprId consumed(uint32_t state, uint32_t entry, ScalarPrefixId head);
    const Node& first_of(ExprId id) const;
    ExprId with_first(ExprId id, ExprId first);
    uint32_t length_of(const Node& node) const;
    uint32_t min_length_after(const Node& node, ScalarPrefixId head) const;
    uint32_t body_reach(const Node& node) const;
    void measure_chains();
    void find_left_recursion();

    Work& work_;
    std::vector<Node> nodes_;
    InternTable index_;
    std::vector<ExprId> children_;
    std::vector<Move> moves_;
    std::vector<Rule> rules_;
    InterleaveStore interleaves_{work_};
    std::vector<InterleaveId> read_interleaves_;  // before any entry
    uint64_t copied_parts_ = 0;
    bool has_nullable_entries_ = false;
    bool tracks_distinct_ = false;
    uint32_t left_recursive_ = UINT32_MAX;
};

}  // namespace core
