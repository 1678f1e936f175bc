// The keywords of one draft of JSON Schema: what their values must look like, and what a survey makes of them.
//
// Strings compare by content; a keyword is looked up once for each time that it stands in a schema.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

namespace schemas {

namespace nb = nanobind;

/// What a value must be: see the table of `grammars.json_schema.source.metaschema`.
enum class Check : uint8_t {
    Any, Text, Number, Positive, Count, Flag, Types, List, FilledList, Names, FilledNames, NameLists,
    Schema, SchemaOrList, SchemaList, SchemasByName, Dependencies,
};

/// What a survey understands. `Hard`: everything else that limits values; `Silent`: what limits none.
enum class Role : uint8_t {
    Silent, Hard, Identifier, Type, Enum, Const, Minimum, Maximum, ExclusiveMinimum, ExclusiveMaximum, MinLength,
    MaxLength, Format, PrefixItems, Items, AdditionalItems, MinItems, MaxItems, UniqueItems, Properties,
    AdditionalProperties, Required, Ref, AllOf, AnyOf,
};
constexpr size_t kRoles = static_cast<size_t>(Role::AnyOf) + 1;

class Keywords {
public:
    struct Keyword {
        Check check;
        Role role;
    };

    /// `checks`: names of checks by keyword; `limiting`: the keywords that may limit something.
    Keywords(nb::dict checks, nb::frozenset limiting, nb::str identifier, bool ref_alone, nb::frozenset formats);

    /// nullptr for a keyword that the draft does not know.
    const Keyword* find(PyObject* keyword) const {
        PyObject* const code = PyDict_GetItemWithError(codes_.ptr(), keyword);
        return code ? &all_[PyLong_AsLong(code)] : nullptr;
    }

    const nb::str identifier;  ///< names a schema
    const bool ref_alone;      ///< other keywords next to ``$ref`` are ignored
    const nb::frozenset formats;

private:
    nb::dict codes_;
    std::vector<Keyword> all_;
};

/// Whether the value of a keyword is as it must be, but for the schemas in it, which are put on the stack.
bool is_sound(Check check, PyObject* value, std::vector<PyObject*>& stack);

/// About how many schemas stand in a document, subschemas included, if all their keywords are as they must be;
/// otherwise 0.
size_t count_sound(PyObject* schema, const Keywords& keywords);

/// A copy of dicts and lists, and whatever else is in them; None if one of them stands in two places or is of a class
/// of its own.
nb::object snapshot(PyObject* schema);

}  // namespace schemas
