// JSON text of Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace schemas {

/// Appends the JSON of a plain value (dict, list, str, int, float, bool, None; no subclasses) as `json.dumps` writes it with
/// ``ensure_ascii=False``. False if the value, or part of it, is anything else, is
/// nested more than `kMaxNesting` deep, or has no UTF-8; `out` is then incomplete.
bool append_json(PyObject* value, std::string& out);
constexpr int kMaxNesting = 200;

/// A copy of a value in new dicts and lists, and its text by `append_json`; None where `append_json` is false.
nanobind::object copy_json(nanobind::handle value);

/// A string as `json.dumps` writes it, with ``ensure_ascii`` or without, from its UTF-8.
void append_json_string(std::string_view text, bool ascii, std::string& out);

/// Whether `json.dumps` writes a text the same with and without ``ensure_ascii``.
bool is_plain_ascii(std::string_view text);

}  // namespace schemas
