// The Python face of what reads schema documents natively.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include "survey.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using schemas::Keywords;
using schemas::Survey;

NB_MODULE(_core, m) {
    m.doc() = "Native part of the front ends: surveys of JSON Schema documents.";

    nb::class_<Keywords>(m, "Keywords", "The keywords of one draft.")
        .def(nb::init<nb::dict, nb::frozenset, nb::str, bool, nb::frozenset>(), "checks"_a, "limiting"_a, "identifier"_a,
             "ref_alone"_a, "formats"_a,
             nb::sig("def __init__(self, checks: dict[str, str], limiting: frozenset[str], identifier: str, "
                     "ref_alone: bool, formats: frozenset[str]) -> None"),
             "`checks`: what the value of each keyword must be, by the names in keywords.cpp; `limiting`: those that may\n"
             "limit something; `identifier`: the one that names a schema; `ref_alone`: others are ignored next to $ref.")
        .def(
            "count", [](const Keywords& self, nb::handle schema) { return schemas::count_sound(schema.ptr(), self); },
            "schema"_a, nb::sig("def count(self, schema: object) -> int"),
            "About how many schemas stand in a document, if all their keywords are as they must be; otherwise 0.");

    m.def(
        "snapshot", [](nb::handle schema) { return schemas::snapshot(schema.ptr()); }, "schema"_a,
        nb::sig("def snapshot(schema: object) -> typing.Any"),
        "A copy of the dicts and lists of a document and of all that is in them; None if one of them stands in two\n"
        "places, or is of a class of its own.");

    nb::class_<Survey>(m, "Survey", "Which schemas of a document are plain; see survey.hpp.")
        .def(
            "__init__",
            [](Survey* self, nb::object document, std::shared_ptr<Keywords> keywords, nb::tuple punctuation) {
                uint32_t lengths[8];
                if (nb::len(punctuation) != 8) throw nb::value_error("punctuation: eight lengths");
                for (size_t i = 0; i < 8; ++i) lengths[i] = nb::cast<uint32_t>(punctuation[i]);
                const auto [open, close, empty, open_array, close_array, empty_array, comma, colon] = lengths;
                new (self) Survey(std::move(document), std::move(keywords),
                                  {open, close, empty, open_array, close_array, empty_array, comma, colon});
            },
            "document"_a, "keywords"_a, "punctuation"_a,
            nb::sig("def __init__(self, document: object, keywords: Keywords, punctuation: tuple[int, ...]) -> None"),
            "`document`: a snapshot; `punctuation`: bytes of the shortest {, }, {}, [, ], [], comma and colon, with the\n"
            "white space that they bring.")
        .def("put_off", &Survey::put_off, "schema"_a, "pointer"_a, "only"_a = false,
             nb::sig("def put_off(self, schema: object, pointer: str, only: bool = False) -> int"),
             "Bytes of the shortest array or object that a schema at a pointer allows, if the rule of these may wait for\n"
             "its body, otherwise 0. `only`: 0 as well if the schema allows other values.")
        .def("leads_to", &Survey::leads_to, "schema"_a, "pointer"_a,
             nb::sig("def leads_to(self, schema: object, pointer: str) -> str | None"),
             "The reference by which a schema that says nothing else leads to one of which `put_off` says yes, with\n"
             "`only`; None otherwise.")
        .def("owed", &Survey::owed,
             nb::sig("def owed(self) -> list[tuple[str | None, str | None, tuple[str | int, ...]]]"),
             "Schemas that must be lowered at once because of rules that were put off, since the last call: each as a\n"
             "pointer or a reference, and steps from there.");
}
