#include "plain.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>

#include "disjoint_branches.hpp"
#include "flat_writer.hpp"
#include "json_text.hpp"
#include "name_spellings.hpp"

namespace schemas {

namespace {

constexpr int32_t kNone = kNoNode;  // what is asked for is not plain
constexpr int32_t kNever = -2;      // it is plain, and no value
constexpr long long kMaxCount = (1LL << 31) - 2;  // `grammars.ir.MAX_COUNT`
constexpr int kMaxReferences = 100;
constexpr int kMaxAlternatives = 8;  // nested in each other
constexpr size_t kMaxScalars = 10'000, kLongestScalar = 1'000;

/// The UTF-8 of a string, if it has one.
std::optional<std::string_view> utf8(PyObject* text) {
    Py_ssize_t size;
    const char* const data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data) return std::string_view(data, static_cast<size_t>(size));
    PyErr_Clear();
    return std::nullopt;
}

/// A count that passed its check; `kMaxCount` + 1 if it is greater.
long long count_of(PyObject* value) {
    if (PyFloat_Check(value)) return static_cast<long long>(std::min(PyFloat_AsDouble(value), static_cast<double>(kMaxCount + 1)));
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? kMaxCount + 1 : std::min(number, kMaxCount + 1);
}

/// A token of a JSON Pointer, escaped.
void append_token(std::string_view token, std::string& out) {
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

std::string unescaped(std::string_view raw) {
    std::string token;
    for (size_t i = 0; i < raw.size(); ++i) {
        const bool escaped = raw[i] == '~' && i + 1 < raw.size() && (raw[i + 1] == '0' || raw[i + 1] == '1');
        token += escaped ? (raw[++i] == '0' ? '~' : '/') : raw[i];
    }
    return token;
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
    PlainLowering(nb::handle document, PlainTerminals& terminals, nb::callable scalar, nb::callable disjoint)
        : root_(document.ptr()), terminals_(terminals), scalar_(std::move(scalar)), disjoint_(std::move(disjoint)) {
        exprs_.fill(kNone);
    }

    nb::object run();

private:
    struct Rule {
        std::string name, pointer;
        PyObject* schema;  // nullptr: arrays and objects without constraints
        uint32_t types;
        ExprNode body = kNone;
        int32_t needs_from = 0, needs_to = 0;  // in `needs_`: the rules that suffice for it to derive some text
        bool known_needs = false;
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
    bool all_productive();

    ExprNode fixed(PlainTerminals::Fixed which) {
        ExprNode& node = exprs_[which];
        if (node == kNone) node = out_.expr_leaf(out_.leaf(terminals_.fixed[which]));
        return node;
    }
    std::vector<ExprNode> scalars(uint32_t types);

    PyObject* const root_;
    PlainTerminals& terminals_;
    const nb::callable scalar_, disjoint_;
    FlatWriter out_;
    NameSpellings names_{terminals_, out_};
    std::deque<Rule> rules_;  // in order of discovery, which is that of the queue
    std::unordered_map<std::string_view, int32_t> rule_at_;
    std::vector<int32_t> needs_;
    std::array<ExprNode, PlainTerminals::kFixed> exprs_;
    ExprNode any_ = kNone;
    std::vector<PyObject*> below_;
    bool identified_ = false, refers_ = false;  // some schema below the root has an identifier; a reference was read
};

// ---------------------------------------------------------------- one schema

/// Whether an identifier below the root matters to references alone: they start there. `run` then allows none.
bool PlainLowering::read_identifier(PyObject* schema, PyObject* identifier) {
    const auto text = PyUnicode_CheckExact(identifier) ? utf8(identifier) : std::nullopt;
    if (!text || !is_ascii(*text) || text->find_first_of("[]") != text->npos) return false;  // perhaps not a URI
    identified_ = true;
    return PyDict_GetItemString(schema, "$schema") == nullptr;  // another dialect
}

bool PlainLowering::read_limits(PyObject* schema, Limits& limits) {
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(schema, &at, &key, &item);) {
        const Keywords::Keyword* const keyword = terminals_.keywords->find(key);
        if (!keyword || keyword->role == Role::Annotation) continue;
        if (keyword->role == Role::Identifier) {
            if (schema != root_ && !read_identifier(schema, item)) return false;
            continue;
        }
        below_.clear();
        if (!is_valid_keyword_value(keyword->check, item, below_)) return false;  // the target of a reference may not be a schema
        ++limits.count;
        if (keyword->scalar) {
            limits.scalar = true;
        } else if (keyword->role == Role::OtherConstraint) {
            limits.other = true;
        } else {
            limits.values[static_cast<size_t>(keyword->role)] = item;
        }
    }
    if (limits[Role::AdditionalItems] && !(limits[Role::Items] && PyList_Check(limits[Role::Items]))) {  // limits nothing
        limits.values[static_cast<size_t>(Role::AdditionalItems)] = nullptr;
        --limits.count;
    }
    return true;
}

ExprNode PlainLowering::value(PyObject* schema, const Place& place) {
    if (schema == Py_True) return any_value();
    if (!PyDict_Check(schema)) return kNone;
    Limits limits;
    if (!read_limits(schema, limits)) return kNone;
    if (limits.count == 0) return any_value();
    if (limits[Role::Ref]) {
        if (limits.count > 1 && !terminals_.keywords->ref_alone) return kNone;
        return reference(limits[Role::Ref]);
    }
    if (limits.any({Role::AllOf, Role::AnyOf, Role::OneOf})) {
        const bool typed = limits[Role::Type] && !limits[Role::AllOf] && types_of(limits[Role::Type]) & (kArray | kObject);
        return limits.count == 1 + typed ? alternatives(limits, place.pointer()) : kNone;
    }
    const bool object = limits.any(kObjects), array = limits.any(kArrays);
    const bool listed = limits.any({Role::Enum, Role::Const});
    if (limits.other || limits.any({Role::PrefixItems, Role::AdditionalItems})) return kNone;
    const uint32_t types = types_of(limits[Role::Type]);
    if (listed) return object || array ? kNone : this->listed(schema, limits, types);
    if (!(types & (kArray | kObject))) {
        return limits.scalar ? scalar(schema) : out_.choice(scalars(types));  // what limits objects and arrays limits nothing here
    }
    const bool limited = limits.any({Role::Properties, Role::PatternProperties, Role::AdditionalProperties, Role::Items});
    if (types == kEvery && !limited && (object || array || !limits.scalar)) return kNone;  // perhaps every value
    std::vector<ExprNode> parts;
    if (!limits.scalar) {
        parts = scalars(types);
    } else if (!limited_scalars(schema, limited, parts)) {
        return kNone;
    }
    return container(schema, place, types, std::move(parts));
}

/// Every value.
ExprNode PlainLowering::any_value() {
    if (any_ == kNone) {
        const int32_t rule = enqueue("any value", "", nullptr, kArray | kObject);
        using enum PlainTerminals::Fixed;
        any_ = out_.choice({fixed(Null), fixed(Boolean), fixed(Number), fixed(String), out_.call(rule)});
    }
    return any_;
}

/// The scalars of some types, without other constraints.
std::vector<ExprNode> PlainLowering::scalars(uint32_t types) {
    using enum PlainTerminals::Fixed;
    std::vector<ExprNode> found;
    if (types & kNull) found.push_back(fixed(Null));
    if (types & kBoolean) found.push_back(fixed(Boolean));
    if (types & (kInteger | kFraction)) found.push_back(fixed(types & kFraction ? Number : Integer));
    if (types & kString) found.push_back(fixed(String));
    return found;
}

/// Enumerated values.
ExprNode PlainLowering::listed(PyObject* schema, const Limits& limits, uint32_t types) {
    PyObject* const list = limits[Role::Enum];
    PyObject* const one = limits[Role::Const];
    const bool alone = limits.count == 1 + (limits[Role::Type] != nullptr);
    if (!alone || (types != kString && types != kEvery)) return scalar(schema);
    const Py_ssize_t size = one ? 1 : NB_LIST_GET_SIZE(list);
    std::vector<RegexNode> texts;
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* const text = one ? one : NB_LIST_GET_ITEM(list, i);
        const auto data = PyUnicode_CheckExact(text) ? utf8(text) : std::nullopt;
        if (!data) return scalar(schema);
        names_.append_spellings(*data, texts);
    }
    return size ? out_.terminal(names_.union_of(texts)) : scalar(schema);
}

/// Scalars with constraints, as the general lowering has them; invalid if they are not plain. `limited`: not only they are.
nb::object PlainLowering::general_scalars(PyObject* schema, bool limited) {
    std::string content(limited ? "" : "alone");
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(schema, &at, &key, &item);) {
        const Keywords::Keyword* const keyword = terminals_.keywords->find(key);
        if (!keyword || !(keyword->scalar || keyword->role == Role::Type || keyword->role == Role::Enum || keyword->role == Role::Const)) continue;
        if (!append_json(key, content) || !append_json(item, content)) return {};
    }
    if (const auto known = terminals_.scalars.find(content); known != terminals_.scalars.end()) return known->second;
    nb::object exprs = scalar_(nb::handle(schema));
    if (exprs.is_none()) return {};
    if (content.size() <= kLongestScalar && terminals_.scalars.size() < kMaxScalars) terminals_.scalars.emplace(content, exprs);
    return exprs;
}

