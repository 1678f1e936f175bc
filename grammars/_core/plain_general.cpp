#include <nanobind/stl/string.h>

#include "plain_lowering.hpp"

namespace schemas {

/// The values of a schema: where it is not plain, the general lowering has it whole, and hands back the plain schemas of members and
/// items below it.
ExprNode PlainLowering::value(PyObject* schema, const Place& place) {
    const ExprNode node = ended_ ? kNone : plain_value(schema, place);
    return node != kNone || ended_ || !PyDict_Check(schema) ? node : general_value(place.pointer());
}

/// Whether the values of a schema may be one rule: it has no scalars, or it is alternatives.
bool PlainLowering::may_be_one_rule(PyObject* schema) {
    Limits limits;
    for (int steps = 0; steps < kMaxReferences && schema && PyDict_Check(schema) && read_limits(schema, limits); ++steps) {
        if (!limits[Role::Ref]) {
            if (limits.any({Role::AllOf, Role::AnyOf, Role::OneOf})) return true;
            return limits[Role::Type] && !(types_of(limits[Role::Type]) & ~(kArray | kObject));
        }
        std::string pointer;
        schema = resolve(limits[Role::Ref], pointer);
        limits = Limits();
    }
    return false;
}

/// The general lowering, which may call back from now on.
nb::object PlainLowering::general() {
    if (asked_) return lowering();
    asked_ = true;
    // Names with a lone surrogate have no UTF-8: the walk has no rules of them.
    const auto rule_of = [this](nb::handle schema, nb::handle place) -> nb::object {
        const auto text = utf8(place.ptr());
        const std::string pointer(text.value_or(""));
        const ExprNode node = text && may_be_one_rule(schema.ptr()) ? plain_value(schema.ptr(), {pointer}) : kNone;
        const int32_t rule = node < 0 ? kNone : out_.only_called(node);
        return rule == kNone ? nb::none() : nb::object(nb::str(rules_[rule].name.data(), rules_[rule].name.size()));
    };
    const auto has_rule = [this](nb::handle schema, nb::handle place) {
        const auto text = utf8(place.ptr());
        const std::string pointer(text.value_or(""));
        return text && plain_value(schema.ptr(), {pointer}) >= 0 && rule_at_.contains(pointer);
    };
    lowering().attr("attach")(nb::cpp_function(rule_of), nb::cpp_function(has_rule));
    return lowering();
}

ExprNode PlainLowering::general_value(const std::string& pointer) {
    if ((ended_ = identified_ && refers_)) return kNone;
    const nb::object found = general().attr("value_at")(pointer);
    if (found.ptr() == Py_False) return kNever;
    const nb::object expr = found[0], name = found[1];
    const auto text = name.is_none() ? "" : utf8(name.ptr());
    if ((ended_ = !text)) return kNone;
    const int32_t rule = name.is_none() ? kNone : number_of(std::string(*text));
    if (expr.is_none()) return out_.call(rule);
    const ExprNode node = out_.expr_leaf(out_.leaf(expr));
    if (rule != kNone) out_.suffices(node, rule);
    return node;
}

/// Leaves the body of a rule to the general lowering. False if it cannot have it.
bool PlainLowering::hand_over(size_t at) {
    if (ended_ || (identified_ && refers_) || rules_[at].name != rules_[at].pointer) return false;
    rules_[at].general = true, rules_[at].known_needs = false;
    return nb::cast<bool>(general().attr("enqueue_at")(rules_[at].pointer));
}

/// The number of a rule, which the general lowering makes if the walk does not.
int32_t PlainLowering::number_of(const std::string& name) {
    if (const auto known = rule_at_.find(name); known != rule_at_.end()) return known->second;
    const int32_t rule = enqueue(name, "", nullptr, 0);
    rules_[rule].general = true;
    return rule;
}

/// Takes the bodies of the rules of the general lowering, but for those that the walk has made too: a name says which schemas a rule
/// conjoins. False if one is missing.
bool PlainLowering::take_general_bodies() {
    for (const auto [name, body] : nb::cast<nb::dict>(lowering().attr("rules"))) {
        const auto text = utf8(name.ptr());
        if (!text) return false;
        Rule& rule = rules_[number_of(std::string(*text))];
        if (rule.general) rule.body = out_.expr_leaf(out_.leaf(body));
    }
    return std::ranges::none_of(rules_, [](const Rule& rule) { return rule.body == kNone; });
}

/// Whether the start is known to derive some text; without general rules, whether every rule is.
bool PlainLowering::has_values(ExprNode start) {
    std::vector<bool> productive(rules_.size());
    const size_t left = settle_productive(productive);
    if (!asked_) return left == 0;
    const auto name_of = [&](int32_t rule) { return nb::str(rules_[rule].name.data(), rules_[rule].name.size()); };
    nb::list known;
    nb::dict needs;  // of the other rules that are made here
    for (size_t at = 0; at < rules_.size(); ++at) {
        const Rule& rule = rules_[at];
        if (productive[at]) {
            known.append(name_of(static_cast<int32_t>(at)));
        } else if (rule.known_needs) {
            nb::list called;
            for (const int32_t need : rule.needs) called.append(name_of(need));
            needs[name_of(static_cast<int32_t>(at))] = called;
        }
    }
    const int32_t called_rule = out_.called(start);
    return called_rule == kNone || nb::cast<bool>(lowering().attr("has_values")(known, needs, name_of(called_rule)));
}

}  // namespace schemas
