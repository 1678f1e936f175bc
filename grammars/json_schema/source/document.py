"""Schema documents: the location of each schema, its base URI, and the resolution of ``$ref``, also to other documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin

from constrained.grammars.errors import InvalidConstraint, Problem, UnsupportedConstraint
from constrained.grammars.json_pointer import escape, unescape

if TYPE_CHECKING:
    from constrained.grammars.json_schema.source.constraints import ParsedSchema
    from constrained.grammars.json_schema.source.contents import ContentTable
    from constrained.grammars.json_schema.source.dialects import SchemaDialect
    from constrained.grammars.json_schema.source.registry import SchemaRegistry

SCHEMA_KEYWORDS = frozenset(
    {
        "additionalProperties", "additionalItems", "items", "contains", "not", "if", "then", "else",
        "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
    }
)  # fmt: skip
"""Keywords whose value is a schema (``items`` may be a list of schemas)."""
SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""
SCHEMA_MAP_KEYWORDS = frozenset(
    {"properties", "patternProperties", "definitions", "$defs", "dependentSchemas"}
)
"""Keywords whose value maps names to schemas (as ``dependencies`` does, beside lists of names)."""


_BOUND_TO_PLACE = (
    "'$id': ", "'id': '", "'id': \"", "'$schema': ", "'$anchor': ", "'$dynamicAnchor': ", "'$dynamicRef': ",
    "'$recursiveAnchor': ", "'$recursiveRef': ",
)  # fmt: skip
"""In the text of a schema: keywords by which it means something else where it stands elsewhere."""
_MOST_COMPARED = 4_000_000
"""Characters of all texts that are compared in one document."""
_LISTED = SCHEMA_LIST_KEYWORDS | SCHEMA_KEYWORDS


class SchemaNode:
    """A schema at its place in a document, or a synthetic schema that follows from one.

    Attributes:
        value: the schema, an object or a boolean.
        pointer: JSON Pointer as a URI fragment; unique in the document, and shown in errors.
        document: the document that it belongs to.
        resource: the schema resource that it belongs to, at which ``#`` points.
        base: the base URI.
        dialect: the dialect of its resource.
        parsed: its keywords, filled in when it is first parsed.
        is_synthetic: it follows from other schemas and is not in the document.
        negates: the schema of which this is the negation.
        negation: its negation, once that exists.
        parent_resource: of a resource, the enclosing resource.
        dynamic_scope: of a resource, the result of `synthetic.dynamic_scope_of`.
        text: its value as text, cached by `value_text`.
    """

    __slots__ = (
        "base", "dialect", "document", "dynamic_scope", "is_synthetic", "negates", "negation", "parent_resource", "parsed", "pointer", "resource", "text", "value",
    )  # fmt: skip

    def __init__(self, value: Any, pointer: str, resource: SchemaNode | None, base: str) -> None:
        self.value = value
        self.pointer = pointer
        self.resource: SchemaNode = resource or self
        self.base = base
        if resource is not None:
            self.dialect: SchemaDialect = resource.dialect
            self.document: SchemaDocument = resource.document
        self.parsed: ParsedSchema | None = None
        self.is_synthetic = False
        self.negates: SchemaNode | None = None
        self.negation: SchemaNode | None = None
        self.parent_resource: SchemaNode | None = None
        self.dynamic_scope: Mapping[str, SchemaNode] | None = None
        self.text: str | None = None

    def is_identical(self, other: SchemaNode) -> bool:
        """Whether another schema of the resource has the same text; compared as text, so that 1 differs from true."""
        if self is other:
            return True
        if self.is_synthetic or other.is_synthetic or self.resource is not other.resource:
            return False
        if type(self.value) is not type(other.value) or (
            isinstance(self.value, dict) and self.value.keys() != other.value.keys()
        ):
            return False
        text = self.value_text()
        return text is not None and text == other.value_text()

    def value_text(self) -> str | None:
        """The value as text, cached; None where it is nested too deeply."""
        try:
            self.text = self.text or repr(self.value)
        except RecursionError:
            return None
        return self.text

    def child(self, *tokens: str | int) -> SchemaNode:
        """The schema at the end of a path of tokens below this one."""
        pointer = child_pointer(self.pointer, *tokens)
        node = self.document.nodes.get(pointer)
        if node is None:
            value = self.value
            for token in tokens:
                value = value[token]
            node = self.document.nodes[pointer] = self._below(value, pointer)
        return node

    def children(self, keyword: str) -> list[SchemaNode]:
        """The schemas of a keyword that lists schemas."""
        return [self.child(keyword, i) for i in range(len(self.value[keyword]))]

    def children_by_name(self, keyword: str) -> dict[str, SchemaNode]:
        """The schemas of a keyword that maps names to schemas."""
        by_name = {}
        nodes = self.document.nodes
        place = f"{self.pointer}/{keyword}"
        for name, value in self.value[keyword].items():
            plain = "~" not in name and "/" not in name
            pointer = f"{place}/{name}" if plain else child_pointer(place, name)
            node = nodes.get(pointer)
            if node is None:
                node = nodes[pointer] = self._below(value, pointer)
            by_name[name] = node
        return by_name

    def _below(self, value: Any, pointer: str) -> SchemaNode:
        identifier = self.dialect.identifier_of(value) if isinstance(value, dict) else None
        if identifier is None:
            return self.document.shared(SchemaNode(value, pointer, self.resource, self.base))
        node = SchemaNode(value, pointer, None, _join(self.base, identifier, pointer))
        node.document, node.dialect = self.document, self.dialect.dialect_of(value)
        node.parent_resource = self.resource
        return node

    def synthetic(self, label: str, value: Any) -> SchemaNode:
        """A synthetic schema that follows from this one, interned by the label."""
        pointer = f"{self.pointer} ({label})"
        node = self.document.nodes.get(pointer)
        if node is None:
            node = self.document.nodes[pointer] = SchemaNode(value, pointer, self.resource, self.base)
            node.is_synthetic = True
        return node

    def __repr__(self) -> str:
        return f"SchemaNode({self.pointer})"


def child_pointer(pointer: str, *tokens: str | int) -> str:
    """The pointer of a descendant, each token escaped."""
    for token in tokens:
        text = str(token)
        if "~" in text or "/" in text:
            text = escape(text)
        pointer = f"{pointer}/{text}"
    return pointer


def document_order(schema: Any, pointer: str) -> tuple[int, ...]:
    """Sort key of a pointer by its position in a document; pointers to no place of the document come last."""
    positions = []
    head, *tokens = pointer.split("/")
    for raw in tokens:
        token = unescape(raw)
        if isinstance(schema, dict) and token in schema:
            positions.append(list(schema).index(token))
            schema = schema[token]
        elif isinstance(schema, list) and token.isdigit() and int(token) < len(schema):
            positions.append(int(token))
            schema = schema[int(token)]
        else:
            return (_NOWHERE,)
    return tuple(positions) if head == "#" else (_NOWHERE,)


_NOWHERE = 2**32


def _join(base: str, reference: str, pointer: str) -> str:
    """A URI reference resolved, without its fragment."""
    try:
        return urldefrag(urljoin(base, reference)).url
    except ValueError as error:
        raise InvalidConstraint(
            "the schema is malformed", Problem(pointer, f"not a URI ({error})", reference)
        ) from None


def _reference_problem(node: SchemaNode, reference: str, reason: str) -> Problem:
    """A problem of a reference, at the keyword that contains it."""
    keyword = next((name for name in _REFERENCES if node.value.get(name) == reference), "$ref")
    return Problem(child_pointer(node.pointer, keyword), reason, reference, keyword)


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaDocument:
    """A schema document, the nodes visited so far, and the other documents that references lead to.

    Args:
        schema: the document.
        dialect: its dialect.
        registry: other documents by URI.
        check: called with each other document and its dialect; raises if it is malformed.
        contents: what strings may contain by `constrained.grammars.content.CONTENT_KEYWORD`; None: the keyword is unknown.
        source_text: the text that values are extracted from, for ``x-span``; None: it is not known.
    """

    def __init__(
        self,
        schema: Any,
        dialect: SchemaDialect,
        registry: SchemaRegistry | None = None,
        check: Callable[[Any, SchemaDialect], object] = lambda schema, dialect: None,
        contents: ContentTable | None = None,
        source_text: str | None = None,
    ) -> None:
        self.source_text = source_text
        self._first: dict[tuple[str, SchemaNode, str], SchemaNode] = {}
        self._compared = 0
        self.dialect = dialect
        self.contents = contents
        self.nodes: dict[str, SchemaNode] = {}
        self.by_uri: dict[str, SchemaNode] | None = None
        self._dynamic: dict[str, dict[str, SchemaNode]] = {}
        self.parsed_nodes: list[SchemaNode] = []
        self._registry = registry
        self._check = check
        self._checked: set[str] = set()
        self.root = self._document(schema, dialect, "#", "")

    def release(self) -> None:
        """Frees the nodes, which refer to each other: they must not be used afterwards."""
        for node in set(self.nodes.values()):
            if node.negation is not None:
                node.negation.parsed = None
            node.parsed = node.negation = node.dynamic_scope = None
            if node.resource is node:
                del node.resource
        vars(self).clear()

    def _document(self, schema: Any, dialect: SchemaDialect, pointer: str, uri: str) -> SchemaNode:
        """The root node of a document that was retrieved by a URI."""
        identifier = dialect.identifier_of(schema) if isinstance(schema, dict) else None
        node = self.nodes[pointer] = SchemaNode(schema, pointer, None, _join(uri, identifier or "", pointer))
        node.document, node.dialect = self, dialect
        return node

    def share(self) -> None:
        """Makes schemas with the same text one node, with the place of the first one, from now on."""
        self._compared = _MOST_COMPARED

    def shared(self, node: SchemaNode) -> SchemaNode:
        """The first node with the text of a node that means the same elsewhere, once nodes are shared; or else the node."""
        text = node.value_text() if self._compared > 0 else None
        if text is None or any(word in text for word in _BOUND_TO_PLACE):
            return node
        self._compared -= len(text)
        return self._first.setdefault((text, node.resource, node.base), node)

    def resolve(self, node: SchemaNode, reference: str) -> SchemaNode:
        """The static target of a reference at `node`.

        Raises:
            InvalidConstraint: the pointer does not lead to a schema.
            UnsupportedConstraint: it names a document that the registry does not contain.
        """
        url, _, fragment = reference.partition("#")
        target = _join(node.base, url, node.pointer) if url else node.base
        fragment = unquote(fragment)
        start = node.resource
        if url and target != node.base:
            other = self._identified().get(target) or self._other(target, node.dialect)
            if other is None:
                raise UnsupportedConstraint(
                    "1 keyword cannot be enforced",
                    _reference_problem(node, reference, "names a document that the schema does not hold"),
                    action="copy that schema into $defs and refer to it there, or in Python pass it in registry=",
                )
            start = other
        if not fragment:
            return start
        if fragment.startswith("/"):
            return self._descend(start, fragment, node, reference)
        anchored = self._identified().get(f"{target}#{fragment}")
        if anchored is None:
            raise self._dangling(node, reference)
        self._check_target(anchored)
        return anchored

    def _dangling(self, node: SchemaNode, reference: str) -> InvalidConstraint:
        return InvalidConstraint(
            "the schema is malformed",
            _reference_problem(node, reference, "does not point at a schema"),
            action="correct the reference",
        )

    def at(self, pointer: str) -> SchemaNode:
        """The schema at a JSON Pointer of the document, as a URI fragment that is not percent-encoded."""
        found = self.root if pointer == "#" else self.nodes.get(pointer)
        return found or self._descend(self.root, pointer[1:], self.root, pointer)

    def _descend(self, start: SchemaNode, fragment: str, node: SchemaNode, reference: str) -> SchemaNode:
        current = start
        tokens: list[str | int] = []
        way: list[str | int] = []
        value = start.value
        for raw in fragment[1:].split("/"):
            token: str | int = unescape(raw)
            if isinstance(value, list) and str(token).isdigit() and int(token) < len(value):
                token = int(token)
            elif not (isinstance(value, dict) and token in value):
                raise self._dangling(node, reference)
            tokens.append(token)
            way.append(token)
            value = value[token]
            if isinstance(value, dict) and start.dialect.id_keyword in value:
                current = current.child(*tokens)  # the base URI may change here
                tokens = []
        if tokens:
            current = current.child(*tokens)
        if not isinstance(current.value, (dict, bool)):
            raise self._dangling(node, reference)
        if not start.dialect.declares_schema(way):
            self._check_target(current)
        return current

    def _check_target(self, node: SchemaNode) -> None:
        """Checks a schema that a reference names: with the document only those were checked that keywords of its dialect declare."""
        if node.pointer in self._checked:
            return
        self._checked.add(node.pointer)
        try:
            self._check(node.value, node.dialect)
        except InvalidConstraint as error:
            error.reword(
                problems=[replace(one, place=node.pointer + one.place[1:]) for one in error.problems]
            )
            raise

    def dynamic_anchors(self) -> Mapping[str, Mapping[str, SchemaNode]]:
        """The schemas that declare dynamic anchors, by URI of their resource and name of the anchor."""
        self._identified()
        return self._dynamic

    def _identified(self) -> dict[str, SchemaNode]:
        """All schemas with an identifier or an anchor, by URI."""
        if self.by_uri is None:
            self.by_uri = {self.root.base: self.root}
            self._name_all(self.root, self.by_uri)
        return self.by_uri

    def _other(self, uri: str, dialect: SchemaDialect) -> SchemaNode | None:
        """The root of another document, from the registry."""
        schema = self._registry.get(uri) if self._registry is not None else None
        if schema is None:
            return None
        dialect = dialect.dialect_of(schema)
        self._check(schema, dialect)
        named = self._identified()
        node = named[uri] = self._document(schema, dialect, f"{uri}#", uri)
        self._name_all(node, named)
        return node

    def _name_all(self, root: SchemaNode, named: dict[str, SchemaNode]) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            if not isinstance(node.value, dict):
                continue
            self._name(node, named)
            for keyword, value in node.value.items():
                if keyword in SCHEMA_KEYWORDS and isinstance(value, dict):
                    stack.append(node.child(keyword))
                elif keyword in _LISTED and isinstance(value, list):
                    stack.extend(node.child(keyword, i) for i in range(len(value)))
                elif (keyword in SCHEMA_MAP_KEYWORDS or keyword == "dependencies") and isinstance(
                    value, dict
                ):
                    named_here = [name for name, item in value.items() if isinstance(item, dict)]
                    stack.extend(node.child(keyword, name) for name in named_here)

    def _name(self, node: SchemaNode, named: dict[str, SchemaNode]) -> None:
        schema: Mapping[str, Any] = node.value
        if node.resource is node and node.base:
            named.setdefault(node.base, node)
        for name in node.dialect.anchors_of(schema):
            named.setdefault(f"{node.base}#{name}", node)
        anchor = "" if schema.get("$recursiveAnchor") is True else schema.get("$dynamicAnchor")
        if isinstance(anchor, str) and (anchor or node.resource is node):
            self._dynamic.setdefault(node.base, {}).setdefault(anchor, node)