/// Scalars with constraints, and enumerated values of any type.
ExprNode PlainLowering::scalar(PyObject* schema) {
    const nb::object expr = general_scalars(schema, true);
    if (expr.is_valid() && expr.ptr() == Py_False) return kNever;
    return expr.is_valid() ? out_.expr_leaf(out_.leaf(expr)) : kNone;
}

/// Appends the scalars of a schema that allows arrays or objects too.
bool PlainLowering::limited_scalars(PyObject* schema, bool limited, std::vector<ExprNode>& parts) {
    const nb::object exprs = general_scalars(schema, limited);
    if (!exprs.is_valid()) return false;
    for (const nb::handle expr : exprs) parts.push_back(out_.expr_leaf(out_.leaf(expr)));
    return true;
}

/// The values of the target of a reference, directly or through other references.
ExprNode PlainLowering::reference(PyObject* reference) {
    for (int i = 0; i < kMaxReferences; ++i) {
        std::string pointer;
        PyObject* const target = resolve(reference, pointer);
        if (!target) return kNone;
        if (!PyDict_Check(target)) return value(target, {pointer});
        Limits limits;
        if (!read_limits(target, limits)) return kNone;
        if (!limits[Role::Ref]) return value(target, {pointer});
        if (!terminals_.keywords->ref_alone && limits.count > 1) return kNone;
        reference = limits[Role::Ref];
    }
    return kNone;
}

