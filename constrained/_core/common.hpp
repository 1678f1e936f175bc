// Ids, hashing, and the containers that every store of the core uses.
//
// Invariant: an id names the same content for the lifetime of its store. Stores only append; memos may be cleared because
// their content can be recomputed.
// Thread safety: see each class.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
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

constexpr uint32_t kLongest = kInfinite - 1;  ///< of minimum lengths: longer ones are counted as this

/// A finite length; one that does not fit is `kLongest`.
constexpr uint32_t bounded_length(uint64_t length) { return length < kLongest ? static_cast<uint32_t>(length) : kLongest; }

/// Saturating sum: `kInfinite` plus anything is `kInfinite`.
constexpr uint32_t add_lengths(uint32_t a, uint32_t b) {
    return a == kInfinite || b == kInfinite ? kInfinite : bounded_length(uint64_t{a} + b);
}

/// A compilation budget ran out.
struct TooLarge : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// An entry of a memo that holds a provisional value while the value is computed. Where the computation throws (work is limited, see
/// work.hpp), the entry is erased: what is read from a memo is never half-made.
template <class Map>
class Provisional {
public:
    Provisional(Map& memo, typename Map::key_type key) : memo_(memo), key_(std::move(key)), exceptions_(std::uncaught_exceptions()) {}
    ~Provisional() {
        if (std::uncaught_exceptions() > exceptions_) memo_.erase(key_);
    }
    Provisional(const Provisional&) = delete;
    Provisional& operator=(const Provisional&) = delete;

private:
    Map& memo_;
    const typename Map::key_type key_;
    const int exceptions_;
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
///
/// A large table consists of blocks, chosen by the first bits of the hash: extendible hashing (Fagin, Nievergelt, Pippenger
/// and Strong 1979). A full block is split, so no insertion costs more than one block, however large the table is.
class InternTable {
public:
    InternTable() { directory_.push_back(add_block(kSmall, 0)); }

    /// The id for which `same(id)` holds, or the one that `make()` creates.
    template <class Same, class Make>
    uint32_t find_or_insert(uint64_t hash, Same&& same, Make&& make) {
        const uint32_t tag = static_cast<uint32_t>(mix(hash) >> 32);
        const Slot* slots = directory_[place(tag)] + 1;
        for (size_t at = tag & mask_; slots[at].id != kNone; at = (at + 1) & mask_) {
            if (slots[at].tag == tag && same(slots[at].id)) return slots[at].id;
        }
        for (const Slot& slot : crowded_) {
            if (slot.tag == tag && same(slot.id)) return slot.id;
        }
        const uint32_t id = make();
        insert({tag, id});
        return id;
    }

    size_t bytes() const {
        return blocks_.size() * (mask_ + 2) * sizeof(Slot) + directory_.size() * sizeof(Slot*) + crowded_.capacity() * sizeof(Slot);
    }

private:
    static constexpr uint32_t kNone = UINT32_MAX;
    static constexpr uint32_t kSmall = 64, kLarge = 512;  // slots of a block: as long as there is one, and at last
    static constexpr uint32_t kMostBits = 20;             // of the hash that choose a block
    struct Slot {
        uint32_t tag = 0;
        uint32_t id = kNone;
    };
    struct Counts {
        uint32_t held, bits;  // slots in use; bits of the hash that all of them share
    };

    size_t place(uint32_t tag) const { return uint64_t{tag} >> (32 - bits_); }
    /// A block begins with its `Counts`, in the place of a slot.
    static Counts counts(const Slot* block) { return {block->tag, block->id}; }

    Slot* add_block(uint32_t size, uint32_t bits) {
        mask_ = size - 1;
        blocks_.push_back(std::make_unique<Slot[]>(size + 1));
        blocks_.back()[0] = {0, bits};
        return blocks_.back().get();
    }

    void put(Slot* block, Slot added) {
        size_t at = added.tag & mask_;
        while (block[1 + at].id != kNone) at = (at + 1) & mask_;
        block[1 + at] = added;
        ++block->tag;
    }

    void insert(Slot added) {
        for (;;) {
            Slot* block = directory_[place(added.tag)];
            const auto [held, bits] = counts(block);
            if ((held + 1) * 2 <= mask_ + 1) return put(block, added);
            if (bits == kMostBits) return crowded_.push_back(added);
            mask_ + 1 < kLarge ? enlarge() : split(block, added.tag, bits);
        }
    }

    /// Doubles the only block.
    void enlarge() {
        const std::unique_ptr<Slot[]> old = std::move(blocks_[0]);
        const uint32_t size = mask_ + 1;
        blocks_.clear();
        directory_[0] = add_block(2 * size, 0);
        for (uint32_t at = 1; at <= size; ++at) {
            if (old[at].id != kNone) put(directory_[0], old[at]);
        }
    }

