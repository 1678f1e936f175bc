// The Python face of the core. Answers that are memoised are given without touching the GIL or a lock; everything
// else runs with the GIL released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "automaton.hpp"
#include "batch.hpp"
#include "later.hpp"
#include "lexed.hpp"
#include "numpy_row.hpp"
#include "spec/_core/table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using core::Automaton;
using core::BaseAutomaton;
using core::Lane;
using core::RowStore;
using core::LexedAutomaton;
using core::Vocabulary;

namespace {

template <class T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Row = Array<int32_t>;
using Image = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::numpy>;
using Rows = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const Array<const T>& array) {
    return {array.data(), array.size()};
}

uint32_t* row_data(const BaseAutomaton& automaton, int32_t* data, size_t words) {
    if (words != automaton.vocabulary().rows.words()) {
        throw nb::value_error("row has the wrong length: needs ceil(vocabulary size / 32) int32 words");
    }
    return reinterpret_cast<uint32_t*>(data);
}

/// A caller's row for the length of one call. NumPy arrays are read as they are, or by the buffer protocol; what does not
/// speak it (torch tensors) comes as an ndarray.
class RowBuffer {
public:
    explicit RowBuffer(nb::handle row) : words_(core::NumpyRow::of(row.ptr())) {
        if (words_.data()) return;
        if (!PyObject_CheckBuffer(row.ptr()) || PyObject_GetBuffer(row.ptr(), &buffer_, kFlags) != 0) {
            PyErr_Clear();
            if (!nb::try_cast(row, array_, false)) {
                throw nb::type_error("row must be a writable, contiguous array of int32 in one dimension");
            }
            words_ = {array_.data(), array_.size()};
            return;
        }
        const char* format = buffer_.format ? buffer_.format : "B";
        if (*format == '@' || *format == '=' || *format == '<') ++format;
        held_ = true;
        if (buffer_.ndim != 1 || buffer_.itemsize != 4 || (*format != 'i' && *format != 'l') || format[1] != '\0') {
            PyBuffer_Release(&buffer_);
            throw nb::type_error("row must be a writable, contiguous array of int32 in one dimension");
        }
        words_ = {static_cast<int32_t*>(buffer_.buf), static_cast<size_t>(buffer_.len) / 4};
        core::NumpyRow::learn(row.ptr(), buffer_);
    }
    RowBuffer(const RowBuffer&) = delete;
    RowBuffer& operator=(const RowBuffer&) = delete;
    ~RowBuffer() {
        if (held_) PyBuffer_Release(&buffer_);
    }
    int32_t* data() const { return words_.data(); }
    size_t size() const { return words_.size(); }

private:
    static constexpr int kFlags = PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS;
    std::span<int32_t> words_;
    Py_buffer buffer_;
    bool held_ = false;
    Row array_;
};

void check(const BaseAutomaton& automaton, uint32_t state) {
    if (!automaton.knows(state)) throw nb::index_error("not a state of this automaton");
}

uint32_t next(BaseAutomaton& automaton, uint32_t state, int64_t token) {
    check(automaton, state);
    if (token < 0 || token >= automaton.vocabulary().size) throw nb::index_error("token id outside the vocabulary");
    const uint32_t known = automaton.find_next(state, static_cast<uint32_t>(token));
    if (known != core::Memo::kMissing) return known;
    return core::with_rules([&] { return automaton.next(state, static_cast<uint32_t>(token)); });
}

/// What a draft asks. It may hold the GIL or not; a rule that must be made takes it.
template <class Ask>
auto asked_by_draft(Ask&& ask) {
    for (;;) {
        core::Needed needed;
        try {
            return ask();
        } catch (const core::Needed& error) {
            needed = error;
        }
        const nb::gil_scoped_acquire acquired;
        needed.automaton->supply(needed.rules);
    }
}

