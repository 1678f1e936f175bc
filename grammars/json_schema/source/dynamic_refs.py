"""``$dynamicRef`` and ``$recursiveRef``: references whose target depends on the dynamic scope.

All that matters of the dynamic scope is, for each dynamic anchor, the first entered resource that declares it. A resource
that can be entered in several dynamic scopes is copied once per scope: `enter_resource` returns the copy of a target,
and the schemas below a copy belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from constrained.grammars.json_schema.source.document import SchemaDocument, SchemaNode

DynamicScope = Mapping[str, SchemaNode]

RECURSIVE_ANCHOR = ""
"""The name of the dynamic anchor that ``$recursiveAnchor`` declares."""


def dynamic_scope_of(document: SchemaDocument, resource: SchemaNode) -> DynamicScope:
    """For each dynamic anchor, the schema that declares it first on the path to a resource."""
    if resource.dynamic_scope is None:
        before = (
            {} if resource.parent_resource is None else dynamic_scope_of(document, resource.parent_resource)
        )
        resource.dynamic_scope = {**document.dynamic_anchors().get(resource.base, {}), **before}
    return resource.dynamic_scope


def enter_resource(document: SchemaDocument, node: SchemaNode, target: SchemaNode) -> SchemaNode:
    """The target of a reference at `node`: the schema itself, or its copy for the dynamic scope at `node`."""
    home = target.resource
    if home is node.resource or not document.dynamic_anchors():
        return target
    scope = {**document.dynamic_anchors().get(home.base, {}), **dynamic_scope_of(document, node.resource)}
    if scope == dynamic_scope_of(document, home):
        return target
    way = ", ".join(sorted(f"#{anchor} is {place.pointer}" for anchor, place in scope.items()))
    resource = _copy(document, home, way, None)
    resource.dynamic_scope = scope
    return resource if target is home else _copy(document, target, way, resource)


def _copy(document: SchemaDocument, node: SchemaNode, way: str, resource: SchemaNode | None) -> SchemaNode:
    pointer = f"{node.pointer} (where {way})"
    copy = document.nodes.get(pointer)
    if copy is None:
        copy = document.nodes[pointer] = SchemaNode(node.value, pointer, resource, node.base)
        copy.dialect = node.dialect
    return copy


def resolve_dynamic_ref(
    document: SchemaDocument, node: SchemaNode, anchor: str, target: SchemaNode
) -> SchemaNode:
    """The target of a dynamic reference at `node`; `target` is where it points statically."""
    first = dynamic_scope_of(document, node.resource).get(anchor)
    return enter_resource(document, node, target if first is None else first)
