#include "keywords.hpp"

#include <nanobind/stl/string_view.h>

#include <string_view>
#include <utility>

namespace schemas {

namespace {

constexpr std::pair<std::string_view, KeywordCheck> kChecks[] = {
    {"any", KeywordCheck::Any}, {"text", KeywordCheck::String}, {"number", KeywordCheck::Number}, {"positive", KeywordCheck::Positive},
    {"count", KeywordCheck::Count}, {"flag", KeywordCheck::Boolean}, {"types", KeywordCheck::Types}, {"list", KeywordCheck::List},
    {"filled list", KeywordCheck::FilledList}, {"names", KeywordCheck::Names}, {"filled names", KeywordCheck::FilledNames},
    {"name lists", KeywordCheck::NameLists}, {"schema", KeywordCheck::Schema}, {"schema or list", KeywordCheck::SchemaOrList},
    {"schema list", KeywordCheck::SchemaList}, {"schemas by name", KeywordCheck::SchemasByName}, {"dependencies", KeywordCheck::Dependencies},
};

constexpr std::pair<std::string_view, Role> kRolesByName[] = {
    {"type", Role::Type}, {"enum", Role::Enum}, {"const", Role::Const}, {"prefixItems", Role::PrefixItems}, {"items", Role::Items},
    {"additionalItems", Role::AdditionalItems}, {"minItems", Role::MinItems}, {"maxItems", Role::MaxItems},
    {"uniqueItems", Role::UniqueItems}, {"properties", Role::Properties},
    {"patternProperties", Role::PatternProperties}, {"minProperties", Role::MinProperties}, {"maxProperties", Role::MaxProperties},
    {"additionalProperties", Role::AdditionalProperties}, {"required", Role::Required}, {"$ref", Role::Ref},
    {"allOf", Role::AllOf}, {"anyOf", Role::AnyOf}, {"oneOf", Role::OneOf},
};

template <class Value, size_t size>
Value named(const std::pair<std::string_view, Value> (&table)[size], std::string_view name, Value otherwise) {
    for (const auto& [key, value] : table) {
        if (key == name) return value;
    }
    return otherwise;
}

}  // namespace

uint32_t type_of(PyObject* name) {
    constexpr std::pair<const char*, uint32_t> names[] = {
        {"string", kString}, {"object", kObject}, {"array", kArray}, {"integer", kInteger},
        {"number", kInteger | kFraction}, {"boolean", kBoolean}, {"null", kNull}};
    for (const auto& [text, type] : names) {
        if (PyUnicode_CompareWithASCIIString(name, text) == 0) return type;
    }
    return 0;
}

uint32_t types_of(PyObject* value) {
    if (!value) return kEvery;
    if (PyUnicode_Check(value)) return type_of(value);
    uint32_t types = 0;
    for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(value); ++i) types |= type_of(NB_LIST_GET_ITEM(value, i));
    return types;
}

Keywords::Keywords(nb::dict checks, nb::frozenset limiting, nb::frozenset scalar, nb::str identifier, bool ref_alone)
    : identifier(std::move(identifier)), ref_alone(ref_alone) {
    for (const auto [keyword, name] : checks) {
        const std::string_view text = nb::cast<std::string_view>(keyword);
        const KeywordCheck check = named(kChecks, nb::cast<std::string_view>(name), KeywordCheck::Any);
        Role role = PySet_Contains(limiting.ptr(), keyword.ptr()) == 1 ? named(kRolesByName, text, Role::OtherConstraint) : Role::Annotation;
        // An identifier changes the meaning of references even where the draft treats it as an annotation.
        if (keyword.equal(this->identifier)) role = Role::Identifier;
        codes_[keyword] = nb::int_(all_.size());
        all_.push_back({check, role, PySet_Contains(scalar.ptr(), keyword.ptr()) == 1});
    }
}

}  // namespace schemas
