"""Schemas that do not stand in the document as they are: conjunctions, disjunctions, negations, true and false; copies by dynamic scope.

Each is interned as one node of its document, so that recursive schemas lead back to the same node.

The target of ``$dynamicRef`` and ``$recursiveRef`` depends on the dynamic scope. All that matters of it is, for each dynamic anchor,
the first entered resource that declares it. A resource that can be entered in several dynamic scopes is copied once per scope:
`enter_resource` returns the copy of a target, and the schemas below a copy belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


DynamicScope = Mapping[str, SchemaNode]

RECURSIVE_ANCHOR = ""
"""The name of the dynamic anchor that ``$recursiveAnchor`` declares."""


def dynamic_scope_of(resource: SchemaNode) -> DynamicScope:
    """For each dynamic anchor, the schema that declares it first on the path to a resource."""
    if resource.dynamic_scope is None:
        before = {} if resource.parent_resource is None else dynamic_scope_of(resource.parent_resource)
        resource.dynamic_scope = {**resource.document.dynamic_anchors().get(resource.base, {}), **before}
    return resource.dynamic_scope


def enter_resource(node: SchemaNode, target: SchemaNode) -> SchemaNode:
    """The target of a reference at `node`: the schema itself, or its copy for the dynamic scope at `node`."""
    home = target.resource
    if home is node.resource or not (anchors := node.document.dynamic_anchors()):
        return target
    scope = {**anchors.get(home.base, {}), **dynamic_scope_of(node.resource)}
    if scope == dynamic_scope_of(home):
        return target
    way = ", ".join(sorted(f"#{anchor} is {place.pointer}" for anchor, place in scope.items()))
    resource = _copy(home, way, None)
    resource.dynamic_scope = scope
    return resource if target is home else _copy(target, way, resource)


def _copy(node: SchemaNode, way: str, resource: SchemaNode | None) -> SchemaNode:
    pointer = f"{node.pointer} (where {way})"
    copy = node.document.nodes.get(pointer)
    if copy is None:
        copy = node.document.nodes[pointer] = SchemaNode(node.value, pointer, resource, node.base)
        copy.document, copy.dialect = node.document, node.dialect
    return copy


def resolve_dynamic_ref(node: SchemaNode, anchor: str, target: SchemaNode) -> SchemaNode:
    """The target of a dynamic reference at `node`; `target` is where it points statically."""
    first = dynamic_scope_of(node.resource).get(anchor)
    return enter_resource(node, target if first is None else first)