/// The automaton as C functions, for drafts. They are called with the GIL released, and tell no errors.
nb::capsule draft_table(BaseAutomaton& self) {
    struct Owned : spec::AutomatonTable {
        nb::object owner;  // the automaton lives as long as the table
    };
    auto* table = new Owned{{
        &self,
        [](void* automaton, uint32_t state, uint32_t token) -> uint32_t {
            BaseAutomaton& self = *static_cast<BaseAutomaton*>(automaton);
            if (!self.knows(state) || token >= static_cast<uint64_t>(self.vocabulary().size)) return BaseAutomaton::kDead;
            const uint32_t known = self.find_next(state, token);
            if (known != core::Memo::kMissing) return known;
            try {
                return asked_by_draft([&] { return self.next(state, token); });
            } catch (...) {
                return BaseAutomaton::kDead;
            }
        },
        [](void* automaton, uint32_t state, char* into, size_t room) -> size_t {
            BaseAutomaton& self = *static_cast<BaseAutomaton*>(automaton);
            if (!self.knows(state)) return 0;
            try {
                return asked_by_draft([&] { return self.forced(state); }).copy(into, room);
            } catch (...) {
                return 0;
            }
        }}, nb::find(self)};
    return nb::capsule(static_cast<spec::AutomatonTable*>(table), spec::kAutomatonTable, [](void* p) noexcept {
        delete static_cast<Owned*>(static_cast<spec::AutomatonTable*>(p));
    });
}

void fill_mask(BaseAutomaton& automaton, uint32_t state, nb::object row) {
    check(automaton, state);
    const RowBuffer buffer(row);
    uint32_t* out = row_data(automaton, buffer.data(), buffer.size());
    if (automaton.find_mask(state, out)) return;
    core::with_rules([&] { automaton.fill_mask(state, out); });
}

/// The states must be of the automata, and these of one vocabulary.
core::Batch check(std::span<BaseAutomaton* const> automata, std::span<const uint32_t> states) {
    const core::Batch batch{automata, states};
    for (size_t i = 0; i < batch.size(); ++i) {
        check(batch.automaton(i), states[i]);
        if (batch.automaton(i).vocabulary().vocabulary != automata[0]->vocabulary().vocabulary) {
            throw nb::value_error("the automata are of different vocabularies");
        }
    }
    return batch;
}

void fill_masks(std::span<BaseAutomaton* const> automata, const std::vector<uint32_t>& states, const Rows& rows) {
    if (rows.shape(0) != states.size()) throw nb::value_error("needs one row for each state");
    const core::Batch batch = check(automata, states);
    if (states.empty()) return;
    uint32_t* out = row_data(batch.automaton(0), rows.data(), rows.shape(1));
    core::with_rules([&] { core::fill_masks(batch, out); });
}

std::vector<uint32_t> row_ids(std::span<BaseAutomaton* const> automata, const std::vector<uint32_t>& states) {
    const core::Batch batch = check(automata, states);
    return core::with_rules([&] { return core::row_ids(batch); });
}

void same_length(const std::vector<BaseAutomaton*>& automata, const std::vector<uint32_t>& states) {
    if (automata.size() != states.size()) throw nb::value_error("needs one automaton for each state");
}

uint32_t row_id(BaseAutomaton& automaton, uint32_t state) {
    check(automaton, state);
    const uint32_t known = automaton.find_row(state);
    if (known != UINT32_MAX) return known;
    return core::with_rules([&] { return automaton.row_id(state); });
}

/// The two methods that are called for each token. Every class binds them again: nanobind recognises an instance of the
/// bound class itself faster than one of a subclass.
template <class A, class... Base>
nb::class_<A, Base...>& define_token_methods(nb::class_<A, Base...>& automaton) {
    return automaton
        .def(
            "next", [](A& self, uint32_t state, int64_t token) { return next(self, state, token); }, "state"_a, "token"_a,
            "The state after `token`; 0 (DEAD) if it is not allowed.")
        .def(
            "fill_mask", [](A& self, uint32_t state, nb::object row) { fill_mask(self, state, row); }, "state"_a, "row"_a,
            nb::sig("def fill_mask(self, state: int, row: Annotated[NDArray[numpy.int32], dict(shape=(None,), "
                    "order='C', device='cpu')]) -> None"),
            "Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.");
}