/// The target of a reference within the document, and its pointer; nullptr if it is not plain.
PyObject* PlainLowering::resolve(PyObject* reference, std::string& pointer) {
    const auto text = PyUnicode_Check(reference) ? utf8(reference) : std::nullopt;
    pointer = "#";
    refers_ = true;
    if (!text) return nullptr;
    if (*text == "#") return root_;
    if (!text->starts_with("#/") || text->find('%') != text->npos) return nullptr;
    PyObject* value = root_;
    for (std::string_view rest = text->substr(1); !rest.empty();) {
        rest.remove_prefix(1);
        const std::string token = unescaped(rest.substr(0, rest.find('/')));
        rest.remove_prefix(std::min(rest.find('/'), rest.size()));
        if (!PyDict_CheckExact(value)) return nullptr;
        if (value != root_ && PyDict_Contains(value, terminals_.keywords->identifier.ptr()) == 1) return nullptr;
        value = PyDict_GetItem(value, nb::str(token.data(), token.size()).ptr());
        if (!value) return nullptr;
        pointer += '/', append_token(token, pointer);
    }
    return PyDict_Check(value) || PyBool_Check(value) ? value : nullptr;
}

// ---------------------------------------------------------------- alternatives

/// ``anyOf``, ``oneOf`` of branches that exclude each other, or ``allOf`` of one schema; each alone, or beside a type.
ExprNode PlainLowering::alternatives(const Limits& limits, const std::string& pointer) {
    const uint32_t types = types_of(limits[Role::Type]);
    std::vector<Branch> branches;
    if (!collect_branches(limits, pointer, 0, branches)) return kNone;
    std::vector<ExprNode> parts;
    for (size_t i = 0; i < branches.size(); ++i) {
        const auto before = std::span(branches).first(i);
        if (std::ranges::any_of(before, [&](const Branch& other) { return other.pointer == branches[i].pointer; })) continue;
        const ExprNode part = limits[Role::Type] ? typed_branch(branches[i], types, pointer) : value(branches[i].schema, {branches[i].pointer});
        if (part == kNone) return kNone;
        if (part != kNever) parts.push_back(part);
    }
    return parts.empty() ? kNone : out_.choice(parts);
}

