// Python bindings of the core.
//
// Thread safety: a memo hit keeps the GIL and takes no lock; everything else runs with the GIL released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "automaton.hpp"
#include "ir_reader.hpp"
#include "mask_batch.hpp"
#include "lexer_automaton.hpp"
#include "numpy_mask.hpp"
#include "unique_automaton.hpp"
#include "grammars/_core/gil.hpp"
#include "spec/_core/automaton_table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using core::Automaton;
using core::BaseAutomaton;
using core::Shard;
using core::MaskStore;
using core::LexerAutomaton;
using core::UniqueAutomaton;
using core::Vocabulary;

namespace {

/// A grammar with marks for a shard without them.
struct MarkedGrammar : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

template <class T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MaskArray = Array<int32_t>;
using MaskArrays = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const Array<const T>& array) {
    return {array.data(), array.size()};
}

uint32_t* mask_words(const BaseAutomaton& automaton, int32_t* data, size_t words) {
    if (words != automaton.shard().masks.words()) {
        throw nb::value_error("mask has the wrong length: needs ceil(vocabulary size / 32) int32 words");
    }
    return reinterpret_cast<uint32_t*>(data);
}

/// The caller's mask array during one call: a NumPy array is read directly or through the buffer protocol, any other
/// array (such as a torch tensor) through DLPack.
class MaskBuffer {
public:
    explicit MaskBuffer(nb::handle mask) : words_(core::NumpyMask::of(mask.ptr())) {
        if (words_.data()) return;
        if (!PyObject_CheckBuffer(mask.ptr()) || PyObject_GetBuffer(mask.ptr(), &buffer_, kFlags) != 0) {
            PyErr_Clear();
            if (!nb::try_cast(mask, array_, false)) {
                throw nb::type_error("mask must be a writable, contiguous array of int32 in one dimension");
            }
            words_ = {array_.data(), array_.size()};
            return;
        }
        const char* format = buffer_.format ? buffer_.format : "B";
        if (*format == '@' || *format == '=' || *format == '<') ++format;
        held_ = true;
        if (buffer_.ndim != 1 || buffer_.itemsize != 4 || (*format != 'i' && *format != 'l') || format[1] != '\0') {
            PyBuffer_Release(&buffer_);
            throw nb::type_error("mask must be a writable, contiguous array of int32 in one dimension");
        }
        words_ = {static_cast<int32_t*>(buffer_.buf), static_cast<size_t>(buffer_.len) / 4};
        core::NumpyMask::learn(mask.ptr(), buffer_);
    }
    MaskBuffer(const MaskBuffer&) = delete;
    MaskBuffer& operator=(const MaskBuffer&) = delete;
    ~MaskBuffer() {
        if (held_) PyBuffer_Release(&buffer_);
    }
    int32_t* data() const { return words_.data(); }
    size_t size() const { return words_.size(); }

private:
    static constexpr int kFlags = PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS;
    std::span<int32_t> words_;
    Py_buffer buffer_;
    bool held_ = false;
    MaskArray array_;
};

/// What `ask` returns, other threads of Python running meanwhile.
template <class Ask>
auto without_gil(Ask&& ask) {
    const native::ReleasedGil released;
    return ask();
}

void check(const BaseAutomaton& automaton, uint32_t state) {
    if (!automaton.has_state(state)) throw nb::index_error("not a state of this automaton");
}

uint32_t next(BaseAutomaton& automaton, uint32_t state, int64_t token) {
    check(automaton, state);
    if (token < 0 || token >= automaton.shard().size) throw nb::index_error("token id outside the vocabulary");
    const uint32_t known = automaton.find_next(state, static_cast<uint32_t>(token));
    if (known != core::Memo::kMissing) return known;
    return without_gil([&] { return automaton.next(state, static_cast<uint32_t>(token)); });
}

