// The keywords of one JSON Schema draft: the check of each value, and its role where schemas are read natively.
//
// Invariant: strings compare by content; each keyword of a schema is looked up once.
// Thread safety: the GIL guards everything in this module.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

namespace schemas {

namespace nb = nanobind;

/// The check of a keyword value: see the table of `constrained.grammars.json_schema.source.metaschema`.
enum class KeywordCheck : uint8_t {
    Any, String, Number, Positive, Count, Boolean, Types, List, FilledList, Names, FilledNames, NameLists,
    Schema, SchemaOrList, SchemaList, SchemasByName, Dependencies,
};

/// The role of a keyword. `OtherConstraint`: constrains values, not read natively by its role; `Annotation`: does not.
enum class Role : uint8_t {
    Annotation, OtherConstraint, Identifier, Type, Enum, Const, PrefixItems, Items, AdditionalItems, MinItems, MaxItems, UniqueItems, Properties,
    PatternProperties, AdditionalProperties, MinProperties, MaxProperties, Required, Ref, AllOf, AnyOf, OneOf,
};
constexpr size_t kRoles = static_cast<size_t>(Role::OneOf) + 1;

/// Types of values, as bits.
constexpr uint32_t kNull = 1, kBoolean = 2, kInteger = 4, kFraction = 8, kString = 16, kArray = 32, kObject = 64, kEvery = 127;

/// The type of a name; 0 if there is none.
uint32_t type_of(PyObject* name);

/// The types of a valid value of ``type``; of nullptr all.
uint32_t types_of(PyObject* value);

class Keywords {
public:
    struct Keyword {
        KeywordCheck check;
        Role role;
        bool scalar;  ///< constrains numbers or strings and nothing else
    };

    /// `checks`: names of checks by keyword; `limiting`: the keywords that may constrain values; `scalar`: those of them that
    /// constrain numbers or strings and nothing else.
    Keywords(nb::dict checks, nb::frozenset limiting, nb::frozenset scalar, nb::str identifier, bool ref_alone);

    /// nullptr for a keyword that is unknown in the draft.
    const Keyword* find(PyObject* keyword) const {
        PyObject* const code = PyDict_GetItemWithError(codes_.ptr(), keyword);
        return code ? &all_[PyLong_AsLong(code)] : nullptr;
    }

    const nb::str identifier;  ///< the keyword that identifies a schema
    const bool ref_alone;      ///< other keywords next to ``$ref`` are ignored

private:
    nb::dict codes_;
    std::vector<Keyword> all_;
};

/// Whether the value of a keyword passes its check. Pushes the subschemas in the value, unchecked, on the stack.
bool is_valid_keyword_value(KeywordCheck check, PyObject* value, std::vector<PyObject*>& stack);

/// Approximate number of schemas in a document, with subschemas, if all keyword values are valid; otherwise 0.
size_t count_valid_subschemas(PyObject* schema, const Keywords& keywords);

}  // namespace schemas
