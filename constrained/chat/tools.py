"""Tools as OpenAI clients define them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from constrained.chat.custom_input import INPUT
from constrained.chat.tool_format import HERMES, TOOL_NAME, ToolFormat
from constrained.constraint import Constraint, json_schema, lark, regex
from constrained.constraint.json import MAX_DIGITS, ONE_LINE
from constrained.constraint.shared_rules import shared_grammar
from constrained.constraint.structural.parameters import parameters
from constrained.errors import (
    ConstraintError,
    ConstraintTooLarge,
    InvalidArgument,
    InvalidConstraint,
    Problem,
)
from constrained.vocabulary.special_tokens import letters

__all__ = ["HERMES", "Tool", "ToolChoice", "ToolFormat", "parse_tool_choice", "parse_tools", "tool_errors"]

ToolChoice = Literal["auto", "required", "none"]
"""Whether a reply may call tools, has to, or must not."""

_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class Tool:
    """A function that a model may call, or a custom tool: it takes a text, the one member of its arguments.

    Attributes:
        name: letters, digits, ``_`` and ``-``, at most 64.
        parameters: JSON Schema of the arguments, an object.
        description: shown to the model.
        closed: objects have no members that their schema does not declare, unless it allows them explicitly.
        max_digits: as in `json_schema`; None: no limit.
        custom: whether it is a custom tool.
        grammar: of the text of a custom tool; None: any text.
        embed: as in `json_schema`.
    """

    name: str
    parameters: Mapping[str, Any]
    description: str = ""
    closed: bool = True
    max_digits: int | None = MAX_DIGITS
    custom: bool = False
    grammar: Constraint | None = None
    embed: Mapping[str, Constraint] | None = None

    @cached_property
    def arguments(self) -> Constraint:
        """The constraint of the arguments' JSON, with the separators that chat templates write: ``{"a": 1, "b": 2}``."""
        text = self.grammar
        return json_schema(
            self.parameters if text is None else _custom_parameters({"x-content": INPUT}),
            embed=self.embed if text is None else {INPUT: text},
            additional_properties_default=not self.closed,
            distinct_names=True,
            separators=ONE_LINE,
            max_digits=self.max_digits,
        )

    def arguments_in(self, format: ToolFormat, special: Sequence[str] = ()) -> Constraint:
        """The constraint of the arguments as a format writes them.

        Args:
            format: how calls are written.
            special: names of all special tokens of the reply.
        """
        if format.parameters is None:
            return self.arguments
        marks = {name: mark[0] for name, mark in letters(special).items()}
        ordered = not format.style.any_order
        return parameters(self.arguments, {**format.parameters, "special": marks}, ordered=ordered)

    def as_openai(self) -> dict[str, Any]:
        """The tool as OpenAI clients and chat templates write it."""
        shown = self.arguments.schema
        function = {"name": self.name, "description": self.description, "parameters": shown}
        return {"type": "function", "function": function}

    def __hash__(self) -> int:
        return hash((self.name, self.arguments.key))


def parse_tools(
    tools: Sequence[Any], *, closed: bool = True, max_digits: int | None = MAX_DIGITS
) -> tuple[Tool, ...]:
    """Parses tools in the form of OpenAI's API.

    Args:
        tools: ``{"type": "function", "function": {"name", "description", "parameters"}}``, the inner object alone,
            ``{"type": "custom", "custom": {"name", "description", "format"}}`` (also without ``"custom"`` around), or
            a `Tool`. A function without parameters takes none. A format is ``{"type": "grammar", "syntax",
            "definition"}``: a Lark grammar, without a lexer, or a regular expression of Rust. The constraints that
            ``parameters`` names may stand beside them, in ``embed``.
        closed: as in `Tool`; a ``strict`` tool is always closed. Arguments satisfy the schema with or without ``strict``.
        max_digits: as in `Tool`.

    Raises:
        InvalidConstraint: a tool is malformed, or its name is invalid or a duplicate.
        ConstraintError, ConstraintTooLarge: the schema of a tool cannot be enforced; names the tool and the place.
    """
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Sequence):
        raise InvalidConstraint(f"tools are a {type(tools).__name__}", action="pass a list of tools")
    parsed: dict[str, Tool] = {}
    wrong: dict[int, ConstraintError | ConstraintTooLarge] = {}
    for index, definition in enumerate(tools):
        place = f"#/tools/{index}"
        try:
            tool = (
                definition if isinstance(definition, Tool) else _tool(definition, place, closed, max_digits)
            )
            if tool.name in parsed:
                raise InvalidConstraint(
                    f"duplicate tool name {tool.name!r}",
                    Problem(place, "is a duplicate name", tool.name),
                    action="rename one of them",
                )
            parsed[tool.name] = tool
            with tool_errors(tool):
                shared_grammar(tool.arguments)  # lowers its schema
        except (ConstraintError, ConstraintTooLarge) as error:
            wrong[index] = error
    if wrong:
        raise _together(wrong) if len(wrong) > 1 else next(iter(wrong.values()))
    return tuple(parsed.values())