/// The values of a branch that have certain types, by the schema at `outer`; kNever if it has others only.
ExprNode PlainLowering::typed_branch(const Branch& branch, uint32_t types, const std::string& outer) {
    Limits limits;
    if (!PyDict_Check(branch.schema) || !read_limits(branch.schema, limits)) return kNone;
    types &= types_of(limits[Role::Type]);
    if (!types) return kNever;
    if (limits.other || limits.any({Role::Enum, Role::Const, Role::PrefixItems, Role::AdditionalItems})) return kNone;
    if (limits.scalar && (types & ~(kArray | kObject))) return kNone;
    std::vector<ExprNode> parts = scalars(types);
    if (!(types & (kArray | kObject))) return out_.choice(parts);
    const std::string name = outer + " & " + branch.pointer;
    const auto known = rule_at_.find(name);
    parts.push_back(out_.call(known != rule_at_.end() ? known->second : enqueue(name, branch.pointer, branch.schema, types)));
    return out_.choice(parts);
}

/// Appends the branches of a schema, in place of nested alternatives theirs. False if they are not plain.
bool PlainLowering::collect_branches(const Limits& limits, const std::string& pointer, int depth, std::vector<Branch>& found) {
    const char* const keyword = limits[Role::AnyOf] ? "/anyOf/" : limits[Role::OneOf] ? "/oneOf/" : "/allOf/";
    PyObject* const list = limits[Role::AnyOf] ? limits[Role::AnyOf] : limits[Role::OneOf] ? limits[Role::OneOf] : limits[Role::AllOf];
    if (depth > kMaxAlternatives || (limits[Role::AllOf] && NB_LIST_GET_SIZE(list) != 1)) return false;
    std::vector<PyObject*> schemas;  // of ``oneOf``
    for (Py_ssize_t i = 0; i < NB_LIST_GET_SIZE(list); ++i) {
        Branch branch{NB_LIST_GET_ITEM(list, i), pointer + keyword + std::to_string(i)};
        Limits inner;
        for (int steps = 0;; ++steps) {
            if (steps > kMaxReferences || branch.schema == Py_False) return false;
            if (branch.schema == Py_True) break;
            inner = Limits();
            if (!PyDict_Check(branch.schema) || !read_limits(branch.schema, inner)) return false;
            if (!inner[Role::Ref]) break;
            if (inner.count > 1 && !terminals_.keywords->ref_alone) return false;
            branch.schema = resolve(inner[Role::Ref], branch.pointer);
            if (!branch.schema) return false;
        }
        if (limits[Role::OneOf]) {
            if (inner.count == 0) return false;
            schemas.push_back(branch.schema);
        }
        if (inner.any({Role::AllOf, Role::AnyOf, Role::OneOf})) {
            if (inner.count != 1 || !collect_branches(inner, branch.pointer, depth + 1, found)) return false;
            continue;
        }
        if (inner.count == 0) branch = {Py_True, ""};
        found.push_back(std::move(branch));
    }
    const auto proved = [&](PyObject* one, PyObject* other) { return nb::cast<bool>(disjoint_(nb::handle(one), nb::handle(other))); };
    return !limits[Role::OneOf] || all_disjoint(schemas, types_of(limits[Role::Type]), *terminals_.keywords, proved);
}

