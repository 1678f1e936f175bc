// Plain schemas, lowered in one walk to flat arrays.
//
// Most schemas consist of objects, arrays, references within the document, scalars, and alternatives of these that plainly exclude
// each other or need not: each alone at its place, so nothing needs to be conjoined or negated. `lower_plain` reads such a document and gives the grammar that
// `constrained.grammars.json_schema.emit.lowering` gives, rule by rule and node by node, or nothing: whatever it does not know, and every
// error, is left to the lowering in Python, which is its judge in the tests.
//
// Invariants
//  * A keyword is plain by its role (keywords.hpp) or as a scalar keyword; any other that constrains values ends the walk.
//  * No function recurses over schemas, but for a few alternatives in each other: the bodies of rules are made from a queue.
// Thread safety: the GIL guards it.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "keywords.hpp"

namespace schemas {

/// A part of a concatenation: a literal, or another regular expression.
struct RegexPart {
    std::string text;
    nb::object regex;  // empty for a literal
};

/// What grammars of one dialect, punctuation and order of members have in common.
class PlainTerminals {
public:
    /// Fixed expressions, in this order.
    enum Fixed : size_t { Null, Boolean, Number, String, Integer, OpenObject, CloseObject, EmptyObject, OpenArray, CloseArray, EmptyArray, Comma, Colon, kFixed };

    /// `fixed`: see above; `comma`, `colon`, `any_string`: the parts of these regular expressions, literals as bytes;
    /// `string_body`: any text between quotes; `units`: for each character of ASCII its encodings in a string, as an expression and
    /// as the alternatives of that expression; `spellings`: from a name beyond ASCII to its texts; `strings_excluding`: from names to the parts of the strings except these, for names
    /// beyond ASCII; `key_classes`: see `constrained.grammars.json_schema.emit.plain`; `ordered`: members come in the order of the schema;
    /// `distinct`: no name comes twice in an object; `closed`: objects with declared members allow no others, unless a keyword speaks of them.
    PlainTerminals(std::shared_ptr<const Keywords> keywords, nb::tuple fixed, nb::tuple comma, nb::tuple colon, nb::tuple any_string,
                   nb::object string_body, nb::tuple units, nb::callable spellings, nb::callable strings_excluding, nb::callable key_classes, bool ordered, bool distinct, bool closed);

    std::shared_ptr<const Keywords> keywords;
    std::array<nb::object, kFixed> fixed;
    std::vector<RegexPart> comma, colon, any_string;
    nb::object string_body;
    struct Unit {
        nb::object regex;
        std::vector<nb::object> alternatives;
    };
    std::vector<Unit> units;  // by character of ASCII
    nb::callable spellings, strings_excluding, key_classes;
    bool ordered, distinct, closed;

    /// Scalars with constraints, by content: the same formats, patterns and bounds recur in other schemas.
    std::unordered_map<std::string, nb::object> scalars;
};

/// The rules of a document: packed (flat_nodes.hpp), their leaves, and their names; None if the document is not plain.
/// `general`: makes a `constrained.grammars.json_schema.emit.lowering.SchemaLowering`. With the rules: whether some are those of `general`, which call
/// others by name.
nb::object lower_plain(nb::handle document, PlainTerminals& terminals, nb::callable general);

}  // namespace schemas