    /// Moves the slots of a block with another next bit into a block of their own.
    void split(Slot* block, uint32_t tag, uint32_t bits) {
        if (bits == bits_) {
            std::vector<Slot*> twice;
            twice.reserve(2 * directory_.size());
            for (Slot* one : directory_) twice.insert(twice.end(), {one, one});
            directory_.swap(twice);
            ++bits_;
        }
        std::array<Slot, kLarge> old;
        std::copy_n(block + 1, kLarge, old.begin());
        std::fill_n(block + 1, kLarge, Slot());
        *block = {0, bits + 1};
        Slot* const other = add_block(kLarge, bits + 1);
        const size_t width = size_t{1} << (bits_ - bits), first = place(tag) & ~(width - 1);
        for (size_t at = first + width / 2; at < first + width; ++at) directory_[at] = other;
        for (const Slot& slot : old) {
            if (slot.id != kNone) put(directory_[place(slot.tag)], slot);
        }
    }

    uint32_t bits_ = 0, mask_ = 0;
    std::vector<Slot*> directory_;  // by the first `bits_` bits of the hash
    std::vector<std::unique_ptr<Slot[]>> blocks_;
    std::vector<Slot> crowded_;  // more slots than fit with equal first bits
};

/// Append-only array of plain values whose growth moves nothing.
template <class T>
class ChunkedArray {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
    T& operator[](size_t index) { return chunks_[index >> kBits].values[index & (kChunk - 1)]; }
    const T& operator[](size_t index) const { return chunks_[index >> kBits].values[index & (kChunk - 1)]; }
    void push_back(const T& value) {
        if (size_ == chunks_.size() << kBits) chunks_.emplace_back();
        std::construct_at(&chunks_.back().values[size_++ & (kChunk - 1)], value);
    }
    void append(size_t count, const T& value) {
        while (count-- > 0) push_back(value);
    }
    size_t size() const { return size_; }
    size_t bytes() const { return chunks_.size() * kChunk * sizeof(T); }

private:
    static constexpr size_t kBits = 10, kChunk = size_t{1} << kBits;
    struct Chunk {
        Chunk() : values(std::allocator<T>().allocate(kChunk)) {}
        Chunk(Chunk&& other) noexcept : values(std::exchange(other.values, nullptr)) {}
        Chunk& operator=(Chunk&&) = delete;
        ~Chunk() {
            if (values) std::allocator<T>().deallocate(values, kChunk);
        }
        T* values;  // made as they are pushed
    };
    std::vector<Chunk> chunks_;
    size_t size_ = 0;
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
        for (uint32_t index = 0; index < size_; ++index) std::destroy_at(&(*this)[index]);
        for (int i = 0; i < kBlocks; ++i) {
            T* const block = blocks_[i].exchange(nullptr, std::memory_order_relaxed);
            if (block) std::allocator<T>().deallocate(block, size_of(i));
        }
        size_ = 0;
    }

    /// A new element. Its block is allocated for many, but only this one is made: large blocks cost no more than small ones.
    uint32_t push() {
        auto& block = blocks_[block_of(size_)];
        if (!block.load(std::memory_order_relaxed)) block.store(std::allocator<T>().allocate(size_of(block_of(size_))), std::memory_order_release);
        std::construct_at(block.load(std::memory_order_relaxed) + offset_of(size_));
        return size_++;
    }

    T& operator[](uint32_t index) {
        return blocks_[block_of(index)].load(std::memory_order_acquire)[offset_of(index)];
    }
    const T& operator[](uint32_t index) const {
        return blocks_[block_of(index)].load(std::memory_order_acquire)[offset_of(index)];
    }
    uint32_t size() const { return size_; }

private:
    static constexpr int kFirstBits = 6, kBlocks = 27;
    static constexpr size_t size_of(int block) { return size_t{1} << (kFirstBits + block); }
    static constexpr int block_of(uint32_t index) {
        return 31 - std::countl_zero((index >> kFirstBits) + 1);
    }
    static constexpr size_t offset_of(uint32_t index) {
        return index - (((size_t{1} << block_of(index)) - 1) << kFirstBits);
    }

    std::atomic<T*> blocks_[kBlocks] = {};
    uint32_t size_ = 0;
};

/// Memo from a non-zero 64-bit key to a 32-bit value. Thread safety: lock-free reads, writes under the store's lock.
/// Grows block by block, as `InternTable` does. A block that was split is kept until the memo is cleared or destroyed, because a
/// reader may still use it; so is a directory.
class Memo {
    struct Block;
    struct Directory;

public:
    static constexpr uint32_t kMissing = UINT32_MAX;
    /// What a reader may still use.
    struct Retired {
        std::vector<std::unique_ptr<Block>> blocks;
        std::vector<std::unique_ptr<Directory>> directories;
    };

    explicit Memo(size_t limit = SIZE_MAX) : limit_(limit) { begin(); }

