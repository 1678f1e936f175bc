// Reads the Python objects of `constrained.grammars.ir`, or packed rules, into the arrays of `flat_grammar.hpp`.
//
// Invariants
//  * Nodes compare by identity: a shared object becomes one node.
//  * No function recurses over the objects: they may be nested arbitrarily deep.
// Thread safety: needs the GIL, and neither takes nor needs the shard's lock; the stores read the arrays afterwards without
// the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include "flat_grammar.hpp"

namespace core {

/// Node indices by the address of the Python object.
class NodeIndex {
public:
    NodeIndex() : slots_(64) {}

    /// -1 if there is none.
    int32_t find(const PyObject* object) const {
        for (size_t at = place(object);; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at].object == object) return slots_[at].node_index;
            if (!slots_[at].object) return -1;
        }
    }

    /// `object` must not be in the index.
    void insert(const PyObject* object, int32_t node_index) {
        if (++count_ * 2 > slots_.size()) {
            std::vector<Slot> old(slots_.size() * 2);
            old.swap(slots_);
            for (const Slot& slot : old) {
                if (slot.object) put(slot);
            }
        }
        put({object, node_index});
    }

private:
    struct Slot {
        const PyObject* object = nullptr;
        int32_t node_index = 0;
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
    /// `known`: residual ids of regular expressions that the shard has read; these become references.
    explicit IrReader(nanobind::dict known) : known_(std::move(known)) {}

    /// Reads rules, a dict from names to expressions.
    /// Throws KeyError for a call of an unknown rule, TypeError for an object that is not a node.
    void read(nanobind::dict rules, nanobind::handle start);
    /// Reads packed rules, a `constrained.grammars.packed.PackedRules`.
    void read_packed(nanobind::handle rules);
    /// The node of a regular expression; reads it if necessary.
    int32_t node_index(nanobind::handle regex) { return add(regex.ptr(), regex_nodes_, regex_stack_); }
    /// Adds the expressions read by this reader to `known`; `ids` are the residual ids of the nodes.
    void remember(const std::vector<RegexId>& ids);

    /// Whether the rules have marks (marks.hpp).
    bool marked() const { return marked_; }

    FlatRegexes regexes;
    FlatGrammar grammar;  // without `terminals`

private:
    int32_t add(PyObject* root, NodeIndex& nodes, std::vector<PyObject*>& stack);
    void emit_regex(PyObject* node, Op op);
    void emit_expr(PyObject* node, Op op);
    int32_t rule_of(PyObject* call);
    uint32_t number(nanobind::handle name);

    nanobind::dict known_;
    nanobind::dict rule_index_;
    NodeIndex regex_nodes_, expr_nodes_;
    std::vector<PyObject*> regex_stack_, expr_stack_;
    bool marked_ = false;
    std::vector<bool> documents_;  // by regular expression: whether it contains a document
    std::vector<std::pair<PyObject*, int32_t>> fresh_;  // for `remember`, with their nodes
};

}  // namespace core
