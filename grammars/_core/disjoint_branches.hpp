// Branches of ``oneOf`` that plainly have no value in common: such a ``oneOf`` is an ``anyOf``.
//
// Invariant: what is found disjoint here, `grammars.json_schema.resolve.disjoint` proves disjoint too. It knows more.
// Thread safety: the GIL guards it.
#pragma once

#include <span>

#include "keywords.hpp"

namespace schemas {

/// Whether each two of these schemas, dicts with valid keywords, plainly exclude each other: by their types, by the strings that
/// they list, or by a member that one of them requires: the other has none, or only of other types, or with other strings.
bool plainly_disjoint(std::span<PyObject* const> branches, const Keywords& keywords);

}  // namespace schemas
