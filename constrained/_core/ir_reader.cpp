#include "ir_reader.hpp"

#include <algorithm>
#include <cstring>

#include "marks.hpp"

namespace core {

namespace nb = nanobind;

namespace {

/// The classes of `constrained.grammars.ir` and the names of their attributes.
struct Classes {
    std::array<PyTypeObject*, flat::kOps> types{};
    PyTypeObject* mark;  // a terminal
    PyObject *data, *ranges, *parts, *part, *low, *high, *regex, *rule, *packed, *entries, *head, *body, *slot,
        *obligations, *discharges, *distinct, *required, *ordered, *separator;

    Classes() {
        const nb::module_ ir = nb::module_::import_("constrained.grammars.ir");
        const std::pair<Op, const char*> names[] = {
            {Op::Literal, "Literal"},   {Op::Chars, "Chars"},       {Op::Concat, "Concat"},
            {Op::Union, "Union"},       {Op::Intersection, "Intersection"}, {Op::Complement, "Complement"},
            {Op::Repeat, "Repeat"},     {Op::EmptySet, "EmptySet"}, {Op::DecimalMultiple, "DecimalMultiple"}, {Op::Substring, "Substring"},
            {Op::Terminal, "Terminal"},
            {Op::Call, "Call"},         {Op::Sequence, "Sequence"}, {Op::Choice, "Choice"},
            {Op::Loop, "Loop"},         {Op::Interleave, "Interleave"},
        };
        for (const auto& [op, name] : names) {
            types[static_cast<size_t>(op)] = reinterpret_cast<PyTypeObject*>(nb::object(ir.attr(name)).release().ptr());
        }
        mark = reinterpret_cast<PyTypeObject*>(nb::object(ir.attr("Mark")).release().ptr());
        const auto intern = [](const char* name) { return PyUnicode_InternFromString(name); };
        data = intern("data"), ranges = intern("ranges"), parts = intern("parts"), part = intern("part");
        low = intern("low"), high = intern("high"), regex = intern("regex"), rule = intern("rule"), packed = intern("packed");
        entries = intern("entries"), head = intern("head"), body = intern("body"), slot = intern("slot");
        obligations = intern("obligations"), discharges = intern("discharges"), distinct = intern("distinct");
        required = intern("required"), ordered = intern("ordered"), separator = intern("separator");
    }

    Op op_of(PyObject* node) const {
        for (size_t op = 0; op < flat::kOps; ++op) {
            if (types[op] == Py_TYPE(node)) return static_cast<Op>(op);
        }
        if (Py_TYPE(node) == mark) return Op::Terminal;
        PyErr_Format(PyExc_TypeError, "not a node of constrained.grammars.ir: %R", node);
        throw nb::python_error();
    }
};

const Classes& classes() {
    static const Classes* const found = new Classes;  // never destroyed: the interpreter may be finalized before
    return *found;
}

/// A borrowed attribute of a node. Nodes are immutable, so it lives as long as the node.
PyObject* attribute(PyObject* node, PyObject* name) {
    PyObject* value = PyObject_GetAttr(node, name);
    if (!value) throw nb::python_error();
    Py_DECREF(value);
    return value;
}

/// The borrowed items of a tuple. Its memory is no part of the stable ABI: they are asked for one by one.
class Items {
public:
    explicit Items(PyObject* tuple) : tuple_(tuple) {
        if (!PyTuple_Check(tuple)) throw nb::type_error("malformed grammar: not a tuple");
    }
    size_t size() const { return static_cast<size_t>(NB_TUPLE_GET_SIZE(tuple_)); }
    PyObject* operator[](size_t at) const { return NB_TUPLE_GET_ITEM(tuple_, static_cast<Py_ssize_t>(at)); }

    struct Iterator {
        const Items& items;
        size_t at;
        PyObject* operator*() const { return items[at]; }
        Iterator& operator++() { return ++at, *this; }
        bool operator!=(const Iterator& other) const { return at != other.at; }
    };
    Iterator begin() const { return {*this, 0}; }
    Iterator end() const { return {*this, size()}; }

private:
    PyObject* tuple_;
};

int32_t integer(PyObject* value) {
    const long number = PyLong_AsLong(value);
    if (number == -1 && PyErr_Occurred()) throw nb::python_error();
    if (number < 0 || number > INT32_MAX) throw nb::value_error("malformed grammar: a number out of range");
    return static_cast<int32_t>(number);
}

/// The arrays of packed rules: see flat_nodes.hpp.
struct PackedRules {
    explicit PackedRules(PyObject* packed) {
        char* data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(packed, &data, &size)) throw nb::python_error();
        flat::PackedHeader header{};
        const auto take = [&]<class Value>(std::vector<Value>& values, int32_t count) {
            const auto bytes = static_cast<Py_ssize_t>(sizeof(Value)) * count;
            if (count < 0 || bytes > size) throw nb::value_error("malformed grammar: packed rules");
            values.resize(count);
            if (count) std::memcpy(values.data(), data, bytes);
            data += bytes, size -= bytes;
        };
        std::vector<flat::PackedHeader> headers;
        take(headers, 1);
        header = headers[0];
        take(regexes, header.regexes), take(exprs, header.exprs), take(regex_args, header.regex_args);
        take(expr_args, header.expr_args), take(rules, header.rules), take(bytes, header.bytes);
        start = header.start;
    }

