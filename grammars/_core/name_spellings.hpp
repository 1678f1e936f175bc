// The regular expressions of names: keys of members, listed strings, and the keys that are none of some names.
//
// Invariant: they are built node by node as `constrained.grammars.json_schema.text.strings` builds them.
// Thread safety: the GIL guards it.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flat_writer.hpp"
#include "plain.hpp"

namespace schemas {

class NameSpellings {
public:
    /// `out`: where the nodes are written.
    NameSpellings(const PlainTerminals& terminals, FlatWriter& out) : terminals_(terminals), out_(out) { units_.fill(kNoNode); }

    /// A key and its colon; `next`: after a comma.
    RegexNode key(std::string_view name, bool next);
    /// The keys of members with other names than these; with the colon unless names are compared.
    RegexNode others(std::vector<std::string_view> declared);
    /// Appends the JSON strings of a text, as `json.dumps` writes it with and without ``ensure_ascii``.
    void append_spellings(std::string_view text, std::vector<RegexNode>& spellings);
    /// The union of one expression or more; flat.
    RegexNode union_of(std::span<const RegexNode> options);

private:
    RegexNode leaf(const nb::object& regex);
    void append(const std::vector<RegexPart>& parts, std::vector<RegexNode>& nodes, std::string& text);
    RegexNode concat(std::vector<RegexNode>& nodes, std::string& text);
    RegexNode trie(std::span<const std::string_view> names);
    RegexNode spelled(std::string_view text, RegexNode tail);

    const PlainTerminals& terminals_;
    FlatWriter& out_;
    std::unordered_map<PyObject*, RegexNode> regexes_;  // leaves
    std::array<RegexNode, 128> units_;
    std::unordered_map<RegexNode, uint8_t> unit_of_;
    std::unordered_map<RegexNode, std::vector<RegexNode>> unions_;  // their parts
    RegexNode empty_ = kNoNode;
};

}  // namespace schemas
