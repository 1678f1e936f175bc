"""Validates a request, encodes its prompts and creates its sequences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.chat.detect import ReplyFormats, detect_formats
from constrained.chat.messages import asked_text, chat_prompt, with_schema_instruction
from constrained.chat.reply import ReplyConstraint
from constrained.chat.tools import HERMES, Tool, ToolFormat, parse_tool_choice
from constrained.decoding import limits
from constrained.decoding.repetition import repetition_guard
from constrained.decoding.request import DecodingRequest
from constrained.decoding.sequence import DecodingParams
from constrained.decoding.speculation import DraftSchedulers
from constrained.errors import InvalidArgument
from constrained.models import LanguageModel
from constrained.sampling import Local, LogitsWarper
from constrained.sampling.warpers import fit_settings
from constrained.server.errors import ApiError, invalid_field_error, to_api_error, unsupported_field_error
from constrained.server.extractions import check_extraction
from constrained.server.jobs import PreparedRequest
from constrained.server.other_servers import CONSTRAINT_FIELDS, check_other_fields, one_of, repetition
from constrained.server.reasoning import is_thinking, reasoning_budget, template_variables, thinking_field
from constrained.server.request_constraint import (
    compile_constraint,
    shown_schema,
    shown_tools,
    stop_strings,
)
from constrained.server.requests import ApiRequest, ChatRequest, CompletionRequest, as_dicts
from constrained.server.sequence_stream import SequenceStream
from constrained.server.settings import ServerSettings

if TYPE_CHECKING:
    from constrained.vocabulary import Vocabulary

_NO_FORMATS = ReplyFormats()
_PENALTIES = ("frequency_penalty", "presence_penalty")


class EncodedPrompts(NamedTuple):
    """The prompts of a request.

    Attributes:
        ids: of their tokens.
        formats: how the reply is written.
    """

    ids: Sequence[Sequence[int]]
    formats: ReplyFormats


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
        if not request.tools:
            try:  # a choice without tools that asks for a call
                parse_tool_choice(request.tool_choice, ())
            except InvalidArgument as error:
                raise to_api_error(error, "tool_choice") from error
        if request.extraction:
            check_extraction(request)
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
    if request.response_format is not None:
        parts["response_format"] = request.response_format.model_dump(by_alias=True)
    if isinstance(request, ChatRequest):
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
    drafts: DraftSchedulers | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    prompts: Sequence[Sequence[int]] | None = None,
) -> PreparedRequest:
    """Compiles the constraint and encodes the prompts.

    Args:
        request: what the client wants.
        model: encodes the prompts.
        settings: limits.
        formats: how replies are written.
        drafts: draft tables; None: no speculation.
        vocabulary: the model's, with other shards; None: the model's own.
        prompts: if they are encoded already.

    Raises:
        ApiError: a field is invalid, or its constraint cannot be enforced.
    """
    for token in request.stop_token_ids or ():
        if token not in model.vocabulary.eos_ids:
            raise unsupported_field_error(
                "stop_token_ids", f"{token} does not end sequences of this model; use stop for texts"
            )
    constraint, automaton = compile_constraint(request, vocabulary or model.vocabulary, formats, settings)
    if prompts is None:
        prompts = encode_prompts(request, model, settings, formats, shown_tools(constraint))
    copies = request.n or 1
    try:
        # Of the constraint that the automaton was made for: with it they are found once, and not for each request.
        captured = automaton.constraint is not None and automaton.constraint.capture_grammar is not None
        sampler = Local(weights=False, slots=True)
        warp = _warp(request, automaton.vocabulary.size)
        budget = reasoning_budget(request, formats.frame)
        asking = constraint
        if isinstance(constraint, ReplyConstraint) and isinstance(request, ChatRequest):
            # Of a large request the prompts have been encoded elsewhere, and its messages are not here.
            asking = replace(constraint, asked=asked_text(as_dicts(request.messages)))
        guard = None if settings.on_repeat is None else repetition_guard(asking, automaton.vocabulary)
        rules = DecodingParams(
            automaton,
            warp,
            sampler.certain_ends,
            budget,
            guard,
            canonical=sampler.canonical,
            slots=sampler.slots and model.no_trees is None,
            weights=sampler.weights,
            jumps=model.reads_prompts_in_parts and top_logprobs(request) is None,
        )
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
        for encoded in prompts:
            ids = list(encoded)
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
                        base + i,
                        one.new_sequence(),
                        sampler,
                        top_logprobs(request),
                        stops=stops,
                        draw_seconds=settings.draw_seconds,
                    )
                    for i, one in enumerate(decoding)
                ]
            )
    except Exception as error:
        raise to_api_error(error) from error
    return PreparedRequest(groups, sum(map(len, prompts)), constraint, captured)


def without_prompt(request: ApiRequest) -> ApiRequest:
    """The request with an empty prompt, as compilation does not need it."""
    emptied: dict[str, Any] = {"messages": []} if isinstance(request, ChatRequest) else {"prompt": ""}
    return request.model_copy(update=emptied)


def formats_for(request: ApiRequest, model: LanguageModel, format: ToolFormat | None) -> ReplyFormats:
    """How the reply to a request is written; `format`: of tool calls, None: detected.

    Raises:
        ApiError: the chat template does not show it.
    """
    if not isinstance(request, ChatRequest):
        return _NO_FORMATS
    thinking = is_thinking(request)
    has_calls = any(message.tool_calls or message.role == "tool" for message in request.messages)
    try:
        formats = detect_formats(
            model, tools=bool(request.tools) or has_calls, thinking=thinking, format=format
        )
        custom = any(tool.get("type") == "custom" for tool in request.tools or ())
        # The text of a grammar stands in JSON; markup has no way to keep its own end out of it.
        return formats._replace(tools=HERMES) if custom and formats.tools.parameters is not None else formats
    except InvalidArgument as error:
        raise to_api_error(error, thinking_field(request) or "tools") from error


def encode_prompts(
    request: ApiRequest,
    model: LanguageModel,
    settings: ServerSettings,
    formats: ReplyFormats,
    tools: Sequence[Tool],
) -> list[list[int]]:
    """The token ids of each prompt of a request.

    Args:
        request: what the client wants.
        model: encodes them.
        settings: limits.
        formats: how replies are written.
        tools: those that a reply may call.

    Raises:
        ApiError: there are too many of them, one is too long, or is none.
    """
    chat = isinstance(request, ChatRequest)
    try:
        if isinstance(request, ChatRequest):
            _check_count(1, request, settings)
            messages, variables = as_dicts(request.messages), template_variables(request, model)
            if settings.show_schema and (schema := shown_schema(request)) is not None:
                messages = with_schema_instruction(messages, schema)
            return [model.encode(chat_prompt(model, messages, tools, format=formats.tools, **variables))]
        assert isinstance(request, CompletionRequest)
        prompt = request.prompt
        several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
        prompts: list[Any] = list(prompt) if several else [prompt]
        _check_count(len(prompts), request, settings)
        return [model.encode(one, chat=False) for one in prompts]
    except Exception as error:
        raise to_api_error(error, "messages" if chat else "prompt") from error


def _check_count(prompts: int, request: ApiRequest, settings: ServerSettings) -> None:
    count = prompts * (request.n or 1)
    if count > settings.max_batch:
        raise invalid_field_error(
            "n", f"the request needs {count} completions; at most {settings.max_batch} are allowed"
        )


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
        if isinstance(value, bool) or not isinstance(value, int | float) or not -100 <= value <= 100:
            raise invalid_field_error(f"logit_bias.{name}", "is no number from -100 to 100")
        bias[int(name)] = float(value)
    return bias


def max_tokens(request: ApiRequest, settings: ServerSettings) -> int | None:
    """The token limit of a request, as far as it or the server has one."""
    requested = one_of(request, "max_tokens", "n_predict")
    if isinstance(request, ChatRequest) and request.max_completion_tokens is not None:
        requested = request.max_completion_tokens
    if requested is None or settings.max_tokens is None:
        return requested
    return min(requested, settings.max_tokens)


def top_logprobs(request: ApiRequest) -> int | None:
    """Number of top log-probabilities per token; None: no log-probabilities."""
    if isinstance(request, ChatRequest):
        return (request.top_logprobs or 0) if request.logprobs else None
    return request.logprobs if isinstance(request, CompletionRequest) else None
