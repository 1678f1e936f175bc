// Regular languages over bytes: hash-consed expressions and their derivatives.
//
// Invariants
//  * Equal ids mean equal expressions; expressions are kept in a normal form (flat sorted unions and intersections,
//    right-nested concatenations, merged counters), so that a language met again is usually the same id. All memos of
//    the core are keyed by these ids: this is what "addressed by content" means here.
//  * `step` is the Brzozowski derivative (Brzozowski 1964; sums kept as sets of linear forms, Antimirov 1996), and is
//    `kNothing` exactly when no completion exists. For intersections and complements that is decided by search, and
//    the answer is kept.
//  * A counter `X{m,n}` is one node with two numbers; overlapping counters of one X in a sum merge into one interval.
//  * Recursion is bounded by the nesting depth of the imported expressions (`kMaxDepth`), never by the input.
// Not thread-safe: the vocabulary's lock guards it.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "common.hpp"
#include "multiple.hpp"

namespace core {

using ByteSet = std::bitset<256>;

class RegexStore {
public:
    static constexpr RegexId kNothing{0};
    static constexpr RegexId kEmpty{1};
    static constexpr uint32_t kMaxDepth = 2000;
    static constexpr uint32_t kMaxOptional = 2000;  ///< of parts in a row that may be empty: each step looks at all of them

    /// `alphabet`: the bytes that a text can hold at all; others are removed from every language.
    explicit RegexStore(const ByteSet& alphabet);

    RegexId set(const ByteSet& bytes);
    RegexId literal(std::span<const uint8_t> bytes);
    /// One character out of inclusive code point ranges (pairs), in UTF-8.
    RegexId chars(std::span<const int32_t> ranges);
    RegexId concat(RegexId left, RegexId right);
    RegexId unite(std::vector<RegexId> parts);
    RegexId intersect(std::vector<RegexId> parts);
    /// The same, without loops C* that hold another part anyway.
    RegexId intersect_plainly(std::vector<RegexId> parts);
    RegexId complement(RegexId part);
    /// The rest of a number that is a multiple of another one.
    RegexId multiple(const Multiple& number);
    /// `high == kInfinite`: no upper bound.
    RegexId repeat(RegexId part, uint32_t low, uint32_t high);

    bool nullable(RegexId id) const { return nodes_[id.value].nullable; }

    /// What is left of the language after `byte`; `kNothing` when nothing can follow.
    RegexId step(RegexId id, uint8_t byte) {
        const Node& node = nodes_[id.value];
        if (node.head != kManyHeads) {
            if (node.head != byte) return kNothing;
            if (node.ahead & kSettled) return {node.ahead & ~kSettled};
        } else if (node.moves != kNoMoves) {
            const uint32_t move = moves_[node.moves + partitions_[node.partition].of[byte]];
            if (move & kSettled) return {move & ~kSettled};
        }
        return settle(id, byte);
    }

    /// Bytes of the shortest text of the language; `kInfinite` when it is empty.
    uint32_t min_length(RegexId id);
    /// Throws `TooLarge` for an expression whose derivatives could exceed the limits, or would cost too much.
    void check_size(RegexId id) const;

    /// Groups of bytes that `step` cannot tell apart: `of[b]` is the group of byte b, `count` the number of groups.
    struct Partition {
        std::array<uint8_t, 256> of;
        uint32_t count;
    };
    const Partition& partition(RegexId id) { return partitions_[partition_id(id)]; }
    /// Equal for residuals with equal partitions.
    uint32_t partition_id(RegexId id) {
        const uint32_t known = nodes_[id.value].partition;
        return known != kUnset ? known : make_partition(id);
    }
    /// By `partition_id`; the reference is valid until the store grows.
    const Partition& partition_at(uint32_t id) const { return partitions_[id]; }
    /// The coarsest partition finer than both.
    uint32_t meet(uint32_t left, uint32_t right);
    /// Bytes that a text of the language can begin with.
    const ByteSet& first(RegexId id) {
        const uint32_t at = nodes_[id.value].first;
        return at != kUnset ? first_[at] : find_first(id);
    }

