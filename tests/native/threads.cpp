// Many threads on one automaton, while others compile grammars over the same vocabulary.
//
//     threads [CALLS]     about so many calls of `next` in all (10,000,000)
//
// A walk draws its tokens from the masks by its own number, so what it saw does not depend on the other threads: a
// part of the walks is repeated afterwards on a fresh vocabulary by one thread, and must have seen the same. Built
// with the thread sanitizer, it also reports every access that no lock and no atomic orders.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <thread>

#include "tokens.hpp"
#include "writer.hpp"

namespace {

using core::Automaton;
using core::Shard;

constexpr uint32_t kThreads = 8;
constexpr uint32_t kWalkers = 6;  // the others compile
constexpr int kSteps = 60;
constexpr int kProbes = 12;  // calls of `next` a step, besides the step itself
constexpr int kRepeatOneIn = 16;
constexpr size_t kMemory = size_t{1} << 28;

/// JSON whose strings have at most `longest` characters and whose arrays at most `most` items (-1: any number).
Writer json(int32_t longest, int32_t most) {
    Writer w;
    const int32_t character = w.any_of({w.chars({0x20, 0x21, 0x23, 0x5b, 0x5d, 0x10ffff}), w.concat({w.text("\\"), w.chars({'"', '"', '\\', '\\', 'n', 'n', 't', 't'})})});
    const int32_t string = w.terminal(w.concat({w.text("\""), w.repeat(character, 0, longest), w.text("\"")}));
    const int32_t digits = w.repeat(w.chars({'0', '9'}), 0, 15);
    const int32_t number = w.terminal(w.concat({w.repeat(w.text("-"), 0, 1), w.chars({'1', '9'}), digits}));
    const int32_t words = w.terminal(w.any_of({w.text("true"), w.text("false"), w.text("null")}));
    const auto mark = [&](std::string_view bytes) { return w.terminal(w.text(bytes)); };
    const int32_t value = w.call(0), comma = mark(",");
    const auto listed = [&](std::string_view open, int32_t item, std::string_view close) {
        const int32_t more = w.loop(w.sequence({comma, item}), 0, most);
        return w.sequence({mark(open), w.loop(w.sequence({item, more}), 0, 1), mark(close)});
    };
    const int32_t member = w.sequence({string, mark(":"), value});
    w.grammar.rules = {w.choice({string, number, words, listed("[", value, "]"), listed("{", member, "}")})};
    return w;
}

/// Every byte, and four thousand longer tokens that JSON is made of; in `shards` shards.
std::shared_ptr<core::Vocabulary> make_vocabulary(uint32_t shards) {
    TokenList tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.byte(static_cast<uint8_t>(byte)), tokens.end();
    constexpr std::string_view pieces[] = {"\"", "\":", "\",\"", "[", "]", "{", "}", ",", "a", "the", "name", "1", "20", "é", "€", "\xf0\x9f", "\\n", "true", "nu", " "};
    std::mt19937 random(7);
    for (int i = 0; i < 4000; ++i) {
        for (uint32_t count = 1 + random() % 4; count-- > 0;) tokens.bytes(pieces[random() % std::size(pieces)]);
        tokens.end();
    }
    tokens.end_of_text();
    return tokens.share(kMemory, shards);
}

/// One text from the start; returns a digest of every answer on the way.
uint64_t walk(Automaton& automaton, uint32_t number, size_t& calls) {
    Shard& vocabulary = automaton.shard();
    std::mt19937 random(number);
    std::vector<uint32_t> row(vocabulary.masks.words());
    uint32_t state = automaton.start();
    uint64_t digest = number;
    const auto next = [&](uint32_t token) {
        ++calls;
        const uint32_t known = automaton.find_next(state, token);  // as the bindings do
        return known != core::Memo::kMissing ? known : automaton.next(state, token);
    };
    for (int step = 0; step < kSteps; ++step) {
        automaton.fill_mask(state, row.data());
        digest = core::combine(digest, core::hash_words(row, automaton.accepts(state)));
        if (step % 8 == 0) {
            digest = core::combine(digest, std::hash<std::string>()(automaton.forced(state)));
            digest = core::combine(digest, automaton.shortest_completion(state));
        }
        std::vector<uint32_t> allowed;
        for (uint32_t token = 0; token < vocabulary.size; ++token) {
            if (row[token / 32] >> (token % 32) & 1) allowed.push_back(token);
        }
        for (int probe = 0; probe < kProbes; ++probe) {
            const uint32_t token = probe % 2 ? allowed[random() % allowed.size()] : random() % vocabulary.size;
            const bool live = next(token) != Automaton::kDead;
            if (live != (row[token / 32] >> (token % 32) & 1)) std::fputs("a mask and `next` disagree\n", stderr), std::abort();
        }
        state = next(allowed[random() % allowed.size()]);
        if (state == Automaton::kFinished) break;
    }
    return digest;
}

}  // namespace

int main(int count, char** arguments) {
    const size_t wanted = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10'000'000;
    const auto begun = std::chrono::steady_clock::now();
    const auto vocabulary = make_vocabulary(2);  // one for the automaton that all walk, one for those that come and go
    const auto shard = std::make_shared<Shard>(vocabulary), busy = std::make_shared<Shard>(vocabulary);
    const auto automaton = json(40, -1).compile(shard);

    std::atomic<size_t> done{0}, compiled{0};
    std::vector<std::vector<std::pair<uint32_t, uint64_t>>> digests(kWalkers);
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            if (thread < kWalkers) {
                for (uint32_t number = thread; done < wanted; number += kWalkers) {
                    size_t calls = 0;
                    digests[thread].emplace_back(number, walk(*automaton, number, calls));
                    done += calls;
                }
            } else {
                for (uint32_t number = 0; done < wanted; ++number) {
                    const auto other = json(1 + static_cast<int32_t>(number % 97), static_cast<int32_t>(thread + number % 13)).compile(number % 2 ? shard : busy);
                    size_t calls = 0;
                    walk(*other, number, calls);
                    done += calls;
                    ++compiled;
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();

    const auto alone = json(40, -1).compile(std::make_shared<Shard>(make_vocabulary(1)));
    size_t walks = 0, repeated = 0, ignored = 0;
    for (const auto& seen : digests) {
        for (const auto& [number, digest] : seen) {
            ++walks;
            if (number % kRepeatOneIn) continue;
            ++repeated;
            if (walk(*alone, number, ignored) != digest) return std::fprintf(stderr, "walk %u saw something else alone\n", number), 1;
        }
    }
    const auto size = automaton->size();
    std::printf("%zu calls of next in %.1f s, %zu walks of %u threads, %zu grammars compiled by %u\n", done.load(), seconds, walks,
                kWalkers, compiled.load(), kThreads - kWalkers);
    std::printf("%zu walks repeated alone, all the same; %zu states, %zu KiB\n", repeated, size.states, size.bytes / 1024);
    return 0;
}
