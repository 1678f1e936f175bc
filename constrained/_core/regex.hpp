// Regular languages over bytes: hash-consed expressions and their derivatives.
//
// Invariants
//  * Equal ids mean equal expressions. Expressions are kept in a normal form (flat sorted unions and intersections,
//    right-nested concatenations, merged counters), so equal languages usually have equal ids. All memos of the core are
//    keyed by these ids.
//  * `step` is the Brzozowski derivative (Brzozowski 1964; unions kept as sets of linear forms, Antimirov 1996) and returns
//    `kEmptyLanguage` exactly when no completion exists. For intersections and complements a search decides that, and the
//    result is memoised.
//  * A counter `X{m,n}` is one node with two numbers; overlapping counters of one X in a union merge into one interval.
//  * The nesting depth of the imported expressions (`kMaxDepth`) bounds recursion, never the input.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "common.hpp"
#include "decimal_multiple.hpp"
#include "substring_index.hpp"
#include "work.hpp"

namespace core {

using ByteSet = std::bitset<256>;

class RegexStore {
public:
    static constexpr RegexId kEmptyLanguage{0};
    static constexpr RegexId kEpsilon{1};
    static constexpr uint32_t kMaxDepth = 2000;
    static constexpr uint32_t kMaxOptional = 2000;  ///< consecutive nullable parts: each step visits all of them

    /// `alphabet`: the bytes that may occur in a text; other bytes are removed from every language. `work`: counts derivatives.
    RegexStore(const ByteSet& alphabet, Work& work);

    RegexId set(const ByteSet& bytes);
    RegexId literal(std::span<const uint8_t> bytes);
    /// One UTF-8 character from inclusive code point ranges (pairs).
    RegexId chars(std::span<const int32_t> ranges);
    RegexId concat(RegexId left, RegexId right);
    RegexId union_of(std::vector<RegexId> parts);
    RegexId intersect(std::vector<RegexId> parts);
    /// As `intersect`, but drops parts C* that contain another part.
    RegexId intersect_unsimplified(std::vector<RegexId> parts);
    RegexId complement(RegexId part);
    /// The rest of a decimal number that is a multiple of another number; `packed` as for `DecimalMultiple::read`.
    RegexId multiple(std::span<const uint8_t> packed);
    /// The substrings of a document; `packed` as for `SubstringIndex`.
    RegexId substring(std::span<const uint8_t> packed);
    /// `high == kInfinite`: no upper bound.
    RegexId repeat(RegexId part, uint32_t low, uint32_t high);

    bool nullable(RegexId id) const { return nodes_[id.value].nullable; }
    /// Whether the language has an intersection or a complement: whether a derivative is empty then needs a search.
    bool needs_search(RegexId id) const { return nodes_[id.value].searched; }
    /// Whether the language has finitely many texts (a sufficient test).
    bool finite(RegexId id) const { return nodes_[id.value].finite; }
    /// Parts of the expression that a derivative reads: the alternatives of a union, the parts of an intersection.
    uint32_t width(RegexId id) const {
        const Node& node = nodes_[id.value];
        return node.kind == Kind::Union || node.kind == Kind::Intersection ? node.b : 1;
    }

    /// Steps of work in which the parts of the expression are read once.
    uint64_t reading_cost(RegexId id) const { return 1 + width(id) / 8; }

    /// How many parts of concatenations were written again, in front of what follows a concatenation, so far.
    uint64_t copied_parts() const { return copied_parts_; }
    /// All parts of the expression, each as often as it occurs; saturates.
    uint32_t parts(RegexId id) const { return nodes_[id.value].parts; }

    /// The derivative of the language by `byte`; `kEmptyLanguage` if no completion exists.
    RegexId step(RegexId id, uint8_t byte) {
        const Node& node = nodes_[id.value];
        if (node.head != kManyHeads) {
            if (node.head != byte) return kEmptyLanguage;
            if (node.ahead & kSettled) return {node.ahead & ~kSettled};
        } else if (node.moves != kNoMoves) {
            const uint32_t move = moves_[node.moves + partitions_[node.partition].of[byte]];
            if (move & kSettled) return {move & ~kSettled};
        } else if (node.asked == byte && node.ahead & kSettled) {
            return {node.ahead & ~kSettled};
        }
        return settle(id, byte);
    }

