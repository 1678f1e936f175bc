#include "deferral_analysis.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace schemas {

namespace {

constexpr Py_ssize_t kMaxNames = 5'000, kMaxNameLength = 200, kMaxTextLength = 1'000, kMaxWays = 7, kMaxPrefix = 1'000;
constexpr long long kMaxCount = 100'000, kMaxBound = 1'000'000'000'000'000'000;
constexpr double kMaxFloat = 1e15, kMinFloat = 1e-6;

/// An integer of moderate size.
std::optional<long long> whole(PyObject* value) {
    if (!PyLong_Check(value) || PyBool_Check(value)) return std::nullopt;
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || number > kMaxBound || number < -kMaxBound) return std::nullopt;
    return number;
}

/// The count of a keyword, `otherwise` if absent; nullopt if it is too large to analyse.
std::optional<long long> count(PyObject* value, long long otherwise) {
    return value ? whole(value) : std::optional(otherwise);
}

uint32_t digits(long long number) {
    uint32_t count = number < 0 ? 2 : 1;
    for (; number > 9 || number < -9; number /= 10) ++count;
    return count;
}

/// Bytes of the shortest JSON spelling of a string; 0 if it is long or not valid Unicode.
uint32_t quoted(PyObject* text, Py_ssize_t longest) {
    if (!PyUnicode_Check(text) || PyUnicode_GetLength(text) > longest) return 0;
    uint32_t bytes = 2;
    for (Py_ssize_t i = 0; i < PyUnicode_GetLength(text); ++i) {
        const Py_UCS4 code = PyUnicode_ReadChar(text, i);
        if (code >= 0xD800 && code <= 0xDFFF) return 0;
        if (code == '"' || code == '\\' || code == '\b' || code == '\f' || code == '\n' || code == '\r' || code == '\t') {
            bytes += 2;
        } else {
            bytes += code < 0x20 ? 6 : code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        }
    }
    return bytes;
}

/// Bytes and type of a listed value; 0 bytes if it is not a simple scalar.
std::pair<uint32_t, uint32_t> listed(PyObject* value) {
    if (value == Py_None) return {4, kNull};
    if (value == Py_True) return {4, kBoolean};
    if (value == Py_False) return {5, kBoolean};
    if (const auto number = whole(value)) return {digits(*number), kInteger};
    return {quoted(value, kMaxTextLength), kString};
}

}  // namespace

// ---------------------------------------------------------------- schemas by location

uint32_t DeferralAnalysis::meet(PyObject* schema, const Entry& location) {
    if (schema == Py_True) return kTrue;
    if (schema == Py_False) return kFalse;
    const auto [at, fresh] = index_.try_emplace(schema, static_cast<uint32_t>(entries_.size()));
    if (fresh) {
        entries_.push_back(location);
        entries_.back().schema = schema;
    }
    return at->second;
}

uint32_t DeferralAnalysis::child(uint32_t parent, Role role, PyObject* schema, PyObject* name, Py_ssize_t index) {
    Entry location;
    location.parent = parent, location.keyword = keyword_names_[static_cast<size_t>(role)];
    location.name = name, location.index = index;
    const uint32_t id = meet(schema, location);
    entries_[parent].below.push_back(id);
    return id;
}

uint32_t DeferralAnalysis::find(PyObject* schema, PyObject* pointer) {
    if (const auto found = index_.find(schema); found != index_.end()) return found->second;
    const auto first = static_cast<uint32_t>(entries_.size());
    Entry location;
    location.pointer = pointer;
    held_.push_back(nb::borrow(pointer));
    const uint32_t id = meet(schema, location);
    for (uint32_t next = first; next < entries_.size(); ++next) read(next);
    settle(first);
    return id;
}

uint32_t DeferralAnalysis::deferred_length(nb::handle schema, nb::str pointer, bool containers_only) {
    if (!PyDict_Check(schema.ptr())) return 0;
    const uint32_t id = find(schema.ptr(), pointer.ptr());
    if (!deferrable(entries_[id], containers_only)) return 0;
    announce(id);
    return entries_[id].rule_length;
}

nb::object DeferralAnalysis::deferrable_reference(nb::handle schema, nb::str pointer) {
    if (!PyDict_Check(schema.ptr())) return nb::none();
    uint32_t id = find(schema.ptr(), pointer.ptr());
    PyObject* last = nullptr;
    while (entries_[id].certified && entries_[id].kind == Kind::Either && entries_[id].below.size() == 1) {
        last = entries_[id].refers_to;
        id = entries_[id].below[0];
    }
    return last && deferrable(entries_[id], true) ? nb::borrow(last) : nb::none();
}

