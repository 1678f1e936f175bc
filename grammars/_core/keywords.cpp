#include "keywords.hpp"

#include <nanobind/stl/string_view.h>

#include <string_view>
#include <utility>

namespace schemas {

namespace {

constexpr std::pair<std::string_view, Check> kChecks[] = {
    {"any", Check::Any}, {"text", Check::Text}, {"number", Check::Number}, {"positive", Check::Positive},
    {"count", Check::Count}, {"flag", Check::Flag}, {"types", Check::Types}, {"list", Check::List},
    {"filled list", Check::FilledList}, {"names", Check::Names}, {"filled names", Check::FilledNames},
    {"name lists", Check::NameLists}, {"schema", Check::Schema}, {"schema or list", Check::SchemaOrList},
    {"schema list", Check::SchemaList}, {"schemas by name", Check::SchemasByName}, {"dependencies", Check::Dependencies},
};

constexpr std::pair<std::string_view, Role> kRolesByName[] = {
    {"type", Role::Type}, {"enum", Role::Enum}, {"const", Role::Const}, {"minimum", Role::Minimum},
    {"maximum", Role::Maximum}, {"exclusiveMinimum", Role::ExclusiveMinimum},
    {"exclusiveMaximum", Role::ExclusiveMaximum}, {"minLength", Role::MinLength}, {"maxLength", Role::MaxLength},
    {"format", Role::Format}, {"prefixItems", Role::PrefixItems}, {"items", Role::Items},
    {"additionalItems", Role::AdditionalItems}, {"minItems", Role::MinItems}, {"maxItems", Role::MaxItems},
    {"uniqueItems", Role::UniqueItems}, {"properties", Role::Properties},
    {"additionalProperties", Role::AdditionalProperties}, {"required", Role::Required}, {"$ref", Role::Ref},
    {"allOf", Role::AllOf}, {"anyOf", Role::AnyOf},
};

template <class Value, size_t size>
Value named(const std::pair<std::string_view, Value> (&table)[size], std::string_view name, Value otherwise) {
    for (const auto& [key, value] : table) {
        if (key == name) return value;
    }
    return otherwise;
}

}  // namespace

Keywords::Keywords(nb::dict checks, nb::frozenset limiting, nb::str identifier, bool ref_alone, nb::frozenset formats)
    : identifier(std::move(identifier)), ref_alone(ref_alone), formats(std::move(formats)) {
    for (const auto [keyword, name] : checks) {
        const std::string_view text = nb::cast<std::string_view>(keyword);
        const Check check = named(kChecks, nb::cast<std::string_view>(name), Check::Any);
        Role role = Role::Silent;
        if (PySet_Contains(limiting.ptr(), keyword.ptr()) == 1) {
            role = named(kRolesByName, text, Role::Hard);
            const bool exclusive = role == Role::ExclusiveMinimum || role == Role::ExclusiveMaximum;
            if (exclusive && check == Check::Flag) role = Role::Hard;  // a switch, in draft 4
        }
        // What an identifier hides from others matters even if the draft takes it for an annotation.
        if (keyword.equal(this->identifier)) role = Role::Identifier;
        codes_[keyword] = nb::int_(all_.size());
        all_.push_back({check, role});
    }
}

}  // namespace schemas