    struct Read {
        RegexId rest;
        size_t count;  ///< of the bytes that were read; less than all only if `rest` contains the empty text
    };
    /// The derivative by these bytes, or by those up to the first one behind which a text may end. What lies between the bytes is
    /// mostly not built: most residuals are literals, or free text that excludes some words.
    Read read(RegexId id, std::span<const uint8_t> bytes);

    /// Bytes of the shortest text of the language; `kInfinite` if it is empty.
    uint32_t min_length(RegexId id);
    /// Throws `TooLarge` for an expression whose derivatives could exceed the limits or are too expensive.
    void check_size(RegexId id) const;

    /// Classes of bytes that `step` treats alike: `of[b]` is the class of byte b, `count` the number of classes.
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
    /// By `partition_id`; the store invalidates the reference when it grows.
    const Partition& partition_at(uint32_t id) const { return partitions_[id]; }
    /// The first byte of the alphabet in each class, ascending; empty classes have none. A copy: the store grows.
    std::vector<uint8_t> bytes_of_classes(uint32_t partition) const { return bytes_of_classes_[partition]; }
    /// The coarsest common refinement.
    uint32_t refine(uint32_t left, uint32_t right);
    /// First bytes of the texts of the language.
    const ByteSet& first(RegexId id) {
        const uint32_t at = nodes_[id.value].first;
        return at != kUnset ? first_[at] : find_first(id);
    }

    struct LiteralPrefix {
        std::span<const uint8_t> text;  ///< invalid after the store grows
        RegexId tail;
    };
    /// The literal at the start of the residual and the rest, if the residual has this form.
    std::optional<LiteralPrefix> literal_prefix(RegexId id) const {
        const auto [head, tail] = split_head(id);
        const Node& node = nodes_[head.value];
        if (node.kind != Kind::Literal) return std::nullopt;
        return LiteralPrefix{{literal_bytes_.data() + node.a, node.b}, tail};
    }

    /// A prefix of a text of a `SubstringIndex`.
    struct SubstringPrefix {
        const SubstringIndex* index;
        uint32_t partial;  ///< node of the trie of spellings
        uint32_t missing;  ///< symbols that must still follow
        bool accepts;      ///< the text may end here
        std::vector<SubstringIndex::Cursor> cursors;
    };
    struct SubstringHead {
        const SubstringPrefix& prefix;  ///< invalid after the store grows
        RegexId tail;
    };
    /// The substrings at the start of the residual and the rest, if the residual has this form.
    std::optional<SubstringHead> substring_head(RegexId id) const {
        const auto [head, tail] = split_head(id);
        const Node& node = nodes_[head.value];
        if (node.kind != Kind::Substring) return std::nullopt;
        return SubstringHead{substrings_[node.a], tail};
    }

    struct StarOf {
        RegexId part;   ///< C
        uint32_t rest;  ///< bound on the minimum rest of the residual between two copies of C, in bytes
        ByteSet exit_bytes;   ///< bytes that may follow the last copy; none of them begins a copy
    };
    /// C, if the residual can be completed after any text of C* and does not end inside C* (a sufficient test).
    std::optional<StarOf> star_of(RegexId id);

    /// Whether the language may have exponentially many derivatives: by several infinite languages at once, also excluded ones, not
    /// counting bounds on the length, or by the complement of one with counts.
    bool may_blow_up(RegexId id) const;

    /// Whether copies of what itself has copies that are counted (more than those in a character of JSON) are counted, outside of
    /// complements, and there may be `least` of them or more.
    bool counts_copies(RegexId id, uint32_t least) const;

    /// Whether no text of the language is a proper prefix of another (false if it has too many states to decide).
    bool prefix_free(RegexId id);

    struct Relaxed {
        RegexId id;
        uint32_t least;  ///< bytes that the copies of any lifted bound have at least; kInfinite if none is lifted
    };
    /// The language without upper bounds whose copies have `from` bytes or more, except in complements. It contains the same
    /// texts of up to `least` bytes.
    Relaxed relax(RegexId id, uint32_t from);

