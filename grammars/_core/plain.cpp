#include "plain.hpp"

#include "json_text.hpp"
#include "plain_lowering.hpp"

namespace schemas {

namespace {

constexpr int kMaxAlternatives = 8;  // nested in each other
constexpr size_t kMaxScalars = 10'000, kLongestScalar = 1'000;

std::string unescaped(std::string_view raw) {
    std::string token;
    for (size_t i = 0; i < raw.size(); ++i) {
        const bool escaped = raw[i] == '~' && i + 1 < raw.size() && (raw[i + 1] == '0' || raw[i + 1] == '1');
        token += escaped ? (raw[++i] == '0' ? '~' : '/') : raw[i];
    }
    return token;
}

}  // namespace

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

/// The values of a plain schema; kNone if it is not plain.
ExprNode PlainLowering::plain_value(PyObject* schema, const Place& place) {
    if (schema == Py_True) return any_value();
    if (!PyDict_Check(schema) || not_plain_.contains(schema)) return kNone;
    const ExprNode node = read_value(schema, place);
    if (node == kNone) not_plain_.insert(schema);
    return node;
}

ExprNode PlainLowering::read_value(PyObject* schema, const Place& place) {
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
    nb::object exprs = lowering().attr("scalars_of")(nb::handle(schema));
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
        if (!PyDict_Check(target)) return plain_value(target, {pointer});
        Limits limits;
        if (!read_limits(target, limits)) return kNone;
        if (!limits[Role::Ref]) return plain_value(target, {pointer});
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
        const ExprNode part = limits[Role::Type] ? typed_branch(branches[i], types, pointer) : plain_value(branches[i].schema, {branches[i].pointer});
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
    nb::list places;  // of ``oneOf``
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
            places.append(nb::str(branch.pointer.data(), branch.pointer.size()));
        }
        if (inner.any({Role::AllOf, Role::AnyOf, Role::OneOf})) {
            if (inner.count != 1 || !collect_branches(inner, branch.pointer, depth + 1, found)) return false;
            continue;
        }
        if (inner.count == 0) branch = {Py_True, ""};
        found.push_back(std::move(branch));
    }
    return !limits[Role::OneOf] || nb::cast<bool>(lowering().attr("disjoint")(places));
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
    for (size_t made = 0;;) {
        for (; made < rules_.size(); ++made) {
            if (!make_body(made)) return nb::none();
        }
        if (!asked_) break;
        if (!nb::cast<bool>(general().attr("lower_queued")())) return nb::none();
        if (made == rules_.size()) break;
    }
    if ((identified_ && refers_) || (asked_ && !take_general_bodies()) || !has_values(start)) return nb::none();
    const int32_t called_rule = out_.only_called(start);
    const bool own = called_rule == kNone;  // the start needs a rule of its own
    std::vector<ExprNode> bodies;
    nb::list names;
    if (own) bodies.push_back(start), names.append("start");
    for (const Rule& rule : rules_) bodies.push_back(rule.body), names.append(nb::str(rule.name.data(), rule.name.size()));
    return nb::make_tuple(out_.pack(bodies, own ? 0 : called_rule, own), nb::tuple(out_.leaves()), nb::tuple(names), asked_);
}

bool PlainLowering::make_body(size_t at) {
    Rule& rule = rules_[at];
    if (rule.general) return true;
    if (!rule.schema) {  // any array or object
        rule.known_needs = true;
        const ExprNode keys = out_.terminal(names_.others({}));
        const Other other{keys, any_value()};
        const ExprNode objects = terminals_.distinct ? interleaved({}, {&other, 1}, 0, -1) : uncounted({}, {&other, 1});
        const ExprNode arrays = array_of(any_value(), 0, -1);
        rule.body = out_.choice({objects, arrays});
        return true;
    }
    std::array<ExprNode, 2> parts{};
    size_t count = 0;
    for (const uint32_t type : {kObject, kArray}) {
        if (!(rule.types & type)) continue;
        const ExprNode part = type == kObject ? object(at) : array(at);
        if (part == kNone) return hand_over(at);
        parts[count++] = part;
    }
    rules_[at].body = out_.choice(std::span<const ExprNode>(parts.data(), count));
    return true;
}

/// Marks the rules known to derive some text: callers usually precede the rules that they call. Returns how many are left.
size_t PlainLowering::settle_productive(std::vector<bool>& productive) const {
    size_t left = static_cast<size_t>(std::ranges::count(productive, false));
    for (size_t before = left + 1; 0 < left && left < before;) {
        before = left;
        for (size_t at = rules_.size(); at-- > 0;) {
            const Rule& rule = rules_[at];
            if (productive[at] || !rule.known_needs || !std::ranges::all_of(rule.needs, [&](int32_t need) { return productive[need]; })) continue;
            productive[at] = true;
            --left;
        }
    }
    return left;
}

nb::object lower_plain(nb::handle document, PlainTerminals& terminals, nb::callable general) {
    return PlainLowering(document, terminals, std::move(general)).run();
}

}  // namespace schemas