void DeferralAnalysis::announce(uint32_t id) {
    if (entries_[id].announced) return;
    entries_[id].announced = true;
    std::vector<uint32_t> work{id};
    while (!work.empty()) {
        const uint32_t at = work.back();
        work.pop_back();
        for (const uint32_t below : entries_[at].below) {
            Entry& entry = entries_[below];
            if (entry.announced) continue;
            if (!entry.certified) {
                entry.announced = true;
                pending_eager_.push_back(below);
            } else if (entry.kind != Kind::Scalar) {
                entry.announced = true;
                work.push_back(below);
            }
        }
    }
}

nb::list DeferralAnalysis::pending_eager() {
    nb::list found;
    for (uint32_t id : pending_eager_) {
        nb::list steps;
        for (; entries_[id].parent != kNone; id = entries_[id].parent) {
            const Entry& entry = entries_[id];
            if (entry.name) steps.append(nb::handle(entry.name));
            if (entry.index >= 0) steps.append(entry.index);
            steps.append(nb::handle(entry.keyword));
        }
        steps.reverse();
        const auto or_none = [](PyObject* object) { return object ? nb::borrow(object) : nb::none(); };
        found.append(nb::make_tuple(or_none(entries_[id].pointer), or_none(entries_[id].reference), nb::tuple(steps)));
    }
    pending_eager_.clear();
    return found;
}

// ---------------------------------------------------------------- one schema

void DeferralAnalysis::read(uint32_t id) {
    PyObject* const schema = entries_[id].schema;
    if (!PyDict_Check(schema)) return;
    KeywordValues values{};
    int limits = 0;
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(schema, &at, &key, &item);) {
        const Keywords::Keyword* const keyword = keywords_->find(key);
        if (!keyword || keyword->role == Role::Annotation) continue;
        if (keyword->role == Role::Identifier) {
            if (schema != document_.ptr()) return;  // it changes the base of references below
            continue;
        }
        below_.clear();
        if (!is_valid_keyword_value(keyword->check, item, below_)) return;  // the target of a reference may not be a schema
        values[static_cast<size_t>(keyword->role)] = item;
        keyword_names_[static_cast<size_t>(keyword->role)] = key;
        ++limits;
    }
    PyObject* const reference = at(values, Role::Ref);
    if (reference && (keywords_->ref_alone || limits == 1)) {
        if (read_reference(id, reference)) entries_[id].kind = Kind::Either, entries_[id].refers_to = reference;
        return;
    }
    static constexpr auto others = {Role::OtherConstraint, Role::OneOf, Role::PatternProperties, Role::MinProperties, Role::MaxProperties};
    if (reference || std::ranges::any_of(others, [&](Role role) { return at(values, role) != nullptr; })) return;
    if (at(values, Role::AllOf) || at(values, Role::AnyOf)) {
        if (limits == 1 && read_either(id, values)) entries_[id].kind = Kind::Either;
        return;
    }
    const uint32_t types = types_of(at(values, Role::Type));
    if (at(values, Role::Enum) || at(values, Role::Const)) {
        if (limits == (at(values, Role::Type) ? 2 : 1) && read_listed(entries_[id], values, types)) entries_[id].kind = Kind::Scalar;
        return;
    }
    if (!read_scalars(entries_[id], values, types)) return;
    if (limits == 0 || !(types & (kArray | kObject))) {
        entries_[id].kind = Kind::Scalar;
        entries_[id].length = entries_[id].scalar;
        return;
    }
    if (types & kObject && !read_object(id, values)) return;
    if (types & kArray && !read_array(id, values)) return;
    entries_[id].kind = Kind::Container;
}

