// The Python face of what is native here: drafting as in spec/drafter.py, draws as in spec/noise.py and spec/scores.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "drafter.hpp"
#include "scores.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace spec;

namespace {

std::shared_ptr<Grammar> grammar(nb::capsule table, std::shared_ptr<Pieces> pieces) {
    if (std::string_view(table.name()) != kAutomatonTable) {
        throw nb::value_error("a table of an automaton of another version");
    }
    const auto* found = static_cast<const AutomatonTable*>(table.data());
    std::shared_ptr<void> owner(new nb::object(std::move(table)), [](void* object) {
        const nb::gil_scoped_acquire acquired;
        delete static_cast<nb::object*>(object);
    });
    return std::make_shared<Grammar>(*found, std::move(owner), std::move(pieces));
}

void check(const Pieces& pieces, const std::vector<uint32_t>& tokens) {
    for (const uint32_t token : tokens) {
        if (token >= pieces.size()) throw nb::index_error("token id outside the vocabulary");
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
        if (id < 0 || id >> 34) throw nb::index_error("token id out of range");
    }
}

template <class Score>
void define_scores(nb::module_& m) {
    m.def(
        "leading",
        [](const Array<const Score>& scores, double scale, std::optional<Ids> ids, uint64_t seed, uint32_t sequence,
           uint32_t purpose, uint32_t position, size_t count) {
            if (ids) {
                if (ids->size() != scores.size()) throw nb::value_error("there are not as many ids as scores");
                check_ids(*ids);
            }
            const nb::gil_scoped_release released;
            return leading(span_of(scores), scale, ids ? ids->data() : nullptr, {seed, sequence, purpose, position}, count);
        },
        "scores"_a, "scale"_a, "ids"_a.none(), "seed"_a, "sequence"_a, "purpose"_a, "position"_a, "count"_a,
        "Indices that can be among the largest keys; see spec.scores.leading.");
    m.def(
        "largest",
        [](const Array<const Score>& scores, size_t count) { return largest(span_of(scores), count); }, "scores"_a,
        "count"_a, "Indices of the largest scores, best first; see spec.scores.largest.");
    m.def(
        "log_sum_exp", [](const Array<const Score>& scores, double scale) { return log_sum_exp(span_of(scores), scale); },
        "scores"_a, "scale"_a, "See spec.scores.log_sum_exp.");
}

/// A table as numbers: per entry its key, its size, and kKept pairs of token and count.
constexpr size_t kWidth = 2 + 2 * Counts::kKept;

std::vector<uint64_t> dump(const Counts& counts) {
    std::vector<uint64_t> numbers;
    numbers.reserve(counts.entries().size() * kWidth);
    for (const Counts::Entry& entry : counts.entries()) {
        numbers.push_back(entry.key);
        numbers.push_back(entry.size);
        for (size_t i = 0; i < Counts::kKept; ++i) {
            numbers.push_back(i < entry.size ? entry.tokens[i] : 0);
            numbers.push_back(i < entry.size ? entry.counts[i] : 0);
        }
    }
    return numbers;
}

void restore(Counts& counts, const std::vector<uint64_t>& numbers, uint32_t tokens) {
    std::vector<Counts::Entry> entries(numbers.size() / kWidth);
    for (size_t e = 0; e < entries.size(); ++e) {
        const uint64_t* from = numbers.data() + e * kWidth;
        entries[e].key = from[0];
        entries[e].size = static_cast<uint32_t>(std::min<uint64_t>(from[1], Counts::kKept + 1));
        for (size_t i = 0; i < Counts::kKept; ++i) {
            entries[e].tokens[i] = static_cast<uint32_t>(from[2 + 2 * i]);
            entries[e].counts[i] = static_cast<uint32_t>(from[3 + 2 * i]);
        }
    }
    if (numbers.size() % kWidth || !counts.restore(std::move(entries), tokens)) {
        throw nb::value_error("these numbers are no table of counts");
    }
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Native drafting: tables of counts, sources, the best-first tree; and what a draw reads of a row of scores.";

    m.def(
        "words",
        [](uint64_t seed, uint32_t sequence, uint32_t purpose, uint32_t position, const Ids& ids,
           const Array<uint32_t>& out) {
            if (ids.size() != out.size()) throw nb::value_error("there are not as many words as ids");
            check_ids(ids);
            words({seed, sequence, purpose, position}, span_of(ids), out.data());
        },
        "seed"_a, "sequence"_a, "purpose"_a, "position"_a, "ids"_a, "out"_a, "Words of noise; see spec.noise.");
    define_scores<float>(m);
    define_scores<double>(m);

    nb::class_<Pieces>(m, "Pieces", "How a vocabulary writes bytes; see spec.pieces.")
        .def(
            "__init__",
            [](Pieces* self, nb::bytes blob, std::vector<int64_t> offsets) {
                if (offsets.empty() || offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end()) ||
                    static_cast<size_t>(offsets.back()) != blob.size()) {
                    throw nb::value_error("offsets do not describe the blob");
                }
                new (self) Pieces(std::string(blob.c_str(), blob.size()), std::move(offsets));
            },
            "blob"_a, "offsets"_a, "Token t is blob[offsets[t]:offsets[t + 1]].")
        .def(
            "next",
            [](const Pieces& self, nb::bytes before, nb::bytes after) -> nb::object {
                const auto found = self.next({before.c_str(), before.size()}, {after.c_str(), after.size()});
                if (!found) return nb::none();
                return nb::make_tuple(found->token, found->certain);
            },
            "before"_a, "after"_a, "(token, whether it is certain not to run on) or None.");

