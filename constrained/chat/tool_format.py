"""The format in which a model writes tool calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, AnyStr

from constrained.errors import InvalidArgument

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools."""

INDEX = "{index}"
"""In a format, the number of the call, in digits."""
ID = "{id}"
"""In a format, an id of the call that the model chooses."""
MAX_ID = 40
"""The longest id, where the format does not say how long ids are."""


@dataclass(frozen=True)
class ToolFormat:
    """The format of a tool call: ``begin``, ``head``, the arguments, ``tail``.

    The default is the format of Hermes, Qwen 2.5 and Qwen 3. Other formats:

        ToolFormat("<function=", "{name}>", "</function>")
        ToolFormat('{"name": "', '{name}", "parameters": ', "}", single=True)
        ToolFormat("[TOOL_CALLS]", '[{"name": "{name}", "arguments": ', "}]", more='}, {"name": "', special=("[TOOL_CALLS]",))
        ToolFormat("<tool_call>", "{name}", "</tool_call>", between="", parameters={"name": "glm_xml"})

    Attributes:
        begin: the marker that opens a call; free text cannot contain it.
        head: the text between the marker and the arguments, with ``{name}`` for the name of the tool, ``{index}`` where
            the number of the call stands, and ``{id}`` where the model writes an id.
        tail: closes the last call.
        between: separates two complete calls.
        more: the text between the arguments of a call and the name of the next one; None: `tail`, `between`, `begin`
            and `head` up to the name.
        single: a reply has at most one call.
        special: names of special tokens; where they occur in the parts, the special token is required, not its letters.
        parameters: markup of the arguments, as `constrained.grammars.json_schema.parameter_style` takes it; None: they are JSON.
        others: further pairs of `begin` and `head` that a model may write instead.
        first_index: number of the first call.
        id_length: ids have so many letters and digits; None: 1 to `MAX_ID` letters, digits, ``_`` and ``-``.

    Raises:
        InvalidArgument: the start of a call, of its name or of its arguments would be ambiguous.
    """

    begin: str = "<tool_call>"
    head: str = '\n{"name": "{name}", "arguments": '
    tail: str = "}\n</tool_call>"
    between: str = "\n"
    more: str | None = None
    single: bool = False
    special: tuple[str, ...] = ()
    parameters: Mapping[str, Any] | None = None
    others: tuple[tuple[str, str], ...] = ()
    first_index: int = 0
    id_length: int | None = None

    def __post_init__(self) -> None:
        for begin, head in self.forms:
            _, name, after = head.partition("{name}")
            if not begin:
                raise InvalidArgument("a tool format needs an opening marker", action="set begin")
            if not name or "{name}" in after:
                raise InvalidArgument(
                    f"the head {head!r} must contain {{name}} exactly once",
                    action="write {name} in its place",
                )
            if TOOL_NAME.match(after) or not (after or self.parameters):
                raise InvalidArgument(
                    f"the end of the name is ambiguous in the head {head!r}",
                    action="start the text after {name} with a character that no name contains",
                )

    @property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """All pairs of a marker and a head."""
        return ((self.begin, self.head), *self.others)

    @property
    def begins(self) -> tuple[str, ...]:
        """The markers that open a call."""
        return tuple(dict.fromkeys(begin for begin, _ in self.forms))

    @property
    def before_name(self) -> str:
        """The text between `begin` and the name of the first call."""
        return self.head.partition("{name}")[0]

    @property
    def after_name(self) -> str:
        """The text between the name of a tool and the arguments."""
        return self.head.partition("{name}")[2]

    @property
    def call_separator(self) -> str:
        """The text between the arguments of a call and the name of the next one."""
        return self.tail + self.between + self.begin + self.before_name if self.more is None else self.more

    @cached_property
    def style(self) -> Any:
        """The `ParameterStyle` of the arguments; None: they are JSON."""
        from constrained.grammars.json_schema import parameter_style

        return None if self.parameters is None else parameter_style(self.parameters)

    def heads(self, begin: str) -> tuple[str, ...]:
        """The heads that may follow a marker."""
        return tuple(head for other, head in self.forms if other == begin)

    def format_calls(self, *calls: tuple[str, str]) -> str:
        """Calls as text.

        Args:
            calls: name of each, and its arguments as they are written: their JSON, or their markup.
        """
        if self.single and len(calls) > 1:
            return self.between.join(self.format_calls(call) for call in calls)
        parts = []
        for number, (name, arguments) in enumerate(calls):
            opening = self.call_separator if number else self.begin + self.before_name
            parts.append(self._numbered(opening + name + self.after_name, number) + arguments)
        return "".join(parts) + self.tail

    def _numbered(self, text: str, number: int) -> str:
        """A text with the number and the id of a call."""
        length = self.id_length or 9
        call_id = str(number).zfill(length)[-length:]
        return text.replace(INDEX, str(number + self.first_index)).replace(ID, call_id)


HERMES = ToolFormat()


def common_prefix(one: AnyStr, other: AnyStr) -> AnyStr:
    """The longest common prefix."""
    length = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return min(one, other, key=len) if length is None else one[:length]


def name_pattern(heads: Iterable[str], names: Iterable[str], id_length: int | None = None) -> re.Pattern[str]:
    """What matches one of the heads, with one of the names in it; the last group that matched is the name."""
    ids = f"[a-zA-Z0-9_-]{{1,{MAX_ID}}}" if id_length is None else f"[a-zA-Z0-9]{{{id_length}}}"

    def pattern(text: str) -> str:
        return ids.join(r"\d+".join(map(re.escape, part.split(INDEX))) for part in text.split(ID))

    longest_first = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    parts = (head.partition("{name}") for head in heads)
    return re.compile(
        "|".join(f"{pattern(text)}({longest_first}){pattern(after)}" for text, _, after in parts)
    )
