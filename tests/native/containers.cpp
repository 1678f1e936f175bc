// `InternTable` beside a map, where many hashes begin alike.
//
// A table of blocks chosen by the first 20 bits of a hash keeps what no longer fits beside its blocks. Random hashes never get
// there: here they are made to share these bits, and some of them all their bits.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <vector>

#include "constrained/_core/common.hpp"

namespace {

/// The argument for which `core::mix` gives `mixed`.
uint64_t unmixed(uint64_t mixed) {
    constexpr uint64_t kFactor = 0xd6e8feb86659fd93ULL;
    uint64_t inverse = kFactor;  // Newton: the number of right bits doubles each time
    for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
    for (int i = 0; i < 2; ++i) {
        mixed ^= mixed >> 32;
        mixed *= inverse;
    }
    return mixed ^ mixed >> 32;
}

struct Content {
    uint64_t hash;
    uint32_t text;
};

int failed = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "containers: %s\n", what);
    failed = 1;
}

/// Asks for all contents in a random order, three times; an id is given once, and stays.
void check(const std::vector<Content>& contents, std::mt19937& random) {
    core::InternTable table;
    std::map<uint32_t, uint32_t> ids;  // by text
    std::vector<uint32_t> texts;       // by id
    std::vector<size_t> order(contents.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = 0; round < 3; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (const size_t at : order) {
            const Content& one = contents[at];
            bool made = false;
            const uint32_t id = table.find_or_insert(
                one.hash, [&](uint32_t other) { return texts[other] == one.text; },
                [&] {
                    made = true;
                    texts.push_back(one.text);
                    return static_cast<uint32_t>(texts.size() - 1);
                });
            expect(made == ids.try_emplace(one.text, id).second, "a content was made twice, or never");
            expect(ids[one.text] == id, "a content has two ids");
        }
    }
    expect(texts.size() == contents.size(), "contents and ids are not as many");
}

}  // namespace

int main() {
    std::mt19937 random(0);
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789abcdef}}) expect(core::mix(unmixed(value)) == value, "not the inverse of mix");
    for (const uint32_t alike : {100u, 256u, 257u, 3000u}) {
        std::vector<Content> contents;
        uint32_t text = 0;
        for (uint32_t i = 0; i < alike; ++i) {  // the same first 20 bits; every fourth one has 32 bits in common with the one before
            const uint32_t tag = 0xabcde000u | (i - (i % 4 == 3)) % 4096;
            contents.push_back({unmixed(uint64_t{tag} << 32 | i), text++});
        }
        for (uint32_t i = 0; i < 5000; ++i) contents.push_back({random() | uint64_t{random()} << 32, text++});
        check(contents, random);
    }
    if (!failed) std::puts("containers: as a map");
    return failed;
}