    /// `min_length`; throws `TooLarge` if the searches take more `fuel`: a derivative burns one unit, and more if it takes long.
    uint32_t min_length_within(RegexId id, uint32_t fuel) {
        struct Refill {  // also after an exception: the limit holds for this call alone
            uint32_t& fuel;
            ~Refill() { fuel = kInfinite; }
        } refill{fuel_ = fuel};
        return min_length(id);
    }

    Work& work() const { return work_; }
    const ByteSet& alphabet() const { return alphabet_; }
    size_t size() const { return nodes_.size(); }
    size_t bytes() const;
    /// The expression in readable form, cut at `limit` characters (for reports and debugging).
    std::string describe(RegexId id, size_t limit = 200) const;

private:
    enum class Kind : uint8_t { EmptyLanguage, Epsilon, Set, Literal, Concat, Union, Intersection, Complement, Repeat, DecimalMultiple, Substring };
    static constexpr uint32_t kNoMoves = UINT32_MAX;
    static constexpr uint32_t kUnknown = UINT32_MAX - 1;
    static constexpr uint32_t kSettled = 0x80000000u;  // of a move: the emptiness of its target is decided
    static constexpr uint32_t kUnset = 0x7fffffffu;
    static constexpr uint16_t kManyHeads = 256;
    static constexpr uint32_t kWhole = 0;  // the partition with one class
    static constexpr uint32_t kManyCopies = 4;  // see `may_blow_up` and `counts_copies`
    static constexpr uint32_t kStepsOfFuel = 256;  // of work, for which a search burns one more unit of fuel
    static constexpr size_t kPatience = 1000;  // derivatives that `search` visits before it accepts any completion
    static constexpr uint32_t kContainSteps = 256;  // pairs of expressions that `contains` compares
    static constexpr uint32_t kComparedInStep = 16;  // such pairs, in a step of work
    static constexpr size_t kDive = 20'000;    // derivatives that it visits before it gives up; a wide one counts more than once:
    static constexpr uint32_t kFewParts = 4;   // one for each so many parts

    struct Node {
        Kind kind;
        bool nullable;
        bool finite;    // finitely many words (a sufficient test)
        bool searched;  // contains an intersection or a complement: emptiness needs a search
        uint16_t depth;
        uint16_t optional;  // number of leading nullable parts; saturates
        uint32_t bound;     // the highest upper bound of a counter, times those of counters in it, except in complements
        uint32_t a, b, c;  // Set: set index; Literal: offset, length; Concat: left, right; Union, Intersection:
                           // offset, count in children_; Complement: part; Repeat: part, low, high; Multiple: index in
                           // multiples_
        uint32_t min_length;
        uint32_t least = 0;  // lower bound of min_length that needs no search
        uint32_t bound_bytes = 0;  // as `bound`, times the bytes that a copy has at least
        uint32_t max_length = 0;  // kInfinite if there is a loop, an intersection or a complement
        uint32_t parts = 1;
        uint32_t partition = kUnset;
        uint32_t moves = kNoMoves;
        uint32_t first = kUnset;
        uint32_t ahead = kUnset;     // as an element of `moves_`, for `head` or `asked`
        uint16_t head = kManyHeads;  // the only first byte, if the form shows it: most residuals are literals
        uint16_t asked = kManyHeads; // the only byte that was read so far: most residuals are read in one text alone, and need
                                     // neither a partition nor `moves`
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
    size_t read_literal(RegexId& id, std::span<const uint8_t> bytes);
    size_t read_excluding(RegexId& id, std::span<const uint8_t> bytes);
    RegexId raw_step(RegexId id, uint8_t byte);
    struct Reached {  // by a search
        RegexId id;
        uint32_t distance;  // in bytes
        bool expanded = false;
    };
    uint32_t search(RegexId id);
    std::vector<uint8_t> one_of_each_class(const ByteSet& bytes, uint32_t partition) const;
    void keep_lengths(std::span<const Reached> reached, std::span<const std::pair<uint32_t, uint32_t>> moves);
    std::optional<StarOf> star_of(RegexId id, RegexId part);
    std::vector<RegexId> loops(RegexId id) const;
    uint32_t completion(RegexId id, RegexId part);
    bool stays(RegexId id, RegexId part);
    RegexId behind_star(RegexId rest, RegexId part);
    /// So many copies of what has up to `inner` copies itself.
    static uint32_t copies(uint32_t count, uint32_t inner) { return bounded_length(uint64_t{count} * std::max(inner, 1u)); }
    /// Bytes that so many copies have at least, without a search.
    static uint32_t copies_bytes(const Node& part, uint32_t copies) {
        return bounded_length(uint64_t{copies} * std::max(part.least, 1u));
    }
    uint32_t max_length(RegexId id) const { return nodes_[id.value].max_length; }
    bool subset_of_star(RegexId id, RegexId part);
    bool absorbs(RegexId tail, RegexId part);
    bool contains(RegexId whole, RegexId id, uint32_t& steps);
    bool literal_in_star(RegexId id, RegexId part);
    RegexId single(uint8_t byte);
    const ByteSet& find_first(RegexId id);
    ByteSet first_by_steps(RegexId id);
    uint32_t make_partition(RegexId id);
    uint32_t partition_of(RegexId id);
    uint32_t split(const ByteSet& bytes);
    uint32_t single_out(const ByteSet& bytes);
    uint32_t digits();
    RegexId rest(const DecimalMultiple& number);
    /// Counted `DecimalMultiple::min_length`.
    uint32_t length_of(const DecimalMultiple& number);
    RegexId rest(SubstringPrefix&& prefix);
    RegexId derive_substring(uint32_t at, uint8_t byte);
    uint32_t substring_length(const SubstringPrefix& prefix) const;
    ByteSet substring_first(const SubstringPrefix& prefix) const;
    uint32_t intern_partition(const Partition& partition);

