"""Synthetic schemas, which do not stand in the document: conjunctions, disjunctions, negations, true and false.

Each is interned as one node of its document, so that recursive schemas lead back to the same node.
"""

from __future__ import annotations

from collections.abc import Sequence

from grammars.json_schema.source.constraints import ParsedSchema, TypeConstraints
from grammars.json_schema.source.document import SchemaDocument, SchemaNode


def negation_of(node: SchemaNode) -> SchemaNode:
    """The negation of a schema; it is computed when it is first parsed."""
    if node.negation is None:
        node.negation = found = SchemaNode({}, f"not {node.pointer}", node.resource, node.base)
        found.made = True
        found.negates, found.negation = node, node
    return node.negation


def conjunction_of(document: SchemaDocument, nodes: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy all of these."""
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
    """A schema with these constraints, and with `also` in its ``allOf``."""
    found = document.made(node, label, {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.constraints = constraints
        found.parsed.limits = constraints.limits()
        found.parsed.all_of = tuple(also)
    return found


def none_or_many_of(document: SchemaDocument, branches: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy none of these, or more than one."""
    found = document.made(branches[0], f"not just one of {len(branches)}", {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.none_or_many = (branches,)
    return found


def disjunction_of(document: SchemaDocument, branches: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy at least one of these."""
    if len(branches) == 1:
        return branches[0]
    found = document.made(branches[0], f"or {', '.join(node.pointer for node in branches[1:])}", {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.any_of = (("anyOf", list(branches)),)
    return found


def unevaluated_violation(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema of the values that violate an ``unevaluated*`` keyword of `node`."""
    found = document.made(node, "wrong in what is not evaluated", {})
    if found.parsed is None:
        found.parsed = ParsedSchema()
        found.parsed.violated_unevaluated = node
    return found


def true_schema(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema ``true``."""
    return document.made(node.resource, "anything", True)


def false_schema(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema ``false``."""
    return document.made(node.resource, "nothing", False)


def is_true_schema(node: SchemaNode) -> bool:
    """Whether a schema is ``true`` or ``{}``."""
    return node.negates is None and not node.made and (node.value is True or node.value == {})