void define_base_automaton(nb::module_& m) {
    nb::class_<BaseAutomaton> automaton(m, "BaseAutomaton", "Token automaton over numbered states: the interface of Automaton and LexedAutomaton.");
    define_token_methods(automaton)
        .def_prop_ro("start", &BaseAutomaton::start, "The state before any token; 0 when no text satisfies the grammar.")
        .def_prop_ro(
            "left_recursive_rule",
            [](const BaseAutomaton& self) -> int64_t {
                return self.left_recursive() == UINT32_MAX ? -1 : static_cast<int64_t>(self.left_recursive());
            },
            "Index of a left-recursive rule, or -1.")
        .def(
            "walk",
            [](BaseAutomaton& self, uint32_t state, const std::vector<int64_t>& tokens) {
                std::vector<uint32_t> states;
                for (const int64_t token : tokens) {
                    state = next(self, state, token);
                    if (state == BaseAutomaton::kDead) break;
                    states.push_back(state);
                }
                return states;
            },
            "state"_a, "tokens"_a, "States after each token; stops at the first that is not allowed.")
        .def(
            "fill_masks",
            [](BaseAutomaton& self, const std::vector<uint32_t>& states, const Rows& rows) {
                BaseAutomaton* const only = &self;
                fill_masks(std::span<BaseAutomaton* const>(&only, 1), states, rows);
            },
            "states"_a, "rows"_a.noconvert(), "One row for each state, in one call.")
        .def(
            "fill_mask_within",
            [](BaseAutomaton& self, uint32_t state, const Row& row, uint32_t budget) {
                check(self, state);
                uint32_t* out = row_data(self, row.data(), row.size());
                core::with_rules([&] { self.fill_mask_within(state, budget, out); });
            },
            "state"_a, "row"_a.noconvert(), "budget"_a,
            "Writes the tokens after which the text can be completed with at most budget - 1 more; EOS bits iff complete.")
        .def(
            "has_row",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                return self.find_row(state) != UINT32_MAX;
            },
            "state"_a, "Whether the state's row was made before.")
        .def("row_id", &row_id, "state"_a, "Id of the state's row in the vocabulary's row store.")
        .def(
            "row_ids",
            [](BaseAutomaton& self, const std::vector<uint32_t>& states) {
                BaseAutomaton* const only = &self;
                return row_ids(std::span<BaseAutomaton* const>(&only, 1), states);
            },
            "states"_a, "Id of the row of each state.")
        .def(
            "accepts",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                return self.accepts(state);
            },
            "state"_a, "Whether the text so far is complete.")
        .def(
            "forced",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                const std::string text = core::with_rules([&] { return self.forced(state); });
                return nb::bytes(text.data(), text.size());
            },
            "state"_a, "Longest byte string that every completion starts with, cut at 16,384 bytes.")
        .def_prop_ro("draft_table", &draft_table, nb::sig("def draft_table(self) -> Any"),
                     "Its transitions as C functions, in a capsule: see spec/_core/table.hpp.")
        .def(
            "shortest_completion",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                if (state == BaseAutomaton::kDead) throw nb::value_error("a dead state has no completion");
                return core::with_rules([&] { return self.shortest_completion(state); });
            },
            "state"_a, "Tokens, EOS not counted, in which the text can be completed; 0 iff it is complete.")
        .def_prop_ro(
            "memory",
            [](BaseAutomaton& self) {
                BaseAutomaton::Size size;
                {
                    const nb::gil_scoped_release released;
                    size = self.size();
                }
                nb::dict out;
                out["states"] = size.states;
                out["continuations"] = size.continuations;
                out["expressions"] = size.expressions;
                out["bytes"] = size.bytes;
                out["rules"] = size.rules;
                out["row_keys"] = size.row_keys;
                out["memo_bytes"] = size.memo_bytes;
                return out;
            },
            nb::for_getter(nb::sig("def memory(self) -> dict[str, int]")), "Sizes of the automaton's own tables: counts, and bytes.");
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Native core: vocabulary tables and the token automaton.";
    nb::exception<core::TooLarge>(m, "TooLarge", PyExc_RuntimeError);

    m.attr("IMAGE_VERSION") = core::Image::kVersion;
    nb::exception<core::BadImage>(m, "BadImage", PyExc_ValueError);

    nb::class_<RowStore>(m, "Rows", "The masks of a vocabulary by id; an id never names two masks.")
        .def_prop_ro("words", &RowStore::words, "int32 words in a row.")
        .def_prop_ro("first", &RowStore::first, "Rows with lower ids were dropped to save memory.")
        .def_prop_ro("end", &RowStore::end, "The id of the next row that is new.")
        .def(
            "copy",
            [](const RowStore& self, const std::vector<uint32_t>& ids, const Rows& rows) {
                if (rows.shape(0) != ids.size()) throw nb::value_error("needs one row for each id");
                if (rows.shape(1) != self.words()) throw nb::value_error("row has the wrong length");
                uint32_t* out = reinterpret_cast<uint32_t*>(rows.data());
                for (const uint32_t id : ids) {
                    if (id >= self.end()) throw nb::index_error("not a row of this vocabulary");
                }
                const nb::gil_scoped_release released;
                for (size_t i = 0; i < ids.size(); ++i) {
                    if (!self.copy(ids[i], out + i * self.words())) return false;
                }
                return true;
            },
            "ids"_a, "rows"_a.noconvert(),
            "Writes the rows with these ids; False if one of them was dropped: its state has a row with a new id.");

    nb::class_<Vocabulary>(m, "Vocabulary", "Token bytes as tables; shared by all automata over them.")
        .def(
            "__init__",
            [](Vocabulary* self, nb::bytes blob, const Array<const int64_t>& offsets, const std::vector<uint32_t>& eos,
               size_t memory_limit, uint32_t lanes, std::optional<Image> image) {
                const core::TokenBytes tokens{
                    {static_cast<const uint8_t*>(blob.data()), blob.size()}, {offsets.data(), offsets.size()}};
                const auto& [bytes, bounds] = tokens;
                bool valid = !bounds.empty() && bounds.front() >= 0 && bounds.back() <= static_cast<int64_t>(bytes.size());
                for (size_t i = 1; i < bounds.size() && valid; ++i) valid = bounds[i - 1] <= bounds[i];
                for (const uint32_t token : eos) valid = valid && token + size_t{1} < bounds.size();
                if (!valid) throw nb::value_error("offsets or EOS ids do not fit the tokens");
                std::shared_ptr<const void> keeper;
                if (image) {
                    // Whoever drops the last view of it may not hold the GIL.
                    keeper = std::shared_ptr<const void>(new Image(*image), [](const Image* held) {
                        const nb::gil_scoped_acquire acquired;
                        delete held;
                    });
                }
                const nb::gil_scoped_release released;
                core::Image tables = image ? core::Image({image->data(), image->size()}, keeper) : core::Tables::build(tokens, eos);
                if (image && !core::Tables::are_of(tables, tokens, eos)) throw core::BadImage("of other tokens");
                new (self) Vocabulary(std::move(tables), memory_limit, lanes);
            },
            "blob"_a, "offsets"_a, "eos_ids"_a, nb::kw_only(), "memory_limit"_a = size_t{256} << 20, "lanes"_a = 1, "image"_a.none() = nb::none(),
            "Token t is blob[offsets[t]:offsets[t + 1]]; offsets is int64 with one element more than there are tokens. "
            "The tables are built, or read from the image of another vocabulary of the same tokens.")
        .def_prop_ro(
            "image",
            [](nb::handle_t<Vocabulary> self) {
                const auto memory = nb::cast<Vocabulary&>(self).tables.image.memory();
                return Image(memory.data(), {memory.size()}, self);
            },
            nb::rv_policy::reference, "The tables as one block of memory, which can be kept in a file.")
        .def(
            "open_lane", [](std::shared_ptr<Vocabulary> self) { return std::make_shared<Lane>(std::move(self)); },
            "A new lane: automata of different lanes never wait for each other.")
        .def_ro("lanes", &Vocabulary::lanes, "How many lanes to have at a time.")
        .def_prop_ro("rows", [](Vocabulary& self) -> RowStore& { return self.rows; }, nb::rv_policy::reference_internal,
                     "The masks of all automata.")
        .def_static(
            "fill_masks",
            [](const std::vector<BaseAutomaton*>& automata, const std::vector<uint32_t>& states, const Rows& rows) {
                same_length(automata, states);
                fill_masks(automata, states, rows);
            },
            "automata"_a, "states"_a, "rows"_a.noconvert(), "One row for each state of an automaton, in one call.")
        .def_static(
            "row_ids",
            [](const std::vector<BaseAutomaton*>& automata, const std::vector<uint32_t>& states) {
                same_length(automata, states);
                return row_ids(automata, states);
            },
            "automata"_a, "states"_a, "Id of the row of each state of an automaton.")
        .def_prop_ro("size", [](const Vocabulary& self) { return self.tables.size; }, "Number of token ids.")
        .def_prop_ro("words", [](const Vocabulary& self) { return self.rows.words(); }, "int32 words in a row.")
        .def_prop_ro(
            "missing_bytes",
            [](const Vocabulary& self) {
                std::vector<uint32_t> missing;
                for (uint32_t byte = 0; byte < 256; ++byte) {
                    if (!self.tables.alphabet[byte]) missing.push_back(byte);
                }
                return missing;
            },
            "Bytes that no single token spells: no text of any automaton over this vocabulary holds them.")
        .def_prop_ro(
            "memory",
            [](Vocabulary& self) {
                Vocabulary::Size size;
                {
                    const nb::gil_scoped_release released;
                    size = self.size();
                }
                nb::dict out;
                out["tables"] = self.tables.image.memory().size();
                out["lanes"] = size.lanes;
                out["residuals"] = size.residuals;
                out["residual_bytes"] = size.residual_bytes;
                out["lexicon_entries"] = size.entries;
                out["lexicon_bytes"] = size.entry_bytes;
                out["rows"] = self.rows.end() - self.rows.first();
                out["row_bytes"] = self.rows.bytes();
                return out;
            },
            nb::for_getter(nb::sig("def memory(self) -> dict[str, int]")), "Sizes of what is shared now: counts, and bytes.");

    nb::class_<Lane>(m, "Lane", "What automata learn about languages, shared by those that may wait for each other.")
        .def_prop_ro(
            "full",
            [](Lane& self) {
                const nb::gil_scoped_release released;
                return self.full();
            },
            "Whether new automata had better go to a new lane.");

    define_base_automaton(m);
    nb::class_<Automaton, BaseAutomaton> automaton(m, "Automaton", "Token automaton; see constrained.automaton.TokenAutomaton.");
    define_token_methods(automaton)
        .def(
            "__init__",
            [](Automaton* self, std::shared_ptr<Lane> lane, nb::dict rules, nb::str start, nb::dict known,
               uint32_t fuel, size_t memory_limit, nb::object later) {
                nb::dict index, lengths;
                if (!later.is_none()) lengths = nb::cast<nb::dict>(later.attr("min_lengths"));
                core::IrReader reader(known, index, lengths);
                reader.read(std::move(rules), start);
                {
                    const nb::gil_scoped_release released;
                    {
                        const std::lock_guard guard(lane->lock);
                        reader.grammar.terminals = core::read_regexes(reader.regexes, lane->regexes);
                    }
                    new (self) Automaton(std::move(lane), reader.grammar, fuel, memory_limit);
                }
                reader.remember(reader.grammar.terminals);
                if (later.is_none()) return;
                const auto source = std::make_shared<core::LaterRules>(reader, known, later);
                self->supply = [self, source](const std::vector<uint32_t>& rules) { source->supply(*self, rules); };
            },
            "lane"_a, "rules"_a, "start"_a, "known"_a, "fuel"_a, "memory_limit"_a, "later"_a.none() = nb::none(),
            nb::sig("def __init__(self, lane: Lane, rules: dict[str, typing.Any], start: str, "
                    "known: dict[typing.Any, int], fuel: int, memory_limit: int, later: typing.Any = None) -> None"),
            "From the rules of a grammars.ir.Grammar. `known` maps expressions that this lane has read before to their\n"
            "numbers; those that are read now are added. `later`: a grammars.transform.lazy_rules.Deferred that makes the bodies of\n"
            "other rules when a text first comes to them.");

    nb::class_<LexedAutomaton, BaseAutomaton> lexed(
        m, "LexedAutomaton", "Token automaton of a grammar behind a lexer; see constrained.automaton.LexedAutomaton.");
    define_token_methods(lexed)
        .def(
            "__init__",
            [](LexedAutomaton* self, std::shared_ptr<Lane> lane, nb::dict rules, nb::str start, nb::dict known,
               nb::list tokens, const std::vector<int32_t>& ranks, const std::vector<std::vector<int32_t>>& hosts,
               bool everywhere, uint32_t fuel) {
                core::IrReader reader(std::move(known));
                reader.read(std::move(rules), start);
                std::vector<int32_t> rows;
                for (const nb::handle token : tokens) rows.push_back(reader.row(token));
                {
                    const nb::gil_scoped_release released;
                    {
                        const std::lock_guard guard(lane->lock);
                        reader.grammar.terminals = core::read_regexes(reader.regexes, lane->regexes);
                    }
                    new (self) LexedAutomaton(std::move(lane), reader.grammar, {rows, ranks, hosts, everywhere}, fuel);
                }
                reader.remember(reader.grammar.terminals);
            },
            "lane"_a, "rules"_a, "start"_a, "known"_a, "tokens"_a, "ranks"_a, "hosts"_a, "everywhere"_a, "fuel"_a,
            nb::sig("def __init__(self, lane: Lane, rules: dict[str, typing.Any], start: str, known: dict[typing.Any, int], "
                    "tokens: list[typing.Any], ranks: Sequence[int], hosts: Sequence[Sequence[int]], everywhere: bool, "
                    "fuel: int) -> None"),
            "As Automaton, with the regular expressions of the tokens of grammars.lexer.Lexed, their ranks and hosts.")
        .def_prop_ro("undecided", &LexedAutomaton::undecided, "Whether some search for a completion was given up.")
        .def_prop_ro("colliding", &LexedAutomaton::colliding,
                     "Without any text: pairs of tokens of which the second never stands right after the first.");
}