    std::vector<FlatNode> regexes, exprs;
    std::vector<int32_t> regex_args, expr_args, rules;
    std::vector<uint8_t> bytes;
    int32_t start;
};

/// An element of packed rules.
int32_t at(const std::vector<int32_t>& values, int32_t index) {
    if (index < 0 || static_cast<size_t>(index) >= values.size()) throw nb::value_error("malformed grammar: packed rules");
    return values[index];
}

/// Appends part of `from` to `to`, and returns where it begins there.
template <class Value>
int32_t append(std::vector<Value>& to, const std::vector<Value>& from, int32_t begin, int32_t count) {
    if (begin < 0 || count < 0 || static_cast<size_t>(begin) + count > from.size()) throw nb::value_error("malformed grammar: packed rules");
    const auto offset = static_cast<int32_t>(to.size());
    to.insert(to.end(), from.begin() + begin, from.begin() + begin + count);
    return offset;
}

/// The upper bound of a repetition, or an alternative; -1: none.
int32_t bound(PyObject* value) { return value == Py_None ? -1 : integer(value); }

}  // namespace

void IrReader::read(nb::dict rules, nb::handle start) {
    for (const auto [name, body] : rules) number(name);
    for (const auto [name, body] : rules) grammar.rules.push_back(add(body.ptr(), expr_nodes_, expr_stack_));
    grammar.start = nb::cast<uint32_t>(rule_index_[start]);
}

void IrReader::read_packed(nb::handle rules) {
    const nb::tuple leaves = nb::cast<nb::tuple>(rules.attr("leaves"));
    const nb::object packed = rules.attr("packed");
    const PackedRules arrays(packed.ptr());
    if (nb::cast<bool>(rules.attr("linked"))) {  // leaves call rules by their names
        const nb::tuple names = nb::cast<nb::tuple>(rules.attr("names"));
        if (nb::len(names) != arrays.rules.size()) throw nb::value_error("malformed grammar: packed rules");
        for (const nb::handle name : names) number(name);
    }
    std::vector<int32_t> regex_at, expr_at;  // by packed node
    const auto leaf = [&](int32_t number) -> PyObject* {
        if (number < 0 || static_cast<size_t>(number) >= nb::len(leaves)) throw nb::value_error("malformed grammar: a leaf");
        return NB_TUPLE_GET_ITEM(leaves.ptr(), number);
    };
    regex_at.reserve(arrays.regexes.size());
    for (FlatNode node : arrays.regexes) {
        bool document = false;
        switch (node.op) {
            case Op::Leaf: regex_at.push_back(add(leaf(node.a), regex_nodes_, regex_stack_)); continue;
            case Op::Literal:
                node.a = append(regexes.data, arrays.bytes, node.a, node.b);
                break;
            case Op::Concat:
            case Op::Union:
            case Op::Intersection:
                node.a = append(regexes.args, arrays.regex_args, node.a, node.b);
                for (int32_t& part : std::span(regexes.args).subspan(node.a, node.b)) document |= documents_[part = at(regex_at, part)];
                break;
            case Op::Complement:
                node.a = at(regex_at, node.a), document = documents_[node.a];
                break;
            default: throw nb::value_error("malformed grammar: a packed regular expression");
        }
        regex_at.push_back(static_cast<int32_t>(regexes.nodes.size()));
        regexes.nodes.push_back(node);
        documents_.push_back(document);
    }
    expr_at.reserve(arrays.exprs.size());
    for (FlatNode node : arrays.exprs) {
        switch (node.op) {
            case Op::Leaf: expr_at.push_back(add(leaf(node.a), expr_nodes_, expr_stack_)); continue;
            case Op::Terminal: node.a = at(regex_at, node.a); break;
            case Op::Call: at(arrays.rules, node.a); break;
            case Op::Sequence:
            case Op::Choice:
                node.a = append(grammar.args, arrays.expr_args, node.a, node.b);
                for (int32_t& part : std::span(grammar.args).subspan(node.a, node.b)) part = at(expr_at, part);
                break;
            case Op::Loop: node.a = at(expr_at, node.a); break;
            case Op::Interleave: {
                const int32_t entries = at(arrays.expr_args, node.a + 5), required = at(arrays.expr_args, node.a + 6);
                node.a = append(grammar.args, arrays.expr_args, node.a, 7 + 5 * entries + required);
                const auto args = std::span(grammar.args).subspan(node.a);
                args[4] = at(expr_at, args[4]);
                for (int32_t i = 0; i < entries; ++i) {
                    for (const int32_t part : {7 + 5 * i, 8 + 5 * i}) args[part] = at(expr_at, args[part]);
                }
                break;
            }
            default: throw nb::value_error("malformed grammar: a packed rule expression");
        }
        expr_at.push_back(static_cast<int32_t>(grammar.nodes.size()));
        grammar.nodes.push_back(node);
    }
    for (const int32_t body : arrays.rules) grammar.rules.push_back(at(expr_at, body));
    at(arrays.rules, arrays.start);
    grammar.start = static_cast<uint32_t>(arrays.start);
}

