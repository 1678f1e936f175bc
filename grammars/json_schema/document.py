"""Schema documents: which object is a schema, where it stands, and what a reference points at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin

from grammars.errors import InvalidConstraint, Problem, UnsupportedConstraint

if TYPE_CHECKING:
    from grammars.json_schema.drafts import Draft
    from grammars.json_schema.facts import Facts


class Node:
    """A schema at its place.

    Attributes:
        value: the schema, an object or a boolean.
        pointer: JSON Pointer as a URI fragment, shown to people and unique in the document.
        resource: the schema with an identifier that this one belongs to: what ``#`` means here.
        base: URI that references are relative to.
        facts: what the schema itself says, filled in when it is first read.
        made: it does not stand in the document but follows from one that does.
    """

    __slots__ = ("base", "facts", "made", "pointer", "resource", "value")

    def __init__(self, value: Any, pointer: str, resource: Node | None, base: str) -> None:
        self.value = value
        self.pointer = pointer
        self.resource: Node = resource or self
        self.base = base
        self.facts: Facts | None = None
        self.made = False

    def __repr__(self) -> str:
        return f"Node({self.pointer})"


def step(pointer: str, *tokens: str | int) -> str:
    """The pointer of a child."""
    for token in tokens:
        text = str(token)
        if "~" in text or "/" in text:
            text = text.replace("~", "~0").replace("/", "~1")
        pointer = f"{pointer}/{text}"
    return pointer


def _join(base: str, reference: str, pointer: str) -> str:
    """A URI reference resolved, without its fragment."""
    try:
        return urldefrag(urljoin(base, reference)).url
    except ValueError as error:
        raise InvalidConstraint(
            "the schema is malformed", Problem(pointer, f"not a URI ({error})", reference)
        ) from None


class Document:
    """A schema document and the nodes in it that have been looked at."""

    def __init__(self, schema: Any, draft: Draft) -> None:
        self.draft = draft
        self.nodes: dict[str, Node] = {}
        self.named: dict[str, Node] | None = None
        identifier = schema.get(draft.id_keyword) if isinstance(schema, dict) else None
        base = identifier if isinstance(identifier, str) else ""
        self.root = self.nodes["#"] = Node(schema, "#", None, _join("", base, "#"))

    def child(self, parent: Node, *tokens: str | int) -> Node:
        """The schema found by following tokens down from a schema."""
        pointer = step(parent.pointer, *tokens)
        node = self.nodes.get(pointer)
        if node is None:
            value = parent.value
            for token in tokens:
                value = value[token]
            node = self.nodes[pointer] = self._node(value, pointer, parent)
        return node

    def children(self, parent: Node, keyword: str, names: Mapping[str, Any]) -> dict[str, Node]:
        """The schemas by name under a keyword, all at once."""
        found = {}
        nodes = self.nodes
        place = f"{parent.pointer}/{keyword}"
        for name, value in names.items():
            plain = "~" not in name and "/" not in name
            pointer = f"{place}/{name}" if plain else step(place, name)
            node = nodes.get(pointer)
            if node is None:
                node = nodes[pointer] = self._node(value, pointer, parent)
            found[name] = node
        return found

    def _node(self, value: Any, pointer: str, parent: Node) -> Node:
        if not isinstance(value, dict) or self.draft.id_keyword not in value:
            return Node(value, pointer, parent.resource, parent.base)
        identifier = value[self.draft.id_keyword]
        ignored = self.draft.ref_alone and "$ref" in value
        if isinstance(identifier, str) and not identifier.startswith("#") and not ignored:
            return Node(value, pointer, None, _join(parent.base, identifier, pointer))
        return Node(value, pointer, parent.resource, parent.base)

    def made(self, parent: Node, label: str, value: Any) -> Node:
        """A schema that does not stand in the document but follows from one that does."""
        pointer = f"{parent.pointer} ({label})"
        node = self.nodes.get(pointer)
        if node is None:
            node = self.nodes[pointer] = Node(value, pointer, parent.resource, parent.base)
            node.made = True
        return node

    def resolve(self, node: Node, reference: str) -> Node:
        """The schema that a ``$ref`` at `node` points at.

        Raises:
            InvalidConstraint: nothing is there.
            UnsupportedConstraint: it points out of the document.
        """
        url, _, fragment = reference.partition("#")
        target = _join(node.base, url, node.pointer) if url else node.base
        fragment = unquote(fragment)
        start = node.resource
        if url and target != node.base:
            found = self._identified().get(target)
            if found is None:
                raise UnsupportedConstraint(
                    "1 keyword cannot be enforced",
                    Problem(step(node.pointer, "$ref"), "points out of the document", reference, "$ref"),
                    action="copy the schema it names into $defs and point there",
                )
            start = found
        if not fragment:
            return start
        if fragment.startswith("/"):
            return self._descend(start, fragment, node, reference)
        anchored = self._identified().get(f"{target}#{fragment}")
        if anchored is None:
            raise self._dangling(node, reference)
        return anchored

    def _dangling(self, node: Node, reference: str) -> InvalidConstraint:
        return InvalidConstraint(
            "the schema is malformed",
            Problem(step(node.pointer, "$ref"), "points at nothing", reference, "$ref"),
            action="correct the reference",
        )

    def _descend(self, start: Node, fragment: str, node: Node, reference: str) -> Node:
        current = start
        tokens: list[str | int] = []
        value = start.value
        for raw in fragment[1:].split("/"):
            token: str | int = raw.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list) and str(token).isdigit() and int(token) < len(value):
                token = int(token)
            elif not (isinstance(value, dict) and token in value):
                raise self._dangling(node, reference)
            tokens.append(token)
            value = value[token]
            if isinstance(value, dict) and self.draft.id_keyword in value:
                current = self.child(current, *tokens)  # its own base may change here
                tokens = []
        if tokens:
            current = self.child(current, *tokens)
        if not isinstance(current.value, (dict, bool)):
            raise self._dangling(node, reference)
        return current

    def _identified(self) -> dict[str, Node]:
        """Every schema with an identifier or an anchor, by URI."""
        if self.named is None:
            self.named = {self.root.base: self.root}
            stack = [self.root]
            while stack:
                node = stack.pop()
                if not isinstance(node.value, dict):
                    continue
                self._name(node, self.named)
                for keyword, value in node.value.items():
                    if keyword in ("enum", "const", "default", "examples"):
                        continue
                    if isinstance(value, dict):
                        if keyword in _MAPS:
                            stack.extend(self.child(node, keyword, name) for name in value)
                        else:
                            stack.append(self.child(node, keyword))
                    elif isinstance(value, list):
                        stack.extend(
                            self.child(node, keyword, i)
                            for i, item in enumerate(value)
                            if isinstance(item, dict)
                        )
        return self.named

    def _name(self, node: Node, named: dict[str, Node]) -> None:
        schema: Mapping[str, Any] = node.value
        if node.resource is node and node.base:
            named.setdefault(node.base, node)
        identifier = schema.get(self.draft.id_keyword)
        if isinstance(identifier, str) and identifier.startswith("#") and len(identifier) > 1:
            named.setdefault(node.base + identifier, node)
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str) and self.draft.has_anchors:
                named.setdefault(f"{node.base}#{anchor}", node)


_MAPS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
