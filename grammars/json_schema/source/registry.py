"""Schema documents that references may name: those of the caller, and the published meta-schemas. Never the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin

if TYPE_CHECKING:
    from constrained.grammars.json_schema.source.dialects import SchemaDialect

_META = "json-schema.org/"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaRegistry:
    """Schemas by absolute URI.

    Args:
        resources: a mapping from URIs to schemas, or a `referencing.Registry`, which may retrieve documents by its
            own ``retrieve`` function.
    """

    def __init__(self, resources: Any = None) -> None:
        self._resources = resources

    def get(self, uri: str) -> Any:
        """The schema with this URI, or None."""
        for name in (uri, f"{uri}#"):
            contents = self._look_up(name)
            if contents is not None:
                return contents
        return _meta_schema(uri) if _META in uri else None

    def _look_up(self, uri: str) -> Any:
        if self._resources is None:
            return None
        retrieve = getattr(self._resources, "get_or_retrieve", None)
        if retrieve is None:
            resource = self._resources.get(uri)
        else:
            from referencing.exceptions import NoSuchResource, Unretrievable

            try:
                resource = retrieve(uri).value
            except (NoSuchResource, Unretrievable):
                return None
        return getattr(resource, "contents", resource)

    def reachable_from(self, schema: Any, dialect: SchemaDialect) -> dict[str, Any]:
        """The caller's schemas that a schema refers to, directly or through others, by URI.

        Meta-schemas are left out. References are looked for in every object, because a pointer may lead to a
        place that no keyword declares to be a schema.

        Args:
            schema: the schema to start from.
            dialect: the dialect of this schema; a ``$schema`` keyword further down changes it.
        """
        reachable: dict[str, Any] = {}
        if self._resources is None:
            return reachable
        stack: list[tuple[Any, str, SchemaDialect]] = [(schema, "", dialect)]
        while stack:
            value, base, dialect = stack.pop()
            if isinstance(value, list):
                stack.extend((item, base, dialect) for item in value)
            if not isinstance(value, Mapping):
                continue
            dialect = dialect.dialect_of(value)
            identifier = dialect.identifier_of(value)
            if identifier is not None:
                base = _join(base, identifier)
            for keyword in _REFERENCES:
                reference = value.get(keyword)
                uri = _join(base, reference) if isinstance(reference, str) else ""
                if uri and uri not in reachable and (contents := self._look_up(uri)) is not None:
                    reachable[uri] = contents
                    stack.append((contents, uri, dialect))
            stack.extend((item, base, dialect) for item in value.values())
        return reachable


def _join(base: str, reference: str) -> str:
    try:
        return urldefrag(urljoin(base, reference)).url
    except ValueError:  # not a URI; `SchemaDocument.resolve` reports it
        return ""


def _meta_schema(uri: str) -> Any:
    from jsonschema_specifications import REGISTRY

    for name in (uri, f"{uri}#"):
        if name in REGISTRY:
            return REGISTRY[name].contents
    return None