void IrReader::remember(const std::vector<RegexId>& ids) {
    for (const auto& [node, node_index] : fresh_) known_[nb::handle(node)] = nb::int_(ids[node_index].value);
}

/// The index of an object: emits its children, then the object.
int32_t IrReader::add(PyObject* root, NodeIndex& nodes, std::vector<PyObject*>& stack) {
    const bool is_regex = &nodes == &regex_nodes_;
    const Classes& names = classes();
    stack.push_back(root);
    while (!stack.empty()) {
        PyObject* const node = stack.back();
        if (nodes.find(node) >= 0) {
            stack.pop_back();
            continue;
        }
        Op op = names.op_of(node);
        if (is_regex && PyDict_GetItemWithError(known_.ptr(), node)) op = Op::Reference;
        const size_t before = stack.size();
        switch (op) {
            case Op::Concat:
            case Op::Union:
            case Op::Intersection:
            case Op::Sequence:
            case Op::Choice: {
                const Items parts(attribute(node, names.parts));
                for (size_t i = parts.size(); i-- > 0;) {
                    if (nodes.find(parts[i]) < 0) stack.push_back(parts[i]);
                }
                break;
            }
            case Op::Complement:
            case Op::Repeat:
            case Op::Loop: {
                PyObject* const part = attribute(node, names.part);
                if (nodes.find(part) < 0) stack.push_back(part);
                break;
            }
            case Op::Interleave: {
                const auto push = [&](PyObject* part) {
                    if (nodes.find(part) < 0) stack.push_back(part);
                };
                for (PyObject* const entry : Items(attribute(node, names.entries))) {
                    push(attribute(entry, names.body));
                    push(attribute(entry, names.head));
                }
                push(attribute(node, names.separator));
                break;
            }
            default: break;
        }
        if (stack.size() > before) continue;
        stack.pop_back();
        if (is_regex != (op < Op::Terminal || op == Op::Reference)) throw nb::type_error("malformed grammar: a rule expression in place of a regular expression, or vice versa");
        if (is_regex) {
            emit_regex(node, op);
        } else {
            emit_expr(node, op);
        }
    }
    return nodes.find(root);
}