    std::span<const RegexId> children(const Node& node) const { return {children_.data() + node.a, node.b}; }

    ByteSet alphabet_;
    Work& work_;
    uint64_t copied_parts_ = 0;
    ChunkedArray<Node> nodes_;
    InternTable index_;
    std::vector<RegexId> children_;
    std::vector<ByteSet> sets_;
    InternTable set_index_;
    std::array<RegexId, 256> single_;  // the set of one byte; kEmptyLanguage if not built
    std::array<uint32_t, 256> byte_partition_;  // the partition into one byte and all others
    std::vector<uint8_t> literal_bytes_;
    std::vector<uint64_t> literal_hash_;  // hash of the literal from each byte on
    std::map<std::vector<int32_t>, RegexId> chars_index_;
    std::map<std::vector<uint64_t>, Moduli> moduli_;  // by all of them; references stay valid
    std::vector<DecimalMultiple> multiples_;
    std::vector<uint32_t> multiple_lengths_;  // of the shortest number; kInfinite where there is none
    InternTable multiple_index_;
    std::vector<std::unique_ptr<SubstringIndex>> substring_indexes_;
    std::unordered_map<uint64_t, std::vector<uint32_t>> substring_index_of_;  // by hash of the packed document
    std::deque<SubstringPrefix> substrings_;
    InternTable substring_table_;
    size_t substring_bytes_ = 0;
    uint32_t digits_ = kUnset;  // the partition for numbers: each digit, the point, all others
    std::vector<Partition> partitions_;
    std::vector<std::vector<uint8_t>> bytes_of_classes_;  // by partition
    InternTable partition_index_;
    std::unordered_map<uint64_t, uint32_t> refinements_;
    ChunkedArray<uint32_t> moves_;
    std::unordered_map<uint64_t, Relaxed> relaxed_;
    std::unordered_map<uint32_t, bool> prefix_free_;
    // By what is asked, of unions and intersections: several ways through an expression may lead to one of them.
    std::unordered_map<uint64_t, bool> subset_of_star_, stays_;
    std::unordered_map<uint64_t, uint32_t> completion_;
    uint32_t explorations_ = 0;  // of `literal_in_star`, one inside of another
    std::deque<ByteSet> first_;  // references stay valid
    std::array<uint32_t, 256> first_of_head_;
    uint32_t fuel_ = kInfinite;
};

}  // namespace core
