// Flat arrays in one block of memory, which may be a file mapped by several processes.
//
// Layout: a header, one entry per section, then the sections, each aligned to 64 bytes. Numbers have native byte order; the
// header reveals a different byte order or format version.
// Invariant: a `TableFile` is valid: sizes and checksum were compared when it was opened.
// Thread safety: immutable after construction.
#pragma once

#include "common.hpp"

namespace core {

/// The memory is not a table file of this version and byte order, or it is damaged.
struct BadTableFile : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class TableFile {
public:
    static constexpr uint32_t kVersion = 2;  ///< raise it with every change of the meaning of a section

    /// `keeper` owns the memory. Throws BadImage.
    TableFile(std::span<const uint8_t> memory, std::shared_ptr<const void> keeper) : memory_(memory), keeper_(std::move(keeper)) {
        Header header;
        if (memory.size() < sizeof header || reinterpret_cast<uintptr_t>(memory.data()) % kAlign) throw BadTableFile("too short");
        std::memcpy(&header, memory.data(), sizeof header);
        if (header.magic != kMagic || header.version != kVersion) throw BadTableFile("another format");
        if (header.size != memory.size() || memory.size() % kAlign || header.sections > 64) throw BadTableFile("another size");
        if (memory.size() < sizeof header + header.sections * sizeof(Entry)) throw BadTableFile("damaged");
        if (header.checksum != checksum(memory, header.sections)) throw BadTableFile("damaged");
        entries_.resize(header.sections);
        std::memcpy(entries_.data(), memory.data() + sizeof header, entries_.size() * sizeof(Entry));
        for (const Entry& entry : entries_) {
            if (entry.at % kAlign || entry.at > memory.size() || entry.bytes > memory.size() - entry.at) throw BadTableFile("damaged");
        }
    }

    template <class T>
    std::span<const T> section(size_t index) const {
        if (index >= entries_.size() || entries_[index].bytes % sizeof(T)) throw BadTableFile("another layout");
        const Entry& entry = entries_[index];
        return {reinterpret_cast<const T*>(memory_.data() + entry.at), static_cast<size_t>(entry.bytes / sizeof(T))};
    }
    std::span<const uint8_t> memory() const { return memory_; }

    /// Collects views of sections; `finish` copies them.
    class Writer {
    public:
        template <class T>
        void add(std::span<const T> section) {
            parts_.push_back({reinterpret_cast<const uint8_t*>(section.data()), section.size_bytes()});
        }
        template <class T>
        void add(const std::vector<T>& section) {
            add(std::span<const T>(section));
        }

        TableFile finish() const {
            std::vector<Entry> entries;
            size_t size = align(sizeof(Header) + parts_.size() * sizeof(Entry));
            for (const auto part : parts_) {
                entries.push_back({size, part.size()});
                size = align(size + part.size());
            }
            struct Block {
                explicit Block(size_t size) : data(static_cast<uint8_t*>(::operator new(size, std::align_val_t{kAlign}))) {}
                ~Block() { ::operator delete(data, std::align_val_t{kAlign}); }
                Block(const Block&) = delete;
                Block& operator=(const Block&) = delete;
                uint8_t* data;
            };
            const auto block = std::make_shared<const Block>(size);
            const std::span<uint8_t> memory(block->data, size);
            std::memset(memory.data(), 0, size);
            std::memcpy(memory.data() + sizeof(Header), entries.data(), entries.size() * sizeof(Entry));
            for (size_t i = 0; i < parts_.size(); ++i) {
                if (!parts_[i].empty()) std::memcpy(memory.data() + entries[i].at, parts_[i].data(), parts_[i].size());
            }
            const Header header{kMagic, kVersion, static_cast<uint32_t>(parts_.size()), size, checksum(memory, parts_.size())};
            std::memcpy(memory.data(), &header, sizeof header);
            return TableFile(memory, block);
        }

    private:
        std::vector<std::span<const uint8_t>> parts_;
    };

private:
    static constexpr size_t kAlign = 64;
    static constexpr uint64_t kMagic = 0x31746e656b6f7401;  // a different number in another byte order
    struct Header {
        uint64_t magic;
        uint32_t version, sections;
        uint64_t size, checksum;
    };
    struct Entry {
        uint64_t at, bytes;
    };
    static_assert(sizeof(Header) == 32);

    static size_t align(size_t size) { return (size + kAlign - 1) / kAlign * kAlign; }
    static uint64_t checksum(std::span<const uint8_t> memory, uint64_t sections) {
        const std::span<const uint8_t> held = memory.subspan(sizeof(Header));
        return hash_words({reinterpret_cast<const uint32_t*>(held.data()), held.size() / sizeof(uint32_t)}, combine(kVersion, sections));
    }

    std::span<const uint8_t> memory_;
    std::shared_ptr<const void> keeper_;
    std::vector<Entry> entries_;
};

}  // namespace core