void IrReader::emit_regex(PyObject* node, Op op) {
    const Classes& names = classes();
    auto& args = regexes.args;
    int32_t a = 0, b = 0, c = 0;
    switch (op) {
        case Op::Reference: a = integer(PyDict_GetItem(known_.ptr(), node)); break;
        case Op::Literal: {
            char* bytes;
            Py_ssize_t size;
            if (PyBytes_AsStringAndSize(attribute(node, names.data), &bytes, &size)) throw nb::python_error();
            a = static_cast<int32_t>(regexes.data.size()), b = static_cast<int32_t>(size);
            regexes.data.insert(regexes.data.end(), bytes, bytes + size);
            break;
        }
        case Op::Substring:
        case Op::DecimalMultiple: {
            char* bytes;
            Py_ssize_t size;
            if (PyBytes_AsStringAndSize(attribute(node, names.packed), &bytes, &size)) throw nb::python_error();
            if (op == Op::DecimalMultiple && !DecimalMultiple::may_be_packed(static_cast<size_t>(size))) throw nb::value_error("malformed grammar: a multiple");
            a = static_cast<int32_t>(regexes.data.size()), b = static_cast<int32_t>(size);
            regexes.data.insert(regexes.data.end(), bytes, bytes + size);
            break;
        }
        case Op::Chars: {
            const Items ranges(attribute(node, names.ranges));
            a = static_cast<int32_t>(args.size()), b = static_cast<int32_t>(ranges.size());
            for (PyObject* const range : ranges) {
                const Items bounds(range);
                if (bounds.size() != 2) throw nb::value_error("malformed grammar: a range of characters");
                for (PyObject* const point : bounds) args.push_back(integer(point));
            }
            break;
        }
        case Op::Concat:
        case Op::Union:
        case Op::Intersection: {
            const Items parts(attribute(node, names.parts));
            a = static_cast<int32_t>(args.size()), b = static_cast<int32_t>(parts.size());
            for (PyObject* const part : parts) args.push_back(regex_nodes_.find(part));
            break;
        }
        case Op::Repeat:
            b = integer(attribute(node, names.low)), c = bound(attribute(node, names.high));
            [[fallthrough]];
        case Op::Complement: a = regex_nodes_.find(attribute(node, names.part)); break;
        default: break;
    }
    const auto node_index = static_cast<int32_t>(regexes.nodes.size());
    regex_nodes_.insert(node, node_index);
    regexes.nodes.push_back({op, a, b, c});
    // A document must not outlive its automaton here, so what contains one is not remembered.
    const auto holds = [&](int32_t part) { return static_cast<bool>(documents_[part]); };
    bool document = op == Op::Substring;
    if (op == Op::Concat || op == Op::Union || op == Op::Intersection) document = std::any_of(args.begin() + a, args.begin() + a + b, holds);
    if (op == Op::Repeat || op == Op::Complement) document = holds(a);
    documents_.push_back(document);
    // Reading a literal is as fast as looking it up.
    if (!document && op != Op::Reference && op != Op::Literal) fresh_.emplace_back(node, node_index);
}

void IrReader::emit_expr(PyObject* node, Op op) {
    const Classes& names = classes();
    auto& args = grammar.args;
    int32_t a = 0, b = 0, c = 0;
    switch (op) {
        case Op::Terminal:
            if (Py_TYPE(node) == names.mark) {
                marked_ = true;
            }
            a = add(attribute(node, names.regex), regex_nodes_, regex_stack_);
            break;
        case Op::Call: a = rule_of(node); break;
        case Op::Sequence:
        case Op::Choice: {
            const Items parts(attribute(node, names.parts));
            a = static_cast<int32_t>(args.size()), b = static_cast<int32_t>(parts.size());
            for (PyObject* const part : parts) args.push_back(expr_nodes_.find(part));
            break;
        }
        case Op::Interleave: {
            const Items entries(attribute(node, names.entries)), required(attribute(node, names.required));
            a = static_cast<int32_t>(args.size());
            args.push_back(integer(attribute(node, names.low)));
            args.push_back(bound(attribute(node, names.high)));
            args.push_back(integer(attribute(node, names.obligations)));
            args.push_back(attribute(node, names.ordered) == Py_True);
            args.push_back(expr_nodes_.find(attribute(node, names.separator)));
            args.push_back(static_cast<int32_t>(entries.size()));
            args.push_back(static_cast<int32_t>(required.size()));
            for (PyObject* const entry : entries) {
                args.push_back(expr_nodes_.find(attribute(entry, names.head)));
                args.push_back(expr_nodes_.find(attribute(entry, names.body)));
                args.push_back(bound(attribute(entry, names.slot)));
                args.push_back(integer(attribute(entry, names.discharges)));
                args.push_back(attribute(entry, names.distinct) == Py_True);
            }
            for (PyObject* const slot : required) args.push_back(integer(slot));
            break;
        }
        default:
            a = expr_nodes_.find(attribute(node, names.part));
            b = integer(attribute(node, names.low)), c = bound(attribute(node, names.high));
    }
    expr_nodes_.insert(node, static_cast<int32_t>(grammar.nodes.size()));
    grammar.nodes.push_back({op, a, b, c});
}

/// Numbers a rule.
uint32_t IrReader::number(nb::handle name) {
    const auto rule = static_cast<uint32_t>(rule_index_.size());
    rule_index_[name] = nb::int_(rule);
    return rule;
}

int32_t IrReader::rule_of(PyObject* call) {
    PyObject* const name = attribute(call, classes().rule);
    PyObject* const index = PyDict_GetItemWithError(rule_index_.ptr(), name);
    if (index) return integer(index);
    if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, name);
    throw nb::python_error();
}

}  // namespace core
