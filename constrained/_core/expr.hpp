// What is left of a rule: hash-consed expressions over terminals and calls, and their first moves.
//
// Invariants
//  * Equal ids mean equal expressions. A counted loop carries its bounds, so "two more items at most" is an id; a loop
//    without bounds is the same id after every item: position in a list is not part of a configuration.
//  * `moves(e)`: every way to begin e that reads something: (terminal or call, what is left of e afterwards). These are
//    partial derivatives (Antimirov 1996) by symbols instead of characters. Parts that may say nothing are also skipped
//    here, so whoever follows a call need not ask whether the rule can be empty.
//  * `min_length(e)` is the length in bytes of the shortest text of e; `kInfinite` for an expression without any. Moves
//    that cannot be completed are left out.
// No function recurses over expressions. Not thread-safe: guarded by the vocabulary's lock.
#pragma once

#include <algorithm>
#include <span>

#include "bags.hpp"
#include "common.hpp"

namespace core {

/// A rule whose body comes later, and the length of its shortest text. It begins with a terminal.
struct Later {
    uint32_t rule;
    uint32_t min_length;
};

struct Move {
    bool call;        // of rule `target`; otherwise terminal `target` (a RegexId)
    uint32_t target;
    ExprId rest;
};

class ExprStore {
public:
    static constexpr ExprId kNever{0};
    static constexpr ExprId kSilent{1};

    ExprStore();

    /// `min_length`: of the terminal's language, in bytes.
    ExprId terminal(RegexId regex, uint32_t min_length);
    ExprId call(uint32_t rule);
    ExprId sequence(ExprId left, ExprId right);
    ExprId choice(const std::vector<ExprId>& parts);
    ExprId loop(ExprId part, uint32_t low, uint32_t high);
    ExprId bag(BagStore::Definition definition);

    /// Needed by grammars with entries whose heads must differ.
    void set_values(Values* values) { bags_.set_values(values); }
    /// Whether some expression keeps what is read, see below.
    bool keeps() const { return keeps_; }
    /// Whether e follows a head that must differ from others, and so keeps what is read of it.
    bool keeps(ExprId id) const { return nodes_[id.value].keeps; }
    /// The same after one more byte of the head.
    ExprId read(ExprId id, uint8_t byte);
    /// What follows a head that differs from all others.
    ExprId forgetful(ExprId id);
    /// `min_length` after the first of the shortest texts of `rest`, which is what is left of the head.
    uint32_t length_behind(ExprId id, RegexId rest);
    /// A bound on that, whatever is read of the head.
    uint32_t bound_behind(ExprId id) const { return length_behind(nodes_[id.value], Values::kAnyText); }
    /// Bytes after this head before a later one can equal it, at least. 0 if it may matter sooner that they must differ.
    uint32_t least_until_equal(ExprId id) const;

    /// Fixes the rules' bodies; decides lengths and checks for left recursion.
    void set_rules(std::vector<ExprId> bodies, std::span<const Later> later);
    /// Rules that expressions may call from now on, whose bodies come later.
    void expect(std::span<const Later> later);
    /// The bodies of some of these. Throws invalid_argument if one is not as long as was said, or begins with a call.
    void add_bodies(std::span<const uint32_t> rules, const std::vector<ExprId>& bodies);

    /// How many rules have a body.
    size_t bodies() const {
        return std::ranges::count_if(rules_, [](const Rule& rule) { return rule.body != kLater; });
    }
    bool has_body(uint32_t rule) const { return rules_[rule].body != kLater; }
    ExprId body(uint32_t rule) const { return rules_[rule].body; }
    uint32_t rule_length(uint32_t rule) const { return rules_[rule].min_length; }
    /// A rule that may call itself before reading anything, or UINT32_MAX.
    uint32_t left_recursive() const { return left_recursive_; }
    /// Whether an entry of a bag may begin with nothing: such a grammar must not be used.
    bool empty_entries() const { return empty_entries_; }

    /// Whether e may say nothing.
    bool nullable(ExprId id) const { return min_length(id) == 0; }
    /// Rules in an order in which none may begin by calling an earlier one, but for rules that only rename each other.
    uint32_t rank(uint32_t rule) const { return rules_[rule].rank; }
    uint32_t min_length(ExprId id) const { return nodes_[id.value].min_length; }
    std::span<const Move> moves(ExprId id);

    size_t size() const { return nodes_.size(); }
    size_t bytes() const {
        return nodes_.capacity() * sizeof(Node) + children_.capacity() * 4 + moves_.capacity() * sizeof(Move) + index_.bytes() +
               bags_.bytes();
    }

private:
    enum class Kind : uint8_t { Never, Silent, Terminal, Call, Sequence, Choice, Loop, Bag, Taken };
    static constexpr uint32_t kNoMoves = UINT32_MAX;
    struct Node {
        Kind kind;
        uint32_t a, b, c;  // Terminal: regex, its length; Call: rule; Sequence: left, right; Choice: offset, count in
                           // children_; Loop: part, low, high; Bag: state of it, turn; Taken (an entry of which the
                           // head was read): state before it, entry, what was read of the head
        bool keeps = false;
        uint32_t min_length = kInfinite;
        uint32_t moves_at = kNoMoves;
        uint32_t moves_count = 0;
    };
    static constexpr ExprId kLater{UINT32_MAX};
    struct Rule {
        ExprId body;
        uint32_t min_length = kInfinite;
        uint32_t rank = 0;
    };

    ExprId add(Kind kind, uint32_t a, uint32_t b, uint32_t c, uint64_t hash);
    ExprId bag(StateOfBag state, BagStore::Turn turn);
    ExprId taken(uint32_t state, uint32_t entry, TextId head);
    const Node& first_of(ExprId id) const;
    ExprId with_first(ExprId id, ExprId first);
    uint32_t length_of(const Node& node) const;
    uint32_t length_behind(const Node& node, TextId head) const;
    void find_left_recursion();

    std::vector<Node> nodes_;
    InternTable index_;
    std::vector<ExprId> children_;
    std::vector<Move> moves_;
    std::vector<Rule> rules_;
    BagStore bags_;
    std::vector<StateOfBag> read_bags_;  // before any entry
    bool empty_entries_ = false;
    bool keeps_ = false;
    uint32_t left_recursive_ = UINT32_MAX;
};

}  // namespace core