/// The automaton as C functions, for speculation. They run with the GIL released; on an error they return 0.
nb::capsule automaton_table(BaseAutomaton& self) {
    struct Owned : spec::AutomatonTable {
        nb::object owner;  // keeps the automaton alive as long as the table
    };
    auto* table = new Owned{{
        &self,
        [](void* automaton, uint32_t state, uint32_t token) -> uint32_t {
            BaseAutomaton& self = *static_cast<BaseAutomaton*>(automaton);
            if (!self.has_state(state) || token >= static_cast<uint64_t>(self.shard().size)) return BaseAutomaton::kDead;
            const uint32_t known = self.find_next(state, token);
            if (known != core::Memo::kMissing) return known;
            try {
                return self.next(state, token);
            } catch (...) {
                return BaseAutomaton::kDead;
            }
        },
        [](void* automaton, uint32_t state, char* into, size_t room) -> size_t {
            BaseAutomaton& self = *static_cast<BaseAutomaton*>(automaton);
            if (!self.has_state(state)) return 0;
            try {
                return self.forced(state).copy(into, room);
            } catch (...) {
                return 0;
            }
        },
        [](void* automaton, uint32_t state, uint64_t into[4]) {
            BaseAutomaton& self = *static_cast<BaseAutomaton*>(automaton);
            std::fill_n(into, 4, uint64_t{0});
            if (!self.has_state(state)) return;
            try {
                const core::ByteSet bytes = self.allowed_bytes(state);
                for (size_t byte = bytes._Find_first(); byte < 256; byte = bytes._Find_next(byte)) into[byte / 64] |= uint64_t{1} << byte % 64;
            } catch (...) {
            }
        }}, nb::find(self)};
    return nb::capsule(static_cast<spec::AutomatonTable*>(table), spec::kAutomatonTable, [](void* p) noexcept {
        delete static_cast<Owned*>(static_cast<spec::AutomatonTable*>(p));
    });
}

void fill_mask(BaseAutomaton& automaton, uint32_t state, nb::object mask) {
    check(automaton, state);
    const MaskBuffer buffer(mask);
    uint32_t* out = mask_words(automaton, buffer.data(), buffer.size());
    if (automaton.find_mask_bits(state, out)) return;
    without_gil([&] { automaton.fill_mask(state, out); });
}

/// Throws unless every state belongs to its automaton, and all automata to one vocabulary.
core::MaskBatch check(std::span<BaseAutomaton* const> automata, std::span<const uint32_t> states) {
    const core::MaskBatch batch{automata, states};
    for (size_t i = 0; i < batch.size(); ++i) {
        check(batch.automaton(i), states[i]);
        if (batch.automaton(i).shard().vocabulary != automata[0]->shard().vocabulary) {
            throw nb::value_error("the automata are of different vocabularies");
        }
    }
    return batch;
}

void fill_masks(std::span<BaseAutomaton* const> automata, const std::vector<uint32_t>& states, const MaskArrays& masks,
                const std::vector<uint32_t>& budgets = {}) {
    if (masks.shape(0) != states.size()) throw nb::value_error("needs one mask for each state");
    if (!budgets.empty() && budgets.size() != states.size()) throw nb::value_error("needs one budget for each state");
    core::MaskBatch batch = check(automata, states);
    batch.budgets = budgets;
    if (states.empty()) return;
    uint32_t* out = mask_words(batch.automaton(0), masks.data(), masks.shape(1));
    without_gil([&] { core::fill_masks(batch, out); });
}

std::vector<uint32_t> mask_ids(std::span<BaseAutomaton* const> automata, const std::vector<uint32_t>& states) {
    const core::MaskBatch batch = check(automata, states);
    return without_gil([&] { return core::mask_ids(batch); });
}

void same_length(const std::vector<BaseAutomaton*>& automata, const std::vector<uint32_t>& states) {
    if (automata.size() != states.size()) throw nb::value_error("needs one automaton for each state");
}

uint32_t mask_id(BaseAutomaton& automaton, uint32_t state) {
    check(automaton, state);
    const uint32_t known = automaton.find_mask_id(state);
    if (known != UINT32_MAX) return known;
    return without_gil([&] { return automaton.mask_id(state); });
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
            "fill_mask", [](A& self, uint32_t state, nb::object mask) { fill_mask(self, state, mask); }, "state"_a, "mask"_a,
            nb::sig("def fill_mask(self, state: int, mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), "
                    "order='C', device='cpu')]) -> None"),
            "Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.");
}

