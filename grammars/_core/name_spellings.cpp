#include "name_spellings.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <utility>

#include "json_text.hpp"

namespace schemas {

namespace {

/// The parts of a concatenation: literals as bytes, other regular expressions as they are.
std::vector<RegexPart> parts_of(const nb::tuple& parts) {
    std::vector<RegexPart> found;
    for (const nb::handle part : parts) {
        char* data;
        Py_ssize_t size;
        if (!PyBytes_Check(part.ptr())) {
            found.push_back({"", nb::borrow(part)});
        } else if (PyBytes_AsStringAndSize(part.ptr(), &data, &size)) {
            throw nb::python_error();
        } else {
            found.push_back({std::string(data, size), {}});
        }
    }
    return found;
}

}  // namespace

PlainTerminals::PlainTerminals(std::shared_ptr<const Keywords> keywords, nb::tuple exprs, nb::tuple comma_parts, nb::tuple colon_parts,
                               nb::tuple any_string_parts, nb::object body, nb::tuple encodings, nb::callable spelled, nb::callable excluding, nb::callable classes, bool in_order,
                               bool once, bool shut)
    : keywords(std::move(keywords)), comma(parts_of(comma_parts)), colon(parts_of(colon_parts)), any_string(parts_of(any_string_parts)),
      string_body(std::move(body)), spellings(std::move(spelled)), strings_excluding(std::move(excluding)), key_classes(std::move(classes)), ordered(in_order), distinct(once), closed(shut) {
    if (nb::len(exprs) != kFixed || nb::len(encodings) != 128) throw nb::value_error("malformed table");
    for (size_t i = 0; i < kFixed; ++i) fixed[i] = exprs[i];
    for (const nb::handle unit : encodings) {
        const auto [regex, alternatives] = nb::cast<std::pair<nb::object, nb::tuple>>(unit);
        units.push_back({regex, {}});
        for (const nb::handle alternative : alternatives) units.back().alternatives.push_back(nb::borrow(alternative));
    }
}

RegexNode NameSpellings::leaf(const nb::object& regex) {
    const auto [at, fresh] = regexes_.try_emplace(regex.ptr(), kNoNode);
    if (fresh) at->second = out_.regex_leaf(out_.leaf(regex));
    return at->second;
}

/// Appends parts to the nodes of a concatenation that ends with a literal `text`, which may be empty.
void NameSpellings::append(const std::vector<RegexPart>& parts, std::vector<RegexNode>& nodes, std::string& text) {
    for (const RegexPart& part : parts) {
        if (!part.regex.is_valid()) {
            text += part.text;
            continue;
        }
        if (!text.empty()) nodes.push_back(out_.literal(text)), text.clear();
        nodes.push_back(leaf(part.regex));
    }
}

RegexNode NameSpellings::concat(std::vector<RegexNode>& nodes, std::string& text) {
    if (!text.empty() || nodes.empty()) nodes.push_back(out_.literal(text));
    return nodes.size() == 1 ? nodes[0] : out_.regex_of(flat::Op::Concat, nodes);
}

RegexNode NameSpellings::key(std::string_view name, bool next) {
    std::vector<RegexNode> nodes;
    std::string text;
    if (next) append(terminals_.comma, nodes, text);
    if (is_plain_ascii(name)) {
        append_json_string(name, text);
    } else {
        if (!text.empty()) nodes.push_back(out_.literal(text)), text.clear();
        std::vector<RegexNode> spellings;
        append_spellings(name, spellings);
        nodes.push_back(union_of(spellings));
    }
    append(terminals_.colon, nodes, text);
    return concat(nodes, text);
}

void NameSpellings::append_spellings(std::string_view text, std::vector<RegexNode>& spellings) {
    if (is_plain_ascii(text)) {
        std::string spelled;
        append_json_string(text, spelled);
        spellings.push_back(out_.literal(spelled));
        return;
    }
    const nb::object both = terminals_.spellings(nb::str(text.data(), text.size()));
    for (const RegexPart& part : parts_of(nb::cast<nb::tuple>(both))) spellings.push_back(out_.literal(part.text));
}

RegexNode NameSpellings::others(std::vector<std::string_view> declared) {
    std::vector<RegexNode> nodes;
    std::string text;
    if (declared.empty()) {
        append(terminals_.any_string, nodes, text);
    } else if (std::ranges::all_of(declared, is_ascii)) {
        std::ranges::sort(declared);
        const RegexNode body[] = {leaf(terminals_.string_body), out_.complement(trie(declared))};
        nodes = {out_.literal("\""), out_.regex_of(flat::Op::Intersection, body)};
        text = "\"";
    } else {
        nb::list names;
        for (const std::string_view name : declared) names.append(nb::str(name.data(), name.size()));
        append(parts_of(nb::cast<nb::tuple>(terminals_.strings_excluding(names))), nodes, text);
    }
    if (!terminals_.distinct) append(terminals_.colon, nodes, text);
    return concat(nodes, text);
}

/// A trie of sorted names, each character in every encoding; common prefixes are written once.
RegexNode NameSpellings::trie(std::span<const std::string_view> names) {
    if (empty_ == kNoNode) empty_ = out_.literal("");
    // Branching points along the current name: depth, and the suffixes that may follow there.
    std::vector<std::pair<size_t, std::vector<RegexNode>>> places{{0, {}}};
    for (size_t i = 0; i < names.size(); ++i) {
        const std::string_view name = names[i], following = i + 1 < names.size() ? names[i + 1] : std::string_view();
        const size_t shared = std::ranges::mismatch(name, following).in1 - name.begin();
        size_t end = name.size();
        RegexNode tail = empty_;
        while (places.back().first > shared) {  // no later name passes through this branching point
            auto [depth, options] = std::move(places.back());
            places.pop_back();
            options.push_back(spelled(name.substr(depth, end - depth), tail));
            tail = union_of(options);
            end = depth;
        }
        if (places.back().first < shared) places.emplace_back(shared, std::vector<RegexNode>());
        places.back().second.push_back(spelled(name.substr(shared, end - shared), tail));
    }
    return union_of(places[0].second);
}

/// A text in every encoding, then `tail`.
RegexNode NameSpellings::spelled(std::string_view text, RegexNode tail) {
    if (text.empty()) return tail;
    std::vector<RegexNode> units;
    for (const char c : text) {
        RegexNode& node = units_[static_cast<uint8_t>(c)];
        if (node == kNoNode) {
            node = leaf(terminals_.units[static_cast<uint8_t>(c)].regex);
            unit_of_.emplace(node, c);
        }
        units.push_back(node);
    }
    if (tail != empty_) units.push_back(tail);
    return units.size() == 1 ? units[0] : out_.regex_of(flat::Op::Concat, units);
}

RegexNode NameSpellings::union_of(std::span<const RegexNode> options) {
    std::vector<RegexNode> parts;
    for (const RegexNode option : options) {
        if (const auto unit = unit_of_.find(option); unit != unit_of_.end()) {
            for (const nb::object& alternative : terminals_.units[unit->second].alternatives) parts.push_back(leaf(alternative));
        } else if (const auto made = unions_.find(option); made != unions_.end()) {
            parts.insert(parts.end(), made->second.begin(), made->second.end());
        } else {
            parts.push_back(option);
        }
    }
    if (parts.size() == 1) return parts[0];
    const RegexNode node = out_.regex_of(flat::Op::Union, parts);
    unions_.emplace(node, std::move(parts));
    return node;
}

}  // namespace schemas
