// Reading the Python objects of `grammars.ir` into the arrays of `grammar.hpp`.
//
// Invariants
//  * Nodes compare by identity: a node that is shared is one row, whatever refers to it.
//  * Needs the GIL, and neither takes nor needs the vocabulary's lock: the arrays are read afterwards, without the GIL.
//  * Nothing recurses over the nodes: they may be nested as deep as a user likes.
#pragma once

#include <nanobind/nanobind.h>

#include "grammar.hpp"

namespace core {

/// Rows by the address of the object that they were made of.
class RowIndex {
public:
    RowIndex() : slots_(64) {}

    /// -1 when there is none.
    int32_t find(const PyObject* object) const {
        for (size_t at = place(object);; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at].object == object) return slots_[at].row;
            if (!slots_[at].object) return -1;
        }
    }

    /// `object` must not be there yet.
    void insert(const PyObject* object, int32_t row) {
        if (++count_ * 2 > slots_.size()) {
            std::vector<Slot> old(slots_.size() * 2);
            old.swap(slots_);
            for (const Slot& slot : old) {
                if (slot.object) put(slot);
            }
        }
        put({object, row});
    }

private:
    struct Slot {
        const PyObject* object = nullptr;
        int32_t row = 0;
    };

    size_t place(const PyObject* object) const { return mix(reinterpret_cast<uintptr_t>(object)) & (slots_.size() - 1); }
    void put(const Slot& slot) {
        size_t at = place(slot.object);
        while (slots_[at].object) at = (at + 1) & (slots_.size() - 1);
        slots_[at] = slot;
    }

    std::vector<Slot> slots_;
    size_t count_ = 0;
};

class IrReader {
public:
    /// `known`: numbers of regular expressions that the core has read before; these become references.
    /// `index`: numbers of rules by name, of those that are read and of those whose bodies come later. A rule that is
    /// called and is not among them comes later, if its length is known: `lengths`.
    explicit IrReader(nanobind::dict known, nanobind::dict index = {}, nanobind::dict lengths = {})
        : known_(std::move(known)), rule_index_(std::move(index)), lengths_(std::move(lengths)) {}

    /// Reads rules, a dict from names to expressions.
    /// Throws KeyError for a rule that is called and does not exist, TypeError for what is no node.
    void read(nanobind::dict rules, nanobind::handle start);
    /// Reads the body of a rule that has a number.
    void read_body(nanobind::handle body) { grammar.rules.push_back(add(body.ptr(), expr_rows_, expr_stack_)); }
    /// The row of a regular expression, read now if it was not.
    int32_t row(nanobind::handle regex) { return add(regex.ptr(), regex_rows_, regex_stack_); }
    /// Adds the expressions that were read to `known`; `ids` are those of their rows.
    void remember(const std::vector<RegexId>& ids);

    /// Numbers of rules by name; and the names that were given one by this reader, in that order.
    const nanobind::dict& index() const { return rule_index_; }
    const std::vector<nanobind::object>& names() const { return names_; }

    FlatRegexes regexes;
    FlatGrammar grammar;  // without the ids of its terminals

private:
    int32_t add(PyObject* root, RowIndex& rows, std::vector<PyObject*>& stack);
    void emit_regex(PyObject* node, Op op);
    void emit_expr(PyObject* node, Op op);
    int32_t rule_of(PyObject* call);
    uint32_t number(nanobind::handle name);

    nanobind::dict known_;
    nanobind::dict rule_index_, lengths_;
    std::vector<nanobind::object> names_;
    RowIndex regex_rows_, expr_rows_;
    std::vector<PyObject*> regex_stack_, expr_stack_;
    std::vector<std::pair<PyObject*, int32_t>> fresh_;  // worth remembering, with their rows
};

}  // namespace core
