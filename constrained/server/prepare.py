"""Validates a request, compiles its constraint, encodes its prompts and creates its sequences."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constrained.automaton.cache import compile_cached
from constrained.chat.detect import ReplyFormats
from constrained.chat.messages import chat_prompt
from constrained.chat.reply import ReplyConstraint, reply_constraint
from constrained.chat.reply_frame import PLAIN
from constrained.constraint import Constraint, choice, gbnf, json_schema, lark, regex, structural_tag
from constrained.decoding import limits
from constrained.decoding.request import DecodingRequest
from constrained.decoding.sequence import DecodingParams
from constrained.models import LanguageModel
from constrained.sampling import Local, LogitsWarper
from constrained.sampling.warpers import fit_settings
from constrained.server.errors import ApiError, invalid_field_error, to_api_error, unsupported_field_error
from constrained.server.other_servers import CONSTRAINT_FIELDS, check_other_fields, one_of, repetition
from constrained.server.reasoning import REASONING_FIELDS, reasoning_budget, template_variables
from constrained.server.requests import (
    ApiRequest,
    ChatRequest,
    CompletionRequest,
    ResponseFormat,
    StructuredOutputs,
)
from constrained.server.sequence_stream import SequenceStream
from constrained.server.settings import ServerSettings
from constrained.server.speculation import SpeculationCache
from constrained.server.stop_strings import MAX_STOP_LENGTH, MAX_STOPS

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.vocabulary import Vocabulary

_CONSTRAINT_FIELDS = {
    "structured_outputs",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stop",
    *REASONING_FIELDS,
    *CONSTRAINT_FIELDS,
}
_PENALTIES = ("frequency_penalty", "presence_penalty")
_NO_FORMATS = ReplyFormats()
_CONSTRAINT_KINDS = ("json", "regex", "choice", "grammar", "structural_tag", "json_object")


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request whose sequences can be decoded.

    Attributes:
        groups: for each prompt its sequences.
        prompt_tokens: total number of prompt tokens.
        constraint: satisfied by all completions.
    """

    groups: list[list[SequenceStream]]
    prompt_tokens: int
    constraint: Constraint


def check_request(request: ApiRequest, settings: ServerSettings) -> None:
    """Checks the fields that need no compilation.

    Raises:
        ApiError: a field is invalid or unsupported.
    """
    check_other_fields(request)
    if request.stream_options is not None and not request.stream:
        raise invalid_field_error("stream_options", "needs stream=true")
    if isinstance(request, ChatRequest):
        if request.modalities is not None and request.modalities != ["text"]:
            raise unsupported_field_error("modalities", "only 'text' is supported")
        if request.top_logprobs is not None and not request.logprobs:
            raise invalid_field_error("top_logprobs", "needs logprobs")
        if request.tools is None and request.tool_choice not in (None, "none", "auto"):
            raise invalid_field_error("tool_choice", "tools is empty")
    elif isinstance(request, CompletionRequest):
        for name in ("echo", "suffix"):
            if getattr(request, name):
                raise unsupported_field_error(name, "is not supported")
        if request.best_of not in (None, 1, request.n or 1):
            raise unsupported_field_error("best_of", "is not supported")
    _check_sizes(request, settings)


def _check_sizes(request: ApiRequest, settings: ServerSettings) -> None:
    parts: dict[str, Any] = {name: getattr(request, name) for name in CONSTRAINT_FIELDS}
    if request.structured_outputs is not None:
        parts["structured_outputs"] = request.structured_outputs.model_dump(by_alias=True)
    if isinstance(request, ChatRequest):
        if request.response_format is not None:
            parts["response_format"] = request.response_format.model_dump(by_alias=True)
        parts["tools"] = request.tools
    for name, part in parts.items():
        if part is not None and len(json.dumps(part)) > settings.max_schema:
            raise ApiError(
                400,
                f"{name}: is larger than {settings.max_schema} bytes",
                code="schema_too_large",
                param=name,
            )


