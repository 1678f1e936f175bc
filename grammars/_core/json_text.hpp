// JSON text: written from Python objects, and how many values it has.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
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

/// A string as `json.dumps` writes it without ``ensure_ascii``, from its UTF-8.
void append_json_string(std::string_view text, std::string& out);

/// How many values a text has that is JSON: its strings, objects and arrays, and one for each `numbers` commas. It is not parsed;
/// what is no JSON has any count. The count ends soon after `most`.
size_t count_values(std::string_view text, size_t numbers, size_t most);

inline bool is_ascii(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

/// Whether `json.dumps` writes a text the same with and without ``ensure_ascii``.
bool is_plain_ascii(std::string_view text);

}  // namespace schemas