/// Follows a reference within the document, unless an identifier on the way changes the base.
bool DeferralAnalysis::read_reference(uint32_t id, PyObject* reference) {
    if (!PyUnicode_Check(reference)) return false;
    Py_ssize_t size;
    const char* const data = PyUnicode_AsUTF8AndSize(reference, &size);
    if (!data) {
        PyErr_Clear();
        return false;
    }
    std::string_view rest(data, size);
    if (rest.empty() || rest[0] != '#' || rest.find('%') != rest.npos) return false;
    rest.remove_prefix(1);
    if (!rest.empty() && rest[0] != '/') return false;
    PyObject* value = document_.ptr();
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const std::string_view raw = rest.substr(0, std::min(rest.find('/'), rest.size()));
        rest.remove_prefix(raw.size());
        std::string token;
        for (size_t i = 0; i < raw.size(); ++i) {
            const bool escaped = raw[i] == '~' && i + 1 < raw.size() && (raw[i + 1] == '0' || raw[i + 1] == '1');
            token.push_back(escaped ? (raw[++i] == '0' ? '~' : '/') : raw[i]);
        }
        if (PyList_Check(value)) {
            if (token.empty() || token.size() > 9 || !std::ranges::all_of(token, [](char c) { return c >= '0' && c <= '9'; })) return false;
            const Py_ssize_t index = std::stol(token);
            if (index >= NB_LIST_GET_SIZE(value)) return false;
            value = NB_LIST_GET_ITEM(value, index);
        } else if (PyDict_Check(value)) {
            value = PyDict_GetItem(value, nb::str(token.data(), token.size()).ptr());
            if (!value) return false;
        } else {
            return false;
        }
        if (PyDict_Check(value) && PyDict_Contains(value, keywords_->identifier.ptr()) == 1) return false;
    }
    if (!PyDict_Check(value) && !PyBool_Check(value)) return false;
    Entry location;
    if (value == document_.ptr()) {
        held_.push_back(nb::str("#"));
        location.pointer = held_.back().ptr();
    } else {
        location.reference = reference;
    }
    const uint32_t target = meet(value, location);
    entries_[id].below.push_back(target);
    return true;
}

bool DeferralAnalysis::read_either(uint32_t id, const KeywordValues& values) {
    PyObject* const all = at(values, Role::AllOf);
    PyObject* const branches = all ? all : at(values, Role::AnyOf);
    if (!PyList_Check(branches)) return false;
    const Py_ssize_t size = NB_LIST_GET_SIZE(branches);
    if (size == 0 || size > (all ? 1 : kMaxWays)) return false;
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* const branch = NB_LIST_GET_ITEM(branches, i);
        if (!PyDict_Check(branch) && branch != Py_True) return false;
        child(id, all ? Role::AllOf : Role::AnyOf, branch, nullptr, i);
    }
    return true;
}

bool DeferralAnalysis::read_listed(Entry& entry, const KeywordValues& values, uint32_t types) {
    PyObject* const one = at(values, Role::Const);
    PyObject* const list = at(values, Role::Enum);
    if (list && !PyList_Check(list)) return false;
    const Py_ssize_t size = one ? 1 : NB_LIST_GET_SIZE(list);
    for (Py_ssize_t i = 0; i < size; ++i) {
        const auto [length, type] = listed(one ? one : NB_LIST_GET_ITEM(list, i));
        if (length == 0 || !(types & type)) return false;
        entry.length = std::min(entry.length, length);
    }
    entry.scalar = entry.length;
    return size > 0;
}

/// Analyses the scalars of the types. False if some type may have no value.
bool DeferralAnalysis::read_scalars(Entry& entry, const KeywordValues& values, uint32_t types) {
    const auto may = [&](uint32_t length) { entry.scalar = std::min(entry.scalar, length); };
    if (types & (kNull | kBoolean)) may(4);
    if (types & kInteger) {
        std::optional<long long> low, high;
        bool whole_bounds = true;
        const auto bound = [&](Role role, std::optional<long long>& kept, int inwards, bool least) {
            PyObject* const value = at(values, role);
            if (!value) return true;
            if (PyFloat_Check(value)) {
                const double size = std::fabs(PyFloat_AsDouble(value));
                whole_bounds = false;
                return size == 0 || (size >= kMinFloat && size <= kMaxFloat);
            }
            const auto number = whole(value);
            if (!number) return false;
            kept = !kept ? *number + inwards : least ? std::max(*kept, *number + inwards) : std::min(*kept, *number + inwards);
            return true;
        };
        if (!bound(Role::Minimum, low, 0, true) || !bound(Role::ExclusiveMinimum, low, 1, true)) return false;
        if (!bound(Role::Maximum, high, 0, false) || !bound(Role::ExclusiveMaximum, high, -1, false)) return false;
        if (!whole_bounds || (low && high && *low > *high)) {
            entry.scalar_unknown = true;  // only fractions, or no value
        } else if (low && *low > 0) {
            may(digits(*low));
        } else {
            may(high && *high < 0 ? digits(*high) : 1);
        }
    }
    if (types & kString) {
        const auto low = count(at(values, Role::MinLength), 0), high = count(at(values, Role::MaxLength), kMaxBound);
        if (!low || !high || *low > kMaxCount || *low > *high) return false;
        PyObject* const format = at(values, Role::Format);
        if (format && PySet_Contains(keywords_->formats.ptr(), format) == 1) {
            if (at(values, Role::MinLength) || at(values, Role::MaxLength)) return false;
            entry.scalar_unknown |= entry.scalar == kNone || entry.scalar > 2;
        } else {
            may(2 + static_cast<uint32_t>(*low));
        }
    }
    return true;
}

