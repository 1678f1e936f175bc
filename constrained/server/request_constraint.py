"""The constraint of a request: which of its fields has it, and how it is compiled."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from constrained.automaton.cache import compile_cached
from constrained.chat.detect import ReplyFormats
from constrained.chat.reply import ReplyConstraint, reply_constraint
from constrained.chat.reply_form import PLAIN
from constrained.chat.tools import Tool
from constrained.constraint import Constraint, choice, gbnf, json_schema, lark, regex, structural_tag
from constrained.constraint.json import ONE_LINE
from constrained.grammars.json_schema.view import local_view, target_of
from constrained.server.errors import invalid_field_error, to_api_error, unsupported_field_error
from constrained.server.extractions import extraction_constraint, has_tools, is_extraction
from constrained.server.other_servers import CONSTRAINT_FIELDS
from constrained.server.reasoning import REASONING_FIELDS
from constrained.server.requests import ApiRequest, ChatRequest, ResponseFormat, StructuredOutputs
from constrained.server.stop_strings import MAX_STOP_LENGTH, MAX_STOPS

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.server.settings import ServerSettings
    from constrained.vocabulary import Vocabulary

_CONSTRAINT_FIELDS = {
    "structured_outputs",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stop",
    "extraction",
    *REASONING_FIELDS,
    *CONSTRAINT_FIELDS,
}
_CONSTRAINT_KINDS = ("json", "regex", "choice", "grammar", "structural_tag", "json_object")


def json_constraint(
    schema: Any, settings: ServerSettings, *, closed: bool | None = None, bare: bool = False
) -> Constraint:
    """The constraint of a schema.

    Args:
        schema: of the request.
        settings: say how JSON is written that it leaves open.
        closed: as the request says; None: as the server does.
        bare: without any white space.
    """
    return json_schema(
        schema,
        whitespace="none" if bare else "bounded",
        separators=None if bare else ONE_LINE,
        additional_properties_default=not (settings.closed if closed is None else closed),
        distinct_names=True,
        max_digits=settings.max_digits,
    )


def shown_schema(request: ApiRequest) -> Any:
    """The schema of a chat's answer that its messages do not describe: they lack a name of its members. None: there is none."""
    if not isinstance(request, ChatRequest):
        return None
    form, outputs = request.response_format, request.structured_outputs
    schema: Any = None
    if form is not None and form.type == "json_schema":
        schema = form.wanted[1]
    elif outputs is not None:
        schema = outputs.json_
    if isinstance(schema, str):
        with contextlib.suppress(ValueError, RecursionError):
            schema = json.loads(schema)
    if not isinstance(schema, dict):
        return None
    view = schema if "$ref" not in schema else local_view(schema)
    root = target_of(view, view["$ref"]) if isinstance(view.get("$ref"), str) else view
    members = root.get("properties") if isinstance(root, dict) else None
    names = list(members) if isinstance(members, dict) else []
    said = json.dumps([message.content for message in request.messages], default=str, ensure_ascii=False)
    return None if names and all(name in said for name in names) else schema


def first_constraints() -> tuple[Constraint, ...]:
    """One of each notation: what the first of a process loads and makes, that of Lark's syntax for most of a second, is there then."""
    return (
        json_schema({"properties": {"a": {"pattern": "a"}}}),
        regex("a"),
        gbnf('root ::= "a"'),
        lark('start: "a"'),
        reply_constraint(),
    )


def compile_constraint(
    request: ApiRequest, vocabulary: Vocabulary, formats: ReplyFormats, settings: ServerSettings
) -> tuple[Constraint, Automaton]:
    """The constraint on all completions of a request, and its automaton.

    Args:
        request: what the client wants.
        vocabulary: of the model.
        formats: how replies are written.
        settings: see `json_constraint`.

    Raises:
        ApiError: the constraint is invalid or cannot be enforced; names the field and the places in it.
        MemoryError: out of memory.
    """
    param, make = _constraint(request, formats, settings)
    try:
        return compile_cached(make(), vocabulary)
    except MemoryError:
        raise
    except Exception as error:
        raise to_api_error(error, param) from error


def callable_tools(request: ApiRequest, formats: ReplyFormats, settings: ServerSettings) -> tuple[Tool, ...]:
    """The tools that a reply may call: those that the prompt shows. The constraint is made for it, and not compiled.

    Raises:
        ApiError: the constraint is invalid.
    """
    if not isinstance(request, ChatRequest) or not request.tools:
        return ()
    param, make = _constraint(request, formats, settings)
    try:
        return shown_tools(make())
    except Exception as error:
        raise to_api_error(error, param) from error


def shown_tools(constraint: Constraint) -> tuple[Tool, ...]:
    """The tools of a constraint that a prompt shows."""
    return tuple(constraint.callable_tools) if isinstance(constraint, ReplyConstraint) else ()


def constraint_field(request: ApiRequest, settings: ServerSettings) -> str | None:
    """Name of the request field with the constraint, or None."""
    return _constraint(request, ReplyFormats(), settings)[0]


def constraint_digest(request: ApiRequest) -> bytes | None:
    """Digest of the fields that determine the constraint; None if there are none (free text)."""
    fields = request.model_dump(by_alias=True, exclude_none=True, include=_CONSTRAINT_FIELDS)
    return hashlib.sha256(json.dumps(fields).encode()).digest() if fields else None