// ---------------------------------------------------------------- rules

/// Arrays and objects as a rule of their own, next to the scalars in `parts`.
ExprNode PlainLowering::container(PyObject* schema, const Place& place, uint32_t types, std::vector<ExprNode> parts) {
    std::string pointer = place.pointer();
    const auto known = rule_at_.find(pointer);
    const int32_t rule = known != rule_at_.end() ? known->second : enqueue(pointer, pointer, schema, types);
    parts.push_back(out_.call(rule));
    return out_.choice(parts);
}

/// Queues a rule, whose body is made later.
int32_t PlainLowering::enqueue(std::string name, std::string pointer, PyObject* schema, uint32_t types) {
    const auto rule = static_cast<int32_t>(rules_.size());
    rules_.push_back({std::move(name), std::move(pointer), schema, types});
    rule_at_.emplace(rules_.back().name, rule);
    return rule;
}

nb::object PlainLowering::run() {
    const std::string root = "#";
    const ExprNode start = value(root_, {root});
    if (start < 0) return nb::none();
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
        if (!make_body(rule)) return nb::none();
    }
    if ((identified_ && refers_) || !all_productive()) return nb::none();
    const int32_t called_rule = out_.only_called(start);
    const bool own = called_rule == kNone;  // the start needs a rule of its own
    std::vector<ExprNode> bodies;
    nb::list names;
    if (own) bodies.push_back(start), names.append("start");
    for (const Rule& rule : rules_) bodies.push_back(rule.body), names.append(nb::str(rule.name.data(), rule.name.size()));
    return nb::make_tuple(out_.pack(bodies, own ? 0 : called_rule, own), nb::tuple(out_.leaves()), nb::tuple(names));
}

bool PlainLowering::make_body(size_t at) {
    Rule& rule = rules_[at];
    if (!rule.schema) {  // any array or object
        rule.known_needs = true;
        const ExprNode keys = out_.terminal(names_.others({}));
        const Other other{keys, any_value()};
        const ExprNode objects = terminals_.ordered ? uncounted({}, {&other, 1}) : interleaved({}, {&other, 1}, 0, -1);
        const ExprNode arrays = array_of(any_value(), 0, -1);
        rule.body = out_.choice({objects, arrays});
        return true;
    }
    std::array<ExprNode, 2> parts{};
    size_t count = 0;
    for (const uint32_t type : {kObject, kArray}) {
        if (!(rule.types & type)) continue;
        const ExprNode part = type == kObject ? object(at) : array(at);
        if (part == kNone) return false;
        parts[count++] = part;
    }
    rules_[at].body = out_.choice(std::span<const ExprNode>(parts.data(), count));
    return true;
}

/// Whether each rule is known to derive some text: callers usually precede the rules that they call.
bool PlainLowering::all_productive() {
    std::vector<bool> productive(rules_.size());
    for (size_t left = rules_.size(), before = left + 1; left < before;) {
        before = left;
        for (size_t at = rules_.size(); at-- > 0;) {
            const Rule& rule = rules_[at];
            const auto needed = std::span(needs_).subspan(rule.needs_from, rule.needs_to - rule.needs_from);
            if (productive[at] || !rule.known_needs || !std::ranges::all_of(needed, [&](int32_t need) { return productive[need]; })) continue;
            productive[at] = true;
            --left;
        }
        if (left == 0) return true;
    }
    return rules_.empty();
}

