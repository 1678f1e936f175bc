"""The fields of a chat request about reasoning: whether there is any, how long, and the variables of the chat template about it."""

from __future__ import annotations

import re
from typing import Any

from constrained.chat.reply_form import ReplyFrame
from constrained.decoding.reasoning import ReasoningBudget
from constrained.models import LanguageModel
from constrained.server.errors import invalid_field_error, unsupported_field_error
from constrained.server.other_servers import one_of
from constrained.server.requests import ApiRequest, ChatRequest

REASONING_FIELDS = frozenset(("enable_thinking", "reasoning_effort", "chat_template_kwargs"))
"""Fields that decide whether a reply has reasoning."""

_SWITCHES = ("enable_thinking", "thinking")
_BUDGETS = ("thinking_token_budget", "thinking_budget_tokens", "reasoning_budget_tokens")
_OWN = frozenset(("messages", "tools", "documents", "add_generation_prompt", "tokenize", "chat_template"))
"""Variables of chat templates that the server sets itself."""


def is_thinking(request: ApiRequest) -> bool:
    """Whether the reply has reasoning: `enable_thinking`, also as a variable of the template, or a `reasoning_effort`.

    Raises:
        ApiError: the fields contradict each other.
    """
    return isinstance(request, ChatRequest) and any(_switches(request).values())


def thinking_field(request: ChatRequest) -> str | None:
    """The field that asks for reasoning; None: none does."""
    return next((name for name, on in _switches(request).items() if on), None)


def _switches(request: ChatRequest) -> dict[str, bool]:
    """The fields that switch reasoning on or off."""
    given: dict[str, bool] = {}
    if request.enable_thinking is not None:
        given["enable_thinking"] = request.enable_thinking
    for name in _SWITCHES:
        switch = (request.chat_template_kwargs or {}).get(name)
        if switch is not None and not isinstance(switch, bool):
            raise invalid_field_error(f"chat_template_kwargs.{name}", "is neither true nor false")
        if switch is not None:
            given[f"chat_template_kwargs.{name}"] = switch
    effort = request.reasoning_effort or (request.chat_template_kwargs or {}).get("reasoning_effort")
    if effort is not None:
        given["reasoning_effort"] = effort != "none"
    if len(set(given.values())) > 1:
        raise invalid_field_error(next(iter(given)), f"contradicts {', '.join(list(given)[1:])}")
    return given


def template_variables(request: ChatRequest, model: LanguageModel) -> dict[str, Any]:
    """The variables of the chat template.

    Raises:
        ApiError: the template does not read a variable, so that it would be lost in silence.
    """
    thinking = is_thinking(request)
    template = str(getattr(getattr(model, "tokenizer", None), "chat_template", None) or "")
    variables: dict[str, Any] = {}
    for name, value in (request.chat_template_kwargs or {}).items():
        param = f"chat_template_kwargs.{name}"
        if name in _OWN:
            raise unsupported_field_error(param, "is set by the server")
        if name not in _SWITCHES:
            _check_read(name, value, template, param)
            variables[name] = value
    for name in ("reasoning_effort", "verbosity"):
        value = getattr(request, name)
        if value is None or (name == "reasoning_effort" and value == "none"):
            continue
        _check_read(name, value, template, name)
        variables[name] = value
    return {**variables, "enable_thinking": thinking}


def _check_read(name: str, value: Any, template: str, param: str) -> None:
    if value is not None and not re.search(rf"\b{re.escape(name)}\b", template):
        advice = "; use enable_thinking and thinking_token_budget" if name == "reasoning_effort" else ""
        raise unsupported_field_error(param, f"is not read by the chat template of this model{advice}")


def reasoning_budget(request: ApiRequest, frame: ReplyFrame) -> ReasoningBudget | None:
    """The limit of the reasoning.

    Raises:
        ApiError: there is a limit, and no reasoning.
    """
    tokens = one_of(request, *_BUDGETS)
    if tokens is None:
        return None
    if frame.reasoning is None:
        named = next(name for name in _BUDGETS if getattr(request, name) == tokens)
        raise invalid_field_error(named, "needs enable_thinking")
    return ReasoningBudget(tokens, frame.reasoning[1])
