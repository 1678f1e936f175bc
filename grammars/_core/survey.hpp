// Which schemas of a document are plain, and how long their shortest texts are.
//
// A schema is plain if whatever is lowered of it later can neither be refused nor turn out to be empty, and if the
// length of its shortest JSON text is known without lowering it. The rule of a plain schema's arrays and objects may
// wait for its body until a text comes there (`grammars.transform.lazy_rules`).
// Invariants
//  * The document is a snapshot that nobody changes, in which no dict stands in two places.
//  * Lengths are those of the bodies' shortest texts, to the byte. Where one cannot be told, the schema is not plain.
//  * What a plain schema leads to is plain, or has been handed out by `owed` by the time the rule is put off.
//  * What is known of a schema never changes: a schema is looked at together with all that it leads to.
// No function recurses over schemas.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "keywords.hpp"

namespace schemas {

class Survey {
public:
    /// Bytes of the shortest texts of punctuation. A key is written before its colon.
    struct Punctuation {
        uint32_t open_object, close_object, empty_object, open_array, close_array, empty_array, comma, colon;
    };

    Survey(nb::object document, std::shared_ptr<const Keywords> keywords, const Punctuation& punctuation)
        : document_(std::move(document)), keywords_(std::move(keywords)), text_(punctuation) {
        entries_.resize(2);  // true and false
        entries_[kTrue].kind = Kind::Scalar, entries_[kTrue].certified = true, entries_[kTrue].length = 1;
        entries_[kFalse].kind = Kind::Scalar, entries_[kFalse].certified = true;
    }

    /// The length of the shortest array or object that a schema allows, if its rule may wait for its body; otherwise 0.
    /// `only`: and 0 as well if it allows other values. `pointer`: where the schema stands.
    uint32_t put_off(nb::handle schema, nb::str pointer, bool only);

    /// The reference by which a schema that says nothing else leads to one that allows only arrays and objects, and whose
    /// rule may wait for its body, perhaps by way of others; otherwise None.
    nb::object leads_to(nb::handle schema, nb::str pointer);

    /// Schemas that are to be lowered before any text is written, because a rule that was put off leads to them: those
    /// found since the last call, each as (pointer or None, reference or None, steps from there).
    nb::list owed();

private:
    static constexpr uint32_t kTrue = 0, kFalse = 1, kNone = UINT32_MAX;
    static constexpr uint32_t kLongest = 1u << 30;  // no text is said to be longer
    static constexpr int kMaxRounds = 64;

    enum class Kind : uint8_t { Hard, Scalar, Container, Either };

    struct Need {
        uint32_t entry;
        uint32_t times;
    };
    /// Objects or arrays: bytes besides what is needed, and the needed.
    struct Part {
        bool allowed = false;
        uint64_t base = 0;
        std::vector<Need> needs;
    };
    struct Entry {
        PyObject* schema = nullptr;
        // Where it stands: at `pointer`, or where `reference` leads, or at steps below another one.
        PyObject *pointer = nullptr, *reference = nullptr;
        PyObject* refers_to = nullptr;  // the reference that is all it says
        uint32_t parent = kNone;
        PyObject *keyword = nullptr, *name = nullptr;
        Py_ssize_t index = -1;

        Kind kind = Kind::Hard;
        bool scalar_unknown = false;  // there are scalars whose shortest text is not known
        bool all_plain = false;       // certified only if everything below it is
        bool unknown = false, rule_unknown = false, certified = false, announced = false;
        uint32_t scalar = kNone;  // shortest scalar
        Part object, array;
        std::vector<uint32_t> below;
        uint32_t length = kNone, rule_length = kNone;
    };
    using Said = std::array<PyObject*, kRoles>;

    static bool may_wait(const Entry& entry, bool only) {
        if (entry.kind != Kind::Container || !entry.certified) return false;
        return !only || (entry.scalar == kNone && !entry.scalar_unknown);
    }
    uint32_t find(PyObject* schema, PyObject* pointer);
    uint32_t meet(PyObject* schema, const Entry& place);
    uint32_t child(uint32_t parent, Role role, PyObject* schema, PyObject* name = nullptr, Py_ssize_t index = -1);
    void read(uint32_t id);
    bool read_reference(uint32_t id, PyObject* reference);
    bool read_either(uint32_t id, const Said& said);
    bool read_listed(Entry& entry, const Said& said, uint32_t types);
    bool read_scalars(Entry& entry, const Said& said, uint32_t types);
    bool read_object(uint32_t id, const Said& said);
    bool read_array(uint32_t id, const Said& said);
    void settle(uint32_t first);
    bool settle_unknown(uint32_t first);
    bool settle_lengths(uint32_t first);
    bool settle_certified(uint32_t first);
    uint32_t length_of(const Part& part) const;
    void announce(uint32_t id);

    static PyObject* at(const Said& said, Role role) { return said[static_cast<size_t>(role)]; }

    nb::object document_;
    std::shared_ptr<const Keywords> keywords_;
    Punctuation text_;
    std::vector<Entry> entries_;
    std::unordered_map<PyObject*, uint32_t> index_;
    std::vector<nb::object> held_;  // pointers
    std::array<PyObject*, kRoles> keyword_names_{};
    std::vector<uint32_t> owed_;
    std::vector<PyObject*> below_;  // of `read`
};

}  // namespace schemas