def _together(errors: Mapping[int, ConstraintError | ConstraintTooLarge]) -> Exception:
    """One error for the tools at some places: its kind is that of the first one, and problems have places in the list of tools."""
    problems = [
        problem
        if problem.place.startswith("#/tools/")
        else replace(problem, place=f"#/tools/{index}/function/parameters{problem.place.removeprefix('#')}")
        for index, error in errors.items()
        for problem in error.problems
    ]
    summaries = dict.fromkeys(error.summary for error in errors.values())
    actions = dict.fromkeys(error.action for error in errors.values() if error.action)
    return type(next(iter(errors.values())))(
        "; ".join(summaries), problems, action="; ".join(actions) or None
    )


def _tool(definition: Any, place: str, closed: bool, max_digits: int | None) -> Tool:
    if not isinstance(definition, Mapping):
        raise _wrong(place, f"is a {type(definition).__name__}", "an object with a name and parameters")
    kind = definition.get("type", "function")
    if kind not in ("function", "custom"):
        raise _wrong(f"{place}/type", "is not a supported type of tool", '"function" or "custom"', kind)
    function = described(definition)
    if function is not definition:
        place = f"{place}/{kind}"
    if not isinstance(function, Mapping):
        raise _wrong(place, f"is a {type(function).__name__}", "an object with a name and parameters")
    name = function.get("name")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise _wrong(
            f"{place}/name", "cannot be a tool's name", "1 to 64 letters, digits, _ and -, in ASCII", name
        )
    description = function.get("description")
    if description is not None and not isinstance(description, str):
        raise _wrong(f"{place}/description", f"is a {type(description).__name__}", "a string")
    if kind == "custom":
        grammar, shown = _format(function.get("format"), f"{place}/format")
        shown_parameters = _custom_parameters({"description": shown})
        return Tool(name, shown_parameters, description or "", custom=True, grammar=grammar)
    return Tool(
        name,
        _parameters(function.get("parameters"), f"{place}/parameters"),
        description or "",
        closed=closed or function.get("strict") is True,
        max_digits=max_digits,
        embed=_embedded(function.get("embed")),
    )


def described(definition: Any) -> Any:
    """What an API puts around a function or a custom tool, in a definition, a choice or a list of tools, taken off."""
    if not isinstance(definition, Mapping):
        return definition
    return definition.get("function" if "function" in definition else "custom", definition)


