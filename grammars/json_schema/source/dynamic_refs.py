"""``$dynamicRef`` and ``$recursiveRef``: references whose target depends on the dynamic scope.

All that matters of the dynamic scope is, for each dynamic anchor, the first entered resource that declares it. A resource
that can be entered in several dynamic scopes is copied once per scope: `enter_resource` returns the copy of a target,
and the schemas below a copy belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from constrained.grammars.json_schema.source.document import SchemaNode

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
