"""Arguments of tool calls as names and literals, read back as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from constrained.chat.parameters import Parameter
from constrained.grammars.json_schema import LITERAL_ESCAPES, LITERAL_NAME, ParameterStyle

_BARE = re.compile(r"[^,\[\](){}]*")
"""A number or a word."""


@dataclass
class LiteralReader:
    """Reads parameters one by one, as soon as it is sure where they end.

    Attributes:
        style: the markup, with literals.
    """

    style: ParameterStyle
    _started: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        style = self.style
        self._opening, self._close = style.types["string"][0], style.closes.get("string", "")
        self._words = {text: word for word, texts in style.words.items() for text in texts}
        self._names = style.inner_names or ((style.before, style.after_name),)

    def read(self, text: str) -> Parameter | None:
        """The parameter at the beginning of a text, with the separator before it; None: it is not whole."""
        start = len(self.style.separator) if self._started else 0
        if not text.startswith(self.style.separator[:start]):
            return None
        named = self._name(text, start, ((self.style.before, self.style.after_name),))
        found = None if named is None else self._value(text, named[1])
        if named is None or found is None:
            return None
        self._started = True
        return Parameter(named[0], *found)

    def _name(self, text: str, at: int, forms: tuple[tuple[str, str], ...]) -> tuple[str, int] | None:
        """A name, and where the text after it ends."""
        for before, after in forms:
            if not text.startswith(before, at):
                continue
            name = LITERAL_NAME.match(text, at + len(before))
            if name is not None and text.startswith(after, name.end()):
                return name.group(), name.end() + len(after)
        return None

    def _value(self, text: str, at: int) -> tuple[str, int] | None:
        """A value as JSON, and where it ends. Values may be nested deeply, so what is open is a list."""
        out: list[str] = []
        opened: list[str] = []
        while at < len(text):
            char = text[at]
            if char in "{[":
                out.append(char)
                opened.append("}" if char == "{" else "]")
                at += 1
            elif opened and char == opened[-1]:  # an empty object or array
                out.append(opened.pop())
                at += 1
            else:
                found = self._scalar(text, at)
                if found is None:
                    return None
                out.append(found[0])
                at = found[1]
            if char not in "{[":
                while opened and text.startswith(opened[-1], at):
                    out.append(opened.pop())
                    at += 1
                if not opened:
                    return "".join(out), at
                if not text.startswith(self.style.separator, at):
                    return None
                out.append(", ")
                at += len(self.style.separator)
            if opened[-1] == "}" and not text.startswith("}", at):
                named = self._name(text, at, self._names)
                if named is None:
                    return None
                out.append(json.dumps(named[0], ensure_ascii=False) + ": ")
                at = named[1]
        return None

    def _scalar(self, text: str, at: int) -> tuple[str, int] | None:
        """A string, number, boolean or null as JSON, and where it ends."""
        if text[at] in self.style.quotes:
            return _python_string(text, at)
        if self._opening and text.startswith(self._opening, at):
            start = at + len(self._opening)
            end = text.find(self._close, start)
            return (
                None if end < 0 else (json.dumps(text[start:end], ensure_ascii=False), end + len(self._close))
            )
        bare = _BARE.match(text, at)
        assert bare is not None
        if bare.end() == len(text):
            return None  # more of it may follow
        return self._words.get(bare.group(), bare.group()), bare.end()


def _python_string(text: str, at: int) -> tuple[str, int] | None:
    """A string between quotes as JSON, and where it ends."""
    quote, chars = text[at], list[str]()
    at += 1
    while at < len(text):
        if text[at] == quote:
            return json.dumps("".join(chars), ensure_ascii=False), at + 1
        if text[at] == "\\":
            at += 1
            if at == len(text):
                return None
            chars.append(LITERAL_ESCAPES.get(text[at], "\\" + text[at]))
        else:
            chars.append(text[at])
        at += 1
    return None