// ---------------------------------------------------------------- objects

ExprNode PlainLowering::object(size_t at) {
    Limits limits;
    if (!read_limits(rules_[at].schema, limits)) return kNone;
    PyObject* const properties = limits[Role::Properties];
    PyObject* const required_list = limits[Role::Required];
    PyObject* const additional = limits[Role::AdditionalProperties];
    const nb::object required = nb::steal(PySet_New(required_list));
    if (!required.is_valid()) throw nb::python_error();
    const std::string& base = rules_[at].pointer;
    const Place rest{base, "additionalProperties"};
    const auto other_value = [&] { return additional ? value(additional, rest) : any_value(); };
    std::vector<Declared> names;
    const auto add = [&](PyObject* name, PyObject* schema, bool is_required) {
        const auto text = utf8(name);
        if (text) names.push_back({name, *text, schema, is_required});
        return text.has_value();
    };
    if (properties) {
        PyObject *name, *schema;
        for (Py_ssize_t i = 0; PyDict_Next(properties, &i, &name, &schema);) {
            if (!add(name, schema, PySet_Contains(required.ptr(), name) == 1)) return kNone;
        }
    }
    for (Py_ssize_t i = 0; required_list && i < NB_LIST_GET_SIZE(required_list); ++i) {
        PyObject* const name = NB_LIST_GET_ITEM(required_list, i);
        if (properties && PyDict_Contains(properties, name) == 1) continue;
        if (!add(name, nullptr, true)) return kNone;
    }
    Patterns patterns;
    if (!read_patterns(limits[Role::PatternProperties], names, patterns)) return kNone;
    const auto value_at = [&](int32_t pattern) {
        return pattern == kNone ? other_value() : value(patterns.schemas[pattern], {base, "patternProperties", patterns.sources[pattern], true});
    };
    const auto forbidden = [&](int32_t pattern) { return (pattern == kNone ? additional : patterns.schemas[pattern]) == Py_False; };
    std::vector<Member> members;
    for (size_t i = 0; i < names.size(); ++i) {
        const Declared& declared = names[i];
        const int32_t pattern = patterns.of_name.empty() ? kNone : patterns.of_name[i];
        if (declared.schema && pattern != kNone) return kNone;  // two schemas for one value
        if (declared.schema ? declared.schema == Py_False : forbidden(pattern)) {
            if (declared.required) return kNone;
            continue;
        }
        const ExprNode node = declared.schema ? value(declared.schema, {base, "properties", declared.text, true}) : value_at(pattern);
        if (node == kNone || (node == kNever && declared.required)) return kNone;
        if (node != kNever) members.push_back({declared.text, declared.required, node});
    }
    Others others;
    if (!limits[Role::PatternProperties] && additional != Py_False) patterns.classes.emplace_back(kNone, kNone);
    for (const auto& [keys, pattern] : patterns.classes) {
        if (forbidden(pattern)) continue;
        const ExprNode node = value_at(pattern);
        if (node == kNever) continue;
        if (node == kNone) return kNone;
        others.push_back({keys == kNone ? other_keys(names) : keys, node});
    }
    return counted(at, limits, members, others);
}

ExprNode PlainLowering::other_keys(std::span<const Declared> names) {
    std::vector<std::string_view> texts;
    for (const Declared& name : names) texts.push_back(name.text);
    return out_.terminal(names_.others(std::move(texts)));
}

