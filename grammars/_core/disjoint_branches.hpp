// Branches of ``oneOf`` that have no value in common: such a ``oneOf`` is an ``anyOf``.
//
// Invariant: what is found disjoint here, `constrained.grammars.json_schema.resolve.disjoint` proves disjoint too. It knows more.
// Thread safety: the GIL guards it.
#pragma once

#include <functional>
#include <span>

#include "keywords.hpp"

namespace schemas {

/// Whether each two of these schemas, dicts with valid keywords, exclude each other among values of certain types: plainly, by their
/// types, by the strings that they list, or by a member that one of them requires: the other has none, or only of other types, or
/// with other strings; or because `proved` says so.
bool all_disjoint(std::span<PyObject* const> branches, uint32_t types, const Keywords& keywords,
                  const std::function<bool(PyObject*, PyObject*)>& proved);

}  // namespace schemas
