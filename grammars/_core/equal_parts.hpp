// Which schemas of a document have the same text, so that one of them is lowered for all.
//
// Schemas with an identifier, an anchor or a dynamic reference below them are left out: where they stand matters.
// Thread safety: the GIL guards everything in this module.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

namespace schemas {

namespace nb = nanobind;

/// By `id` of each dict that has the text of another one, a number that dicts of the same text share. Linear in the document,
/// of which every dict and list occurs once (`copy_document`).
nb::dict equal_parts(PyObject* document);

}  // namespace schemas