bool DeferralAnalysis::read_object(uint32_t id, const KeywordValues& values) {
    PyObject* const properties = at(values, Role::Properties);
    PyObject* const required = at(values, Role::Required);
    PyObject* const additional = at(values, Role::AdditionalProperties);
    if ((properties && !PyDict_Check(properties)) || (required && !PyList_Check(required))) return false;
    const Py_ssize_t needed = required ? NB_LIST_GET_SIZE(required) : 0;
    if (needed > kMaxNames || (properties && PyDict_Size(properties) > kMaxNames)) return false;
    const uint32_t rest = additional ? child(id, Role::AdditionalProperties, additional) : kTrue;
    if (properties) {
        PyObject *name, *value;
        for (Py_ssize_t at = 0; PyDict_Next(properties, &at, &name, &value);) {
            if (!PyUnicode_Check(name) || PyUnicode_GetLength(name) > kMaxNameLength) return false;
            if (!PyDict_Check(value) && !PyBool_Check(value)) return false;
            child(id, Role::Properties, value, name);
        }
    }
    Part part;
    part.allowed = true;
    part.base = needed ? text_.open_object + text_.close_object + uint64_t{text_.comma} * (needed - 1) : text_.empty_object;
    for (Py_ssize_t i = 0; i < needed; ++i) {
        PyObject* const name = NB_LIST_GET_ITEM(required, i);
        const uint32_t length = quoted(name, kMaxNameLength);
        if (length == 0) return false;
        part.base += length + text_.colon;
        PyObject* const value = properties ? PyDict_GetItem(properties, name) : nullptr;
        part.needs.push_back({value ? meet(value, {}) : rest, 1});
    }
    entries_[id].object = std::move(part);
    return true;
}

bool DeferralAnalysis::read_array(uint32_t id, const KeywordValues& values) {
    PyObject* items = at(values, Role::Items);
    PyObject* prefix = at(values, Role::PrefixItems);
    Role first_ones = Role::PrefixItems, rest_role = Role::Items;
    if (items && PyList_Check(items)) {  // before draft 2020-12
        if (prefix) return false;
        prefix = items, first_ones = Role::Items;
        items = at(values, Role::AdditionalItems), rest_role = Role::AdditionalItems;
    }
    const auto low = count(at(values, Role::MinItems), 0), high = count(at(values, Role::MaxItems), kMaxBound);
    if (!low || !high || *low > kMaxCount || *low > *high || at(values, Role::UniqueItems) == Py_True) return false;
    const Py_ssize_t size = prefix ? NB_LIST_GET_SIZE(prefix) : 0;
    if (size > kMaxPrefix || (prefix && *high <= size) || (items && *high == 0)) return false;  // some subschemas are unreachable
    Part part;
    part.allowed = true;
    part.base = *low ? text_.open_array + text_.close_array + uint64_t{text_.comma} * (*low - 1) : text_.empty_array;
    const auto is_schema = [](PyObject* value) { return PyDict_Check(value) || value == Py_True; };
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* const item = NB_LIST_GET_ITEM(prefix, i);
        if (!is_schema(item)) return false;
        const uint32_t entry = child(id, first_ones, item, nullptr, i);
        if (i < *low) part.needs.push_back({entry, 1});
    }
    if (items && !is_schema(items) && !(items == Py_False && *low <= size)) return false;
    const uint32_t rest = items ? child(id, rest_role, items) : kTrue;
    if (*low > size) part.needs.push_back({rest, static_cast<uint32_t>(*low - size)});
    entries_[id].all_plain = size > 0;
    entries_[id].array = std::move(part);
    return true;
}

// ---------------------------------------------------------------- fixed points

