#include "disjoint_branches.hpp"

#include <algorithm>
#include <vector>

namespace schemas {

namespace {

constexpr size_t kMostBranches = 64;  // each two are compared

/// What is looked at of one branch.
struct Branch {
    PyObject* schema;
    uint32_t types;
    nb::object listed;  // the strings of ``enum`` or ``const`` as a frozenset, if it lists strings and nothing else
    PyObject* properties = nullptr;
    PyObject* required = nullptr;
    bool closed = false;  // no member has another name than those of `properties`
};

/// The strings that a schema lists, if it does and lists nothing else.
nb::object listed_strings(PyObject* schema, const Keywords& keywords) {
    if (!PyDict_Check(schema)) return {};
    PyObject *key, *item, *all = nullptr, *one = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(schema, &at, &key, &item);) {
        const Keywords::Keyword* const keyword = keywords.find(key);
        if (!keyword) continue;
        if (keyword->role == Role::Ref) return {};
        if (keyword->role == Role::Enum) all = item;
        if (keyword->role == Role::Const) one = item;
    }
    if ((all != nullptr) == (one != nullptr) || (all && !PyList_Check(all))) return {};
    const nb::object values = all ? nb::borrow(all) : nb::object(nb::make_tuple(nb::handle(one)));
    for (const nb::handle value : values) {
        if (!PyUnicode_CheckExact(value.ptr())) return {};
    }
    return nb::steal(PyFrozenSet_New(values.ptr()));
}

bool no_common(nb::handle one, nb::handle other) {
    return std::ranges::none_of(nb::borrow(one), [&](nb::handle value) { return PySet_Contains(other.ptr(), value.ptr()) == 1; });
}

/// The types that a schema names.
uint32_t named_types(PyObject* schema, const Keywords& keywords) {
    uint32_t types = kEvery;
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Check(schema) && PyDict_Next(schema, &at, &key, &item);) {
        const Keywords::Keyword* const keyword = keywords.find(key);
        if (keyword && keyword->role == Role::Ref) return kEvery;
        if (keyword && keyword->role == Role::Type && (PyUnicode_Check(item) || PyList_Check(item))) types = types_of(item);
    }
    return types;
}

/// Whether a required member of one of two objects has no value in both: the other has no such member, or another type of it, or
/// other strings.
bool told_apart(const Branch& requiring, const Branch& other, const Keywords& keywords) {
    for (Py_ssize_t i = 0; requiring.required && i < NB_LIST_GET_SIZE(requiring.required); ++i) {
        PyObject* const name = NB_LIST_GET_ITEM(requiring.required, i);
        PyObject* const here = requiring.properties ? PyDict_GetItem(requiring.properties, name) : nullptr;
        PyObject* const there = other.properties ? PyDict_GetItem(other.properties, name) : nullptr;
        if (!there && other.closed) return true;
        if (!here || !there) continue;
        if (!(named_types(here, keywords) & named_types(there, keywords))) return true;
        const nb::object left = listed_strings(here, keywords), right = listed_strings(there, keywords);
        if (left.is_valid() && right.is_valid() && no_common(left, right)) return true;
    }
    return false;
}

bool disjoint(const Branch& one, const Branch& other, const Keywords& keywords) {
    const uint32_t types = one.types & other.types;
    if (!types) return true;
    if (one.listed.is_valid() && other.listed.is_valid()) return no_common(one.listed, other.listed);
    return types == kObject && (told_apart(one, other, keywords) || told_apart(other, one, keywords));
}

}  // namespace

bool all_disjoint(std::span<PyObject* const> branches, uint32_t types, const Keywords& keywords,
                  const std::function<bool(PyObject*, PyObject*)>& proved) {
    if (branches.size() > kMostBranches) return false;
    std::vector<Branch> read;
    for (PyObject* const schema : branches) {
        Branch branch{schema, types, listed_strings(schema, keywords)};
        PyObject *key, *item;
        bool patterns = false;
        for (Py_ssize_t at = 0; PyDict_Next(schema, &at, &key, &item);) {
            const Keywords::Keyword* const keyword = keywords.find(key);
            if (!keyword) continue;
            if (keyword->role == Role::PatternProperties) patterns = true;
            if (keyword->role == Role::Type) branch.types &= types_of(item);
            if (keyword->role == Role::Properties) branch.properties = item;
            if (keyword->role == Role::Required) branch.required = item;
            if (keyword->role == Role::AdditionalProperties) branch.closed = item == Py_False;
        }
        branch.closed = branch.closed && !patterns;
        const bool apart = std::ranges::all_of(read, [&](const Branch& other) {
            return disjoint(other, branch, keywords) || proved(other.schema, schema);
        });
        if (!apart) return false;
        read.push_back(std::move(branch));
    }
    return true;
}

}  // namespace schemas
