"""A schema as its readers see it: prompts, orders of members and merged documents follow the references that the grammar follows.

The grammar resolves references over base URIs, anchors, percent-encoded pointers and other documents. `local_view` does so once,
and gives a schema in which each ``$ref`` is a plain JSON Pointer; `target_of` follows such a pointer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constrained.grammars.errors import ConstraintError
from constrained.grammars.json_pointer import escape, unescape
from constrained.grammars.json_schema.source.dialects import select_dialect
from constrained.grammars.json_schema.source.document import (
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
    SchemaDocument,
    SchemaNode,
)
from constrained.grammars.json_schema.source.registry import SchemaRegistry

_DYNAMIC = ("$dynamicRef", "$recursiveRef")


def target_of(root: Any, reference: str) -> Any:
    """The schema that a reference of a local view leads to; None if it leads nowhere.

    Args:
        root: the view.
        reference: ``#``, or a JSON Pointer as a URI fragment that is not percent-encoded.
    """
    if not reference.startswith("#"):
        return None
    target = root
    for raw in reference[1:].split("/")[1:]:
        token = unescape(raw)
        if isinstance(target, Mapping) and token in target:
            target = target[token]
        elif isinstance(target, list) and token.isdigit() and int(token) < len(target):
            target = target[int(token)]
        else:
            return None
    return None if reference != "#" and not reference.startswith("#/") else target


def without_null(schema: Any) -> Any:
    """The schema of a member's values but null: of ``anyOf`` and of a list of types, if there is one other kind."""
    if not isinstance(schema, Mapping):
        return schema
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(kinds) == 1 and not set(schema) - {"anyOf", "title", "description", "default"}:
        return kinds[0]
    types = schema.get("type")
    if isinstance(types, list) and len(types) == 2 and "null" in types:
        return {**schema, "type": next(one for one in types if one != "null")}
    return schema


def local_view(schema: Any, *, registry: Any = None, draft: str | None = None) -> Any:
    """A schema with the same values in which each ``$ref`` is a plain JSON Pointer into it.

    Other documents come into its ``$defs``, as far as references reach them; a reference that leads nowhere stays as it is.

    Args:
        schema: a JSON Schema.
        registry: as of `lower_schema`.
        draft: as of `lower_schema`.

    Returns:
        `schema` itself where its references are such pointers already, or depend on how a schema was come to (``$dynamicRef``).
    """
    found = _references(schema)
    if found is None or all(one == "#" or target_of(schema, one) is not None for one in found):
        return schema
    documents = SchemaRegistry(registry)
    document = SchemaDocument(schema, select_dialect(schema, draft, documents), documents)
    return _Localised(document).schema


def _references(schema: Any) -> list[str] | None:
    """The references of a schema; None where some are dynamic. A part with an identifier has references that are not pointers."""
    found: list[str] = []
    stack = [(schema, True)]
    while stack:
        part, is_root = stack.pop()
        if isinstance(part, list):
            stack.extend((one, False) for one in part)
        elif isinstance(part, Mapping):
            if any(name in part for name in _DYNAMIC):
                return None
            if isinstance(part.get("$ref"), str):
                found.append(part["$ref"])
            if not is_root and isinstance(part.get("$id", part.get("id")), str):
                found.append("")
            stack.extend((one, False) for one in part.values())
    return found


class _Localised:
    """The view of a document, as it is being made."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._places: dict[str, str] = {}  # of other documents: pointers of their roots
        self._added: dict[str, Any] = {}
        self._todo: list[tuple[SchemaNode, dict[str, Any]]] = []
        schema = self._copy(document.root)
        self._names = set(schema.get("$defs", ())) if isinstance(schema, dict) else set()
        while self._todo:
            self._localise(*self._todo.pop())
        if self._added:
            schema["$defs"] = {**schema.get("$defs", {}), **self._added}
        self.schema = schema

    def _copy(self, node: SchemaNode) -> Any:
        """A copy that is still to be made local; identifiers are left out, at which pointers would begin anew."""
        if not isinstance(node.value, Mapping):
            return node.value
        made = dict(node.value)
        if node is not self._document.root:
            made.pop(node.dialect.id_keyword, None)
        self._todo.append((node, made))
        return made

    def _localise(self, node: SchemaNode, made: dict[str, Any]) -> None:
        child = node.child
        for keyword, value in made.items():
            if keyword == "$ref" and isinstance(value, str):
                made[keyword] = self._pointer(node, value)
            elif keyword in SCHEMA_KEYWORDS and isinstance(value, Mapping):
                made[keyword] = self._copy(child(keyword))
            elif keyword in SCHEMA_KEYWORDS | SCHEMA_LIST_KEYWORDS and isinstance(value, list):
                made[keyword] = [self._copy(child(keyword, i)) for i in range(len(value))]
            elif keyword in SCHEMA_MAP_KEYWORDS | {"dependencies"} and isinstance(value, Mapping):
                made[keyword] = {
                    name: self._copy(child(keyword, name)) if isinstance(one, Mapping) else one
                    for name, one in value.items()
                }

    def _pointer(self, node: SchemaNode, reference: str) -> str:
        try:
            target = self._document.resolve(node, reference)
        except ConstraintError:
            return reference
        uri, _, pointer = target.pointer.partition("#")
        if not uri:
            return target.pointer
        if uri not in self._places:
            root = self._document.resolve(self._document.root, uri)
            base = uri.rstrip("/").rsplit("/", 1)[-1] or "other"
            names = [base, *(f"{base}{number}" for number in range(2, len(self._names) + 3))]
            name = next(one for one in names if one not in self._names)
            self._names.add(name)
            self._places[uri] = f"#/$defs/{escape(name)}"
            self._added[name] = self._copy(root)
        return self._places[uri] + pointer
