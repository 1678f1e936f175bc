"""Tools as clients describe them, and the form in which a model calls them.

Must not know: LangChain, servers, models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, AnyStr, Literal

from constrained.constraint import Constraint, json_schema
from constrained.errors import (
    ConstraintError,
    ConstraintTooLarge,
    InvalidArgument,
    InvalidConstraint,
    Problem,
)

ToolChoice = Literal["auto", "required", "none"]
"""Whether a reply may call tools, has to, or must not."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class Tool:
    """A function that a model may ask to be called.

    Attributes:
        name: letters, digits, ``_`` and ``-``, at most 64.
        parameters: JSON Schema of the arguments, an object.
        description: what it does, for the model.
        closed: where an object of the schema declares members and says nothing about others, there are none.
    """

    name: str
    parameters: Mapping[str, Any]
    description: str = ""
    closed: bool = True

    @cached_property
    def arguments(self) -> Constraint:
        """The constraint of the arguments' JSON, with the separators that chat templates write: ``{"a": 1, "b": 2}``."""
        return json_schema(
            self.parameters, additional_properties_default=not self.closed, separators=(", ", ": ")
        )

    def as_openai(self) -> dict[str, Any]:
        """The tool as OpenAI clients and chat templates write it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    def __hash__(self) -> int:
        return hash((self.name, self.arguments.key))


@dataclass(frozen=True)
class ToolFormat:
    """How a model writes a call: ``begin``, ``head``, the arguments as JSON, ``tail``.

    The default is what Hermes, Qwen 2.5 and Qwen 3 write. Others are said the same way:

        ToolFormat("<function=", "{name}>", "</function>")
        ToolFormat('{"name": "', '{name}", "parameters": ', "}", single=True)
        ToolFormat("[TOOL_CALLS]", '[{"name": "{name}", "arguments": ', "}]", more='}, {"name": "', special=("[TOOL_CALLS]",))

    Attributes:
        begin: the marker that opens a call; free text in which it stands is no free text.
        head: what follows it, up to the arguments, with ``{name}`` for the name of the tool.
        tail: what closes the last call.
        between: stands between two calls that are written alike.
        more: what stands between the arguments of a call and the name of the next one; None: `tail`, `between`, and
            `begin` and `head` up to the name.
        single: there is never a second call.
        special: names of special tokens: where they stand in the parts, these tokens are meant and not their letters.

    Raises:
        InvalidArgument: the parts do not tell where a call, its name or its arguments begin.
    """

    begin: str = "<tool_call>"
    head: str = '\n{"name": "{name}", "arguments": '
    tail: str = "}\n</tool_call>"
    between: str = "\n"
    more: str | None = None
    single: bool = False
    special: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _, name, after = self.head.partition("{name}")
        if not self.begin:
            raise InvalidArgument("a tool format needs an opening marker", action="set begin")
        if not name or "{name}" in after:
            raise InvalidArgument(
                f"the head {self.head!r} must contain {{name}} exactly once",
                action="write {name} in its place",
            )
        if not after or _NAME.match(after):
            raise InvalidArgument(
                f"the end of the name is ambiguous in the head {self.head!r}",
                action="start the text after {name} with a character that no name contains",
            )

    @property
    def before_name(self) -> str:
        """What stands between `begin` and the name of the first call."""
        return self.head.partition("{name}")[0]

    def call_head(self, name: str) -> str:
        """What stands from the name of a tool up to the arguments."""
        return name + self.head.partition("{name}")[2]

    @property
    def call_separator(self) -> str:
        """What stands between the arguments of a call and the name of the next one."""
        return self.tail + self.between + self.begin + self.before_name if self.more is None else self.more

    def format_calls(self, *calls: tuple[str, str]) -> str:
        """Calls as text.

        Args:
            calls: name and JSON of the arguments of each.
        """
        if self.single and len(calls) > 1:
            return self.between.join(self.format_calls(call) for call in calls)
        written = self.call_separator.join(self.call_head(name) + arguments for name, arguments in calls)
        return f"{self.begin}{self.before_name}{written}{self.tail}"


HERMES = ToolFormat()


def common_prefix(one: AnyStr, other: AnyStr) -> AnyStr:
    """The longest beginning of both."""
    length = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return min(one, other, key=len) if length is None else one[:length]


def parse_tools(tools: Sequence[Any], *, closed: bool = True) -> tuple[Tool, ...]:
    """Tools out of what OpenAI clients send.

    Args:
        tools: ``{"type": "function", "function": {"name", "description", "parameters"}}``, the inner object alone,
            or a `Tool`. Without parameters a tool takes none. A ``strict`` flag changes nothing: arguments are
            always exact.
        closed: as in `Tool`; a ``strict`` tool is closed in any case.

    Raises:
        InvalidConstraint: not tools: a wrong shape, a name that cannot be one, or one name twice.
        ConstraintError, ConstraintTooLarge: the schema of a tool cannot be enforced; names the tool and the place.
    """
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Sequence):
        raise InvalidConstraint(f"tools are a {type(tools).__name__}", action="pass a list of tools")
    read: dict[str, Tool] = {}
    for index, given in enumerate(tools):
        tool = given if isinstance(given, Tool) else _tool(given, f"#/tools/{index}", closed)
        if tool.name in read:
            raise InvalidConstraint(
                f"duplicate tool name {tool.name!r}",
                Problem(f"#/tools/{index}", "is a duplicate name", tool.name),
                action="rename one of them",
            )
        _check_schema(tool)
        read[tool.name] = tool
    return tuple(read.values())


def _tool(given: Any, place: str, closed: bool) -> Tool:
    if not isinstance(given, Mapping):
        raise _wrong(place, f"is a {type(given).__name__}", "an object with a name and parameters")
    kind = given.get("type", "function")
    if kind != "function":
        raise _wrong(f"{place}/type", "is no kind of tool that can be called here", '"function"', kind)
    function = given
    if "function" in given:
        function, place = given["function"], f"{place}/function"
    if not isinstance(function, Mapping):
        raise _wrong(place, f"is a {type(function).__name__}", "an object with a name and parameters")
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(
            f"{place}/name", "cannot be a tool's name", "1 to 64 letters, digits, _ and -, in ASCII", name
        )
    description = function.get("description")
    if description is not None and not isinstance(description, str):
        raise _wrong(f"{place}/description", f"is a {type(description).__name__}", "a text")
    return Tool(
        name,
        _parameters(function.get("parameters"), f"{place}/parameters"),
        description or "",
        closed=closed or function.get("strict") is True,
    )


def _parameters(schema: Any, place: str) -> Mapping[str, Any]:
    """The schema of an object."""
    if schema is None:
        return _NO_PARAMETERS
    if not isinstance(schema, Mapping):
        raise _wrong(place, f"is a {type(schema).__name__}", "a JSON Schema of an object")
    kind = schema.get("type")
    # Before 2019-09 nothing counts beside a reference.
    alone = "$ref" in schema and re.search(r"draft-0[467]", str(schema.get("$schema")))
    if kind is None and not alone:
        return {"type": "object", **schema}
    if kind != "object" or alone:
        raise _wrong(place, "is not the schema of an object", '"type": "object" in it', dict(schema))
    return schema


def _wrong(place: str, reason: str, wanted: str, value: Any = None) -> InvalidConstraint:
    problem = Problem(place, reason) if value is None else Problem(place, reason, value)
    return InvalidConstraint("a tool cannot be used", problem, action=f"give {wanted}")


def _check_schema(tool: Tool) -> None:
    """Lowers the schema of a tool, so that what is wrong with it is said with the tool's name."""
    try:
        _ = tool.arguments.grammar
    except (ConstraintError, ConstraintTooLarge) as error:
        raise type(error)(
            f"the parameters of the tool {tool.name!r}: {error.summary}", error.problems, action=error.action
        ) from error


