"""Schemas that stand nowhere but follow from others: all of several, the negation of one, nothing at all.

Each is one node of its document however often it is asked for, so that recursion comes back to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from grammars.json_schema.source.constraints import ParsedSchema, TypeConstraints
from grammars.json_schema.source.document import SchemaDocument, SchemaNode


def negation_of(node: SchemaNode) -> SchemaNode:
    """The schema of the values that a schema does not allow; what it says is found when it is first read."""
    if node.negation is None:
        node.negation = found = SchemaNode({}, f"not {node.pointer}", node.resource, node.base)
        found.made = True
        found.negates, found.negation = node, node
    return node.negation


def conjunction_of(document: SchemaDocument, nodes: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that all of these allow."""
    if len(nodes) == 1:
        return nodes[0]
    found = document.made(nodes[0], f"with {', '.join(node.pointer for node in nodes[1:])}", {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.all_of = tuple(nodes)
    return found


def constraint_schema(
    document: SchemaDocument,
    node: SchemaNode,
    label: str,
    constraints: TypeConstraints,
    also: Sequence[SchemaNode] = (),
) -> SchemaNode:
    """A schema that says what a shape says, and more schemas."""
    found = document.made(node, label, {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.constraints = constraints
        found.parsed.limits = constraints.limits()
        found.parsed.all_of = tuple(also)
    return found


def none_or_many_of(document: SchemaDocument, branches: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that none of these allows, or more than one."""
    found = document.made(branches[0], f"not just one of {len(branches)}", {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.none_or_many = (branches,)
    return found


def disjunction_of(document: SchemaDocument, branches: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that one of these allows, or more."""
    if len(branches) == 1:
        return branches[0]
    found = document.made(branches[0], f"or {', '.join(node.pointer for node in branches[1:])}", {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.any_of = (("anyOf", list(branches)),)
    return found


def unevaluated_violation(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema of the values in which something that `node` leaves unevaluated is wrong."""
    found = document.made(node, "wrong in what is not evaluated", {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.violated_unevaluated = node
    return found


def true_schema(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema that allows every value."""
    return document.made(node.resource, "anything", True)


def false_schema(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema that allows no value."""
    return document.made(node.resource, "nothing", False)


def is_true_schema(node: SchemaNode) -> bool:
    """Whether a schema plainly says nothing."""
    return node.negates is None and not node.made and (node.value is True or node.value == {})
