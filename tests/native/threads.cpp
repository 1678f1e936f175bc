// Many threads on automata of four kinds, while others compile grammars over the same vocabulary.
//
//     threads [CALLS]     about so many calls of `next` in all (10,000,000)
//
// The kinds: rules that are all there; rules whose bodies are supplied when a text first comes there; interleaved members with
// names that differ; arrays whose items differ, or of which two are equal.
// A walk draws its tokens from the masks by its own number, so what it saw does not depend on the other threads: a
// part of the walks is repeated afterwards on a fresh vocabulary by one thread, and must have seen the same. Built
// with the thread sanitizer, it also reports every access that no lock and no atomic orders.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>

#include "../../constrained/_core/unique_automaton.hpp"
#include "tokens.hpp"
#include "writer.hpp"

namespace {

using core::Automaton;
using core::BaseAutomaton;
using core::Shard;
using core::UniqueAutomaton;

constexpr uint32_t kThreads = 8;
constexpr uint32_t kWalkers = 6;  // the others compile
constexpr int kSteps = 60;
constexpr int kProbes = 12;  // calls of `next` a step, besides the step itself
constexpr int kRepeatOneIn = 16;
constexpr uint32_t kFuel = 100'000;
constexpr size_t kMemory = size_t{1} << 28;

/// Grammars of JSON. Rule 0 is a value.
class Json {
public:
    Writer writer;

    /// Strings have at most `longest` characters.
    explicit Json(int32_t longest) {
        const int32_t escape = writer.concat({writer.text("\\"), writer.chars({'"', '"', '\\', '\\', 'n', 'n', 't', 't'})});
        const int32_t character = writer.any_of({writer.chars({0x20, 0x21, 0x23, 0x5b, 0x5d, 0x10ffff}), escape});
        string_ = writer.terminal(writer.concat({writer.text("\""), writer.repeat(character, 0, longest), writer.text("\"")}));
        const int32_t digits = writer.repeat(writer.chars({'0', '9'}), 0, 15);
        const int32_t number = writer.terminal(writer.concat({writer.repeat(writer.text("-"), 0, 1), writer.chars({'1', '9'}), digits}));
        const int32_t words = writer.terminal(writer.any_of({writer.text("true"), writer.text("false"), writer.text("null")}));
        scalar_ = writer.choice({string_, number, words});
        value_ = writer.call(0);
        comma_ = text(",");
        colon_ = text(":");
    }

    /// Values whose arrays and objects have at most `most` parts (-1: any number), which call `items` and `members`.
    int32_t value(int32_t most, int32_t items, int32_t members) {
        const int32_t object = listed("{", writer.sequence({string_, colon_, writer.call(members)}), "}", most);
        return writer.choice({scalar_, listed("[", writer.call(items), "]", most), object});
    }

    void plain(int32_t most) { writer.grammar.rules = {value(most, 0, 0)}; }

    /// An object whose members come in any order: two that are required, one that is not, and others with names that differ.
    void interleaved() {
        const int32_t member = writer.sequence({colon_, value_});
        std::vector<int32_t>& args = writer.grammar.args;
        std::vector<int32_t> row{2, -1, 0, 0, comma_, 4, 2};  // counts, obligations, order, separator, entries, required ones
        int32_t slot = 0;
        for (const std::string_view name : {"\"a\"", "\"name\"", "\"the\""}) row.insert(row.end(), {text(name), member, slot++, 0, 0});
        row.insert(row.end(), {string_, member, -1, 0, 1});
        row.insert(row.end(), {0, 1});
        const auto at = static_cast<int32_t>(args.size());
        args.insert(args.end(), row.begin(), row.end());
        writer.grammar.nodes.push_back({core::Op::Interleave, at, 0, 0});
        const auto members = static_cast<int32_t>(writer.grammar.nodes.size() - 1);
        const int32_t object = writer.sequence({text("{"), members, text("}")});
        writer.grammar.rules = {writer.choice({scalar_, listed("[", value_, "]", -1), object})};
    }

    /// Values and arrays of values whose items differ.
    void compared() {
        using core::Mark;
        const int32_t more = writer.loop(writer.sequence({comma_, writer.mark(Mark::Next), value_}), 0, -1);
        writer.grammar.rules = {writer.choice({scalar_, writer.sequence({text("["), writer.mark(Mark::Open), value_, more, text("]"), writer.mark(Mark::Close)})})};
    }

private:
    int32_t text(std::string_view bytes) { return writer.terminal(writer.text(bytes)); }
    int32_t listed(std::string_view open, int32_t item, std::string_view close, int32_t most) {
        const int32_t more = writer.loop(writer.sequence({comma_, item}), 0, most);
        return writer.sequence({text(open), writer.loop(writer.sequence({item, more}), 0, 1), text(close)});
    }

