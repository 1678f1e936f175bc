// Python bindings of the analysis of JSON Schema documents.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include "gil.hpp"
#include "json_text.hpp"
#include "plain.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using schemas::Keywords;
using schemas::PlainTerminals;

NB_MODULE(_core, m) {
#ifdef NDEBUG
    nb::set_leak_warnings(false);  // what a user's module keeps until the interpreter ends
#endif
    m.doc() = "Native part of the front ends: analysis of JSON Schema documents.";

    nb::class_<Keywords>(m, "Keywords", "The keywords of one draft.")
        .def(nb::init<nb::dict, nb::frozenset, nb::frozenset, nb::str, bool>(), "checks"_a, "limiting"_a, "scalar"_a,
             "identifier"_a, "ref_alone"_a,
             nb::sig("def __init__(self, checks: dict[str, str], limiting: frozenset[str], scalar: frozenset[str], identifier: str, "
                     "ref_alone: bool) -> None"),
             "`checks`: the check of each keyword value, by the names in keywords.cpp; `limiting`: keywords that may constrain\n"
             "values; `scalar`: those that constrain numbers or strings and nothing else; `identifier`: the keyword that identifies a schema; `ref_alone`: $ref hides other keywords.")
        .def(
            "count_subschemas", [](const Keywords& self, nb::handle schema) { return schemas::count_valid_subschemas(schema.ptr(), self); },
            "schema"_a, nb::sig("def count_subschemas(self, schema: object) -> int"),
            "Approximate number of schemas in a document if all keyword values are valid; otherwise 0.");

    m.def("copy_json", &schemas::copy_json, "value"_a.none(), nb::sig("def copy_json(value: object) -> tuple[typing.Any, str] | None"),
          "A copy of a value in new dicts and lists, and its text as `json.dumps` with ``ensure_ascii=False``; None if part of it is no\n"
          "plain dict, list, str, int, finite float, bool or None, has no UTF-8, or is nested over 200 deep.");

    m.def(
        "count_json_values",
        [](const nb::bytes& text, size_t numbers, size_t most) {
            const std::string_view bytes(text.c_str(), text.size());
            const native::ReleasedGil released;
            return schemas::count_values(bytes, numbers, most);
        },
        "text"_a, "numbers"_a, "most"_a,
        "How many values JSON has, without the GIL: its strings, objects and arrays, and one for each `numbers` commas. What is no JSON\n"
        "has any count. The count ends soon after `most`.");

    nb::class_<PlainTerminals>(m, "PlainTerminals", "What the grammars of plain schemas have in common; see plain.hpp.")
        .def(nb::init<std::shared_ptr<Keywords>, nb::tuple, nb::tuple, nb::tuple, nb::tuple, nb::object, nb::tuple, nb::callable, nb::callable, nb::callable, bool, bool, bool>(),
             "keywords"_a, "fixed"_a, "comma"_a, "colon"_a, "any_string"_a, "string_body"_a, "units"_a, "spellings"_a, "strings_excluding"_a, "key_classes"_a, "ordered"_a, "distinct"_a,
             "closed"_a,
             nb::sig("def __init__(self, keywords: Keywords, fixed: tuple[typing.Any, ...], comma: tuple[typing.Any, ...], "
                     "colon: tuple[typing.Any, ...], any_string: tuple[typing.Any, ...], string_body: typing.Any, "
                     "units: tuple[tuple[typing.Any, tuple[typing.Any, ...]], ...], "
                     "spellings: collections.abc.Callable[[str], tuple[typing.Any, ...]], "
                     "strings_excluding: collections.abc.Callable[[list[str]], tuple[typing.Any, ...]], "
                     "key_classes: collections.abc.Callable[[list[tuple[str, bool]], list[str]], "
                     "tuple[list[int], list[tuple[typing.Any, int]]] | None], ordered: bool, distinct: bool, closed: bool) -> None"))
        .def(
            "lower", [](PlainTerminals& self, nb::handle schema, nb::callable general) { return schemas::lower_plain(schema, self, std::move(general)); },
            "schema"_a, "general"_a,
            nb::sig("def lower(self, schema: object, general: collections.abc.Callable[[], typing.Any]) -> tuple[bytes, tuple[typing.Any, ...], tuple[str, ...], bool] | None"),
            "The packed rules of a document, their leaves and their names, and whether leaves call rules by their names; None if the\n"
            "document cannot be lowered so. `general`: makes what lowers the rest (`constrained.grammars.json_schema.emit.lowering`).");
}
