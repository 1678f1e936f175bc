// Checks the keyword values of a document.
#include <cmath>
#include <vector>

#include "keywords.hpp"

namespace schemas {

namespace {

constexpr long kMaxBits = 13'000;  // of an integer, just below the limit of Python's conversion to decimal

bool is_number(PyObject* value) {
    if (PyFloat_Check(value)) return std::isfinite(PyFloat_AsDouble(value));
    if (!PyLong_Check(value) || PyBool_Check(value)) return false;
    int overflow;
    PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow) return true;
    return nb::cast<long>(nb::handle(value).attr("bit_length")()) < kMaxBits;
}

/// The value of a number; infinite where it is great.
double number_of(PyObject* value) {
    if (PyFloat_Check(value)) return PyFloat_AsDouble(value);
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? overflow * HUGE_VAL : static_cast<double>(number);
}

bool is_count(PyObject* value) { return is_number(value) && number_of(value) >= 0 && std::trunc(number_of(value)) == number_of(value); }

/// A list of distinct strings.
bool are_names(PyObject* value) {
    if (!PyList_Check(value)) return false;
    const Py_ssize_t size = NB_LIST_GET_SIZE(value);
    for (Py_ssize_t i = 0; i < size; ++i) {
        if (!PyUnicode_Check(NB_LIST_GET_ITEM(value, i))) return false;
    }
    return size < 2 || nb::len(nb::steal(PySet_New(value))) == static_cast<size_t>(size);
}

bool are_types(PyObject* value) {
    if (PyUnicode_Check(value)) return type_of(value) != 0;
    if (!are_names(value) || NB_LIST_GET_SIZE(value) == 0) return false;
    for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(value); ++i) {
        if (!type_of(NB_LIST_GET_ITEM(value, i))) return false;
    }
    return true;
}

/// Calls `each` with the values of a dict with string keys; false for any other object, or if `each` returns false.
template <class Each>
bool by_name(PyObject* value, Each&& each) {
    if (!PyDict_Check(value)) return false;
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);) {
        if (!PyUnicode_Check(key) || !each(item)) return false;
    }
    return true;
}

void push_all(PyObject* list, std::vector<PyObject*>& stack) {
    for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(list); ++i) stack.push_back(NB_LIST_GET_ITEM(list, i));
}

}  // namespace

bool is_valid_keyword_value(KeywordCheck check, PyObject* value, std::vector<PyObject*>& stack) {
    switch (check) {
        case KeywordCheck::Any: return true;
        case KeywordCheck::String: return PyUnicode_Check(value);
        case KeywordCheck::Number: return is_number(value);
        case KeywordCheck::Positive: return is_number(value) && number_of(value) > 0;
        case KeywordCheck::Count: return is_count(value);
        case KeywordCheck::Boolean: return PyBool_Check(value);
        case KeywordCheck::Types: return are_types(value);
        case KeywordCheck::List: return PyList_Check(value);
        case KeywordCheck::FilledList: return PyList_Check(value) && NB_LIST_GET_SIZE(value);
        case KeywordCheck::Names: return are_names(value);
        case KeywordCheck::FilledNames: return are_names(value) && NB_LIST_GET_SIZE(value);
        case KeywordCheck::NameLists: return by_name(value, are_names);
        case KeywordCheck::SchemaOrList:
            if (PyList_Check(value)) {
                push_all(value, stack);
                return true;
            }
            [[fallthrough]];
        case KeywordCheck::Schema: stack.push_back(value); return true;
        case KeywordCheck::SchemaList:
            if (!PyList_Check(value) || NB_LIST_GET_SIZE(value) == 0) return false;
            push_all(value, stack);
            return true;
        case KeywordCheck::SchemasByName:
            return by_name(value, [&](PyObject* item) {
                stack.push_back(item);
                return true;
            });
        case KeywordCheck::Dependencies:
            return by_name(value, [&](PyObject* item) {
                if (PyList_Check(item)) return are_names(item);
                stack.push_back(item);
                return true;
            });
    }
    return false;
}

size_t count_valid_subschemas(PyObject* schema, const Keywords& keywords) {
    size_t count = 0;
    std::vector<PyObject*> stack{schema};
    while (!stack.empty()) {
        PyObject* const item = stack.back();
        stack.pop_back();
        ++count;
        if (PyBool_Check(item)) continue;
        if (!PyDict_Check(item)) return 0;
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(item, &at, &key, &value);) {
            const Keywords::Keyword* const keyword = keywords.find(key);
            if (keyword) {
                if (!is_valid_keyword_value(keyword->check, value, stack)) return 0;
            } else if (PyDict_Check(value)) {
                count += PyDict_Size(value);  // mostly definitions under a non-standard keyword
            }
        }
    }
    return count;
}

}  // namespace schemas
