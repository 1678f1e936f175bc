// The fuzz target: several grammars over one vocabulary, some behind a lexer or with items that differ, compiled and walked.
//
// Numbers that make no sense must be refused with std::invalid_argument, what costs too much with TooLarge, at once or in a call that
// takes more steps than the trial of a constraint allows; whatever is compiled must keep the laws of `check.hpp`, also where hardly any
// memory is allowed. Has the entry point of libFuzzer, and `driver.cpp` where there is none.
#include "../../constrained/_core/unique_automaton.hpp"
#include "check.hpp"
#include "distinct.hpp"
#include "written.hpp"

namespace {

using core::Automaton;
using core::LexerAutomaton;
using core::UniqueAutomaton;

constexpr uint32_t kFuel = 500;  // small, so that running out of it is common
constexpr int kSteps = 12;
constexpr uint64_t kWork = 3'000'000;  // of a call, as the trial of a constraint allows

/// A shard, and what was read in it.
struct Open {
    std::shared_ptr<core::Shard> shard;
    std::vector<core::RegexId> known;

    template <class Arrays>
    void read(Arrays& arrays) {
        const std::lock_guard guard(shard->lock);
        const fuzz::Counting counting(*shard);
        arrays.grammar.terminals = core::read_regexes(arrays.regexes, shard->regexes);
        counting.check();
        known.insert(known.end(), arrays.grammar.terminals.begin(), arrays.grammar.terminals.end());
    }
};

template <class A>
void keep(std::vector<std::unique_ptr<A>>& kept, std::unique_ptr<A> automaton) {
    automaton->limit_work(kWork);
    if (automaton->left_recursive() == UINT32_MAX && automaton->start() != A::kDead) kept.push_back(std::move(automaton));
}

template <class A>
void walk(const std::vector<std::unique_ptr<A>>& kept, fuzz::Input& input, uint64_t& work) {
    for (const auto& automaton : kept) {
        try {
            for (uint32_t walks = 1 + input.below(3); walks-- > 0;) fuzz::Checker<A>(*automaton, work).walk(input, kSteps);
        } catch (const core::TooMuchWork&) {
        }
    }
}

/// One grammar of real use, as it was written or changed a little.
void run_written(std::span<const uint8_t> bytes) {
    fuzz::Input input(bytes.subspan(fuzz::kMagic.size()));
    Open open{std::make_shared<core::Shard>(fuzz::json_vocabulary(input)), {}};
    std::vector<std::unique_ptr<Automaton>> kept;
    try {
        fuzz::WrittenArrays arrays(input);
        open.read(arrays);
        keep(kept, std::make_unique<Automaton>(open.shard, arrays.grammar, kFuel, input.pick(fuzz::kLimits)));
    } catch (const std::invalid_argument&) {
    } catch (const core::TooLarge&) {
    }
    uint64_t work = 0;
    walk(kept, input, work);
}

/// Arrays whose items differ.
void run_distinct(std::span<const uint8_t> bytes) {
    fuzz::Input input(bytes.subspan(fuzz::kDistinctMagic.size()));
    const auto shard = std::make_shared<core::Shard>(fuzz::json_vocabulary(input), true);
    std::vector<std::unique_ptr<UniqueAutomaton>> kept;
    try {
        const fuzz::DistinctArrays arrays(input);
        keep(kept, std::make_unique<UniqueAutomaton>(shard, arrays.writer.read(*shard), kFuel, input.pick(fuzz::kLimits)));
    } catch (const std::invalid_argument&) {
    } catch (const core::TooLarge&) {
    }
    uint64_t work = 0;
    walk(kept, input, work);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (fuzz::is_written({data, size})) {
        run_written({data, size});
        return 0;
    }
    if (fuzz::is_distinct({data, size})) {
        run_distinct({data, size});
        return 0;
    }
    fuzz::Input input({data, size});
    const auto vocabulary = fuzz::make_vocabulary(input);
    std::vector<Open> shards(vocabulary->shards);
    std::vector<std::unique_ptr<Automaton>> kept;  // a grammar must not disturb those before it
    std::vector<std::unique_ptr<LexerAutomaton>> lexed;
    uint64_t work = 0;
    for (uint32_t turn = 1 + input.below(3); turn-- > 0;) {
        Open& open = shards[input.below(shards.size())];
        if (!open.shard || open.shard->full()) open = {std::make_shared<core::Shard>(vocabulary), {}};
        try {
            const bool lexer = input.one_in(3);
            fuzz::Arrays arrays(input, input.one_in(3), open.known, !lexer);
            open.read(arrays);
            if (lexer) {
                const fuzz::LexerArrays tokens(input, arrays.regexes.nodes.size());
                keep(lexed, std::make_unique<LexerAutomaton>(open.shard, arrays.grammar, tokens.tokens(), kFuel, input.pick(fuzz::kLimits)));
            } else {
                keep(kept, std::make_unique<Automaton>(open.shard, arrays.grammar, kFuel, input.pick(fuzz::kLimits)));
            }
        } catch (const std::invalid_argument&) {
        } catch (const core::TooLarge&) {
        }
        walk(kept, input, work);
        walk(lexed, input, work);
    }
    return 0;
}