def prepare_request(
    request: ApiRequest,
    model: LanguageModel,
    settings: ServerSettings,
    formats: ReplyFormats = _NO_FORMATS,
    drafts: SpeculationCache | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    slow: bool = False,
) -> PreparedRequest:
    """Compiles the constraint and encodes the prompts.

    Args:
        request: what the client wants.
        model: encodes the prompts.
        settings: limits.
        formats: how replies are written.
        drafts: draft tables; None: no speculation.
        vocabulary: the model's, with other shards; None: the model's own.
        slow: masks of the constraint are slow: see `SequenceStream`.

    Raises:
        ApiError: a field is invalid, or its constraint cannot be enforced.
    """
    chat = isinstance(request, ChatRequest)
    for token in request.stop_token_ids or ():
        if token not in model.vocabulary.eos_ids:
            raise unsupported_field_error(
                "stop_token_ids", f"{token} does not end sequences of this model; use stop for texts"
            )
    constraint, automaton = compile_constraint(request, vocabulary or model.vocabulary, formats)
    try:
        prompts = _prompts(request, model, constraint, formats)
    except Exception as error:
        raise to_api_error(error, "messages" if chat else "prompt") from error
    copies = request.n or 1
    if len(prompts) * copies > settings.max_batch:
        raise invalid_field_error(
            "n",
            f"the request needs {len(prompts) * copies} completions; at most {settings.max_batch} are allowed",
        )
    try:
        sampler = Local(weights=False)
        warp = _warp(request, automaton.vocabulary.size)
        budget = reasoning_budget(request, formats.frame)
        rules = DecodingParams(automaton, warp, sampler.certain_ends, budget)
        seed = None if request.seed is None else request.seed % 2**64
        seed = limits.make_noise(seed, 0, greedy=rules.warp.greedy).seed
        wanted = max_tokens(request, settings)
        groups: list[list[SequenceStream]] = []
        seen: Counter[tuple[int, ...]] = Counter()
        drafting = None if drafts is None else drafts.for_constraint(constraint, automaton)
        # Free text has them in its grammar, and calls are not cut.
        free = isinstance(constraint, ReplyConstraint) and (
            constraint.content is None or constraint.callable_tools
        )
        stops = () if free else stop_strings(request)
        for ids in prompts:
            limit = limits.token_limit(model, automaton, len(ids), wanted)
            if wanted is None and settings.max_tokens is not None:
                limit = limits.token_limit(model, automaton, len(ids), min(limit, settings.max_tokens))
            # Sequences of equal prompts get different ids, as in `Generator.batch`: their draws are independent.
            first, base = seen[tuple(ids)], sum(map(len, groups))
            seen[tuple(ids)] += copies
            decoding = [DecodingRequest(rules, ids, limit, seed, first + i, drafting) for i in range(copies)]
            groups.append(
                [
                    SequenceStream(
                        base + i, one.new_sequence(), sampler, _top(request), slow=slow, stops=stops
                    )
                    for i, one in enumerate(decoding)
                ]
            )
    except Exception as error:
        raise to_api_error(error) from error
    return PreparedRequest(groups, sum(map(len, prompts)), constraint)


def compile_constraint(
    request: ApiRequest, vocabulary: Vocabulary, formats: ReplyFormats
) -> tuple[Constraint, Automaton]:
    """The constraint on all completions of a request, and its automaton.

    Raises:
        ApiError: the constraint is invalid or cannot be enforced; names the field and the places in it.
        MemoryError: out of memory.
    """
    param, make = _constraint(request, formats)
    try:
        return compile_cached(make(), vocabulary)
    except MemoryError:
        raise
    except Exception as error:
        raise to_api_error(error, param) from error


def uses_tool_format(request: ApiRequest) -> bool:
    """Whether the request has tools, tool calls or tool results, so the tool-call format is needed."""
    return isinstance(request, ChatRequest) and (
        bool(request.tools)
        or any(message.tool_calls or message.role == "tool" for message in request.messages)
    )


def without_prompt(request: ApiRequest) -> ApiRequest:
    """The request with an empty prompt, as compilation does not need it."""
    emptied: dict[str, Any] = {"messages": []} if isinstance(request, ChatRequest) else {"prompt": ""}
    return request.model_copy(update=emptied)


def constraint_digest(request: ApiRequest) -> bytes | None:
    """Digest of the fields that determine the constraint; None if there are none (free text)."""
    fields = request.model_dump(by_alias=True, exclude_none=True, include=_CONSTRAINT_FIELDS)
    return hashlib.sha256(json.dumps(fields).encode()).digest() if fields else None


def _constraint(request: ApiRequest, formats: ReplyFormats) -> tuple[str | None, Callable[[], Constraint]]:
    """The field that contains the constraint, and a function that creates it."""
    param, content = _content(request)
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


def _content(request: ApiRequest) -> tuple[str | None, Callable[[], Constraint] | None]:
    """The field with the constraint on the content, and a function that creates it; (None, None) for free text."""
    form = request.response_format if isinstance(request, ChatRequest) else None
    formatted = form is not None and form.type != "text"
    given = ["response_format"] if formatted else []
    given += [name for name in CONSTRAINT_FIELDS if getattr(request, name) is not None]
    given += [] if request.structured_outputs is None else ["structured_outputs"]
    if len(given) > 1:
        raise invalid_field_error(given[-1], f"cannot be combined with {given[0]}")
    if request.structured_outputs is not None:
        return _structured(request.structured_outputs)
    if formatted and form is not None:
        return _formatted(form)
    if not given:
        return None, None
    name, value = given[0], getattr(request, given[0])
    return name, lambda: _MAKERS[CONSTRAINT_FIELDS[name]](value)


