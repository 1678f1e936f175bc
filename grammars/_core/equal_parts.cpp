#include "equal_parts.hpp"

#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

namespace schemas {

namespace {

/// Keywords by which a schema means something else where it stands elsewhere.
bool bound_to_its_place(std::string_view key, PyObject* value) {
    return key == "$id" || (key == "id" && PyUnicode_Check(value)) || key == "$schema" || key == "$anchor" || key == "$dynamicAnchor" ||
           key == "$recursiveAnchor" || key == "$dynamicRef" || key == "$recursiveRef";
}

std::string_view text_of(PyObject* string) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(string, &size);
    if (!text) {  // a lone surrogate
        PyErr_Clear();
        return {};
    }
    return {text, static_cast<size_t>(size)};
}

class Numbering {
public:
    static constexpr uint32_t kUnequal = 0;  ///< of what is equal to nothing else

    uint32_t container(const std::string& parts) { return number(parts); }

    /// Of a value that is neither a dict nor a list.
    uint32_t scalar(PyObject* value) {
        if (value == Py_None || PyBool_Check(value)) return number(value == Py_None ? "0" : value == Py_True ? "t" : "f");
        if (PyUnicode_CheckExact(value)) {
            const std::string_view text = text_of(value);
            if (!text.data()) return kUnequal;
            scratch_.assign("s").append(text);
            return number(scratch_);
        }
        if (!PyLong_CheckExact(value) && !PyFloat_CheckExact(value)) return kUnequal;
        const nb::object spelled = nb::steal(PyObject_Repr(value));
        if (!spelled.is_valid()) {
            PyErr_Clear();
            return kUnequal;
        }
        scratch_.assign(PyLong_CheckExact(value) ? "i" : "r").append(text_of(spelled.ptr()));
        return number(scratch_);
    }

    uint32_t key(PyObject* key) {
        if (!PyUnicode_CheckExact(key)) return kUnequal;
        const std::string_view text = text_of(key);
        if (!text.data()) return kUnequal;
        scratch_.assign("k").append(text);
        return number(scratch_);
    }

private:
    uint32_t number(const std::string& content) {
        return known_.try_emplace(content, static_cast<uint32_t>(known_.size() + 1)).first->second;
    }

    std::unordered_map<std::string, uint32_t> known_;
    std::string scratch_;
};

void append(std::string& parts, uint32_t number) { parts.append(reinterpret_cast<const char*>(&number), sizeof number); }

}  // namespace

nb::dict equal_parts(PyObject* document) {
    struct Open {  // a dict or list with the numbers of its parts so far
        PyObject* value;
        Py_ssize_t at;
        bool equal;
        std::string parts;
    };
    Numbering numbers;
    std::vector<std::pair<PyObject*, uint32_t>> dicts;
    std::vector<Open> open;
    uint32_t last = Numbering::kUnequal;  // of the container that was closed last
    const auto enter = [&](PyObject* value) { open.push_back({value, 0, true, PyDict_Check(value) ? "{" : "["}); };
    const auto is_container = [](PyObject* value) { return PyDict_Check(value) || PyList_Check(value); };
    const auto add = [](Open& to, uint32_t number) {
        to.equal = to.equal && number != Numbering::kUnequal;
        if (to.equal) append(to.parts, number);
    };
    if (is_container(document)) enter(document);
    while (!open.empty()) {
        Open& here = open.back();
        PyObject* part = nullptr;
        if (PyList_Check(here.value)) {
            if (here.at < NB_LIST_GET_SIZE(here.value)) part = NB_LIST_GET_ITEM(here.value, here.at++);
        } else {
            PyObject* key = nullptr;
            if (PyDict_Next(here.value, &here.at, &key, &part)) {
                add(here, numbers.key(key));
                if (here.equal && bound_to_its_place(text_of(key), part)) here.equal = false;
            } else {
                part = nullptr;
            }
        }
        if (part && is_container(part)) {
            enter(part);
        } else if (part) {
            add(here, numbers.scalar(part));
        } else {
            last = here.equal ? numbers.container(here.parts) : Numbering::kUnequal;
            if (PyDict_Check(here.value) && last != Numbering::kUnequal) dicts.emplace_back(here.value, last);
            open.pop_back();
            if (!open.empty()) add(open.back(), last);
        }
    }
    std::unordered_map<uint32_t, uint32_t> counts;
    for (const auto& [dict, number] : dicts) ++counts[number];
    nb::dict result;
    for (const auto& [dict, number] : dicts) {
        if (counts[number] > 1) result[nb::int_(reinterpret_cast<uintptr_t>(dict))] = nb::int_(number);
    }
    return result;
}

}  // namespace schemas
