// Ids, hashing, and the containers that every store of the core uses.
//
// Invariant: an id names the same content for the lifetime of its store. Stores only append; memos may be cleared because
// their content can be recomputed.
// Thread safety: see each class.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace core {

/// An index that cannot be mistaken for an index into another store.
template <class Tag>
struct Id {
    uint32_t value = 0;
    constexpr bool operator==(const Id&) const = default;
    constexpr auto operator<=>(const Id&) const = default;
};

using RegexId = Id<struct RegexTag>;  ///< a regular language, `RegexStore`
using ExprId = Id<struct ExprTag>;    ///< the rest of a rule, `RuleExprStore`
using ContinuationId = Id<struct ContinuationTag>;    ///< what follows a terminal, `Gss`

constexpr uint32_t kInfinite = UINT32_MAX;  ///< no upper bound; also the minimum length of an empty language

/// Saturating sum: `kInfinite` plus anything is `kInfinite`.
constexpr uint32_t add_lengths(uint32_t a, uint32_t b) {
    if (a == kInfinite || b == kInfinite) return kInfinite;
    const uint64_t sum = uint64_t{a} + b;
    return sum >= kInfinite ? kInfinite - 1 : static_cast<uint32_t>(sum);
}

/// A compilation budget ran out.
struct TooLarge : std::runtime_error {
    using std::runtime_error::runtime_error;
};

constexpr uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    return x;
}

constexpr uint64_t combine(uint64_t seed, uint64_t value) { return mix(seed * 0x9e3779b97f4a7c15ULL + value + 1); }

/// Hash of plain words. Four SIMD lanes: a 16 KB mask takes about a microsecond.
inline uint64_t hash_words(std::span<const uint32_t> words, uint64_t seed) {
    uint64_t lane[4] = {seed, seed + 1, seed + 2, seed + 3};
    size_t i = 0;
    for (; i + 8 <= words.size(); i += 8) {
        uint64_t block[4];
        std::memcpy(block, words.data() + i, sizeof block);
        for (int j = 0; j < 4; ++j) lane[j] = std::rotl(lane[j] ^ block[j], 29) * 0x9e3779b97f4a7c15ULL;
    }
    uint64_t h = combine(combine(lane[0], lane[1]), combine(lane[2], lane[3]));
    for (; i < words.size(); ++i) h = combine(h, words[i]);
    return combine(h, words.size());
}

/// Hash set of ids looked up by content: the store computes the hash and compares, the table stores the ids.
class InternTable {
public:
    InternTable() : slots_(64) {}

    /// The id for which `same(id)` holds, or the one that `make()` creates.
    template <class Same, class Make>
    uint32_t find_or_insert(uint64_t hash, Same&& same, Make&& make) {
        const uint32_t tag = static_cast<uint32_t>(hash >> 32);
        size_t at = hash & (slots_.size() - 1);
        while (slots_[at].id != kNone) {
            if (slots_[at].tag == tag && same(slots_[at].id)) return slots_[at].id;
            at = (at + 1) & (slots_.size() - 1);
        }
        const uint32_t id = make();
        if ((count_ + 1) * 2 > slots_.size()) {
            grow();
            at = hash & (slots_.size() - 1);
            while (slots_[at].id != kNone) at = (at + 1) & (slots_.size() - 1);
        }
        slots_[at] = {hash, tag, id};
        ++count_;
        return id;
    }

    size_t bytes() const { return slots_.size() * sizeof(Slot); }

private:
    static constexpr uint32_t kNone = UINT32_MAX;
    struct Slot {
        uint64_t hash = 0;
        uint32_t tag = 0;
        uint32_t id = kNone;
    };

    void grow() {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.id == kNone) continue;
            size_t at = slot.hash & (slots_.size() - 1);
            while (slots_[at].id != kNone) at = (at + 1) & (slots_.size() - 1);
            slots_[at] = slot;
        }
    }

    std::vector<Slot> slots_;
    size_t count_ = 0;
};

/// Append-only array with stable addresses. Thread safety: one writer (under the store's lock) and any number of
/// lock-free readers, if a reader gets the index from a value published after the element was written.
template <class T>
class StableArray {
public:
    StableArray() = default;
    StableArray(const StableArray&) = delete;
    StableArray& operator=(const StableArray&) = delete;
    ~StableArray() { clear(); }

