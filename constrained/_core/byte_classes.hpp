// Classes of bytes that nearly every terminal treats alike.
//
// Which continuation bytes of UTF-8 belong together depends on the bytes of the character before them: after E0 those up to 9F
// are not allowed, after E2 80 some are white space, and mostly all are alike. So the class of a continuation byte depends on
// its place, which is the part of the character that was read.
// Thread safety: immutable after construction.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "regex.hpp"

namespace core {

class ByteClasses {
public:
    /// The place between characters, and before a token, which may begin inside of a character.
    static constexpr uint8_t kBetween = 0;

    static const ByteClasses& instance() {
        static const ByteClasses classes;
        return classes;
    }

    /// The class of a byte at a place.
    uint8_t of(uint8_t place, uint8_t byte) const { return places_[place].of[byte]; }
    /// The place after the byte.
    uint8_t next(uint8_t place, uint8_t byte) const { return places_[place].next[byte]; }
    /// The bytes of a class.
    const ByteSet& bytes_of(uint8_t byte_class) const { return bytes_of_[byte_class]; }

    /// The classes whose bytes, without those outside the alphabet, all have the same value.
    template <class Value>
    ByteSet uniform(const ByteSet& alphabet, Value&& value) const {
        const auto alike = [&](const std::vector<uint8_t>& bytes) {
            const uint8_t* first = nullptr;
            for (const uint8_t& byte : bytes) {
                if (!alphabet[byte]) continue;
                if (!first) first = &byte;
                if (value(byte) != value(*first)) return false;
            }
            return true;
        };
        ByteSet found = ByteSet().set();
        for (const auto& [name, bytes] : others_) found[name] = alike(bytes);
        if (alike(continuations_[0].bytes)) return found;
        for (const auto& [name, bytes] : continuations_) found[name] = alike(bytes);
        return found;
    }

private:
    struct Range {
        uint8_t first, last;
    };
    /// After these bytes of a character, each of these sets of continuation bytes is a class, and the other ones are one.
    struct Split {
        std::string after;
        std::vector<std::vector<Range>> sets;
    };
    struct Class {
        uint8_t name;
        std::vector<uint8_t> bytes;
    };
    struct Place {
        std::string after;
        size_t left;  // continuation bytes that complete the character
        std::array<uint8_t, 256> of, next;
    };

    ByteClasses() {
        // What UTF-8 allows, and the white space outside ASCII, which begins with C2, E1, E2, E3 or EF.
        const std::vector<Split> splits{
            {"", {{{0x80, 0x80}}, {{0x81, 0x81}}, {{0x82, 0x8f}}, {{0x90, 0x9f}}}},
            {"\xc2", {{{0x80, 0x9f}}, {{0xa0, 0xa0}}}},
            {"\xe0", {{{0x80, 0x9f}}}},
            {"\xe1", {{{0x9a, 0x9a}}}},
            {"\xe1\x9a", {{{0x80, 0x80}}}},
            {"\xe2", {{{0x80, 0x80}}, {{0x81, 0x81}}}},
            {"\xe2\x80", {{{0x80, 0x8a}}, {{0xa8, 0xa9}, {0xaf, 0xaf}}}},
            {"\xe2\x81", {{{0x9f, 0x9f}}}},
            {"\xe3", {{{0x80, 0x80}}}},
            {"\xe3\x80", {{{0x80, 0x80}}}},
            {"\xed", {{{0x80, 0x9f}}}},
            {"\xef", {{{0xbb, 0xbb}}}},
            {"\xef\xbb", {{{0xbf, 0xbf}}}},
            {"\xf0", {{{0x80, 0x8f}}}},
            {"\xf4", {{{0x80, 0x8f}}}},
        };
        ByteSet all;
        for (int byte = 0x80; byte < 0xc0; ++byte) all.set(byte);
        continuation_class(all);
        for (const Split& split : splits) places_.push_back({split.after, split.after.empty() ? 0 : length(split.after[0]) - split.after.size(), {}, {}});
        for (size_t left = 1; left <= 3; ++left) places_.push_back({"?", left, {}, {}});
        for (size_t at = 0; at < places_.size(); ++at) {
            Place& place = places_[at];
            for (int byte = 0; byte < 256; ++byte) place.of[byte] = single_class(static_cast<uint8_t>(byte));
            ByteSet rest = all;
            const auto name = [&](const ByteSet& bytes) {
                const uint8_t found = continuation_class(bytes);
                for (size_t byte = bytes._Find_first(); byte < bytes.size(); byte = bytes._Find_next(byte)) place.of[byte] = found;
            };
            for (const auto& ranges : at < splits.size() ? splits[at].sets : std::vector<std::vector<Range>>()) {
                ByteSet bytes;
                for (const auto [first, last] : ranges) {
                    for (int byte = first; byte <= last; ++byte) bytes.set(byte);
                }
                name(bytes);
                rest &= ~bytes;
            }
            name(rest);
            for (int byte = 0; byte < 256; ++byte) place.next[byte] = find_next(place, static_cast<uint8_t>(byte));
        }
        for (int byte = 0; byte < 256; ++byte) {
            if (all[byte]) continue;
            bytes_of_[single_class(static_cast<uint8_t>(byte))].set(byte);
        }
        for (int name = 0; name < 256; ++name) {
            if (!all[name] && bytes_of_[name].count() > 1) others_.push_back({static_cast<uint8_t>(name), listed(bytes_of_[name])});
        }
    }

