"""Python types as LangChain's users give them: read by `constrained.python_type`, never by the JSON Schema that LangChain makes of them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, create_schema_from_function
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass

from constrained.constraint import python_type
from constrained.errors import RejectedValue


class TypedSchema:
    """The JSON Schema of a Python type with all that the type checks, and the values of it.

    Attributes:
        schema: with the keywords of `constrained.grammars.content`.
        embed: the constraints of its strings, as `json_schema` takes them.
        tool: the tool with such arguments, as OpenAI clients write it; a value that is no object is its argument ``value``.
        keeps_json: the value is the JSON value: of a `TypedDict` and of the arguments of a function.
    """

    def __init__(self, hint: Any) -> None:
        self._constraint = python_type(hint)
        self.keeps_json = inspect.isroutine(hint) or hasattr(hint, "__required_keys__")
        name = re.sub(r"\W+", "_", getattr(hint, "__name__", "") or "answer")[:64]
        enforced = self._constraint.enforced_schema
        self.schema: dict[str, Any] = {"title": name, **enforced}
        self.embed = dict(getattr(self._constraint, "embedded", None) or {})
        self._inside = enforced.get("type") != "object" and "$ref" not in enforced
        function = {"name": name, "description": str(enforced.get("description", ""))}
        self.tool: dict[str, Any] = {"type": "function", "function": {**function, **self.arguments()}}

    @classmethod
    def of(cls, hint: Any) -> TypedSchema | None:
        """Of a type; None for a JSON Schema, and for a model of pydantic 1, which LangChain reads."""
        old = isinstance(hint, type) and is_basemodel_subclass(hint) and not hasattr(hint, "model_fields")
        return None if hint is None or isinstance(hint, Mapping) or old else cls(hint)

    def arguments(self) -> dict[str, Any]:
        """The members of a tool's definition that say what its arguments are."""
        parameters = {
            name: value for name, value in self.schema.items() if name not in ("title", "description")
        }
        if self._inside:  # arguments are an object
            definitions = {"$defs": parameters.pop("$defs")} if "$defs" in parameters else {}
            members = {"properties": {"value": parameters}, "required": ["value"]}
            parameters = {"type": "object", **members, **definitions}
        return {"parameters": parameters, **({"embed": self.embed} if self.embed else {})}

    def read(self, message: AIMessage) -> Any:
        """The value in a message."""
        return self._value(str(message.text))

    def value(self, arguments: Any) -> Any:
        """The value in the arguments of a call."""
        return self._value(json.dumps(arguments["value"] if self._inside else arguments))

    def _value(self, text: str) -> Any:
        try:
            value = self._constraint.parse(text)
        except RejectedValue as error:
            raise OutputParserException(str(error), llm_output=text) from error
        return json.loads(text) if self.keeps_json else value


def tool_definition(tool: Any, strict: bool | None = None) -> dict[str, Any]:
    """A tool as OpenAI clients define it, its arguments as its type says.

    Args:
        tool: as LangChain takes it.
        strict: is added to the definition.
    """
    if hasattr(tool, "__required_keys__"):
        definition = TypedSchema(tool).tool
        return (
            definition
            if strict is None
            else {**definition, "function": {**definition["function"], "strict": strict}}
        )
    converted: dict[str, Any] = convert_to_openai_tool(tool, strict=strict)
    hint = tool.tool_call_schema if isinstance(tool, BaseTool) and tool.args_schema else tool
    if inspect.isroutine(hint):  # without the arguments that the program injects
        hint = create_schema_from_function(
            converted["function"]["name"],
            hint,
            filter_args=(),
            parse_docstring=True,
            error_on_invalid_docstring=False,
            include_injected=False,
        )
    typed = None if isinstance(hint, BaseTool) else TypedSchema.of(hint)
    if typed is None:
        return converted
    return {**converted, "function": {**converted["function"], **typed.arguments()}}
