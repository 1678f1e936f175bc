"""Schema documents: which object is a schema, where it stands, and what a reference points at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin

from grammars.errors import InvalidConstraint, Problem, UnsupportedConstraint

if TYPE_CHECKING:
    from grammars.json_schema.source.constraints import Facts
    from grammars.json_schema.source.dialects import Draft
    from grammars.json_schema.source.registry import Registry

ONE = frozenset(
    {
        "additionalProperties", "additionalItems", "items", "contains", "not", "if", "then", "else",
        "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
    }
)  # fmt: skip
"""Keywords that hold a schema (``items`` may hold a list of them)."""
SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas."""
NAMED = frozenset({"properties", "patternProperties", "definitions", "$defs", "dependentSchemas"})
"""Keywords that hold schemas by name (so does ``dependencies``, between lists of names)."""


_LISTED = SEVERAL | ONE


class Node:
    """A schema at its place.

    Attributes:
        value: the schema, an object or a boolean.
        pointer: JSON Pointer as a URI fragment, shown to people and unique in the document.
        resource: the schema with an identifier that this one belongs to: what ``#`` means here.
        base: URI that references are relative to.
        draft: the version of the specification that its resource follows.
        facts: what the schema itself says, filled in when it is first read.
        made: it does not stand in the document but follows from one that does.
        denies: the schema of which this is the negation.
        negation: its negation, if that has been asked for.
        outer: of a resource, the one that it stands in.
        scope: of a resource, what `dynamic.scope_of` found.
        text: its value as text, once `same` has asked for it.
    """

    __slots__ = (
        "base", "denies", "draft", "facts", "made", "negation", "outer", "pointer", "resource", "scope", "text", "value",
    )  # fmt: skip

    def __init__(self, value: Any, pointer: str, resource: Node | None, base: str) -> None:
        self.value = value
        self.pointer = pointer
        self.resource: Node = resource or self
        self.base = base
        if resource is not None:
            self.draft: Draft = resource.draft
        self.facts: Facts | None = None
        self.made = False
        self.denies: Node | None = None
        self.negation: Node | None = None
        self.outer: Node | None = None
        self.scope: Mapping[str, Node] | None = None
        self.text: str | None = None

    def same(self, other: Node) -> bool:
        """Whether another schema plainly says the same: word for word, so that 1 is not taken for true."""
        if self is other:
            return True
        if self.made or other.made or self.resource is not other.resource:
            return False
        if type(self.value) is not type(other.value) or (
            isinstance(self.value, dict) and self.value.keys() != other.value.keys()
        ):
            return False
        try:
            for node in (self, other):
                node.text = node.text or repr(node.value)
        except RecursionError:
            return False  # too deep to tell
        return self.text == other.text

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


def position(schema: Any, pointer: str) -> tuple[int, ...]:
    """Where a pointer leads in a document as it is written: smaller than what comes after it.

    What does not stand there comes last.
    """
    found = []
    head, *tokens = pointer.split("/")
    for raw in tokens:
        token = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict) and token in schema:
            found.append(list(schema).index(token))
            schema = schema[token]
        elif isinstance(schema, list) and token.isdigit() and int(token) < len(schema):
            found.append(int(token))
            schema = schema[int(token)]
        else:
            return (_NOWHERE,)
    return tuple(found) if head == "#" else (_NOWHERE,)


_NOWHERE = 2**32


def _join(base: str, reference: str, pointer: str) -> str:
    """A URI reference resolved, without its fragment."""
    try:
        return urldefrag(urljoin(base, reference)).url
    except ValueError as error:
        raise InvalidConstraint(
            "the schema is malformed", Problem(pointer, f"not a URI ({error})", reference)
        ) from None


