"""Chat requests with ``extraction``: an `Extractor` reads the user's message, so that values are those that it states.

With a schema the answer is the value; with tools the reply is written as ever, and the arguments of its call are read, where the chat has
a single message of the user: those of an agent's later turns are written, as they depend on results.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from constrained.automaton.cache import compile_cached
from constrained.chat.messages import asked_text, only_request
from constrained.chat.reply import ReplyConstraint
from constrained.chat.reply_form import PLAIN
from constrained.chat.tools import HERMES
from constrained.constraint import Constraint
from constrained.constraint.generated import generated_constraint
from constrained.decoding import Generator
from constrained.decoding.request_runner import BatchedRequest
from constrained.decoding.shared_runner import RequestSteps
from constrained.decoding.speculation import Speculation
from constrained.errors import DoesNotFit
from constrained.extraction import Extractor
from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.read import document_steps
from constrained.extraction.tool_calls import CallReader, CallRequest, reply_text
from constrained.lru_cache import LRUCache
from constrained.models import LanguageModel
from constrained.sampling import Local
from constrained.server.errors import ApiError, invalid_field_error, to_api_error, unsupported_field_error
from constrained.server.jobs import PreparedRequest
from constrained.server.requests import ApiRequest, ChatMessage, ChatRequest, as_dicts

COMPILE_SECONDS = 0.25
"""Processor time that a constraint may take to compile: the thread of the model compiles a part of it again for each text."""

_MOST_EXTRACTORS = 32
"""Schemas with their instructions and examples of which an extractor is kept."""

_FIELDS = {"temperature", "top_p", "top_k", "min_p", "seed"}
_OTHER_FIELDS = {
    *("extraction", "model", "messages", "response_format", "stream", "stream_options"),
    *("max_tokens", "max_completion_tokens", "n_predict"),
    *("user", "metadata", "store", "service_tier", "safety_identifier", "verbosity", "modalities"),
    *("prompt_cache_key", "prompt_cache_retention"),
}
_TOOL_FIELDS = {"tools", "tool_choice", "parallel_tool_calls"}
_ONE_IS_NOTHING = ("n", "repetition_penalty", "repeat_penalty", "repeat_last_n", "parallel_tool_calls")


def is_extraction(request: ApiRequest) -> bool:
    """Whether the text of a request is read by an extractor."""
    return isinstance(request, ChatRequest) and bool(request.extraction)


def has_tools(request: ApiRequest) -> bool:
    """Whether a request has tools, and may call them."""
    return isinstance(request, ChatRequest) and bool(request.tools) and request.tool_choice != "none"


def check_extraction(request: ChatRequest) -> None:
    """Checks the fields of such a request.

    Raises:
        ApiError: there is no schema and no tool, or both, a field does not go with it, or the messages are not those of examples and a text.
    """
    form, fields = request.response_format, _FIELDS | _OTHER_FIELDS
    if has_tools(request):
        fields |= _TOOL_FIELDS
        if form is not None and form.type != "text":
            raise invalid_field_error("response_format", "cannot be combined with extraction and tools")
    elif form is None or form.type != "json_schema":
        what = "has to be 'json_schema' for an extraction, unless a tool may be called"
        raise invalid_field_error("response_format.type", what)
    for name in type(request).model_fields:
        value = getattr(request, name)
        if name in fields or not value:
            continue
        if not (name in _ONE_IS_NOTHING and value in (1, -1)):
            raise unsupported_field_error(name, "cannot be combined with extraction")
    if not has_tools(request):
        _read_messages(request)


def extraction_constraint(request: ApiRequest) -> tuple[str, Callable[[], Constraint]]:
    """The field with the schema, and a function that makes the constraint of values."""
    assert request.response_format is not None
    field, schema = request.response_format.wanted
    if schema is None:
        raise invalid_field_error(field, "is missing")
    return field, lambda: generated_constraint(schema).without_document()


def check_compile_time(seconds: float) -> None:
    """Refuses a constraint that takes long to compile.

    Raises:
        ApiError: it took more processor time than `COMPILE_SECONDS`.
    """
    if seconds > COMPILE_SECONDS:
        what = f"the schema takes {seconds:.1f} s to compile, and an extraction compiles much of it for each text"
        raise ApiError(400, f"{what}: shorten it, or leave extraction out", code="constraint_too_large")


class Extractors:
    """The extractors of one model. Safe to share between threads.

    Args:
        model: reads the texts.
        speculation: of all of them; None: no drafts.
    """

    def __init__(self, model: LanguageModel, speculation: Speculation | None) -> None:
        self._model, self._speculation = model, speculation
        self._calls = CallReader(model, speculation)
        self._made: LRUCache[bytes, Extractor[Any]] = LRUCache(_MOST_EXTRACTORS)

    def prepare(self, request: ChatRequest, max_tokens: int | None) -> PreparedRequest:
        """Makes the extractor of a request, unless it is there, and encodes the prompt.

        Args:
            request: what the client wants; see `check_extraction`.
            max_tokens: the token limit.

        Raises:
            ApiError: the schema cannot be enforced, an example is no value of it, or the text is too long.
        """
        field, make = extraction_constraint(request)
        said, examples, text = _read_messages(request)
        settings = _settings(request, max_tokens)
        assert request.response_format is not None
        key = hashlib.sha256(
            json.dumps([request.response_format.wanted[1], said, examples]).encode()
        ).digest()
        try:
            extractor = self._made.get(key)
            if extractor is None:
                constraint, _ = compile_cached(make(), self._model.vocabulary)
                field = "messages"
                extractor = Extractor(
                    self._model,
                    constraint,
                    instructions=said or None,
                    examples=examples,
                    on_limit="close",
                    speculation=self._speculation,
                )
                self._made.put(key, extractor)
            field = "messages"
            tokens = len(self._model.encode(extractor.prompt(text)))
        except Exception as error:
            raise to_api_error(error, field) from error
        steps = document_steps(extractor, Document(None, text), settings)
        return PreparedRequest([], tokens, extractor.generator.constraint, extraction=steps)

    def prepare_reply(
        self, request: ChatRequest, max_tokens: int | None, constraint: ReplyConstraint, prompt: Sequence[int]
    ) -> PreparedRequest:
        """The same for a request with tools.

        Args:
            request: what the client wants; see `check_extraction`.
            max_tokens: the token limit.
            constraint: of the reply.
            prompt: ids of its tokens.

        Raises:
            ApiError: a setting is out of its range.
        """
        settings, messages = _settings(request, max_tokens), as_dicts(request.messages)
        try:
            said, text = only_request(messages) or ("", "")
            may_answer = constraint.tool_choice != "required"
            tools, several = constraint.callable_tools, constraint.parallel
            asked = CallRequest(text, said, tools, settings, may_answer, always=True, several=several)
            constraint = replace(constraint, asked=asked_text(messages))
            first = self._reply(constraint, prompt, settings)  # what is wrong with the settings is said now
        except Exception as error:
            raise to_api_error(error) from error

        def reply(calls: bool) -> BatchedRequest:
            if calls:
                with contextlib.suppress(DoesNotFit):
                    return self._reply(replace(constraint, tool_choice="required"), prompt, settings)
            return first

        # Arguments that were read are written as JSON, whatever the format of the model is.
        shown = replace(constraint, format=HERMES, frame=PLAIN)
        steps = _reply_steps(self._calls.steps(reply, asked), text)
        return PreparedRequest([], len(prompt), shown, extraction=steps)

    def _reply(
        self, constraint: ReplyConstraint, prompt: Sequence[int], settings: dict[str, Any]
    ) -> BatchedRequest:
        generator = Generator(
            self._model,
            constraint,
            sampler=Local(weights=False, slots=True),
            speculation=self._speculation,
            on_repeat="close",
        )
        return BatchedRequest(generator, generator._request(list(prompt), **settings))


def _reply_steps(steps: RequestSteps, text: str) -> RequestSteps:
    """The steps of a reply, whose result is an `Extraction`."""
    output = yield from steps
    return Extraction(None, text, replace(output, text=reply_text(output.value)))


def _settings(request: ChatRequest, max_tokens: int | None) -> dict[str, Any]:
    """The settings of a request, as of a call of an `Extractor`."""
    settings = {name: value for name in _FIELDS if (value := getattr(request, name)) is not None}
    settings |= {} if max_tokens is None else {"max_tokens": max_tokens}
    if settings.get("top_k") in (-1, 0):
        del settings["top_k"]
    return settings


def _read_messages(request: ChatRequest) -> tuple[str, list[tuple[str, str]], str]:
    """What the system says, the examples, and the text to read.

    Raises:
        ApiError: the messages are others than those of the system, pairs of a text and its value, and a text.
    """
    turns = [(i, one) for i, one in enumerate(request.messages) if one.role not in ("system", "developer")]
    said = [_text(i, one) for i, one in enumerate(request.messages) if one.role in ("system", "developer")]
    for number, (i, one) in enumerate(turns):
        wanted = "assistant" if number % 2 else "user"
        if one.role != wanted or one.tool_calls:
            what = f"an extraction reads one text of the user, behind pairs of a text and its value: {one.role!r}"
            raise invalid_field_error(f"messages[{i}].role", what)
    if len(turns) % 2 == 0:
        raise invalid_field_error("messages", "the last one has to be the user's: the text to read")
    texts = [_text(i, one) for i, one in turns]
    return "\n\n".join(said), list(zip(texts[:-1:2], texts[1::2], strict=True)), texts[-1]


def _text(number: int, message: ChatMessage) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    texts = [part.text for part in content or ()]
    if not texts or any(text is None for text in texts):
        raise unsupported_field_error(f"messages[{number}].content", "an extraction reads texts")
    return "\n".join(text for text in texts if text is not None)