/// Objects of a rule with these members and others, as many as ``minProperties`` and ``maxProperties`` allow.
ExprNode PlainLowering::counted(size_t at, const Limits& limits, std::span<const Member> members, std::span<const Other> others) {
    Rule& rule = rules_[at];
    const bool patterns = limits[Role::PatternProperties] != nullptr;
    const auto required = static_cast<long long>(std::ranges::count_if(members, &Member::required));
    const auto count = static_cast<long long>(members.size());
    long long low = limits[Role::MinProperties] ? count_of(limits[Role::MinProperties]) : 0;
    long long high = limits[Role::MaxProperties] ? count_of(limits[Role::MaxProperties]) : -1;
    if (high >= 0 && high < std::max({low, required, 1LL})) return kNone;
    if (high > kMaxCount || (others.empty() && high >= count)) high = -1;
    if (low <= required) low = 0;
    if (low > count && (others.empty() || patterns)) return kNone;  // perhaps no key matches
    if (terminals_.ordered && low > required + 1) return kNone;     // others would have to be told apart
    rule.needs_from = static_cast<int32_t>(needs_.size());
    long long more = std::max(0LL, low - required);
    for (const Member& member : members) {
        if (!member.required && more-- <= 0) continue;
        if (const int32_t called = out_.called(member.value); called != kNone) needs_.push_back(called);
    }
    if (low > count) {
        if (const int32_t called = out_.called(others[0].value); called != kNone) needs_.push_back(called);
    }
    rule.needs_to = static_cast<int32_t>(needs_.size()), rule.known_needs = true;
    if (terminals_.ordered && low == 0 && high < 0) return uncounted(members, others);
    return interleaved(members, others, static_cast<int32_t>(low), static_cast<int32_t>(high));
}

/// Which names and keys match which patterns, by the general lowering; false if some match several.
bool PlainLowering::read_patterns(PyObject* by_pattern, std::span<const Declared> names, Patterns& found) {
    if (!by_pattern) return true;
    nb::list sources, texts;
    PyObject *source, *schema;
    for (Py_ssize_t i = 0; PyDict_Next(by_pattern, &i, &source, &schema);) {
        const auto text = utf8(source);
        if (!text) return false;
        sources.append(nb::make_tuple(nb::handle(source), schema == Py_False));
        found.sources.push_back(*text), found.schemas.push_back(schema);
    }
    for (const Declared& declared : names) texts.append(nb::handle(declared.name));
    const nb::object keys = terminals_.key_classes(sources, texts);
    if (keys.is_none()) return false;
    for (const nb::handle pattern : keys[0]) found.of_name.push_back(nb::cast<int32_t>(pattern));
    for (const nb::handle one : keys[1]) found.classes.push_back({out_.expr_leaf(out_.leaf(one[0])), nb::cast<int32_t>(one[1])});
    return true;
}

/// Objects with these members, in their order, then any number of others.
ExprNode PlainLowering::uncounted(std::span<const Member> members, std::span<const Other> others) {
    using enum PlainTerminals::Fixed;
    std::vector<ExprNode> options;
    for (const Other& other : others) options.push_back(out_.sequence({other.keys, other.value}));
    const ExprNode more = options.empty() ? kNone : out_.choice(options);
    const ExprNode comma = fixed(Comma), close = fixed(CloseObject);
    ExprNode head = kNone;  // what follows where the next member has no comma
    ExprNode tail = close;  // what follows a member
    if (more != kNone) {
        const ExprNode again = out_.loop(out_.sequence({comma, more}), 0, -1);
        head = out_.sequence({more, again, close}), tail = out_.sequence({again, close});
    }
    const auto key = [&](const Member& member, bool next) { return out_.terminal(names_.key(member.name, next)); };
    bool open_end = true, needed = false;  // whether no required member follows
    for (size_t i = members.size(); i-- > 0;) {
        const Member& member = members[i];
        if (member.required) {
            open_end = false, needed = true;
            if (i == 0 || !members[i - 1].required) head = out_.sequence({key(member, false), member.value, tail});
            if (i) tail = out_.sequence({key(member, true), member.value, tail});
        } else {
            const ExprNode present = out_.sequence({key(member, false), member.value, tail});
            head = head == kNone ? present : out_.choice({present, head});
            const ExprNode following = out_.sequence({comma, head});
            tail = open_end ? out_.choice({close, following}) : following;
        }
    }
    if (head == kNone) return fixed(EmptyObject);
    const ExprNode full = out_.sequence({fixed(OpenObject), head});
    return needed ? full : out_.choice({fixed(EmptyObject), full});
}