    struct Counter {
        RegexId part;
        uint32_t low, high;
        RegexId tail;
    };
    /// The parts of `X{low,high} tail`, if that is what the residual says.
    std::optional<Counter> counter(RegexId id) const {
        const auto [head, tail] = split_head(id);
        const Node& node = nodes_[head.value];
        if (node.kind != Kind::Repeat) return std::nullopt;
        return Counter{{node.a}, node.b, node.c, tail};
    }

    struct Spelled {
        std::span<const uint8_t> text;  ///< valid until the store grows
        RegexId tail;
    };
    /// The text that all of the language begins with, if the residual says it outright, and what follows it.
    std::optional<Spelled> spelled(RegexId id) const {
        const auto [head, tail] = split_head(id);
        const Node& node = nodes_[head.value];
        if (node.kind != Kind::Literal) return std::nullopt;
        return Spelled{{literal_bytes_.data() + node.a, node.b}, tail};
    }

    struct Carried {
        RegexId part;   ///< C
        uint32_t rest;  ///< bound on the shortest rest of the residual between two copies of C, in bytes
        ByteSet ends;   ///< bytes that may follow the last copy; none of them begins one
    };
    /// C, if the residual can be completed after any text of C* and does not end inside of it (a sufficient test).
    std::optional<Carried> carried(RegexId id);

    /// Whether no text of the language begins another one (false where it has too many states to tell).
    bool prefix_free(RegexId id);

    /// A plainer language that differs from this one in finitely many words: what is left when excluded words are
    /// allowed again. The residual itself when there is nothing to drop.
    RegexId base(RegexId id);

    struct Relaxed {
        RegexId id;
        uint32_t least;  ///< the smallest bound that was lifted; kInfinite if there was none
    };
    /// The language with every upper bound of `from` or more copies lifted, outside of complements. It holds the same
    /// texts of up to `least` bytes, because a copy takes at least one byte.
    Relaxed relax(RegexId id, uint32_t from);

    /// `min_length`, or `TooLarge` when the search takes more steps than this.
    uint32_t min_length_within(RegexId id, uint32_t steps) {
        struct Refill {  // whatever is thrown: the limit is for this question alone
            uint32_t& fuel;
            ~Refill() { fuel = kInfinite; }
        } refill{fuel_ = steps};
        return min_length(id);
    }

    const ByteSet& alphabet() const { return alphabet_; }
    size_t size() const { return nodes_.size(); }
    size_t bytes() const;
    /// The expression in a readable form, cut at `limit` characters (for reports and debugging).
    std::string describe(RegexId id, size_t limit = 200) const;

private:
    enum class Kind : uint8_t { Nothing, Empty, Set, Literal, Concat, Union, Intersection, Complement, Repeat, Multiple };
    static constexpr uint32_t kNoMoves = UINT32_MAX;
    static constexpr uint32_t kUnknown = UINT32_MAX - 1;
    static constexpr uint32_t kSettled = 0x80000000u;  // of a move: emptiness of its target was decided
    static constexpr uint32_t kUnset = 0x7fffffffu;
    static constexpr uint16_t kManyHeads = 256;
    static constexpr uint32_t kWhole = 0;  // the partition that tells no byte apart
    static constexpr size_t kPatience = 1000;  // derivatives that `search` visits before any way to the end will do
    static constexpr size_t kDive = 100'000;   // and then, before it gives up