    nb::class_<Grammar>(m, "Grammar", "An automaton, as drafts ask it.")
        .def(nb::new_(&grammar), "table"_a, "pieces"_a, "From the table of an automaton.");

    nb::class_<Scope>(m, "Scope", "What was learned under one constraint.").def(nb::init<>());

    nb::class_<Memory>(m, "Memory", "What was learned over one vocabulary.")
        .def(nb::init<>())
        .def(
            "dump",
            [](Memory& self) {
                const std::lock_guard<std::mutex> held(self.lock);
                std::vector<std::pair<uint32_t, std::pair<double, double>>> kinds;
                for (const auto& [kind, count] : self.calibration.counts()) {
                    kinds.push_back({kind, {count.hits, count.tries}});
                }
                return std::make_tuple(dump(self.ngrams), dump(self.slots), kinds);
            },
            "Everything that does not belong to one constraint: two tables as numbers, and (kind, (hits, tries)).")
        .def(
            "restore",
            [](Memory& self, const std::vector<uint64_t>& ngrams, const std::vector<uint64_t>& slots,
               const std::vector<std::pair<uint32_t, std::pair<double, double>>>& kinds, uint32_t tokens) {
                const std::lock_guard<std::mutex> held(self.lock);
                restore(self.ngrams, ngrams, tokens);
                restore(self.slots, slots, tokens);
                self.calibration.clear();
                for (const auto& [kind, count] : kinds) {
                    if (!(count.first >= 0 && count.first <= count.second && count.second <= 2 * Calibration::kMany)) {
                        throw nb::value_error("these numbers are no calibration");
                    }
                    self.calibration.set(kind, {count.first, count.second});
                }
            },
            "ngrams"_a, "slots"_a, "kinds"_a, "tokens"_a, "What `dump` gave, for a vocabulary of so many tokens.");

    nb::class_<Tree>(m, "Tree", "A draft tree; see spec.tree.DraftTree.")
        .def_ro("token", &Tree::token, "Ids; -1 for the root.")
        .def_ro("parent", &Tree::parent, "Node before it; -1 for the root.")
        .def_ro("first_child", &Tree::first_child, "-1 where there is none.")
        .def_ro("next_sibling", &Tree::next_sibling, "-1 where there is none.")
        .def_ro("depth", &Tree::depth, "Tokens after the root.")
        .def_ro("path_probability", &Tree::pi, "Probability of the way to the node.")
        .def_ro("state", &Tree::state, "Of the automaton, after the node.")
        .def_ro("sources", &Tree::sources, "Bit i is set if source i guessed the node.")
        .def("__len__", &Tree::size)
        .def("child", &Tree::child, "node"_a, "token"_a, "The child with a token, or -1.")
        .def("path", &Tree::path, "node"_a, "The nodes from the root to a node, the root left out.");

    nb::class_<Drafter>(m, "Drafter", "Drafts for one text; see spec.drafter.Drafter.")
        .def(
            "__init__",
            [](Drafter* self, std::shared_ptr<Grammar> grammar, std::shared_ptr<Memory> memory,
               std::shared_ptr<Scope> scope, uint32_t start, std::vector<uint32_t> prompt, uint32_t sources,
               bool is_json, std::vector<uint32_t> ends, bool chains) {
                check(grammar->pieces(), prompt);
                const nb::gil_scoped_release released;
                new (self) Drafter(std::move(grammar), std::move(memory), std::move(scope), start, prompt, sources,
                                   is_json, std::move(ends), chains);
            },
            "grammar"_a, "memory"_a, "scope"_a, "start"_a, "prompt"_a, "sources"_a, "is_json"_a, "ends"_a,
            "chain_drafts"_a = false,
            "`sources` has bit i for source i; `ends` are ids that are never guessed; `chains`: drafts are no trees.")
        .def(
            "draft", [](Drafter& self, size_t nodes, size_t depth) { return self.draft(nodes, depth); }, "nodes"_a,
            "depth"_a = size_t{1} << 30, nb::call_guard<nb::gil_scoped_release>(), "The best tree of so many nodes.")
        .def("mark_verified", &Drafter::read, "nodes"_a, "So many nodes of the tree were read by the model.")
        .def(
            "commit",
            [](Drafter& self, uint32_t token) {
                const nb::gil_scoped_release released;
                self.commit(token);
            },
            "token"_a, "The text went on with a token, which is no end of it.")
        .def(
            "prime",
            [](Drafter& self, const std::vector<uint32_t>& tokens) { self.rehearse(tokens); },
            "tokens"_a, "Learns the names of a made-up text of the constraint, and their order.")
        .def("observe_top_tokens", &Drafter::see, "top_tokens"_a, "What the model finds likely after the last token, best first.")
        .def("copy", [](const Drafter& self) { return Drafter(self); }, "Drafts for a text that begins as this one.")
        .def_ro("drafted_total", &Drafter::nodes, "Nodes that were read so far.")
        .def_ro("accepted_total", &Drafter::hits, "Of these, how many became tokens of the text.")
        .def_prop_ro(
            "drafted_by_source", [](const Drafter& self) { return std::vector<size_t>(self.drafted.begin(), self.drafted.end()); },
            "Nodes that were read, by source.")
        .def_prop_ro(
            "accepted_by_source",
            [](const Drafter& self) { return std::vector<size_t>(self.accepted.begin(), self.accepted.end()); },
            "Of these, how many became tokens of the text, by source.");
}