def _custom_parameters(text: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = {INPUT: {"type": "string", **text}}
    return {"type": "object", "properties": properties, "required": [INPUT], "additionalProperties": False}


def _format(form: Any, place: str) -> tuple[Constraint | None, str]:
    """The grammar of a custom tool's text, None for any text, and how a prompt describes it."""
    if form is None or (isinstance(form, Mapping) and form.get("type") == "text"):
        return None, "The input, as plain text."
    inner = form.get("grammar", form) if isinstance(form, Mapping) and form.get("type") == "grammar" else None
    inner = inner if isinstance(inner, Mapping) else {}
    syntax, definition = inner.get("syntax"), inner.get("definition")
    if syntax not in ("lark", "regex") or not isinstance(definition, str):
        wanted = '{"type": "text"} or {"type": "grammar", "syntax": "lark" or "regex", "definition": a text}'
        raise _wrong(place, "is no format of a custom tool", wanted, form)
    if syntax == "lark":
        return lark(definition, lexer="dynamic"), f"The input, a text of this Lark grammar:\n{definition}"
    return regex(
        definition, dialect="rust"
    ), f"The input, a text that this regular expression matches:\n{definition}"


def _embedded(value: Any) -> Mapping[str, Constraint] | None:
    """Constraints by name; anything else comes from a client, to whom the member means nothing."""
    constraints = isinstance(value, Mapping) and all(isinstance(one, Constraint) for one in value.values())
    return value if constraints else None


def _parameters(schema: Any, place: str) -> Mapping[str, Any]:
    """The schema of the arguments, with ``"type": "object"``."""
    if schema is None:
        return _NO_PARAMETERS
    if not isinstance(schema, Mapping):
        raise _wrong(place, f"is a {type(schema).__name__}", "a JSON Schema of an object")
    kind = schema.get("type")
    # Before 2019-09 keywords beside a $ref are ignored, so "type" cannot be added.
    ref_only = "$ref" in schema and re.search(r"draft-0[467]", str(schema.get("$schema")))
    if kind is None and not ref_only:
        return {"type": "object", **schema}
    if kind != "object" or ref_only:
        raise _wrong(place, "is not the schema of an object", '"type": "object" in it', dict(schema))
    return schema


def _wrong(place: str, reason: str, wanted: str, value: Any = None) -> InvalidConstraint:
    problem = Problem(place, reason) if value is None else Problem(place, reason, value)
    return InvalidConstraint("a tool cannot be used", problem, action=f"give {wanted}")


@contextmanager
def tool_errors(tool: Tool) -> Iterator[None]:
    """Errors of the schema name the tool."""
    try:
        yield
    except (ConstraintError, ConstraintTooLarge) as error:
        raise type(error)(
            f"the {'parameters' if tool.grammar is None else 'grammar'} of the tool {tool.name!r}: {error.summary}",
            error.problems,
            action=error.action,
        ) from error


def parse_tool_choice(choice: Any, tools: Sequence[Tool]) -> tuple[ToolChoice, tuple[Tool, ...]]:
    """Parses a tool choice.

    Args:
        choice: ``"auto"``, ``"required"`` or ``"any"``, ``"none"``, the name of a tool, or one of these as an
            object of OpenAI's API, ``allowed_tools`` included; None is ``"auto"``.
        tools: all tools of the request.

    Returns:
        The choice, and the tools that may be called: one if the choice names it.

    Raises:
        InvalidArgument: the choice is malformed, requires a call without tools, or names an unknown tool.
    """
    named = choice
    if isinstance(choice, Mapping):
        if choice.get("type") == "allowed_tools":
            return _allowed(choice.get("allowed_tools", choice), tools)
        inner = described(choice)
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
        parsed = words[choice]
        if parsed == "required" and not tools:
            raise InvalidArgument("tool_choice requires a call, but tools is empty", action="pass tools")
        return parsed, tuple(tools)
    return "required", (_named(named, tools),)


def _named(name: Any, tools: Sequence[Tool]) -> Tool:
    for tool in tools:
        if tool.name == name:
            return tool
    known = ", ".join(repr(tool.name) for tool in tools) or "none"
    raise InvalidArgument(
        f"tool_choice names the unknown tool {name!r}",
        action=f"use 'auto', 'required', 'none' or the name of a tool: {known}",
    )


def _allowed(choice: Any, tools: Sequence[Tool]) -> tuple[ToolChoice, tuple[Tool, ...]]:
    """The mode and the tools of ``allowed_tools``."""
    mode = choice.get("mode", "auto") if isinstance(choice, Mapping) else None
    listed = choice.get("tools") if isinstance(choice, Mapping) else None
    if mode not in ("auto", "required") or not isinstance(listed, list) or not listed:
        raise InvalidArgument(
            f"allowed_tools is {choice!r}", action="give a mode, 'auto' or 'required', and a list of tools"
        )
    able = []
    for one in listed:
        inner = described(one)
        able.append(_named(inner.get("name") if isinstance(inner, Mapping) else one, tools))
    return mode, tuple(dict.fromkeys(able))