void DeferralAnalysis::settle(uint32_t first) {
    if (settle_unknown(first) && settle_lengths(first) && settle_certified(first)) return;
    for (uint32_t id = first; id < entries_.size(); ++id) {  // no fixed point within the limit
        entries_[id].kind = Kind::Unanalysed;
        entries_[id].certified = false, entries_[id].unknown = true;
    }
}

/// Calls `change` for all schemas, last first because references mostly point forwards, until none changes. False after
/// `rounds` rounds.
template <class Change>
bool until_settled(uint32_t first, size_t end, int rounds, Change&& change) {
    for (; rounds > 0; --rounds) {
        bool changed = false;
        for (auto id = static_cast<uint32_t>(end); id-- > first;) changed |= change(id);
        if (!changed) return true;
    }
    return false;
}

/// Propagates unknown lengths to the schemas that depend on them.
bool DeferralAnalysis::settle_unknown(uint32_t first) {
    entries_[kFalse].unknown = true;
    const auto any_unknown = [&](const Part& part) {
        return std::ranges::any_of(part.needs, [&](const Need& need) { return entries_[need.entry].unknown; });
    };
    return until_settled(first, entries_.size(), kMaxRounds, [&](uint32_t id) {
        Entry& entry = entries_[id];
        if (entry.unknown && (entry.rule_unknown || entry.kind != Kind::Container)) return false;
        const bool rule_before = entry.rule_unknown, before = entry.unknown;
        if (entry.kind == Kind::Container) entry.rule_unknown = any_unknown(entry.object) || any_unknown(entry.array);
        const bool below = entry.kind == Kind::Either &&
                           std::ranges::any_of(entry.below, [&](uint32_t other) { return entries_[other].unknown; });
        entry.unknown = entry.kind == Kind::Unanalysed || entry.scalar_unknown || entry.rule_unknown || below;
        return entry.unknown != before || entry.rule_unknown != rule_before;
    });
}

/// Minimum length of objects or arrays so far; kNone if unknown or none.
uint32_t DeferralAnalysis::length_of(const Part& part) const {
    if (!part.allowed) return kNone;
    uint64_t length = part.base;
    for (const Need& need : part.needs) {
        if (entries_[need.entry].length == kNone) return kNone;
        length += uint64_t{entries_[need.entry].length} * need.times;
    }
    return length > kMaxLength ? kNone : static_cast<uint32_t>(length);
}

/// Least fixed point of the lengths.
bool DeferralAnalysis::settle_lengths(uint32_t first) {
    return until_settled(first, entries_.size(), kMaxRounds, [&](uint32_t id) {
        Entry& entry = entries_[id];
        if (entry.kind == Kind::Unanalysed || entry.kind == Kind::Scalar) return false;
        const uint32_t before = entry.length, rule_before = entry.rule_length;
        if (entry.kind == Kind::Container) {
            entry.rule_length = std::min(length_of(entry.object), length_of(entry.array));
            entry.length = std::min(entry.scalar, entry.rule_length);
        } else {
            for (const uint32_t below : entry.below) entry.length = std::min(entry.length, entries_[below].length);
        }
        return entry.length != before || entry.rule_length != rule_before;
    });
}

bool DeferralAnalysis::settle_certified(uint32_t first) {
    const auto plain = [&](const Entry& entry) {
        return std::ranges::all_of(entry.below, [&](uint32_t below) { return entries_[below].certified; });
    };
    for (uint32_t id = first; id < entries_.size(); ++id) {
        Entry& entry = entries_[id];
        entry.certified = entry.kind == Kind::Scalar || (entry.kind == Kind::Container && !entry.rule_unknown &&
                                                         (!entry.object.allowed || length_of(entry.object) != kNone) &&
                                                         (!entry.array.allowed || length_of(entry.array) != kNone));
    }
    bool settled = until_settled(first, entries_.size(), kMaxRounds, [&](uint32_t id) {  // a cycle of references alone is never certified
        Entry& entry = entries_[id];
        if (entry.kind != Kind::Either || entry.certified || !plain(entry)) return false;
        return entry.certified = true;
    });
    settled = settled && until_settled(first, entries_.size(), kMaxRounds, [&](uint32_t id) {
        Entry& entry = entries_[id];
        const bool wrong = entry.certified && (entry.kind == Kind::Either || entry.all_plain) && !plain(entry);
        if (wrong) entry.certified = false;
        return wrong;
    });
    return settled;
}

}  // namespace schemas