    struct Node {
        Kind kind;
        bool nullable;
        bool finite;    // holds finitely many words (a sufficient test)
        bool searched;  // holds an intersection or a complement: emptiness needs a search
        uint16_t depth;
        uint16_t optional;  // parts at the beginning, in a row, that may be empty; saturates
        uint32_t bound;     // the highest upper bound of a loop, outside of complements
        uint32_t a, b, c;  // Set: set index; Literal: offset, length; Concat: left, right; Union, Intersection:
                           // offset, count in children_; Complement: part; Repeat: part, low, high; Multiple: index in
                           // multiples_
        uint32_t min_length;
        uint32_t least = 0;  // no text is shorter; known without a search
        uint32_t max_length = 0;  // of texts; kInfinite where there is a loop, an intersection or a complement
        uint32_t partition = kUnset;
        uint32_t moves = kNoMoves;
        uint32_t first = kUnset;
        uint32_t ahead = kUnset;     // as an element of `moves_`, for `head`
        uint16_t head = kManyHeads;  // the byte that all texts begin with, where that shows: most residuals are literals
    };

    RegexId add(Kind kind, uint32_t a, uint32_t b, uint32_t c, uint64_t hash);
    RegexId add_list(Kind kind, const std::vector<RegexId>& parts);
    void describe(RegexId id, size_t limit, std::string& out) const;
    RegexId utf8_tail(std::span<const std::pair<uint32_t, uint32_t>> ranges, int level);
    RegexId utf8_block(std::span<const std::pair<uint32_t, uint32_t>> ranges, int level, uint32_t lead, uint32_t fan);
    void merge_heads(std::vector<RegexId>& parts);
    std::pair<RegexId, RegexId> split_head(RegexId id) const;

    RegexId prepend(RegexId part, RegexId right);
    RegexId derive(RegexId id, uint8_t byte);
    uint32_t* move(RegexId id, uint8_t byte);
    RegexId settle(RegexId id, uint8_t byte);
    RegexId raw_step(RegexId id, uint8_t byte);
    uint32_t search(RegexId id);
    std::optional<Carried> endless(RegexId id);
    uint32_t max_length(RegexId id) const { return nodes_[id.value].max_length; }
    bool inside(RegexId id, RegexId part);
    bool spelled_inside(RegexId id, RegexId part);
    RegexId single(uint8_t byte);
    const ByteSet& find_first(RegexId id);
    ByteSet first_by_steps(RegexId id);
    uint32_t make_partition(RegexId id);
    uint32_t partition_of(RegexId id);
    uint32_t split(const ByteSet& bytes);
    uint32_t single_out(const ByteSet& bytes);
    uint32_t digits();
    RegexId rest(const Multiple& number);
    uint32_t intern_partition(const Partition& partition);

    std::span<const RegexId> children(const Node& node) const { return {children_.data() + node.a, node.b}; }

    ByteSet alphabet_;
    std::vector<Node> nodes_;
    InternTable index_;
    std::vector<RegexId> children_;
    std::vector<ByteSet> sets_;
    InternTable set_index_;
    std::array<RegexId, 256> single_;  // the set of one byte; kNothing until it is asked for
    std::array<uint32_t, 256> byte_partition_;  // one byte and all others
    std::vector<uint8_t> literal_bytes_;
    std::vector<uint64_t> literal_hash_;  // of the rest of the literal from each byte on
    std::map<std::vector<int32_t>, RegexId> chars_index_;
    std::vector<Multiple> multiples_;
    InternTable multiple_index_;
    uint32_t digits_ = kUnset;  // the partition of bytes by what a number can hold
    std::vector<Partition> partitions_;
    InternTable partition_index_;
    std::unordered_map<uint64_t, uint32_t> meets_;
    std::vector<uint32_t> moves_;
    std::unordered_map<uint64_t, Relaxed> relaxed_;
    std::unordered_map<uint32_t, bool> prefix_free_;
    std::unordered_map<uint64_t, bool> inside_;
    std::deque<ByteSet> first_;  // references stay valid
    std::array<uint32_t, 256> first_of_head_;
    uint32_t fuel_ = kInfinite;
};

}  // namespace core
