#include "plain_lowering.hpp"

namespace schemas {

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
    const bool closed = terminals_.closed && !additional && (properties || limits[Role::PatternProperties]);
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
    if (!limits[Role::PatternProperties]) patterns.classes.emplace_back(kNone, kNone);
    for (const auto& [keys, pattern] : patterns.classes) {
        if (forbidden(pattern) || (closed && pattern == kNone)) continue;
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
    if (!terminals_.distinct && low > required + 1) return kNone;   // others would have to be told apart
    long long more = std::max(0LL, low - required);
    for (const Member& member : members) {
        if (!member.required && more-- <= 0) continue;
        need(rule, member.value);
    }
    if (low > count) need(rule, others[0].value);
    rule.known_needs = true;
    if (terminals_.ordered && low == 0 && high < 0 && !(terminals_.distinct && !others.empty())) return uncounted(members, others);
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
        const ExprNode body = terminals_.distinct ? out_.sequence({fixed(Colon), other.value}) : other.value;
        args.insert(args.end(), {other.keys, body, -1, 0, terminals_.distinct});
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
        rule.needs.clear();
    } else if (!rule.known_needs) {
        need(rule, item);
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

}  // namespace schemas