def _formatted(form: ResponseFormat) -> tuple[str, Callable[[], Constraint]]:
    if form.type == "json_object":
        schema = {"type": "object"} if form.schema_ is None else form.schema_
        return "response_format.schema", lambda: json_schema(schema)
    if form.type == "json_schema":
        inner = form.json_schema
        if inner is None:
            raise invalid_field_error("response_format.json_schema", "is missing")
        if (wanted := inner.schema_) is None:
            raise invalid_field_error("response_format.json_schema.schema", "is missing")
        return "response_format.json_schema.schema", lambda: json_schema(wanted)
    if form.type == "structural_tag":
        definition = {"type": form.type, **(form.model_extra or {})}
        return "response_format", lambda: structural_tag(definition)
    raise unsupported_field_error("response_format.type", f"{form.type!r} is unknown")


def _structured(outputs: StructuredOutputs) -> tuple[str, Callable[[], Constraint]]:
    fields = outputs.model_dump(by_alias=True, exclude_none=True)
    kinds = [name for name in _CONSTRAINT_KINDS if name in fields and fields[name] is not False]
    if outputs.json_ is False:
        kinds.append("json")  # the schema `false`: compilation reports that it is unsatisfiable
    if len(kinds) != 1:
        raise invalid_field_error("structured_outputs", f"give exactly one of {', '.join(_CONSTRAINT_KINDS)}")
    (kind,) = kinds
    closed = bool(outputs.disable_additional_properties)
    spaces: Any = "none" if outputs.disable_any_whitespace else "bounded"

    def schema(source: Any) -> Constraint:
        return json_schema(source, whitespace=spaces, additional_properties_default=not closed)

    makers: dict[str, Callable[[Any], Constraint]] = {
        **_MAKERS,
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
        except ValueError as error:
            raise invalid_field_error("structured_outputs.structural_tag", f"is not JSON: {error}") from None
    return structural_tag(definition)


def _grammar(text: str) -> Constraint:
    """GBNF if the grammar contains ``::=``, otherwise Lark."""
    return gbnf(text) if "::=" in text else lark(text)


_MAKERS: dict[str, Callable[[Any], Constraint]] = {
    "json": json_schema,
    "regex": regex,
    "choice": choice,
    "grammar": _grammar,
    "structural_tag": _structural_tag,
}


def _prompts(
    request: ApiRequest, model: LanguageModel, constraint: Constraint, formats: ReplyFormats
) -> list[list[int]]:
    if isinstance(request, ChatRequest):
        messages = [message.model_dump(exclude_none=True) for message in request.messages]
        tools = constraint.callable_tools if isinstance(constraint, ReplyConstraint) else ()
        return [
            model.encode(
                chat_prompt(
                    model, messages, tools, format=formats.tools, **template_variables(request, model)
                )
            )
        ]
    assert isinstance(request, CompletionRequest)
    prompt = request.prompt
    several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
    prompts: list[Any] = list(prompt) if several else [prompt]
    return [model.encode(one, chat=False) for one in prompts]


def _warp(request: ApiRequest, tokens: int) -> LogitsWarper:
    """The logits warper of a request; the default temperature is 1, as in OpenAI's API. `tokens`: of the vocabulary."""
    settings: dict[str, Any] = {name: getattr(request, name) for name in _PENALTIES}
    settings |= {"logit_bias": _bias(request, tokens), **repetition(request)}
    temperature = 1.0 if request.temperature is None else request.temperature
    if temperature:  # otherwise greedy: cutting the distribution cannot change the most likely token
        top_k = None if request.top_k in (-1, 0) else request.top_k
        settings |= {"top_k": top_k, "top_p": request.top_p, "min_p": request.min_p}
    return LogitsWarper(temperature, **fit_settings(settings, tokens))


def _bias(request: ApiRequest, tokens: int) -> dict[int, float]:
    """The bias by token id; in JSON the ids are strings."""
    bias = {}
    for name, value in (request.logit_bias or {}).items():
        if not (name.isascii() and name.isdecimal() and len(name) < 10 and int(name) < tokens):
            raise invalid_field_error("logit_bias", f"{name!r:.40} is no token id below {tokens}")
        bias[int(name)] = value
    return bias


def max_tokens(request: ApiRequest, settings: ServerSettings) -> int | None:
    """The token limit of a request, as far as it or the server has one."""
    requested = one_of(request, "max_tokens", "n_predict")
    if isinstance(request, ChatRequest) and request.max_completion_tokens is not None:
        requested = request.max_completion_tokens
    if requested is None or settings.max_tokens is None:
        return requested
    return min(requested, settings.max_tokens)


def _top(request: ApiRequest) -> int | None:
    """Number of top log-probabilities per token; None: no log-probabilities."""
    if isinstance(request, ChatRequest):
        return (request.top_logprobs or 0) if request.logprobs else None
    return request.logprobs if isinstance(request, CompletionRequest) else None


def constraint_field(request: ApiRequest) -> str | None:
    """Name of the request field with the constraint, or None."""
    return _constraint(request, _NO_FORMATS)[0]
