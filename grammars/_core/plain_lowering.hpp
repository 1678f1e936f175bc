// The lowering of plain schemas, a walk over a document: its state, and what its parts share. Schemas, alternatives and rules are in
// plain.cpp, objects and arrays in plain_containers.cpp, what is handed over in plain_general.cpp.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "flat_writer.hpp"
#include "name_spellings.hpp"
#include "plain.hpp"

namespace schemas {

constexpr int32_t kNone = kNoNode;  // what is asked for is not plain
constexpr int32_t kNever = -2;      // it is plain, and no value
constexpr int kMaxReferences = 100;
constexpr long long kMaxCount = (1LL << 31) - 2;  // `constrained.grammars.ir.MAX_COUNT`

/// The UTF-8 of a string, if it has one.
inline std::optional<std::string_view> utf8(PyObject* text) {
    Py_ssize_t size;
    const char* const data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data) return std::string_view(data, static_cast<size_t>(size));
    PyErr_Clear();
    return std::nullopt;
}

/// A count that passed its check; `kMaxCount` + 1 if it is greater.
inline long long count_of(PyObject* value) {
    if (PyFloat_Check(value)) return static_cast<long long>(std::min(PyFloat_AsDouble(value), static_cast<double>(kMaxCount + 1)));
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? kMaxCount + 1 : std::min(number, kMaxCount + 1);
}

/// A token of a JSON Pointer, escaped.
inline void append_token(std::string_view token, std::string& out) {
    for (const char c : token) {
        if (c == '~') {
            out += "~0";
        } else if (c == '/') {
            out += "~1";
        } else {
            out += c;
        }
    }
}

/// Where a schema stands: below a rule, or at a pointer of its own.
struct Place {
    const std::string& base;
    std::string_view keyword{}, name{};
    bool named = false;

    std::string pointer() const {
        std::string text = base;
        if (!keyword.empty()) text.append("/").append(keyword);
        if (named) text += '/', append_token(name, text);
        return text;
    }
};

/// The keywords of a schema that limit its values.
struct Limits {
    std::array<PyObject*, kRoles> values{};
    int count = 0;
    bool scalar = false, other = false;

    PyObject* operator[](Role role) const { return values[static_cast<size_t>(role)]; }
    bool any(std::initializer_list<Role> roles) const {
        return std::ranges::any_of(roles, [&](Role role) { return (*this)[role] != nullptr; });
    }
};

constexpr auto kObjects = {Role::Properties, Role::PatternProperties, Role::Required, Role::AdditionalProperties, Role::MinProperties, Role::MaxProperties};
constexpr auto kArrays = {Role::Items, Role::MinItems, Role::MaxItems, Role::UniqueItems};

class PlainLowering {
public:
    PlainLowering(nb::handle document, PlainTerminals& terminals, nb::callable general)
        : root_(document.ptr()), terminals_(terminals), general_(std::move(general)) {
        exprs_.fill(kNone);
    }

