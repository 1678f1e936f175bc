"""Schemas outside of a document: those that the caller gives, and the meta-schemas of the drafts. Never the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urldefrag, urljoin

_META = "json-schema.org/"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_IDENTIFIERS = ("$id", "id")


class SchemaRegistry:
    """Schemas by absolute URI.

    Args:
        given: a mapping from URIs to schemas, or a `referencing.SchemaRegistry`, which may retrieve what it does not hold
            in whatever way it was told to.
    """

    def __init__(self, resources: Any = None) -> None:
        self._given = resources

    def get(self, uri: str) -> Any:
        """The schema with this URI; None when there is none."""
        for name in (uri, f"{uri}#"):
            found = self._look_up(name)
            if found is not None:
                return found
        return _meta_schema(uri) if _META in uri else None

    def _look_up(self, uri: str) -> Any:
        if self._given is None:
            return None
        retrieve = getattr(self._given, "get_or_retrieve", None)
        if retrieve is None:
            found = self._given.get(uri)
        else:
            from referencing.exceptions import NoSuchResource, Unretrievable

            try:
                found = retrieve(uri).value
            except (NoSuchResource, Unretrievable):
                return None
        return getattr(found, "contents", found)

    def reachable_from(self, schema: Any) -> dict[str, Any]:
        """The given schemas that references lead to, from this one on, by URI; meta-schemas are left out."""
        found: dict[str, Any] = {}
        if self._given is None:
            return found
        stack: list[tuple[Any, str]] = [(schema, "")]
        while stack:
            value, base = stack.pop()
            if isinstance(value, list):
                stack.extend((item, base) for item in value)
            if not isinstance(value, Mapping):
                continue
            for keyword in _IDENTIFIERS:
                if isinstance(value.get(keyword), str):
                    base = _joined(base, value[keyword])
            for keyword in _REFERENCES:
                reference = value.get(keyword)
                uri = _joined(base, reference) if isinstance(reference, str) else ""
                if uri and uri not in found and (contents := self._look_up(uri)) is not None:
                    found[uri] = contents
                    stack.append((contents, uri))
            stack.extend((item, base) for item in value.values())
        return found


def _joined(base: str, reference: str) -> str:
    try:
        return urldefrag(urljoin(base, reference)).url
    except ValueError:  # no URI at all; told where it is resolved
        return ""


def _meta_schema(uri: str) -> Any:
    from jsonschema_specifications import REGISTRY

    for name in (uri, f"{uri}#"):
        if name in REGISTRY:
            return REGISTRY[name].contents
    return None
