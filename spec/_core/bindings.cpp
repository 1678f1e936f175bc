// Python bindings of native speculation and sampling; spec/noise.py and spec/scores.py define the latter.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "drafter.hpp"
#include "grammars/_core/gil.hpp"
#include "gumbel.hpp"
#include "prior.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace spec;

namespace {

std::shared_ptr<AutomatonView> automaton_view(nb::capsule table, std::shared_ptr<Retokenizer> retokenizer) {
    if (std::string_view(table.name()) != kAutomatonTable) {
        throw nb::value_error("the automaton table has another version");
    }
    const auto* functions = static_cast<const AutomatonTable*>(table.data());
    std::shared_ptr<void> owner(new nb::object(std::move(table)), [](void* object) {
        const native::AcquiredGil acquired;
        delete static_cast<nb::object*>(object);
    });
    return std::make_shared<AutomatonView>(*functions, std::move(owner), std::move(retokenizer));
}

void check(const Retokenizer& retokenizer, const std::vector<uint32_t>& tokens) {
    for (const uint32_t token : tokens) {
        if (token >= retokenizer.size()) throw nb::index_error("token id outside the vocabulary");
    }
}

template <class T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = Array<const int64_t>;

template <class T>
std::span<T> span_of(const Array<T>& array) {
    return {array.data(), array.size()};
}

void check_ids(const Ids& ids) {
    for (const int64_t id : span_of(ids)) {
        if (id < 0 || id >> 32) throw nb::index_error("token id out of range");
    }
}

template <class Score>
void define_scores(nb::module_& m) {
    m.def(
        "gumbel_candidates",
        [](const Array<const Score>& scores, double scale, std::optional<Ids> ids, uint64_t seed, uint32_t sequence,
           uint32_t purpose, uint32_t position, size_t count) {
            if (ids) {
                if (ids->size() != scores.size()) throw nb::value_error("ids and scores have different lengths");
                check_ids(*ids);
            }
            const native::ReleasedGil released;
            return gumbel_candidates(span_of(scores), scale, ids ? ids->data() : nullptr, {seed, sequence, purpose, position}, count);
        },
        "scores"_a, "scale"_a, "ids"_a.none(), "seed"_a, "sequence"_a, "purpose"_a, "position"_a, "count"_a,
        "Indices of the scores that can have the largest keys; see constrained.spec.scores.gumbel_candidates.");
    m.def(
        "top_indices",
        [](const Array<const Score>& scores, size_t count) { return top_indices(span_of(scores), count); }, "scores"_a,
        "count"_a, "Indices of the largest scores, best first; see constrained.spec.scores.top_indices.");
    m.def(
        "log_sum_exp", [](const Array<const Score>& scores, double scale) { return log_sum_exp(span_of(scores), scale); },
        "scores"_a, "scale"_a, "See constrained.spec.scores.log_sum_exp.");
}

/// A table as numbers: per entry the key, the size, and kMaxTokens pairs (token, count).
constexpr size_t kWidth = 2 + 2 * ContextCounts::kMaxTokens;

std::vector<uint64_t> dump(const ContextCounts& counts) {
    const std::vector<ContextCounts::Entry> entries = counts.entries();
    std::vector<uint64_t> numbers;
    numbers.reserve(entries.size() * kWidth);
    for (const ContextCounts::Entry& entry : entries) {
        numbers.push_back(entry.key);
        numbers.push_back(entry.size);
        for (size_t i = 0; i < ContextCounts::kMaxTokens; ++i) {
            numbers.push_back(i < entry.size ? entry.tokens[i] : 0);
            numbers.push_back(i < entry.size ? entry.counts[i] : 0);
        }
    }
    return numbers;
}

void restore(ContextCounts& counts, const std::vector<uint64_t>& numbers, uint32_t tokens) {
    std::vector<ContextCounts::Entry> entries(numbers.size() / kWidth);
    for (size_t e = 0; e < entries.size(); ++e) {
        const uint64_t* from = numbers.data() + e * kWidth;
        entries[e].key = from[0];
        entries[e].size = static_cast<uint32_t>(std::min<uint64_t>(from[1], ContextCounts::kMaxTokens + 1));
        for (size_t i = 0; i < ContextCounts::kMaxTokens; ++i) {
            entries[e].tokens[i] = static_cast<uint32_t>(from[2 + 2 * i]);
            entries[e].counts[i] = static_cast<uint32_t>(from[3 + 2 * i]);
        }
    }
    if (numbers.size() % kWidth || !counts.restore(std::move(entries), tokens)) {
        throw nb::value_error("not the numbers of a table of counts");
    }
}

using Kinds = std::vector<std::pair<uint32_t, std::pair<double, double>>>;

Kinds kinds_of(const Calibration& calibration) {
    Kinds kinds;
    for (const auto& [kind, count] : calibration.counts()) kinds.push_back({kind, {count.hits, count.trials}});
    return kinds;
}

void restore(Calibration& calibration, const Kinds& kinds) {
    calibration.clear();
    for (const auto& [kind, count] : kinds) {
        if (!(count.first >= 0 && count.first <= count.second && count.second <= 2 * Calibration::kMany)) {
            throw nb::value_error("not the numbers of a calibration");
        }
        calibration.set(kind, {count.first, count.second});
    }
}

}  // namespace