/// Constructs an automaton of rules.
template <class A>
void construct(A* self, std::shared_ptr<Shard> shard, nb::object rules, nb::str start, nb::dict known, uint32_t fuel,
               size_t memory_limit) {
    core::IrReader reader(known);
    if (nb::isinstance<nb::dict>(rules)) {
        reader.read(nb::borrow<nb::dict>(rules), start);
    } else {
        reader.read_packed(rules);
    }
    if (reader.marked() && !shard->marks) throw MarkedGrammar("a grammar with marks needs a shard for them");
    {
        const native::ReleasedGil released;
        {
            const std::lock_guard guard(shard->lock);
            reader.grammar.terminals = core::read_regexes(reader.regexes, shard->regexes);
        }
        new (self) A(std::move(shard), reader.grammar, fuel, memory_limit);
    }
    reader.remember(reader.grammar.terminals);
}

void define_base_automaton(nb::module_& m) {
    nb::class_<BaseAutomaton> automaton(m, "BaseAutomaton", "Token automaton over numbered states: the interface of Automaton and LexerAutomaton.");
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
            [](BaseAutomaton& self, const std::vector<uint32_t>& states, const MaskArrays& masks) {
                BaseAutomaton* const only = &self;
                fill_masks(std::span<BaseAutomaton* const>(&only, 1), states, masks);
            },
            "states"_a, "masks"_a.noconvert(), "Writes one mask for each state, in one call.")
        .def(
            "fill_mask_within",
            [](BaseAutomaton& self, uint32_t state, const MaskArray& mask, uint32_t budget) {
                check(self, state);
                uint32_t* out = mask_words(self, mask.data(), mask.size());
                without_gil([&] { self.fill_mask_within(state, budget, out); });
            },
            "state"_a, "mask"_a.noconvert(), "budget"_a,
            "Writes the tokens after which at most budget - 1 more tokens complete the text; EOS bits iff complete.")
        .def(
            "has_mask",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                return self.find_mask_id(state) != UINT32_MAX;
            },
            "state"_a, "Whether the mask of the state is in the memo.")
        .def("mask_id", &mask_id, "state"_a, "Id of the mask of the state in the vocabulary's mask store.")
        .def(
            "mask_ids",
            [](BaseAutomaton& self, const std::vector<uint32_t>& states) {
                BaseAutomaton* const only = &self;
                return mask_ids(std::span<BaseAutomaton* const>(&only, 1), states);
            },
            "states"_a, "Ids of the masks of the states.")
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
                const std::string text = without_gil([&] { return self.forced(state); });
                return nb::bytes(text.data(), text.size());
            },
            "state"_a, "Longest common prefix of all completions, cut at 16,384 bytes.")
        .def_prop_ro("automaton_table", &automaton_table, nb::sig("def automaton_table(self) -> Any"),
                     "The transitions as C functions, in a capsule; see spec/_core/automaton_table.hpp.")
        .def(
            "shortest_completion",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                if (state == BaseAutomaton::kDead) throw nb::value_error("a dead state has no completion");
                return without_gil([&] { return self.shortest_completion(state); });
            },
            "state"_a, "Number of tokens, without EOS, that complete the text; 0 iff it is complete.")
        .def(
            "counts_exactly",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                if (state == BaseAutomaton::kDead) throw nb::value_error("a dead state has no completion");
                return without_gil([&] { return self.counts_exactly(state); });
            },
            "state"_a, "Whether that number is the least, here and in every state that can follow.")
        .def(
            "count_thoroughly",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                if (state == BaseAutomaton::kDead) throw nb::value_error("a dead state has no completion");
                return without_gil([&] { return self.count_thoroughly(state); });
            },
            "state"_a, "Makes that number the least, also where many texts follow; False where they are too many for that.")
        .def_prop_ro("needs_trial", &BaseAutomaton::needs_trial, "Whether later masks may take much more work than the first ones, as far as the grammar shows it.")
        .def(
            "forks",
            [](BaseAutomaton& self, uint32_t state) {
                check(self, state);
                const native::ReleasedGil released;
                return self.forks(state);
            },
            "state"_a, "Levels of open rules at which several ways to read the text go on, at most: few in a text that can be read in one way.")
        .def(
            "limit_work", [](BaseAutomaton& self, std::optional<uint64_t> steps) { self.limit_work(steps.value_or(core::Work::kUnlimited)); },
            "steps"_a.none(), "From now on a call that takes more steps raises TooLarge; None: no call does.")
        .def_prop_ro(
            "last_work",
            [](BaseAutomaton& self) {
                const native::ReleasedGil released;
                return self.last_work();
            },
            "Steps of the last call of an automaton of this shard that did not find its answer in a memo: a count, not a time.")
        .def_prop_ro(
            "outgrown",
            [](BaseAutomaton& self) {
                const native::ReleasedGil released;
                return self.outgrown();
            },
            "Whether a new text should have a new automaton of the same grammar, because this one's memory can only grow.")
        .def_prop_ro(
            "busy",
            [](BaseAutomaton& self) {
                const std::unique_lock guard(self.shard().lock, std::try_to_lock);
                return !guard.owns_lock();
            },
            "Whether a call would wait now: another thread computes in this shard.")
        .def_prop_ro(
            "memory",
            [](BaseAutomaton& self) {
                BaseAutomaton::Size size;
                {
                    const native::ReleasedGil released;
                    size = self.size();
                }
                nb::dict out;
                out["states"] = size.states;
                out["continuations"] = size.continuations;
                out["expressions"] = size.expressions;
                out["bytes"] = size.bytes;
                out["rules"] = size.rules;
                out["mask_keys"] = size.mask_keys;
                out["memo_bytes"] = size.memo_bytes;
                out["collections"] = size.collections;
                out["states_given_out"] = size.published;
                return out;
            },
            nb::for_getter(nb::sig("def memory(self) -> dict[str, int]")), "Sizes of the automaton's own tables: counts, and bytes.");
}

}  // namespace