    nb::object run();

private:
    struct Rule {
        std::string name, pointer;
        PyObject* schema;  // nullptr: arrays and objects without constraints
        uint32_t types;
        ExprNode body = kNone;
        std::vector<int32_t> needs{};  // the rules that suffice for it to derive some text
        bool known_needs = false;
        bool general = false;  // its body comes from the general lowering, at the end
    };
    struct Member {
        std::string_view name;
        bool required;
        ExprNode value;
    };
    /// A name of ``properties``, or one that only ``required`` has: without a schema.
    struct Declared {
        PyObject* name;
        std::string_view text;
        PyObject* schema;
        bool required;
    };
    /// Members that are not declared: the expression of their keys, and of their values.
    struct Other {
        ExprNode keys, value;
    };
    using Others = std::vector<Other>;
    /// ``patternProperties``: its patterns and their schemas; by name the pattern that it matches; the disjoint classes of other keys,
    /// each with the pattern that it matches (kNone: none).
    struct Patterns {
        std::vector<std::string_view> sources;
        std::vector<PyObject*> schemas;
        std::vector<int32_t> of_name;
        std::vector<std::pair<ExprNode, int32_t>> classes;
    };
    bool read_limits(PyObject* schema, Limits& limits);
    bool read_identifier(PyObject* schema, PyObject* identifier);
    ExprNode value(PyObject* schema, const Place& place);
    ExprNode plain_value(PyObject* schema, const Place& place);
    ExprNode read_value(PyObject* schema, const Place& place);
    ExprNode any_value();
    ExprNode listed(PyObject* schema, const Limits& limits, uint32_t types);
    nb::object general_scalars(PyObject* schema, bool limited);
    ExprNode scalar(PyObject* schema);
    bool limited_scalars(PyObject* schema, bool limited, std::vector<ExprNode>& parts);
    ExprNode reference(PyObject* reference);
    ExprNode alternatives(const Limits& limits, const std::string& pointer);
    /// A schema among alternatives, where references have led to it. Without constraints it has no pointer.
    struct Branch {
        PyObject* schema;
        std::string pointer;
    };
    ExprNode typed_branch(const Branch& branch, uint32_t types, const std::string& outer);
    bool collect_branches(const Limits& limits, const std::string& pointer, int depth, std::vector<Branch>& found);
    PyObject* resolve(PyObject* reference, std::string& pointer);
    ExprNode container(PyObject* schema, const Place& place, uint32_t types, std::vector<ExprNode> parts);
    int32_t enqueue(std::string name, std::string pointer, PyObject* schema, uint32_t types);
    bool make_body(size_t rule);
    ExprNode object(size_t rule);
    ExprNode array(size_t rule);
    bool read_patterns(PyObject* by_pattern, std::span<const Declared> names, Patterns& found);
    ExprNode other_keys(std::span<const Declared> names);
    ExprNode counted(size_t rule, const Limits& limits, std::span<const Member> members, std::span<const Other> others);
    ExprNode uncounted(std::span<const Member> members, std::span<const Other> others);
    ExprNode interleaved(std::span<const Member> members, std::span<const Other> others, int32_t low, int32_t high);
    ExprNode array_of(ExprNode item, long long low, long long high);
    ExprNode general_value(const std::string& pointer);
    bool hand_over(size_t rule);
    bool may_be_one_rule(PyObject* schema);
    nb::object general();
    nb::object lowering() {
        if (!lowering_.is_valid()) lowering_ = general_();
        return lowering_;
    }
    int32_t number_of(const std::string& name);
    bool take_general_bodies();
    bool has_values(ExprNode start);
    size_t settle_productive(std::vector<bool>& productive) const;

    /// Says that a rule derives some text if an expression does.
    void need(Rule& rule, ExprNode node) {
        if (const int32_t called = out_.called(node); called != kNone) rule.needs.push_back(called);
    }
    ExprNode fixed(PlainTerminals::Fixed which) {
        ExprNode& node = exprs_[which];
        if (node == kNone) node = out_.expr_leaf(out_.leaf(terminals_.fixed[which]));
        return node;
    }
    std::vector<ExprNode> scalars(uint32_t types);

    PyObject* const root_;
    PlainTerminals& terminals_;
    const nb::callable general_;  // makes the lowering of what is not plain; its errors end the walk
    nb::object lowering_;
    bool asked_ = false, ended_ = false;  // it may call back; it cannot lower this document
    std::unordered_set<PyObject*> not_plain_;
    FlatWriter out_;
    NameSpellings names_{terminals_, out_};
    std::deque<Rule> rules_;  // in order of discovery, which is that of the queue
    std::unordered_map<std::string_view, int32_t> rule_at_;
    std::array<ExprNode, PlainTerminals::kFixed> exprs_;
    ExprNode any_ = kNone;
    std::vector<PyObject*> below_;
    bool identified_ = false, refers_ = false;  // some schema below the root has an identifier; a reference was read
};

}  // namespace schemas