NB_MODULE(_core, m) {
#ifdef NDEBUG
    nb::set_leak_warnings(false);  // what a user's module keeps until the interpreter ends
#endif
    m.doc() = "Native speculation: tables of counts, sources, the best-first draft tree; and Gumbel sampling of scores.";

    m.def(
        "philox_words",
        [](uint64_t seed, uint32_t sequence, uint32_t purpose, uint32_t position, const Ids& ids,
           uint32_t level, const Array<uint32_t>& out) {
            if (ids.size() != out.size()) throw nb::value_error("out and ids have different lengths");
            if (level >= kLevels) throw nb::value_error("a token has the words 0 .. 3");
            check_ids(ids);
            philox_words({seed, sequence, purpose, position}, span_of(ids), level, out.data());
        },
        "seed"_a, "sequence"_a, "purpose"_a, "position"_a, "ids"_a, "level"_a, "out"_a,
        "Writes one word of noise of each of the ids; see constrained.spec.noise.");
    m.def(
        "uniforms",
        [](uint64_t seed, uint32_t sequence, uint32_t purpose, uint32_t position, const Ids& ids, const Array<double>& out) {
            if (ids.size() != out.size()) throw nb::value_error("out and ids have different lengths");
            check_ids(ids);
            uniforms({seed, sequence, purpose, position}, span_of(ids), out.data());
        },
        "seed"_a, "sequence"_a, "purpose"_a, "position"_a, "ids"_a, "out"_a,
        "Writes the numbers between 0 and 1 that the noise of the ids is made from; see constrained.spec.noise.");
    m.def(
        "word_ends", [](const nb::bytes& text) { return word_ends({text.c_str(), text.size()}); }, "text"_a,
        "The end of each word of a text, in bytes: tokens do not cross it.");
    define_scores<float>(m);
    define_scores<double>(m);

    nb::class_<Retokenizer>(m, "Retokenizer", "Approximates how a tokenizer writes bytes.")
        .def(
            "__init__",
            [](Retokenizer* self, nb::bytes blob, std::vector<int64_t> offsets) {
                if (offsets.empty() || offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end()) ||
                    static_cast<size_t>(offsets.back()) != blob.size()) {
                    throw nb::value_error("offsets do not describe the blob");
                }
                new (self) Retokenizer(std::string(blob.c_str(), blob.size()), std::move(offsets));
            },
            "blob"_a, "offsets"_a, "Token t is blob[offsets[t]:offsets[t + 1]].")
        .def(
            "next",
            [](const Retokenizer& self, nb::bytes before, nb::bytes after) -> nb::object {
                const auto found = self.next({before.c_str(), before.size()}, {after.c_str(), after.size()});
                if (!found) return nb::none();
                return nb::make_tuple(found->token, found->certain);
            },
            "before"_a, "after"_a, "(first token of `after`, whether it cannot extend beyond `after`) or None.");

    nb::class_<AutomatonView>(m, "AutomatonView", "The queries of an automaton for speculation, memoised by state.")
        .def(nb::new_(&automaton_view), "table"_a, "retokenizer"_a, "From `automaton_table` of an automaton.");

    nb::class_<ConstraintMemory>(m, "ConstraintMemory", "Tables learned under one constraint.").def(nb::init<>());

    nb::class_<Memory>(m, "Memory", "Tables learned over one vocabulary.")
        .def(nb::init<>())
        .def(
            "fork",
            [](const std::shared_ptr<Memory>& self) {
                const std::lock_guard<std::mutex> held(self->lock);
                return std::make_shared<Memory>(self);
            },
            "A memory that begins with these tables, which must not change any more.")
        .def(
            "bytes_of",
            [](Memory& self, const ConstraintMemory& constraint) {
                const std::lock_guard<std::mutex> held(self.lock);
                return constraint.bytes();
            },
            "constraint"_a, nb::call_guard<native::ReleasedGil>(), "Bytes of memory of a constraint's tables, about.")
        .def(
            "dump_tables",
            [](Memory& self) {
                const std::lock_guard<std::mutex> held(self.lock);
                return std::make_pair(dump(self.ngrams), dump(self.slots));
            },
            "N-grams and slots as numbers.")
        .def(
            "dump_calibration",
            [](Memory& self) {
                const std::lock_guard<std::mutex> held(self.lock);
                return std::make_pair(kinds_of(self.calibration), self.mixer.numbers());
            },
            "(kind, (hits, trials)) of the calibration, and the mixer's numbers.")
        .def(
            "restore_tables",
            [](Memory& self, const std::vector<uint64_t>& ngrams, const std::vector<uint64_t>& slots, uint32_t tokens) {
                const std::lock_guard<std::mutex> held(self.lock);
                restore(self.ngrams, ngrams, tokens);
                restore(self.slots, slots, tokens);
            },
            "ngrams"_a, "slots"_a, "tokens"_a, "Restores the result of `dump_tables`, for a vocabulary of `tokens` tokens.")
        .def(
            "restore_calibration",
            [](Memory& self, const Kinds& kinds, const std::vector<double>& weights) {
                const std::lock_guard<std::mutex> held(self.lock);
                if (!self.mixer.restore(weights)) throw nb::value_error("not the numbers of a mixer");
                restore(self.calibration, kinds);
            },
            "kinds"_a, "weights"_a, "Restores the result of `dump_calibration`.")
        .def(
            "teach_slots",
            [](Memory& self, const Retokenizer& retokenizer, uint32_t order, const std::string& opening, const WordCounts& words) {
                teach_slots(self, retokenizer, order, opening, words);
            },
            "retokenizer"_a, "order"_a, "opening"_a, "words"_a, nb::call_guard<native::ReleasedGil>(),
            "Words that follow a JSON text that ends in a slot, and how often; rarest first. See constrained.spec.prior.")
        .def(
            "teach_ngrams",
            [](Memory& self, const Retokenizer& retokenizer, const std::string& text, size_t first, const WordCounts& words) {
                teach_ngrams(self, retokenizer, text, first, words);
            },
            "retokenizer"_a, "text"_a, "first"_a, "words"_a, nb::call_guard<native::ReleasedGil>(),
            "Words that follow a text whose first word ends at byte `first`, and how often; rarest first. See constrained.spec.prior.");

    nb::class_<Tree>(m, "Tree", "Draft tokens as a tree. Node 0 is the end of the sequence; a parent comes before its children.")
        .def_ro("token", &Tree::token, "Ids; -1 for the root.")
        .def_ro("parent", &Tree::parent, "Parent node; -1 for the root.")
        .def_ro("depth", &Tree::depth, "Tokens after the root.")
        .def_ro("path_probability", &Tree::path_probability, "Estimated probability that the node is accepted.")
        .def_ro("state", &Tree::state, "State of the automaton after the node.")
        .def_ro("sources", &Tree::sources, "Bit i is set if source i proposed the node.")
        .def_ro("asked", &Tree::asked, "Nodes whose likeliest tokens the drafter wants to know.")
        .def("__len__", &Tree::size)
        .def("child", &Tree::child, "node"_a, "token"_a, "The child with a token, or -1.")
        .def("path", &Tree::path, "node"_a, "The nodes from the root, which is left out, to the node.");

    nb::class_<Drafter>(m, "Drafter", "Proposes the draft tokens of one sequence.")
        .def(
            "__init__",
            [](Drafter* self, std::shared_ptr<AutomatonView> automaton, std::shared_ptr<Memory> memory,
               std::shared_ptr<ConstraintMemory> constraint_memory, uint32_t start, std::vector<uint32_t> prompt, uint32_t sources,
               bool is_json, std::vector<uint32_t> eos_ids, bool chain_drafts) {
                check(automaton->retokenizer(), prompt);
                const native::ReleasedGil released;
                new (self) Drafter(std::move(automaton), std::move(memory), std::move(constraint_memory), start, prompt, sources,
                                   is_json, std::move(eos_ids), chain_drafts);
            },
            "automaton"_a, "memory"_a, "constraint_memory"_a, "start"_a, "prompt"_a, "sources"_a, "is_json"_a, "eos_ids"_a,
            "chain_drafts"_a = false,
            "`sources` has bit i for source i; `eos_ids` are never drafted; `chain_drafts`: one child per node.")
        .def(
            "draft",
            [](Drafter& self, size_t nodes, size_t depth, const std::vector<std::pair<uint32_t, double>>& assisted) {
                const native::ReleasedGil released;
                return self.draft(nodes, depth, assisted);
            },
            "nodes"_a, "depth"_a = size_t{1} << 30, "assisted"_a = std::vector<std::pair<uint32_t, double>>{},
            "The best tree with up to `nodes` nodes; `assisted`: the tokens that an assistant would write next, with their probabilities.")
        .def(
            "set_openings",
            [](Drafter& self, std::vector<std::vector<uint32_t>> openings) { self.set_openings(std::move(openings)); },
            "openings"_a, "Texts of the constraint up to the values of members, as tokens.")
        .def("probe", &Drafter::probe, "nodes"_a, "The openings as branches of a tree with up to `nodes` nodes; see `asked`.")
        .def(
            "observe_slot", &Drafter::observe_slot, "node"_a, "top_tokens"_a, "probed"_a,
            "The top tokens of the model behind a node of the last tree, or of the last probe, best first.")
        .def("mark_verified", &Drafter::mark_verified, "nodes"_a, "The model verified the first `nodes` nodes of the tree.")
        .def(
            "commit",
            [](Drafter& self, uint32_t token) {
                const native::ReleasedGil released;
                self.commit(token);
            },
            "token"_a, "Appends a token, which must not be EOS, to the text.")
        .def(
            "prime",
            [](Drafter& self, const std::vector<uint32_t>& tokens) { self.prime(tokens); },
            "tokens"_a, "Learns the member names and their order from a sample text of the constraint.")
        .def("copy", [](const Drafter& self) { return Drafter(self); }, "A drafter for another text with the same prefix.")
        .def_ro("drafted_total", &Drafter::drafted_total, "Number of verified nodes so far.")
        .def_ro("accepted_total", &Drafter::accepted_total, "Number of accepted nodes so far.")
        .def_prop_ro(
            "drafted_by_source", [](const Drafter& self) { return std::vector<size_t>(self.drafted_by_source.begin(), self.drafted_by_source.end()); },
            "Verified nodes by source.")
        .def_prop_ro(
            "accepted_by_source",
            [](const Drafter& self) { return std::vector<size_t>(self.accepted_by_source.begin(), self.accepted_by_source.end()); },
            "Accepted nodes by source.");
}