    /// The class of a byte that does not continue a character; it is named by one of its bytes.
    static uint8_t single_class(uint8_t byte) {
        if (byte >= 'a' && byte <= 'z') return 'a';
        if (byte >= 'A' && byte <= 'Z') return 'A';
        if (byte >= '0' && byte <= '9') return '0';
        if (byte < 0x80) return byte;
        if (byte < 0xc2 || byte > 0xf4) return 0xc0;  // not UTF-8
        if (byte < 0xe0) return byte == 0xc2 ? byte : 0xc3;  // lead byte of two
        if (byte <= 0xe3 || byte == 0xed || byte == 0xef || byte == 0xf0 || byte == 0xf4) return byte;
        return byte < 0xf0 ? 0xe4 : 0xf1;  // lead byte of three, of four
    }
    /// The class of these continuation bytes; the names of such classes are continuation bytes, in no order.
    uint8_t continuation_class(const ByteSet& bytes) {
        const auto known = std::ranges::find_if(continuations_, [&](const Class& other) { return bytes_of_[other.name] == bytes; });
        if (known != continuations_.end()) return known->name;
        const auto made = static_cast<uint8_t>(0x80 + continuations_.size());
        bytes_of_[made] = bytes;
        continuations_.push_back({made, listed(bytes)});
        return made;
    }
    static std::vector<uint8_t> listed(const ByteSet& bytes) {
        std::vector<uint8_t> list;
        for (size_t byte = bytes._Find_first(); byte < bytes.size(); byte = bytes._Find_next(byte)) list.push_back(static_cast<uint8_t>(byte));
        return list;
    }
    /// Bytes of a character.
    static size_t length(uint8_t lead) { return lead < 0xc2 || lead > 0xf4 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4; }
    uint8_t find_next(const Place& place, uint8_t byte) const {
        const bool continues = byte >= 0x80 && byte < 0xc0;
        if (continues && place.left == 0) return kBetween;
        const std::string after = (continues ? place.after : "") + static_cast<char>(byte);
        const size_t left = (continues ? place.left : length(byte)) - 1;
        if (left == 0) return kBetween;
        const auto same = [&](const Place& other) { return other.after == after || (other.after == "?" && other.left == left); };
        return static_cast<uint8_t>(std::ranges::find_if(places_, same) - places_.begin());
    }

    std::vector<Place> places_;
    std::array<ByteSet, 256> bytes_of_;
    std::vector<Class> continuations_;  // the first one has all continuation bytes
    std::vector<Class> others_;         // with more than one byte
};

}  // namespace core
