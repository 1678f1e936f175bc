#include "json_text.hpp"

#include <algorithm>
#include <cmath>

namespace schemas {

namespace nb = nanobind;

namespace {

bool append_repr(PyObject* number, std::string& out) {
    PyObject* const text = PyObject_Repr(number);
    if (!text) {
        PyErr_Clear();  // an integer with too many digits
        return false;
    }
    const nb::object held = nb::steal(text);
    Py_ssize_t size;
    const char* const data = PyUnicode_AsUTF8AndSize(text, &size);
    if (!data) throw nb::python_error();
    out.append(data, size);
    return true;
}

bool append_string(PyObject* value, std::string& out) {
    Py_ssize_t size;
    const char* const data = PyUnicode_AsUTF8AndSize(value, &size);
    if (!data) {
        PyErr_Clear();  // a lone surrogate
        return false;
    }
    append_json_string({data, static_cast<size_t>(size)}, out);
    return true;
}

bool append(PyObject* value, std::string& out, int depth) {
    if (value == Py_None) return out += "null", true;
    if (value == Py_True) return out += "true", true;
    if (value == Py_False) return out += "false", true;
    if (PyUnicode_CheckExact(value)) return append_string(value, out);
    if (PyLong_CheckExact(value)) return append_repr(value, out);
    if (PyFloat_CheckExact(value)) return std::isfinite(PyFloat_AsDouble(value)) && append_repr(value, out);
    if (depth == kMaxNesting) return false;
    if (PyList_CheckExact(value)) {
        out += '[';
        for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(value); ++i) {
            if (i) out += ", ";
            if (!append(NB_LIST_GET_ITEM(value, i), out, depth + 1)) return false;
        }
        return out += ']', true;
    }
    if (!PyDict_CheckExact(value)) return false;
    out += '{';
    PyObject *key, *item;
    bool first = true;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item); first = false) {
        if (!first) out += ", ";
        if (!PyUnicode_CheckExact(key) || !append_string(key, out)) return false;
        out += ": ";
        if (!append(item, out, depth + 1)) return false;
    }
    return out += '}', true;
}

/// A copy of what `append` has written: without subclasses, and not deep.
nb::object copied(PyObject* value) {
    if (PyList_Check(value)) {
        const Py_ssize_t size = NB_LIST_GET_SIZE(value);
        const nb::object made = nb::steal(PyList_New(size));
        if (!made.is_valid()) throw nb::python_error();
        for (Py_ssize_t i = 0; i < size; ++i) PyList_SetItem(made.ptr(), i, copied(NB_LIST_GET_ITEM(value, i)).release().ptr());
        return made;
    }
    if (!PyDict_Check(value)) return nb::borrow(value);
    const nb::object made = nb::steal(PyDict_Copy(value));
    if (!made.is_valid()) throw nb::python_error();
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(made.ptr(), &at, &key, &item);) {
        if (!PyList_Check(item) && !PyDict_Check(item)) continue;
        // Replaces a value, so iteration stays valid.
        if (PyDict_SetItem(made.ptr(), key, copied(item).ptr())) throw nb::python_error();
    }
    return made;
}

}  // namespace

nb::object copy_json(nb::handle value) {
    std::string text;
    if (!append_json(value.ptr(), text)) return nb::none();
    return nb::make_tuple(copied(value.ptr()), nb::str(text.data(), text.size()));
}

size_t count_values(std::string_view text, size_t numbers, size_t most) {
    size_t count = 0, commas = 0;
    for (size_t at = 0; at < text.size() && count + commas / numbers <= most; ++at) {
        const char byte = text[at];
        count += byte == '"' || byte == '{' || byte == '[';
        commas += byte == ',';
        if (byte != '"') continue;
        for (++at; at < text.size(); ++at) {  // to the closing quote
            const char* const end = std::find_if(text.data() + at, text.data() + text.size(), [](char c) { return c == '"' || c == '\\'; });
            at = end - text.data();
            if (at == text.size() || *end == '"') break;
            ++at;  // the byte that is escaped
        }
    }
    return count + commas / numbers;
}

bool is_plain_ascii(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x7F; });
}

void append_json_string(std::string_view text, std::string& out) {
    constexpr char digits[] = "0123456789abcdef";
    out += '"';
    for (const char c : text) {
        switch (c) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\b': out += "\\b"; break;
            case '\f': out += "\\f"; break;
            case '\n': out += "\\n"; break;
            case '\r': out += "\\r"; break;
            case '\t': out += "\\t"; break;
            default:
                if (const auto byte = static_cast<uint8_t>(c); byte < 0x20) {
                    out.append("\\u00").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
                } else {
                    out += c;
                }
        }
    }
    out += '"';
}

bool append_json(PyObject* value, std::string& out) { return append(value, out, 0); }

}  // namespace schemas