def parse_tool_choice(choice: Any, tools: Sequence[Tool]) -> tuple[ToolChoice, tuple[Tool, ...]]:
    """Which tools may be called, and whether they have to be.

    Args:
        choice: ``"auto"``, ``"required"`` or ``"any"``, ``"none"``, the name of a tool, or these in the shapes that
            clients send; None is ``"auto"``.
        tools: those there are.

    Returns:
        The choice, and the tools that it leaves: one, if it names it.

    Raises:
        InvalidArgument: not a choice, one that needs tools where there are none, or a name that no tool has.
    """
    named = choice
    if isinstance(choice, Mapping):
        inner = choice.get("function", choice)
        named = inner.get("name") if isinstance(inner, Mapping) else None
        if named is None and choice.get("type") in ("auto", "any", "required", "none"):
            choice = named = choice["type"]
        elif named is None:
            raise InvalidArgument(f"tool_choice is {choice!r}", action="give the function's name in it")
    words: dict[Any, ToolChoice] = {
        None: "auto",
        "auto": "auto",
        "none": "none",
        False: "none",
        True: "required",
        "any": "required",
        "required": "required",
    }
    if not isinstance(choice, Mapping | list) and choice in words:
        meant = words[choice]
        if meant == "required" and not tools:
            raise InvalidArgument("tool_choice requires a call, but there are no tools", action="pass tools")
        return meant, tuple(tools)
    found = tuple(tool for tool in tools if tool.name == named)
    if not found:
        known = ", ".join(repr(tool.name) for tool in tools) or "none"
        raise InvalidArgument(
            f"tool_choice names the unknown tool {named!r}",
            action=f"use 'auto', 'required', 'none' or the name of a tool: {known}",
        )
    return "required", found