    uint32_t find(uint64_t key) const {
        const uint64_t hash = mix(key);
        const Block* block = current_.load(std::memory_order_acquire)->of(hash).load(std::memory_order_acquire);
        for (size_t at = hash & kMask;; at = (at + 1) & kMask) {
            const uint64_t held = block->slots[at].key.load(std::memory_order_acquire);
            if (held == key) return block->slots[at].value.load(std::memory_order_relaxed);
            if (held == 0) return kMissing;
        }
    }

    /// Stores the value unless the memo is full; then it is recomputed next time.
    void insert(uint64_t key, uint32_t value) {
        if (count_ >= limit_) return;
        const uint64_t hash = mix(key);
        for (;;) {
            Block* block = directory().of(hash).load(std::memory_order_relaxed);
            if ((block->held + 1) * 2 <= kMask + 1) {
                if (block->put(key, value)) ++count_;
                return;
            }
            if (block->bits == kMostBits) return;
            split(*block, hash);
        }
    }

    /// Clears the memo and returns what it consisted of. The caller destroys that after `ReadEpoch::wait_for_readers`.
    Retired retire_all() {
        Retired retired;
        std::swap(retired, kept_);
        begin();
        count_ = 0;
        return retired;
    }

    size_t bytes() const {
        size_t total = kept_.blocks.size() * sizeof(Block);
        for (const auto& directory : kept_.directories) total += sizeof(Directory) + (sizeof(Block*) << directory->bits);
        return total;
    }

private:
    static constexpr size_t kMask = 255;        // of a place in a block
    static constexpr uint32_t kMostBits = 24;  // of the hash that choose a block
    struct Slot {
        std::atomic<uint64_t> key{0};
        std::atomic<uint32_t> value{0};
    };
    struct Block {
        explicit Block(uint32_t bits) : bits(bits) {}
        bool put(uint64_t key, uint32_t value) {
            size_t at = mix(key) & kMask;
            while (const uint64_t present = slots[at].key.load(std::memory_order_relaxed)) {
                if (present == key) return false;
                at = (at + 1) & kMask;
            }
            slots[at].value.store(value, std::memory_order_relaxed);
            slots[at].key.store(key, std::memory_order_release);
            ++held;
            return true;
        }
        const uint32_t bits;  // of the hash that all keys share
        uint32_t held = 0;
        std::array<Slot, kMask + 1> slots;
    };
    struct Directory {
        explicit Directory(uint32_t bits)
            : bits(bits), many(size_t{1} << bits > few.size() ? new std::atomic<Block*>[size_t{1} << bits] : nullptr), blocks(many ? many.get() : few.data()) {}
        Directory(const Directory&) = delete;
        size_t place(uint64_t hash) const { return hash >> 1 >> (63 - bits); }
        std::atomic<Block*>& of(uint64_t hash) const { return blocks[place(hash)]; }
        const uint32_t bits;
        std::array<std::atomic<Block*>, 4> few{};  // those of a small memo: a reader finds them where it reads `bits`
        const std::unique_ptr<std::atomic<Block*>[]> many;
        std::atomic<Block*>* const blocks;  // by the first `bits` bits of the hash
    };

    Directory& directory() const { return *kept_.directories.back(); }
    Block* add_block(uint32_t bits) { return kept_.blocks.emplace_back(std::make_unique<Block>(bits)).get(); }
    void publish(std::unique_ptr<Directory> directory) {
        current_.store(directory.get(), std::memory_order_release);
        kept_.directories.push_back(std::move(directory));
    }
    void begin() {
        auto directory = std::make_unique<Directory>(0);
        directory->blocks[0] = add_block(0);
        publish(std::move(directory));
    }

    /// Puts the keys of a block into two, by the next bit of their hashes.
    void split(const Block& full, uint64_t hash) {
        Block* const halves[2] = {add_block(full.bits + 1), add_block(full.bits + 1)};
        for (const Slot& slot : full.slots) {
            const uint64_t key = slot.key.load(std::memory_order_relaxed);
            if (key) halves[mix(key) >> (63 - full.bits) & 1]->put(key, slot.value.load(std::memory_order_relaxed));
        }
        if (full.bits == directory().bits) {
            auto larger = std::make_unique<Directory>(full.bits + 1);
            for (size_t at = 0; at < size_t{2} << full.bits; ++at) {
                larger->blocks[at].store(directory().blocks[at / 2].load(std::memory_order_relaxed), std::memory_order_relaxed);
            }
            publish(std::move(larger));
        }
        const size_t width = size_t{1} << (directory().bits - full.bits), first = directory().place(hash) & ~(width - 1);
        for (size_t at = 0; at < width; ++at) directory().blocks[first + at].store(halves[at >= width / 2], std::memory_order_release);
    }

    std::atomic<const Directory*> current_{nullptr};
    Retired kept_;
    size_t count_ = 0;
    size_t limit_;
};

}  // namespace core