/// Objects with `low` to `high` members in total (-1: no bound), in any order or in theirs.
ExprNode PlainLowering::interleaved(std::span<const Member> members, std::span<const Other> others, int32_t low, int32_t high) {
    using enum PlainTerminals::Fixed;
    std::vector<int32_t> required;
    std::vector<int32_t> args{std::max(low, 1), high, 0, terminals_.ordered, fixed(Comma), static_cast<int32_t>(members.size() + others.size()), 0};
    for (size_t slot = 0; slot < members.size(); ++slot) {
        const Member& member = members[slot];
        const ExprNode head = out_.terminal(names_.key(member.name, false));
        args.insert(args.end(), {head, member.value, static_cast<int32_t>(slot), 0, 0});
        if (member.required) required.push_back(static_cast<int32_t>(slot));
    }
    for (const Other& other : others) {
        const ExprNode body = terminals_.ordered ? other.value : out_.sequence({fixed(Colon), other.value});
        args.insert(args.end(), {other.keys, body, -1, 0, !terminals_.ordered});
    }
    if (args[5] == 0) return fixed(EmptyObject);
    args[6] = static_cast<int32_t>(required.size());
    args.insert(args.end(), required.begin(), required.end());
    const ExprNode full = out_.sequence({fixed(OpenObject), out_.interleave(args), fixed(CloseObject)});
    return required.empty() && low == 0 ? out_.choice({fixed(EmptyObject), full}) : full;
}

// ---------------------------------------------------------------- arrays

ExprNode PlainLowering::array(size_t at) {
    Limits limits;
    if (!read_limits(rules_[at].schema, limits)) return kNone;
    PyObject* const items = limits[Role::Items];
    PyObject* const least = limits[Role::MinItems];
    PyObject* const most = limits[Role::MaxItems];
    if ((items && PyList_Check(items)) || limits[Role::UniqueItems] == Py_True) return kNone;
    const long long low = least ? count_of(least) : 0, high = most ? count_of(most) : -1;
    if (low > kMaxCount || (most && low > high)) return kNone;
    ExprNode item = kNone;
    if (!most || high > 0) {
        item = items ? value(items, {rules_[at].pointer, "items"}) : any_value();
        if (item < 0) return kNone;
    }
    Rule& rule = rules_[at];
    if (low == 0) {
        rule.needs_from = rule.needs_to = 0;
    } else if (!rule.known_needs) {
        rule.needs_from = static_cast<int32_t>(needs_.size());
        if (const int32_t called = out_.called(item); called != kNone) needs_.push_back(called);
        rule.needs_to = static_cast<int32_t>(needs_.size());
    }
    rule.known_needs = true;
    return array_of(item, low, high > kMaxCount ? -1 : high);
}

/// Arrays of `low` to `high` items (-1: no bound).
ExprNode PlainLowering::array_of(ExprNode item, long long low, long long high) {
    using enum PlainTerminals::Fixed;
    const ExprNode empty = fixed(EmptyArray), close = fixed(CloseArray);
    if (high == 0) return empty;
    const long long least = std::max(0LL, low - 1), most = high < 0 ? -1 : high - 1;
    ExprNode tail = close;
    if (most != 0) {
        const ExprNode following = out_.sequence({fixed(Comma), item});
        const bool once = least == 1 && most == 1;
        const ExprNode more = once ? following : out_.loop(following, static_cast<int32_t>(least), static_cast<int32_t>(most));
        tail = out_.sequence({more, close});
    }
    const ExprNode full = out_.sequence({fixed(OpenArray), item, tail});
    return low == 0 ? out_.choice({empty, full}) : full;
}

}  // namespace

nb::object lower_plain(nb::handle document, PlainTerminals& terminals, nb::callable scalar, nb::callable disjoint) {
    return PlainLowering(document, terminals, std::move(scalar), std::move(disjoint)).run();
}

}  // namespace schemas
