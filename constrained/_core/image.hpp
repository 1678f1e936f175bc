// Flat arrays in one block of memory, which may be a file that processes share.
//
// Layout: header, one entry a section, then the sections, each at a multiple of 64 bytes. Numbers are as this machine
// writes them; the header tells a machine that writes them otherwise, and an older or newer layout.
// Invariant: an `Image` is whole: sizes and checksum were compared when it was opened. Nothing writes to it afterwards.
#pragma once

#include "common.hpp"

namespace core {

/// The memory is not an image that this code wrote on such a machine, or it was damaged.
struct BadImage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Image {
public:
    static constexpr uint32_t kVersion = 1;  ///< to be raised with every change of what the sections mean

    /// `keeper` owns the memory. Throws BadImage.
    Image(std::span<const uint8_t> memory, std::shared_ptr<const void> keeper) : memory_(memory), keeper_(std::move(keeper)) {
        Header header;
        if (memory.size() < sizeof header || reinterpret_cast<uintptr_t>(memory.data()) % kAlign) throw BadImage("too short");
        std::memcpy(&header, memory.data(), sizeof header);
        if (header.magic != kMagic || header.version != kVersion) throw BadImage("another format");
        if (header.size != memory.size() || memory.size() % kAlign || header.sections > 64) throw BadImage("another size");
        if (memory.size() < sizeof header + header.sections * sizeof(Entry)) throw BadImage("damaged");
        if (header.checksum != checksum(memory, header.sections)) throw BadImage("damaged");
        entries_.resize(header.sections);
        std::memcpy(entries_.data(), memory.data() + sizeof header, entries_.size() * sizeof(Entry));
        for (const Entry& entry : entries_) {
            if (entry.at % kAlign || entry.at > memory.size() || entry.bytes > memory.size() - entry.at) throw BadImage("damaged");
        }
    }

    template <class T>
    std::span<const T> section(size_t index) const {
        if (index >= entries_.size() || entries_[index].bytes % sizeof(T)) throw BadImage("another layout");
        const Entry& entry = entries_[index];
        return {reinterpret_cast<const T*>(memory_.data() + entry.at), static_cast<size_t>(entry.bytes / sizeof(T))};
    }
    std::span<const uint8_t> memory() const { return memory_; }

    /// Collects sections; they are copied by `finish`.
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

        Image finish() const {
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
            return Image(memory, block);
        }

    private:
        std::vector<std::span<const uint8_t>> parts_;
    };

private:
    static constexpr size_t kAlign = 64;
    static constexpr uint64_t kMagic = 0x31746e656b6f7401;  // another number where bytes are in another order
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