def _constraint(
    request: ApiRequest, formats: ReplyFormats, settings: ServerSettings
) -> tuple[str | None, Callable[[], Constraint]]:
    """The field that contains the constraint, and a function that creates it."""
    if is_extraction(request) and not has_tools(request):
        return extraction_constraint(request)
    param, content = _content(request, settings)
    stop = stop_strings(request) if content is None else ()
    framed = formats.frame != PLAIN and not _is_tag(param)
    if isinstance(request, ChatRequest) and (request.tools or framed):
        tools, choice, parallel = request.tools, request.tool_choice, request.parallel_tool_calls
        return param or ("tools" if tools else "stop"), lambda: reply_constraint(
            tools or (),
            tool_choice=choice if tools else None,
            parallel=parallel is not False,
            stop=stop,
            content=content and content(),
            max_digits=settings.max_digits,
            format=formats.tools,
            frame=formats.frame,
        )
    return (param, content) if content is not None else ("stop", lambda: reply_constraint(stop=stop))


def stop_strings(request: ApiRequest) -> tuple[str, ...]:
    """The texts of ``stop``.

    Raises:
        ApiError: one of them is empty, or they are too many or too long.
    """
    stops = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    if not all(stops):
        raise invalid_field_error("stop", "a stop sequence is empty")
    if len(stops) > MAX_STOPS or any(len(stop) > MAX_STOP_LENGTH for stop in stops):
        raise invalid_field_error(
            "stop", f"give at most {MAX_STOPS}, of at most {MAX_STOP_LENGTH:,} characters each"
        )
    return stops


def _is_tag(param: str | None) -> bool:
    """Whether the constraint is a structural tag: it describes the whole reply, with its reasoning and calls."""
    return param in ("response_format", "structured_outputs.structural_tag")


def _content(
    request: ApiRequest, settings: ServerSettings
) -> tuple[str | None, Callable[[], Constraint] | None]:
    """The field with the constraint on the content, and a function that creates it; (None, None) for free text."""
    form = request.response_format
    formatted = form is not None and form.type != "text"
    given = ["response_format"] if formatted else []
    given += [name for name in CONSTRAINT_FIELDS if getattr(request, name) is not None]
    given += [] if request.structured_outputs is None else ["structured_outputs"]
    if len(given) > 1:
        raise invalid_field_error(given[-1], f"cannot be combined with {given[0]}")
    if request.structured_outputs is not None:
        return _structured(request.structured_outputs, settings)
    if formatted and form is not None:
        return _formatted(form, settings)
    if not given:
        return None, None
    name, value = given[0], getattr(request, given[0])
    return name, lambda: _makers(settings)[CONSTRAINT_FIELDS[name]](value)


def _formatted(form: ResponseFormat, settings: ServerSettings) -> tuple[str, Callable[[], Constraint]]:
    if form.type == "json_object":
        schema = {"type": "object"} if form.schema_ is None else form.schema_
        return "response_format.schema", lambda: json_constraint(schema, settings)
    if form.type == "json_schema":
        field, wanted = form.wanted
        if wanted is None:
            raise invalid_field_error(field, "is missing")
        return field, lambda: json_constraint(wanted, settings)
    if form.type == "structural_tag":
        definition = {"type": form.type, **(form.model_extra or {})}
        return "response_format", lambda: structural_tag(definition)
    raise unsupported_field_error("response_format.type", f"{form.type!r:.200} is unknown")


def _structured(outputs: StructuredOutputs, settings: ServerSettings) -> tuple[str, Callable[[], Constraint]]:
    fields = outputs.model_dump(by_alias=True, exclude_none=True)
    kinds = [name for name in _CONSTRAINT_KINDS if name in fields and fields[name] is not False]
    if outputs.json_ is False:
        kinds.append("json")  # the schema `false`: compilation reports that it is unsatisfiable
    if len(kinds) != 1:
        raise invalid_field_error("structured_outputs", f"give exactly one of {', '.join(_CONSTRAINT_KINDS)}")
    (kind,) = kinds
    closed, bare = outputs.disable_additional_properties, bool(outputs.disable_any_whitespace)

    def schema(source: Any) -> Constraint:
        return json_constraint(source, settings, closed=closed, bare=bare)

    makers: dict[str, Callable[[Any], Constraint]] = {
        **_makers(settings),
        "json": schema,
        "json_object": lambda _: schema({"type": "object"}),
    }
    value = getattr(outputs, "json_" if kind == "json" else kind)
    return f"structured_outputs.{kind}", lambda: makers[kind](value)


def _structural_tag(definition: Any) -> Constraint:
    """The constraint of a structural tag, given as an object or as its JSON text."""
    if isinstance(definition, str):
        try:
            definition = json.loads(definition)
        except (ValueError, RecursionError) as error:
            raise invalid_field_error("structured_outputs.structural_tag", f"is not JSON: {error}") from None
    return structural_tag(definition)


def _grammar(text: str) -> Constraint:
    """GBNF if the grammar contains ``::=``, otherwise Lark."""
    return gbnf(text) if "::=" in text else lark(text)


def _makers(settings: ServerSettings) -> dict[str, Callable[[Any], Constraint]]:
    return {
        "json": lambda schema: json_constraint(schema, settings),
        "regex": regex,
        "choice": choice,
        "grammar": _grammar,
        "structural_tag": _structural_tag,
    }
