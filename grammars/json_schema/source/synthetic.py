"""Synthetic schemas, which do not stand in the document: conjunctions, disjunctions, negations, true and false.

Each is interned as one node of its document, so that recursive schemas lead back to the same node.
"""

from __future__ import annotations

from collections.abc import Sequence

from constrained.grammars.json_schema.source.constraints import ParsedSchema, TypeConstraints
from constrained.grammars.json_schema.source.document import SchemaDocument, SchemaNode


def negation_of(node: SchemaNode) -> SchemaNode:
    """The negation of a schema; it is computed when it is first parsed."""
    if node.negation is None:
        node.negation = negated = SchemaNode({}, f"not {node.pointer}", node.resource, node.base)
        negated.is_synthetic = True
        negated.negates, negated.negation = node, node
    return node.negation


def conjunction_of(document: SchemaDocument, nodes: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy all of these."""
    if len(nodes) == 1:
        return nodes[0]
    conjunction = document.synthetic(nodes[0], f"with {', '.join(node.pointer for node in nodes[1:])}", {})
    if conjunction.parsed is None:
        conjunction.parsed = ParsedSchema()
        conjunction.parsed.all_of = tuple(nodes)
    return conjunction


def constraint_schema(
    document: SchemaDocument,
    node: SchemaNode,
    label: str,
    constraints: TypeConstraints,
    also: Sequence[SchemaNode] = (),
) -> SchemaNode:
    """A schema with these constraints, and with `also` in its ``allOf``."""
    schema = document.synthetic(node, label, {})
    if schema.parsed is None:
        schema.parsed = ParsedSchema()
        schema.parsed.constraints = constraints
        schema.parsed.limits = constraints.limits()
        schema.parsed.all_of = tuple(also)
    return schema


def none_or_many_of(document: SchemaDocument, node: SchemaNode, branches: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy none of the branches of ``oneOf`` at `node`, or more than one."""
    schema = document.synthetic(branches[0], f"not just one at {node.pointer}", {})
    if schema.parsed is None:
        schema.parsed = ParsedSchema()
        schema.parsed.none_or_many = (branches,)
    return schema


def disjunction_of(document: SchemaDocument, branches: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy at least one of these."""
    if len(branches) == 1:
        return branches[0]
    disjunction = document.synthetic(
        branches[0], f"or {', '.join(node.pointer for node in branches[1:])}", {}
    )
    if disjunction.parsed is None:
        disjunction.parsed = ParsedSchema()
        disjunction.parsed.any_of = (("anyOf", list(branches)),)
    return disjunction


def unevaluated_violation(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema of the values that violate an ``unevaluated*`` keyword of `node`."""
    violation = document.synthetic(node, "wrong in what is not evaluated", {})
    if violation.parsed is None:
        violation.parsed = ParsedSchema()
        violation.parsed.violated_unevaluated = node
    return violation


def true_schema(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema ``true``."""
    return document.synthetic(node.resource, "anything", True)


def false_schema(document: SchemaDocument, node: SchemaNode) -> SchemaNode:
    """The schema ``false``."""
    return document.synthetic(node.resource, "nothing", False)


def is_true_schema(node: SchemaNode) -> bool:
    """Whether a schema is ``true`` or ``{}``."""
    return node.negates is None and not node.is_synthetic and (node.value is True or node.value == {})
