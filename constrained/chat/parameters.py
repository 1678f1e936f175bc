"""Arguments of tool calls in the markup of a model family, read back as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from constrained.constraint import Constraint
from constrained.constraint.post_validation import validation_errors
from constrained.grammars.json_schema import ParameterStyle

_WHOLE_OBJECT = ("required", "minProperties", "dependentRequired", "dependencies")
"""Keywords about an object as a whole: they say nothing about one of its members."""


class Parameter(NamedTuple):
    """One parameter of a call.

    Attributes:
        name: its name.
        text: its value as JSON.
        end: where its markup ends.
    """

    name: str
    text: str
    end: int


@dataclass
class _Leaf:
    """A value whose markup leaves open what it is.

    Attributes:
        options: JSON texts, the likeliest first.
        chosen: index of the one that is taken.
    """

    options: list[str]
    chosen: int = 0


_Tree = _Leaf | list["_Tree"] | dict[str, "_Tree"]


@dataclass
class ParameterReader:
    """Reads parameters one by one.

    Where the markup does not tell a string from another value, a text that is JSON of another type is that value, if the
    schema allows it there; any other text is a string.

    Attributes:
        style: the markup.
        arguments: JSON constraint of the arguments.
    """

    style: ParameterStyle
    arguments: Constraint
    _schema: Any = field(init=False)

    def __post_init__(self) -> None:
        schema = self.arguments.schema
        self._schema = schema
        if isinstance(schema, Mapping):
            self._schema = {name: value for name, value in schema.items() if name not in _WHOLE_OBJECT}
        texts: dict[str, list[str]] = {}
        for kind, parts in self.style.types.items():
            texts.setdefault("".join(parts), []).append(kind)
        self._openings = {self.style.after_name + text: kinds for text, kinds in texts.items()}
        self._item_openings = texts
        self._names = {char: plain for plain, char in self.style.escapes.items()}

    def read(self, text: str) -> Parameter | None:
        """The parameter at the beginning of a text; None: it is not whole."""
        if not text.startswith(self.style.before):
            return None
        found = self._member(text, 0)
        if found is None:
            return None
        name, tree, end = found
        self._decide(name, tree)
        return Parameter(name, _render(tree), end)

    def _member(self, text: str, at: int) -> tuple[str, _Tree, int] | None:
        """A member, from the text before its name on."""
        at += len(self.style.before)
        places = [(place, opening) for opening in self._openings if (place := text.find(opening, at)) >= 0]
        if not places:
            return None
        place, opening = min(places, key=lambda one: (one[0], -len(one[1])))
        spelled = text[at:place]
        value = self._value(text, place + len(opening), self._openings[opening], spelled)
        if value is None:
            return None
        name = spelled
        for escaped, char in self._names.items():
            if char != "&":
                name = name.replace(escaped, char)
        return name.replace(self.style.escapes.get("&", "&"), "&"), *value

    def _value(self, text: str, at: int, kinds: list[str], name: str) -> tuple[_Tree, int] | None:
        """A value and the text after it."""
        close = self.style.close.replace("{name}", name)
        item = self.style.item
        if item is not None and text.startswith(item, at) and "array" in kinds:
            return self._items(text, at, close, item)
        if (
            item is not None
            and "object" in kinds
            and text.startswith(self.style.before, at)
            and not text.startswith(close, at)
        ):
            return self._members(text, at, close)
        end = text.find(close, at)
        if end < 0:
            return None
        return _Leaf(_options(text[at:end], kinds, nested=item is not None)), end + len(close)

    def _items(self, text: str, at: int, close: str, item: str) -> tuple[_Tree, int] | None:
        items: list[_Tree] = []
        while not text.startswith(close, at):
            at += len(item)
            opening = max(
                (one for one in self._item_openings if text.startswith(one, at)), key=len, default=None
            )
            if opening is None:
                return None
            read = self._value(text, at + len(opening), self._item_openings[opening], "item")
            if read is None:
                return None
            items.append(read[0])
            at = read[1]
            if not text.startswith((item, close), at):
                return None
        return items, at + len(close)

    def _members(self, text: str, at: int, close: str) -> tuple[_Tree, int] | None:
        members: dict[str, _Tree] = {}
        while not text.startswith(close, at):
            if not text.startswith(self.style.before, at):
                return None
            read = self._member(text, at)
            if read is None:
                return None
            members[read[0]] = read[1]
            at = read[2]
        return members, at + len(close)

    def _decide(self, name: str, tree: _Tree) -> None:
        """Chooses among the options of each leaf so that the value satisfies the schema."""
        leaves = [leaf for leaf in _leaves(tree) if len(leaf.options) > 1]
        if not leaves or (errors := self._errors(name, tree)) == 0:
            return
        for leaf in leaves:
            best = leaf.chosen
            for option in range(1, len(leaf.options)):
                leaf.chosen = option
                if (fewer := self._errors(name, tree)) < errors:
                    errors, best = fewer, option
            leaf.chosen = best

    def _errors(self, name: str, tree: _Tree) -> int:
        """How much of a member the schema refuses."""
        draft = getattr(self.arguments, "_lowered").draft  # noqa: B009 (of the schema as it was read)
        found = validation_errors(self._schema, draft, None, {name: json.loads(_render(tree))})
        place = f"#/{name}"
        return sum(one.place == place or one.place.startswith(f"{place}/") for one in found)


def _options(raw: str, kinds: list[str], *, nested: bool) -> list[str]:
    """The JSON values that a raw text may be."""
    string = json.dumps(raw, ensure_ascii=False)
    if kinds == ["string"]:
        return [string]
    options = [] if isinstance(_value(raw), str) else [raw]
    if "string" in kinds or not (options or nested):
        options.append(string)
    if nested and not raw:
        options += [text for kind, text in (("object", "{}"), ("array", "[]")) if kind in kinds]
    return options


def _value(raw: str) -> Any:
    """The value of a text that is JSON without white space around it; of any other text itself."""
    try:
        return raw if raw != raw.strip() else json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return raw


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _leaves(tree: _Tree) -> list[_Leaf]:
    if isinstance(tree, _Leaf):
        return [tree]
    below = tree.values() if isinstance(tree, dict) else tree
    return [leaf for one in below for leaf in _leaves(one)]


def _render(tree: _Tree) -> str:
    if isinstance(tree, _Leaf):
        return tree.options[tree.chosen]
    if isinstance(tree, dict):
        members = (f"{json.dumps(name, ensure_ascii=False)}: {_render(one)}" for name, one in tree.items())
        return "{" + ", ".join(members) + "}"
    return "[" + ", ".join(map(_render, tree)) + "]"
