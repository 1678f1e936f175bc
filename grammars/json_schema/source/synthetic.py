"""Synthetic schemas, which do not stand in the document: conjunctions, disjunctions, negations, true and false.

Each is interned as one node of its document, so that recursive schemas lead back to the same node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constrained.grammars.json_schema.source.constraints import ParsedSchema, TypeConstraints
from constrained.grammars.json_schema.source.document import SchemaNode


def negation_of(node: SchemaNode) -> SchemaNode:
    """The negation of a schema; it is computed when it is first parsed."""
    if node.negation is None:
        node.negation = negated = SchemaNode({}, f"not {node.pointer}", node.resource, node.base)
        negated.is_synthetic = True
        negated.negates, negated.negation = node, node
    return node.negation


def _following(node: SchemaNode, label: str, **parsed: Any) -> SchemaNode:
    """The schema of these attributes of `ParsedSchema` that follows from a node, made once for each label."""
    schema = node.synthetic(label, {})
    if schema.parsed is None:
        schema.parsed = ParsedSchema(**parsed)
    return schema


def conjunction_of(nodes: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy all of these."""
    if len(nodes) == 1:
        return nodes[0]
    others = ", ".join(node.pointer for node in nodes[1:])
    return _following(nodes[0], f"with {others}", all_of=tuple(nodes))


def constraint_schema(
    node: SchemaNode, label: str, constraints: TypeConstraints, also: Sequence[SchemaNode] = ()
) -> SchemaNode:
    """A schema with these constraints, and with `also` in its ``allOf``."""
    return _following(node, label, constraints=constraints, all_of=tuple(also))


def none_or_many_of(node: SchemaNode, branches: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy none of the branches of ``oneOf`` at `node`, or more than one."""
    return _following(branches[0], f"not just one at {node.pointer}", none_or_many=(branches,))


def disjunction_of(branches: Sequence[SchemaNode]) -> SchemaNode:
    """The schema of the values that satisfy at least one of these."""
    if len(branches) == 1:
        return branches[0]
    others = ", ".join(node.pointer for node in branches[1:])
    return _following(branches[0], f"or {others}", any_of=(("anyOf", list(branches)),))


def unevaluated_violation(node: SchemaNode) -> SchemaNode:
    """The schema of the values that violate an ``unevaluated*`` keyword of `node`."""
    return _following(node, "wrong in what is not evaluated", violated_unevaluated=node)


def true_schema(node: SchemaNode) -> SchemaNode:
    """The schema ``true``."""
    return node.resource.synthetic("anything", True)


def false_schema(node: SchemaNode) -> SchemaNode:
    """The schema ``false``."""
    return node.resource.synthetic("nothing", False)


def is_true_schema(node: SchemaNode) -> bool:
    """Whether a schema is ``true`` or ``{}``."""
    return node.negates is None and not node.is_synthetic and (node.value is True or node.value == {})