    /// Removes all elements. There must be no reader.
    void clear() {
        for (auto& block : blocks_) delete[] block.exchange(nullptr, std::memory_order_relaxed);
        size_ = 0;
    }

    uint32_t push() {
        const uint32_t index = size_++;
        auto& block = blocks_[block_of(index)];
        if (!block.load(std::memory_order_relaxed)) {
            block.store(new T[size_t{1} << (kFirstBits + block_of(index))](), std::memory_order_release);
        }
        return index;
    }

    T& operator[](uint32_t index) {
        return blocks_[block_of(index)].load(std::memory_order_acquire)[offset_of(index)];
    }
    const T& operator[](uint32_t index) const {
        return blocks_[block_of(index)].load(std::memory_order_acquire)[offset_of(index)];
    }
    uint32_t size() const { return size_; }

private:
    static constexpr int kFirstBits = 6;
    static constexpr int block_of(uint32_t index) {
        return 31 - std::countl_zero((index >> kFirstBits) + 1);
    }
    static constexpr size_t offset_of(uint32_t index) {
        return index - (((size_t{1} << block_of(index)) - 1) << kFirstBits);
    }

    std::atomic<T*> blocks_[27] = {};
    uint32_t size_ = 0;
};

/// Memo from a non-zero 64-bit key to a 32-bit value. Thread safety: lock-free reads, writes under the store's lock.
/// An outgrown table is kept until the memo is cleared or destroyed, because a reader may still use it.
class Memo {
    struct Table;

public:
    static constexpr uint32_t kMissing = UINT32_MAX;
    using Retired = std::vector<std::unique_ptr<Table>>;

    explicit Memo(size_t limit = SIZE_MAX) : limit_(limit) { publish(std::make_unique<Table>(256)); }

    uint32_t find(uint64_t key) const {
        const Table* table = current_.load(std::memory_order_acquire);
        for (size_t at = mix(key) & table->mask;; at = (at + 1) & table->mask) {
            const uint64_t held = table->slots[at].key.load(std::memory_order_acquire);
            if (held == key) return table->slots[at].value.load(std::memory_order_relaxed);
            if (held == 0) return kMissing;
        }
    }

    /// Stores the value unless the memo is full; then it is recomputed next time.
    void insert(uint64_t key, uint32_t value) {
        if (count_ >= limit_) return;
        Table* table = tables_.back().get();
        if ((count_ + 1) * 2 > table->mask + 1) {
            auto larger = std::make_unique<Table>((table->mask + 1) * 2);
            for (size_t i = 0; i <= table->mask; ++i) {
                const uint64_t held = table->slots[i].key.load(std::memory_order_relaxed);
                if (held) larger->put(held, table->slots[i].value.load(std::memory_order_relaxed));
            }
            table = larger.get();
            publish(std::move(larger));
        }
        if (table->put(key, value)) ++count_;
    }

    /// Clears the memo and returns its tables. The caller destroys them after `ReadEpoch::wait_for_readers`.
    Retired retire_all() {
        Retired retired;
        retired.swap(tables_);
        publish(std::make_unique<Table>(256));
        count_ = 0;
        return retired;
    }

    size_t bytes() const {
        size_t total = 0;
        for (const auto& table : tables_) total += (table->mask + 1) * sizeof(Slot);
        return total;
    }

private:
    struct Slot {
        std::atomic<uint64_t> key{0};
        std::atomic<uint32_t> value{0};
    };
    struct Table {
        explicit Table(size_t size) : mask(size - 1), slots(new Slot[size]) {}
        bool put(uint64_t key, uint32_t value) {
            size_t at = mix(key) & mask;
            while (const uint64_t held = slots[at].key.load(std::memory_order_relaxed)) {
                if (held == key) return false;
                at = (at + 1) & mask;
            }
            slots[at].value.store(value, std::memory_order_relaxed);
            slots[at].key.store(key, std::memory_order_release);
            return true;
        }
        size_t mask;
        std::unique_ptr<Slot[]> slots;
    };

    void publish(std::unique_ptr<Table> table) {
        current_.store(table.get(), std::memory_order_release);
        tables_.push_back(std::move(table));
    }

    std::atomic<const Table*> current_{nullptr};
    std::vector<std::unique_ptr<Table>> tables_;
    size_t count_ = 0;
    size_t limit_;
};

}  // namespace core
