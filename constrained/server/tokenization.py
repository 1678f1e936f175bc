"""``/tokenize`` and ``/detokenize``, as vLLM and llama.cpp have them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from constrained.chat.detect import detect_formats
from constrained.chat.messages import chat_prompt
from constrained.chat.tools import parse_tools
from constrained.models import LanguageModel
from constrained.prompting.context_length import check_context_length
from constrained.server.errors import invalid_field_error
from constrained.server.messages_api import CountTokensRequest, as_chat
from constrained.server.read_request import with_plain_names
from constrained.server.reasoning import template_variables
from constrained.server.requests import ChatMessage, ChatRequest, Items, StrictModel, as_dicts


class TokenizeRequest(StrictModel):
    """The body of ``POST /tokenize``: a text (``prompt``, in llama.cpp ``content``), or the messages of a chat."""

    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    messages: Items[ChatMessage] | None = None
    tools: Items[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None
    with_pieces: bool | None = None


class DetokenizeRequest(StrictModel):
    """The body of ``POST /detokenize``."""

    model: str | None = None
    tokens: Items[int]


TokensRequest = TypeVar("TokensRequest", TokenizeRequest, DetokenizeRequest, CountTokensRequest)
Answer = Callable[[TokensRequest, LanguageModel], dict[str, Any]]
"""Answers a request that needs no forward pass."""


def tokenize(request: TokenizeRequest, model: LanguageModel) -> dict[str, Any]:
    """The tokens of a text or of the prompt of a chat.

    Raises:
        ApiError: there is neither or both, or a field is not supported.
        PromptTooLong: there are so many more tokens than the model reads that not all of them were counted.
    """
    if request.with_pieces:
        raise invalid_field_error("with_pieces", "is not supported; use return_token_strs")
    if request.add_generation_prompt is False:
        raise invalid_field_error("add_generation_prompt", "false is not supported")
    given = [one for one in (request.prompt, request.content, request.messages) if one is not None]
    if len(given) != 1:
        raise invalid_field_error("prompt", "give exactly one of prompt, content and messages")
    if request.messages is not None:
        ids = _chat(request, model)
    elif request.add_special_tokens is False:
        text, encode = str(given[0]), model.vocabulary.encode
        check_context_length(text, encode, model.context)
        ids = encode(text)
    else:
        ids = list(model.encode(str(given[0]), chat=False))
    answer: dict[str, Any] = {"count": len(ids), "max_model_len": model.context, "tokens": ids}
    if request.return_token_strs:
        answer["token_strs"] = [model.vocabulary.decode([one]).decode("utf-8", "replace") for one in ids]
    return answer


def _chat(request: TokenizeRequest, model: LanguageModel) -> list[int]:
    asked = ChatRequest(
        model="",
        messages=request.messages or [],
        tools=request.tools,
        chat_template_kwargs=request.chat_template_kwargs,
    )
    return _prompt_ids(asked, model)


def _prompt_ids(asked: ChatRequest, model: LanguageModel) -> list[int]:
    """The tokens of the prompt of a chat."""
    tools = parse_tools(asked.tools or ())
    variables = template_variables(asked, model)
    formats = detect_formats(model, tools=bool(tools), thinking=bool(variables["enable_thinking"]))
    shown = as_dicts(asked.messages)
    return list(model.encode(chat_prompt(model, shown, tools, format=formats.tools, **variables)))


def count_tokens(request: CountTokensRequest, model: LanguageModel) -> dict[str, Any]:
    """The number of tokens of the prompt of a request to the Messages API.

    Raises:
        ApiError: a field is not supported.
        PromptTooLong: as `tokenize`.
    """
    asked, _ = with_plain_names(as_chat(request))
    assert isinstance(asked, ChatRequest)
    return {"input_tokens": len(_prompt_ids(asked, model))}


def detokenize(request: DetokenizeRequest, model: LanguageModel) -> dict[str, Any]:
    """The text of tokens, under the names that vLLM (``prompt``) and llama.cpp (``content``) give it.

    Raises:
        ApiError: an id is outside the vocabulary.
    """
    for token in request.tokens:
        if not 0 <= token < model.vocabulary.size:
            raise invalid_field_error("tokens", f"{token} is outside a vocabulary of {model.vocabulary.size}")
    text = model.vocabulary.decode(request.tokens).decode("utf-8", "replace")
    return {"prompt": text, "content": text}


def as_json(answer: dict[str, Any]) -> bytes:
    """An answer as JSON."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