    int32_t string_, scalar_, value_, comma_, colon_;
};

/// An automaton of each kind over one vocabulary.
class Kinds {
public:
    static constexpr uint32_t kCount = 3;

    explicit Kinds(const std::shared_ptr<core::Vocabulary>& vocabulary) {
        const auto shard = std::make_shared<Shard>(vocabulary), marked = std::make_shared<Shard>(vocabulary, true);
        Json plain(40), interleaved(40), compared(40);
        plain.plain(-1);
        interleaved.interleaved();
        compared.compared();
        automata_.push_back(plain.writer.compile(shard));
        automata_.push_back(interleaved.writer.compile(shard));
        automata_.push_back(std::make_unique<UniqueAutomaton>(marked, compared.writer.read(*marked), kFuel, kMemory));
    }

    BaseAutomaton& of(uint32_t number) { return *automata_[number % kCount]; }

private:
    std::vector<std::unique_ptr<BaseAutomaton>> automata_;
};

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
uint64_t walk(BaseAutomaton& automaton, uint32_t number, size_t& calls) {
    Shard& vocabulary = automaton.shard();
    std::mt19937 random(number);
    std::vector<uint32_t> row(vocabulary.masks.words()), within(row);
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
            const uint32_t left = automaton.shortest_completion(state);
            automaton.fill_mask_within(state, left + 1, within.data());
            digest = core::combine(digest, core::hash_words(within, left));
        }
        std::vector<uint32_t> allowed;
        for (uint32_t token = 0; token < vocabulary.size; ++token) {
            if (row[token / 32] >> (token % 32) & 1) allowed.push_back(token);
        }
        for (int probe = 0; probe < kProbes; ++probe) {
            const uint32_t token = probe % 2 ? allowed[random() % allowed.size()] : random() % vocabulary.size;
            const bool live = next(token) != BaseAutomaton::kDead;
            if (live != (row[token / 32] >> (token % 32) & 1)) std::fputs("a mask and `next` disagree\n", stderr), std::abort();
        }
        state = next(allowed[random() % allowed.size()]);
        if (state == BaseAutomaton::kFinished) break;
    }
    return digest;
}

}  // namespace

int main(int count, char** arguments) {
    const size_t wanted = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10'000'000;
    const auto begun = std::chrono::steady_clock::now();
    const auto vocabulary = make_vocabulary(2);  // one shard for the automata that all walk, one for those that come and go
    Kinds shared(vocabulary);
    const auto own = std::make_shared<Shard>(vocabulary), busy = std::make_shared<Shard>(vocabulary);

    std::atomic<size_t> done{0}, compiled{0};
    std::vector<std::vector<std::pair<uint32_t, uint64_t>>> digests(kWalkers);
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            for (uint32_t number = thread; done < wanted; number += kWalkers) {
                size_t calls = 0;
                if (thread < kWalkers) {
                    digests[thread].emplace_back(number, walk(shared.of(number / kWalkers), number, calls));
                } else {
                    Json other(1 + static_cast<int32_t>(number % 97));
                    other.plain(static_cast<int32_t>(thread + number % 13));
                    walk(*other.writer.compile(number % 2 ? own : busy), number, calls);
                    ++compiled;
                }
                done += calls;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();

    Kinds alone(make_vocabulary(1));
    size_t walks = 0, repeated = 0, ignored = 0;
    for (const auto& seen : digests) {
        for (size_t i = 0; i < seen.size(); ++i) {
            const auto [number, digest] = seen[i];
            ++walks;
            if (i / Kinds::kCount % kRepeatOneIn) continue;  // all kinds in turn
            ++repeated;
            if (walk(alone.of(number / kWalkers), number, ignored) != digest) return std::fprintf(stderr, "walk %u saw something else alone\n", number), 1;
        }
    }
    std::printf("%zu calls of next in %.1f s, %zu walks of %u threads, %zu grammars compiled by %u\n", done.load(), seconds, walks,
                kWalkers, compiled.load(), kThreads - kWalkers);
    std::printf("%zu walks repeated alone, all the same;", repeated);
    for (uint32_t kind = 0; kind < Kinds::kCount; ++kind) {
        const auto size = shared.of(kind).size();
        std::printf(" %zu states, %zu KiB%s", size.states, size.bytes / 1024, kind + 1 < Kinds::kCount ? "," : "\n");
    }
    return 0;
}
