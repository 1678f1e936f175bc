// Which schemas of a document can be lowered lazily, and their minimum lengths.
//
// A schema is plain if everything lowered lazily below it can neither be rejected nor turn out empty, and the minimum length
// of its JSON text is known without lowering. The rule of the arrays and objects of a plain schema may be built when decoding
// first reaches it (`grammars.transform.lazy_rules`).
// Invariants
//  * The document is an unshared copy (`copy_document`) in which every dict occurs once.
//  * Lengths are exact, in bytes. A schema with an unknown length is not plain.
//  * Every schema reachable from a plain schema is plain, or `pending_eager` has returned it before the rule is deferred.
//  * Results for a schema never change: a schema is analysed together with everything reachable from it.
//  * No function recurses over schemas.
// Thread safety: the GIL guards it.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "keywords.hpp"

namespace schemas {

class DeferralAnalysis {
public:
    /// Minimum lengths of punctuation in bytes.
    struct Punctuation {
        uint32_t open_object, close_object, empty_object, open_array, close_array, empty_array, comma, colon;
    };

    DeferralAnalysis(nb::object document, std::shared_ptr<const Keywords> keywords, const Punctuation& punctuation)
        : document_(std::move(document)), keywords_(std::move(keywords)), text_(punctuation) {
        entries_.resize(2);  // true and false
        entries_[kTrue].kind = Kind::Scalar, entries_[kTrue].certified = true, entries_[kTrue].length = 1;
        entries_[kFalse].kind = Kind::Scalar, entries_[kFalse].certified = true;
    }

    /// Minimum length of the arrays and objects that a schema allows, if their rule may be lazy; otherwise 0.
    /// `containers_only`: also 0 if the schema allows scalars. `pointer`: the JSON Pointer of the schema.
    uint32_t deferred_length(nb::handle schema, nb::str pointer, bool containers_only);

    /// For a schema that is only a reference, directly or through other references, to a schema that allows only arrays and
    /// objects and whose rule may be lazy: the last reference; otherwise None.
    nb::object deferrable_reference(nb::handle schema, nb::str pointer);

    /// The schemas reachable from deferred rules that must be lowered eagerly, since the last call: each as (pointer or None,
    /// reference or None, steps from there).
    nb::list pending_eager();

private:
    static constexpr uint32_t kTrue = 0, kFalse = 1, kNone = UINT32_MAX;
    static constexpr uint32_t kMaxLength = 1u << 30;  // longer minimum lengths count as unknown
    static constexpr int kMaxRounds = 64;

    enum class Kind : uint8_t { Unanalysed, Scalar, Container, Either };

    struct Need {
        uint32_t entry;
        uint32_t times;
    };
    /// Objects or arrays: bytes of punctuation and keys, and the required values.
    struct Part {
        bool allowed = false;
        uint64_t base = 0;
        std::vector<Need> needs;
    };
    struct Entry {
        PyObject* schema = nullptr;
        // Location: `pointer`, the target of `reference`, or `keyword`, `name` and `index` below `parent`.
        PyObject *pointer = nullptr, *reference = nullptr;
        PyObject* refers_to = nullptr;  // the reference, if the schema is only a reference
        uint32_t parent = kNone;
        PyObject *keyword = nullptr, *name = nullptr;
        Py_ssize_t index = -1;

        Kind kind = Kind::Unanalysed;
        bool scalar_unknown = false;  // there are scalars with unknown minimum length
        bool all_plain = false;       // certified only if all its subschemas are
        bool unknown = false, rule_unknown = false, certified = false, announced = false;
        uint32_t scalar = kNone;  // minimum length of the scalars
        Part object, array;
        std::vector<uint32_t> below;
        uint32_t length = kNone, rule_length = kNone;
    };
    using KeywordValues = std::array<PyObject*, kRoles>;

    static bool deferrable(const Entry& entry, bool containers_only) {
        if (entry.kind != Kind::Container || !entry.certified) return false;
        return !containers_only || (entry.scalar == kNone && !entry.scalar_unknown);
    }
    uint32_t find(PyObject* schema, PyObject* pointer);
    uint32_t meet(PyObject* schema, const Entry& location);
    uint32_t child(uint32_t parent, Role role, PyObject* schema, PyObject* name = nullptr, Py_ssize_t index = -1);
    void read(uint32_t id);
    bool read_reference(uint32_t id, PyObject* reference);
    bool read_either(uint32_t id, const KeywordValues& values);
    bool read_listed(Entry& entry, const KeywordValues& values, uint32_t types);
    bool read_scalars(Entry& entry, const KeywordValues& values, uint32_t types);
    bool read_object(uint32_t id, const KeywordValues& values);
    bool read_array(uint32_t id, const KeywordValues& values);
    void settle(uint32_t first);
    bool settle_unknown(uint32_t first);
    bool settle_lengths(uint32_t first);
    bool settle_certified(uint32_t first);
    uint32_t length_of(const Part& part) const;
    void announce(uint32_t id);

    static PyObject* at(const KeywordValues& values, Role role) { return values[static_cast<size_t>(role)]; }

    nb::object document_;
    std::shared_ptr<const Keywords> keywords_;
    Punctuation text_;
    std::vector<Entry> entries_;
    std::unordered_map<PyObject*, uint32_t> index_;
    std::vector<nb::object> held_;  // pointers
    std::array<PyObject*, kRoles> keyword_names_{};
    std::vector<uint32_t> pending_eager_;
    std::vector<PyObject*> below_;  // of `read`
};

}  // namespace schemas
