"""``$dynamicRef`` and ``$recursiveRef``: references whose target depends on the way that led to them.

The way matters by one thing only: for each dynamic anchor, which of the resources entered so far was the first to
have it. That map is the *scope*. A resource that can be entered with several scopes stands for as many schemas:
`entered` gives a copy of the target for the scope at hand, and all that is below the copy belongs to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from grammars.json_schema.source.document import Document, Node

Scope = Mapping[str, Node]

RECURSIVE = ""
"""The anchor that ``$recursiveAnchor`` stands for."""


def scope_of(document: Document, resource: Node) -> Scope:
    """For each dynamic anchor, the first schema with it on the way to a resource."""
    if resource.scope is None:
        before = {} if resource.outer is None else scope_of(document, resource.outer)
        resource.scope = {**document.dynamic_anchors().get(resource.base, {}), **before}
    return resource.scope


def entered(document: Document, node: Node, target: Node) -> Node:
    """What a reference at `node` to a schema leads to: the schema itself, or its copy for the scope at `node`."""
    home = target.resource
    if home is node.resource or not document.dynamic_anchors():
        return target
    scope = {**document.dynamic_anchors().get(home.base, {}), **scope_of(document, node.resource)}
    if scope == scope_of(document, home):
        return target
    way = ", ".join(sorted(f"#{anchor} is {place.pointer}" for anchor, place in scope.items()))
    resource = _copy(document, home, way, None)
    resource.scope = scope
    return resource if target is home else _copy(document, target, way, resource)


def _copy(document: Document, node: Node, way: str, resource: Node | None) -> Node:
    pointer = f"{node.pointer} (where {way})"
    found = document.nodes.get(pointer)
    if found is None:
        found = document.nodes[pointer] = Node(node.value, pointer, resource, node.base)
        found.draft = node.draft
    return found


def first_with(document: Document, node: Node, anchor: str, target: Node) -> Node:
    """What a dynamic reference at `node` leads to, of which `target` is the static one."""
    first = scope_of(document, node.resource).get(anchor)
    return entered(document, node, target if first is None else first)
