"""Schemas that stand nowhere but follow from others: all of several, the negation of one, nothing at all.

Each is one node of its document however often it is asked for, so that recursion comes back to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from grammars.json_schema.source.constraints import Facts, Shape
from grammars.json_schema.source.document import Document, Node


def negated(node: Node) -> Node:
    """The schema of the values that a schema does not allow; what it says is found when it is first read."""
    if node.negation is None:
        node.negation = found = Node({}, f"not {node.pointer}", node.resource, node.base)
        found.made = True
        found.denies, found.negation = node, node
    return node.negation


def together(document: Document, nodes: Sequence[Node]) -> Node:
    """The schema of the values that all of these allow."""
    if len(nodes) == 1:
        return nodes[0]
    found = document.made(nodes[0], f"with {', '.join(node.pointer for node in nodes[1:])}", {})
    if found.facts is None:
        found.facts = Facts()
        found.facts.also = tuple(nodes)
    return found


def shaped(document: Document, node: Node, label: str, shape: Shape, also: Sequence[Node] = ()) -> Node:
    """A schema that says what a shape says, and more schemas."""
    found = document.made(node, label, {})
    if found.facts is None:
        found.facts = Facts()
        found.facts.shape = shape
        found.facts.limits = shape.limits()
        found.facts.also = tuple(also)
    return found


def not_one(document: Document, branches: Sequence[Node]) -> Node:
    """The schema of the values that none of these allows, or more than one."""
    found = document.made(branches[0], f"not just one of {len(branches)}", {})
    if found.facts is None:
        found.facts = Facts()
        found.facts.several = (branches,)
    return found


def some_of(document: Document, branches: Sequence[Node]) -> Node:
    """The schema of the values that one of these allows, or more."""
    if len(branches) == 1:
        return branches[0]
    found = document.made(branches[0], f"or {', '.join(node.pointer for node in branches[1:])}", {})
    if found.facts is None:
        found.facts = Facts()
        found.facts.either = (("anyOf", list(branches)),)
    return found


def wrong_rest(document: Document, node: Node) -> Node:
    """The schema of the values in which something that `node` leaves unevaluated is wrong."""
    found = document.made(node, "wrong in what is not evaluated", {})
    if found.facts is None:
        found.facts = Facts()
        found.facts.wrong_rest = node
    return found


def anything(document: Document, node: Node) -> Node:
    """The schema that allows every value."""
    return document.made(node.resource, "anything", True)


def nothing(document: Document, node: Node) -> Node:
    """The schema that allows no value."""
    return document.made(node.resource, "nothing", False)


def allows_all(node: Node) -> bool:
    """Whether a schema plainly says nothing."""
    return node.denies is None and not node.made and (node.value is True or node.value == {})
