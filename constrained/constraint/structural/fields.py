"""The keys of one object of a definition: each is read once, checked, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constrained.errors import InvalidConstraint, Problem, UnsupportedConstraint
from constrained.grammars.json_pointer import escape


class Fields:
    """The keys of one object: each is read once, and `close` refuses the others."""

    def __init__(self, definition: Mapping[str, Any], place: str, what: str) -> None:
        self.definition = definition
        self.place = place
        self.what = what
        self.known = ["type"]

    def get(self, name: str, default: Any = ...) -> Any:
        """The value of a key; the default stands for a key that is absent or null."""
        self.known.append(name)
        value = self.definition.get(name)
        if value is None and default is not ...:
            return default
        if name not in self.definition:
            raise wrong(self.at(name), "is missing", f"{name!r} there")
        return value

    def at(self, name: str) -> str:
        """The JSON Pointer of a key."""
        return f"{self.place}/{escape(name)}"

    def text(self, name: str) -> str:
        """A text, which may be empty."""
        return checked_text(self.get(name), self.at(name))

    def texts(self, name: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of non-empty texts."""
        listed = self.get(name, ... if required else [])
        if not isinstance(listed, (list, tuple)) or (required and not listed):
            wanted = "a list with at least one text" if required else "a list of texts"
            raise wrong(self.at(name), f"is not {wanted}", wanted)
        read = tuple(checked_text(one, f"{self.at(name)}/{i}") for i, one in enumerate(listed))
        for i, one in enumerate(read):
            if not one:
                raise wrong(f"{self.at(name)}/{i}", "is empty", "a non-empty text")
        return read

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise wrong(self.at(name), "is neither true nor false", "true or false")
        return value

    def count(self, name: str, *, low: int = 0, required: bool = False) -> int | None:
        """A whole number, or None."""
        value = self.get(name, ... if required else None)
        if value is None and not required:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise wrong(self.at(name), "is not a count", f"a whole number from {low} on")
        return value

    def objects(self, name: str) -> list[tuple[Any, str]]:
        """A non-empty list, each item with its place."""
        listed = self.get(name)
        if not isinstance(listed, (list, tuple)) or not listed:
            raise wrong(self.at(name), "is not a non-empty list", "a list with at least one item")
        return [(one, f"{self.at(name)}/{i}") for i, one in enumerate(listed)]

    def close(self) -> None:
        """Refuses the keys that were not read."""
        for key in self.definition:
            if key not in self.known:
                raise UnsupportedConstraint(
                    "the structural tag cannot be enforced",
                    Problem(f"{self.place}/{escape(str(key))}", "is unknown", self.definition[key], str(key)),
                    action=f"leave it out; keys of {self.what}: {', '.join(self.known)}",
                )


def checked_text(value: Any, place: str) -> str:
    """A text without lone surrogates."""
    if not isinstance(value, str):
        raise wrong(place, "is not a text", "a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise wrong(place, f"is not valid Unicode: {error.reason}", "text without lone surrogates") from None
    return value


def wrong(place: str, reason: str, wanted: str) -> InvalidConstraint:
    """The error about a definition that is malformed at a place."""
    return InvalidConstraint(
        "the structural tag cannot be read", Problem(place, reason), action=f"give {wanted}"
    )
