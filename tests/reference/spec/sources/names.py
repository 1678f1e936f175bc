"""The names that a schema declares, of those that can still come in the present object."""

from __future__ import annotations

from collections.abc import Callable

from tests.reference.spec.context import DraftContext
from tests.reference.spec.layout import Layout
from tests.reference.spec.sources.base import DraftSource, DraftToken

_MOST = 8

DeclaredNames = dict[tuple[bytes, ...], list[tuple[bytes, bool]]]
"""By the names on the way to an object: its names in the order of the schema, with their quotes, and whether they are required."""


class MemberNames(DraftSource):
    """Guesses at names, the nearest to the last one first.

    Attributes:
        objects: what the schema declares.
    """

    def __init__(self, objects: DeclaredNames, layout: Callable[[], Layout]) -> None:
        self.objects = objects
        self._layout = layout

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """The first tokens of the names."""
        path, layout = place.json_path, self._layout()
        if path is None or path.kind != "key" or path.escaped or path.names not in self.objects:
            return []
        members, written, before = self.objects[path.names], path.partial, b""
        if not path.quoted:
            if not written:
                return []
            usual = layout[2 if written[:1] == b"{" else 1]
            if len(written) == 1 and usual == b"\n":
                return []
            before = usual if len(written) == 1 else b""
            written = b""
        known = [name[:48] for name, _ in members]
        first = known.index(path.name) + 1 if path.name in known else 0
        follows = bool(first) or not path.name
        found: dict[int, DraftToken] = {}
        passed = False
        for rank, (name, required) in enumerate(members[first:]):
            skips, passed = passed, passed or required
            if len(found) == _MOST:
                break
            if not name.startswith(written):
                continue
            ahead = before + name[len(written) :] + b":" + layout[0].replace(b"\n", b"")
            token = place.request.pieces.next_token(place.recent_bytes, ahead)
            if token is None or token[0] in found:
                continue
            kind = (((min(rank, 7) * 2 + required) * 2 + skips) * 2 + follows) * 2 + (len(written) > 1)
            found[token[0]] = (token[0], (0.05 if skips else 0.4) / (min(rank, 7) + 1), kind)
        return list(found.values())