NB_MODULE(_core, m) {
#ifdef NDEBUG
    nb::set_leak_warnings(false);  // what a user's module keeps until the interpreter ends
#endif
    m.doc() = "Native core: vocabulary tables and the token automaton.";
    nb::exception<core::TooLarge>(m, "TooLarge", PyExc_RuntimeError);
    nb::exception<MarkedGrammar>(m, "MarkedGrammar", PyExc_ValueError);

    nb::class_<MaskStore>(m, "MaskStore", "The masks of a vocabulary by id; an id never names two masks.")
        .def_prop_ro("words", &MaskStore::words, "int32 words in a mask.")
        .def_prop_ro("first", &MaskStore::first, "Masks with lower ids were evicted.")
        .def_prop_ro("end", &MaskStore::end, "The id of the next new mask.")
        .def(
            "copy",
            [](const MaskStore& self, const std::vector<uint32_t>& ids, const MaskArrays& masks) {
                if (masks.shape(0) != ids.size()) throw nb::value_error("needs one mask for each id");
                if (masks.shape(1) != self.words()) throw nb::value_error("mask has the wrong length");
                uint32_t* out = reinterpret_cast<uint32_t*>(masks.data());
                for (const uint32_t id : ids) {
                    if (id >= self.end()) throw nb::index_error("not a mask id of this vocabulary");
                }
                const native::ReleasedGil released;
                for (size_t i = 0; i < ids.size(); ++i) {
                    if (!self.copy(ids[i], out + i * self.words())) return false;
                }
                return true;
            },
            "ids"_a, "masks"_a.noconvert(),
            "Writes the masks with these ids; False if one of them was evicted: its state then has a new mask id.");

    nb::class_<Vocabulary>(m, "Vocabulary", "Token bytes as tables; shared by all automata over them.")
        .def(
            "__init__",
            [](Vocabulary* self, nb::bytes blob, const Array<const int64_t>& offsets, const std::vector<uint32_t>& eos,
               size_t memory_limit, uint32_t shards) {
                const core::TokenBytes tokens{
                    {static_cast<const uint8_t*>(blob.data()), blob.size()}, {offsets.data(), offsets.size()}};
                const auto& [bytes, bounds] = tokens;
                bool valid = !bounds.empty() && bounds.front() >= 0 && bounds.back() <= static_cast<int64_t>(bytes.size());
                for (size_t i = 1; i < bounds.size() && valid; ++i) valid = bounds[i - 1] <= bounds[i];
                for (const uint32_t token : eos) valid = valid && token + size_t{1} < bounds.size();
                if (!valid) throw nb::value_error("offsets or EOS ids do not fit the tokens");
                const native::ReleasedGil released;
                new (self) Vocabulary(tokens, eos, memory_limit, shards);
            },
            "blob"_a, "offsets"_a, "eos_ids"_a, nb::kw_only(), "memory_limit"_a = size_t{256} << 20, "shards"_a = 1,
            "Token t is blob[offsets[t]:offsets[t + 1]]; offsets is int64 with one element more than there are tokens.")
        .def(
            "open_shard", [](std::shared_ptr<Vocabulary> self, bool marks) { return std::make_shared<Shard>(std::move(self), marks); },
            "marks"_a = false, "A new shard: automata of different shards never wait for each other. `marks`: for grammars with marks.")
        .def_ro("shards", &Vocabulary::shards, "Number of shards to use at a time.")
        .def_prop_ro("masks", [](Vocabulary& self) -> MaskStore& { return self.masks; }, nb::rv_policy::reference_internal,
                     "The masks of all automata.")
        .def_static(
            "fill_masks",
            [](const std::vector<BaseAutomaton*>& automata, const std::vector<uint32_t>& states, const MaskArrays& masks,
               const std::vector<uint32_t>& budgets) {
                same_length(automata, states);
                fill_masks(automata, states, masks, budgets);
            },
            "automata"_a, "states"_a, "masks"_a.noconvert(), "budgets"_a = std::vector<uint32_t>{},
            "Writes one mask for each (automaton, state), in one call; with budgets, as `fill_mask_within` does.")
        .def_static(
            "mask_ids",
            [](const std::vector<BaseAutomaton*>& automata, const std::vector<uint32_t>& states) {
                same_length(automata, states);
                return mask_ids(automata, states);
            },
            "automata"_a, "states"_a, "Ids of the masks of each (automaton, state).")
        .def_prop_ro("size", [](const Vocabulary& self) { return self.tables.size; }, "Number of token ids.")
        .def_prop_ro("words", [](const Vocabulary& self) { return self.masks.words(); }, "int32 words in a mask.")
        .def_prop_ro(
            "missing_bytes",
            [](const Vocabulary& self) {
                std::vector<uint32_t> missing;
                for (uint32_t byte = 0; byte < 256; ++byte) {
                    if (!self.tables.alphabet[byte]) missing.push_back(byte);
                }
                return missing;
            },
            "Bytes that are not a token by themselves: no completion over this vocabulary contains them.")
        .def_prop_ro(
            "memory",
            [](Vocabulary& self) {
                Vocabulary::Size size;
                {
                    const native::ReleasedGil released;
                    size = self.size();
                }
                nb::dict out;
                out["tables"] = self.tables.bytes();
                out["shards"] = size.shards;
                out["residuals"] = size.residuals;
                out["residual_bytes"] = size.residual_bytes;
                out["lexicon_entries"] = size.entries;
                out["lexicon_bytes"] = size.entry_bytes;
                out["masks"] = self.masks.end() - self.masks.first();
                out["mask_store_bytes"] = self.masks.bytes();
                return out;
            },
            nb::for_getter(nb::sig("def memory(self) -> dict[str, int]")), "Sizes of the shared tables now: counts, and bytes.");

    nb::class_<Shard>(m, "Shard", "Residuals and lexicon entries under one lock, shared by the automata compiled in this shard.")
        .def_prop_ro(
            "full",
            [](Shard& self) {
                const native::ReleasedGil released;
                return self.full();
            },
            "Whether new automata should use a new shard.");

    define_base_automaton(m);
    nb::class_<Automaton, BaseAutomaton> automaton(m, "Automaton", "Token automaton; see constrained.automaton.TokenAutomaton.");
    define_token_methods(automaton)
        .def(
            "__init__", &construct<Automaton>,
            "shard"_a, "rules"_a, "start"_a, "known"_a, "fuel"_a, "memory_limit"_a,
            nb::sig("def __init__(self, shard: Shard, rules: typing.Any, start: str, "
                    "known: dict[typing.Any, int], fuel: int, memory_limit: int) -> None"),
            "From the rules of a constrained.grammars.ir.Grammar, a dict or a constrained.grammars.packed.PackedRules. `known` maps the expressions that this shard has read to their numbers;\n"
            "new ones are added.");

    nb::class_<UniqueAutomaton, BaseAutomaton> unique(
        m, "UniqueAutomaton", "Token automaton of a grammar with marks; see constrained.automaton.UniqueAutomaton.");
    define_token_methods(unique)
        .def(
            "__init__", &construct<UniqueAutomaton>,
            "shard"_a, "rules"_a, "start"_a, "known"_a, "fuel"_a, "memory_limit"_a,
            nb::sig("def __init__(self, shard: Shard, rules: typing.Any, start: str, "
                    "known: dict[typing.Any, int], fuel: int, memory_limit: int) -> None"),
            "As Automaton; the shard is one that was opened for marks.")
        .def_prop_ro("search_exhausted", &UniqueAutomaton::search_exhausted, "Whether a search for a completion ran out of fuel.");

    nb::class_<LexerAutomaton, BaseAutomaton> lexed(
        m, "LexerAutomaton", "Token automaton of a grammar behind a lexer; see constrained.automaton.LexerAutomaton.");
    define_token_methods(lexed)
        .def(
            "__init__",
            [](LexerAutomaton* self, std::shared_ptr<Shard> shard, nb::dict rules, nb::str start, nb::dict known,
               nb::list tokens, const std::vector<int32_t>& ranks, const std::vector<std::vector<int32_t>>& inherits_rank_from,
               const std::vector<bool>& shortest, bool basic_lexer, uint32_t fuel, size_t memory_limit) {
                core::IrReader reader(std::move(known));
                reader.read(std::move(rules), start);
                std::vector<int32_t> rows;
                for (const nb::handle token : tokens) rows.push_back(reader.node_index(token));
                {
                    const native::ReleasedGil released;
                    {
                        const std::lock_guard guard(shard->lock);
                        reader.grammar.terminals = core::read_regexes(reader.regexes, shard->regexes);
                    }
                    new (self) LexerAutomaton(std::move(shard), reader.grammar, {rows, ranks, inherits_rank_from, shortest, basic_lexer}, fuel, memory_limit);
                }
                reader.remember(reader.grammar.terminals);
            },
            "shard"_a, "rules"_a, "start"_a, "known"_a, "tokens"_a, "ranks"_a, "inherits_rank_from"_a, "shortest"_a, "basic_lexer"_a, "fuel"_a, "memory_limit"_a,
            nb::sig("def __init__(self, shard: Shard, rules: dict[str, typing.Any], start: str, known: dict[typing.Any, int], "
                    "tokens: list[typing.Any], ranks: Sequence[int], inherits_rank_from: Sequence[Sequence[int]], shortest: Sequence[bool], basic_lexer: bool, "
                    "fuel: int, memory_limit: int) -> None"),
            "As Automaton; also takes the regular expressions, ranks and rank sources of a constrained.grammars.lexer.LexerGrammar's tokens.")
        .def_prop_ro("search_exhausted", &LexerAutomaton::search_exhausted, "Whether a search for a completion ran out of fuel.")
        .def_prop_ro("conflicting_tokens", &LexerAutomaton::conflicting_tokens,
                     "If no completion exists: pairs of tokens whose second never stands right after the first.");
}