def _reference_problem(node: Node, reference: str, reason: str) -> Problem:
    """What is wrong with a reference, at the keyword that makes it."""
    keyword = next((name for name in _REFERENCES if node.value.get(name) == reference), "$ref")
    return Problem(step(node.pointer, keyword), reason, reference, keyword)


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Document:
    """A schema document and the nodes in it that have been looked at; other documents as references lead there.

    Args:
        schema: the document.
        draft: the version of the specification that it follows.
        registry: other documents by URI.
        check: refuses what is no schema of a draft; asked of other documents.
    """

    def __init__(
        self,
        schema: Any,
        draft: Draft,
        registry: Registry | None = None,
        check: Callable[[Any, Draft], object] = lambda schema, draft: None,
    ) -> None:
        self.draft = draft
        self.nodes: dict[str, Node] = {}
        self.named: dict[str, Node] | None = None
        self._dynamic: dict[str, dict[str, Node]] = {}
        self._registry = registry
        self._check = check
        self.root = self._document(schema, draft, "#", "")

    def _document(self, schema: Any, draft: Draft, pointer: str, uri: str) -> Node:
        """The node of a whole document that was found at a URI."""
        identifier = schema.get(draft.id_keyword) if isinstance(schema, dict) else None
        ignored = draft.ref_alone and isinstance(schema, dict) and "$ref" in schema
        base = identifier if isinstance(identifier, str) and not ignored else ""
        node = self.nodes[pointer] = Node(schema, pointer, None, _join(uri, base, pointer))
        node.draft = draft
        return node

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
        draft = parent.draft
        if not isinstance(value, dict) or draft.id_keyword not in value:
            return Node(value, pointer, parent.resource, parent.base)
        identifier = value[draft.id_keyword]
        ignored = draft.ref_alone and "$ref" in value
        if isinstance(identifier, str) and not identifier.startswith("#") and not ignored:
            node = Node(value, pointer, None, _join(parent.base, identifier, pointer))
            node.draft = draft.dialect(value)
            node.outer = parent.resource
            return node
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
        """The schema that a reference at `node` points at, as it stands there.

        Raises:
            InvalidConstraint: nothing is there.
            UnsupportedConstraint: it points out of the document.
        """
        url, _, fragment = reference.partition("#")
        target = _join(node.base, url, node.pointer) if url else node.base
        fragment = unquote(fragment)
        start = node.resource
        if url and target != node.base:
            found = self._identified().get(target) or self._other(target, node.draft)
            if found is None:
                raise UnsupportedConstraint(
                    "1 keyword cannot be enforced",
                    _reference_problem(node, reference, "points out of the document"),
                    action="give the schema it names in registry=, or copy it into $defs and point there",
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
            _reference_problem(node, reference, "points at nothing"),
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
            if isinstance(value, dict) and start.draft.id_keyword in value:
                current = self.child(current, *tokens)  # its own base may change here
                tokens = []
        if tokens:
            current = self.child(current, *tokens)
        if not isinstance(current.value, (dict, bool)):
            raise self._dangling(node, reference)
        return current

    def dynamic_anchors(self) -> Mapping[str, Mapping[str, Node]]:
        """The schemas with a dynamic anchor, by the URI of their resource and the anchor."""
        self._identified()
        return self._dynamic

    def _identified(self) -> dict[str, Node]:
        """Every schema with an identifier or an anchor, by URI."""
        if self.named is None:
            self.named = {self.root.base: self.root}
            self._name_all(self.root, self.named)
        return self.named

    def _other(self, uri: str, draft: Draft) -> Node | None:
        """Another document, from the registry."""
        schema = self._registry.get(uri) if self._registry is not None else None
        if schema is None:
            return None
        draft = draft.dialect(schema)
        self._check(schema, draft)
        named = self._identified()
        node = named[uri] = self._document(schema, draft, f"{uri}#", uri)
        self._name_all(node, named)
        return node

    def _name_all(self, root: Node, named: dict[str, Node]) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            if not isinstance(node.value, dict):
                continue
            self._name(node, named)
            for keyword, value in node.value.items():
                if keyword in ONE and isinstance(value, dict):
                    stack.append(self.child(node, keyword))
                elif keyword in _LISTED and isinstance(value, list):
                    stack.extend(self.child(node, keyword, i) for i in range(len(value)))
                elif (keyword in NAMED or keyword == "dependencies") and isinstance(value, dict):
                    named_here = [name for name, item in value.items() if isinstance(item, dict)]
                    stack.extend(self.child(node, keyword, name) for name in named_here)

    def _name(self, node: Node, named: dict[str, Node]) -> None:
        schema: Mapping[str, Any] = node.value
        draft = node.draft
        if node.resource is node and node.base:
            named.setdefault(node.base, node)
        if draft.has_anchors:
            for keyword in ("$anchor", "$dynamicAnchor"):
                anchor = schema.get(keyword)
                if isinstance(anchor, str):
                    named.setdefault(f"{node.base}#{anchor}", node)
        elif not (draft.ref_alone and "$ref" in schema):
            identifier = schema.get(draft.id_keyword)
            fragment = urldefrag(identifier).fragment if isinstance(identifier, str) else ""
            if fragment and not fragment.startswith("/"):
                named.setdefault(f"{node.base}#{fragment}", node)
        anchor = "" if schema.get("$recursiveAnchor") is True else schema.get("$dynamicAnchor")
        if isinstance(anchor, str) and (anchor or node.resource is node):
            self._dynamic.setdefault(node.base, {}).setdefault(anchor, node)
