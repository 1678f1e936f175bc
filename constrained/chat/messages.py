"""Messages and tools as the prompt that a model reads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from constrained.chat.template_probe import template_variants
from constrained.chat.tool_format_probe import is_template_format
from constrained.chat.tools import HERMES, Tool, ToolFormat
from constrained.errors import PromptError
from constrained.models import LanguageModel, Prompt
from constrained.prompting.chat_template import apply_template, encode_text
from constrained.prompting.images import IMAGE, is_image, take_images
from constrained.prompting.schema_text import schema_to_text
from constrained.prompting.user_texts import mark, mark_messages

Message = Mapping[str, Any]

_THOUGHT = ("reasoning_content", "reasoning", "thinking")
"""Names of the reasoning in a message: those that chat templates read."""
_ROLES = ("system", "developer", "user", "assistant", "tool")


def chat_prompt(
    model: LanguageModel,
    messages: Sequence[Message],
    tools: Sequence[Tool] = (),
    *,
    format: ToolFormat = HERMES,
    **template: Any,
) -> Prompt:
    """The prompt for the next reply in a chat.

    A chat template that shows tools, and calls in this format, writes them itself. For others a system message
    lists the tools and says how to call them; earlier calls are shown as text, and their results in messages of the
    user. Texts of messages and tools never become special tokens.

    Args:
        model: whose template is used, if it has one.
        messages: as OpenAI clients send them: role, content (a text, or a list of parts that are texts, or images for a model
            that takes them, or None beside calls), ``tool_calls`` and ``reasoning_content`` of the assistant, ``tool_call_id`` of a tool's result.
        tools: those that may be called.
        format: how calls are written.
        template: more variables for the chat template, such as ``enable_thinking`` (False by default).

    Returns:
        What `LanguageModel.encode` reads: ids, if a template wrote it.

    Raises:
        PromptError: the messages have a wrong shape, or the template refuses them.
        PromptTooLong: they have so many tokens that not all of them were counted.
    """
    tokenizer = getattr(model, "tokenizer", None)
    pictures: list[Any] = []
    if isinstance(messages, list | tuple):
        takes = model.images is not None and bool(getattr(tokenizer, "chat_template", None))
        messages, pictures = take_images(messages, read=takes)
    chat = normalize_messages(messages)
    if pictures:
        template["image_count"] = len(pictures)
    if tokenizer is not None:
        chat = mark_messages(chat, tokenizer)
        tools = [
            replace(
                tool,
                description=mark(tool.description, tokenizer),
                parameters=mark(tool.parameters, tokenizer),
            )
            for tool in tools
        ]
        template = {name: mark(value, tokenizer) for name, value in template.items()}
    own = is_template_format(model, format)
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        return _plain(inline_tool_messages(chat, tools, format), tokenizer, model.context)
    text = None
    if tools or any("tool_calls" in message or message["role"] == "tool" for message in chat):
        text = _shown_by_template(tokenizer, chat, tools, None if own else format, template)
    if text is None:
        text = apply_template(tokenizer, inline_tool_messages(chat, tools, format), **template)
    return encode_text(
        text, tokenizer, special=False, context=model.context, images=model.images, pictures=pictures
    )


def normalize_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in the form in which chat templates take them: contents are texts, arguments are objects.

    Raises:
        PromptError: there are none, or one has a wrong shape; names it.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence) or not messages:
        raise PromptError("the chat has no messages", action="pass a list with at least one message")
    return [_message(message, f"message {index}") for index, message in enumerate(messages)]


def asked_text(messages: Sequence[Message]) -> str:
    """The text of the last message, if there is one, of a user, with `IMAGE` for its images; "" otherwise.

    Raises:
        PromptError: it is no text.
    """
    last = messages[-1] if messages else {}
    content = last.get("content")
    if isinstance(content, list | tuple):
        content = [IMAGE if is_image(part) else part for part in content]
    return _content(content, "the last message", needed=True) if last.get("role") == "user" else ""


def only_request(messages: Sequence[Message]) -> tuple[str, str] | None:
    """What the system says, and the message of the user, where a chat has no others; None: it has, or that is empty or has images."""
    *before, last = messages or [{}]
    text = asked_text([last])
    if (
        not text.strip()
        or IMAGE in text
        or any(one.get("role") not in ("system", "developer") for one in before)
    ):
        return None
    said = (_content(one.get("content"), "a message of the system", needed=False) for one in before)
    return "\n\n".join(filter(None, said)), text


def _message(message: Any, place: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise PromptError(f"{place} is a {type(message).__name__}", action="pass {'role', 'content'}")
    role = message.get("role")
    if role not in _ROLES:
        raise PromptError(f"{place} has the role {role!r}", action=f"use one of {', '.join(_ROLES)}")
    read: dict[str, Any] = {"role": "system" if role == "developer" else role}
    read["content"] = _content(message.get("content"), place, needed=not message.get("tool_calls"))
    calls = message.get("tool_calls")
    if calls:
        if role != "assistant" or not isinstance(calls, Sequence):
            raise PromptError(
                f"{place} cannot have tool calls", action="put tool_calls into an assistant's message"
            )
        read["tool_calls"] = [_call(call, f"{place}, call {i}") for i, call in enumerate(calls)]
    thought = message.get("reasoning_content") or message.get("reasoning")
    if role == "assistant" and isinstance(thought, str):
        read.update(dict.fromkeys(_THOUGHT, thought))
    for name in ("tool_call_id", "name"):
        if message.get(name) is not None:
            read[name] = str(message[name])
    return read


def _content(content: Any, place: str, *, needed: bool) -> str:
    if content is None and not needed:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise PromptError(f"the content of {place} is a {type(content).__name__}", action="pass a str")
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise PromptError(
                f"the content of {place} has a part of the type {kind!r}",
                action="pass text parts only",
            )
    return "".join(texts)


def _call(call: Any, place: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str):
        raise PromptError(f"{place} has no function name", action="pass the tool call unchanged")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise PromptError(
                f"{place}: the arguments are not JSON", action="pass the arguments unchanged"
            ) from None
    arguments = {} if arguments is None else arguments  # clients write "null" for none
    read = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return read if call.get("id") is None else {"id": str(call["id"]), **read}


def _shown_by_template(
    tokenizer: Any,
    chat: list[dict[str, Any]],
    tools: Sequence[Tool],
    format: ToolFormat | None,
    template: Mapping[str, Any],
) -> str | None:
    """What the template writes, if it shows each tool, and the marker that this format (if any) opens calls with."""
    listed = [tool.as_openai() for tool in tools] or None
    for way in template_variants(chat):
        with contextlib.suppress(PromptError):
            text = apply_template(tokenizer, way, **{"tools": listed, **template})
            break
    else:
        return None
    calls = [call["function"] for message in chat for call in message.get("tool_calls", ())]
    results = [message["content"] for message in chat if message["role"] == "tool"]
    wanted = [*(tool.name for tool in tools), *(call["name"] for call in calls), *results]
    opening = "" if format is None else format.begin + format.before_name
    squeezed = "".join(text.split())
    shown = all(part in text for part in wanted) and "".join(opening.split()) in squeezed
    return text if shown else None


def inline_tool_messages(
    messages: Sequence[Message], tools: Sequence[Tool], format: ToolFormat = HERMES
) -> list[dict[str, str]]:
    """A chat in which tools, calls and results are text: for models whose template does not know them."""
    chat: list[dict[str, str]] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            content = f"<tool_response>\n{content}\n</tool_response>"
            if chat and chat[-1]["role"] == "user" and chat[-1]["content"].endswith("</tool_response>"):
                chat[-1]["content"] += "\n" + content
                continue
            role = "user"
        calls = [
            (call["function"]["name"], json.dumps(call["function"]["arguments"], ensure_ascii=False))
            for call in message.get("tool_calls", ())
        ]
        calls_text = format.format_calls(*calls) if calls else ""
        chat.append({"role": role, "content": "\n".join(filter(None, [content, calls_text]))})
    if tools:
        request = tools_instruction(tools, format)
        if chat and chat[0]["role"] == "system":
            chat[0]["content"] += "\n\n" + request
        else:
            chat.insert(0, {"role": "system", "content": request})
    return chat


def tools_instruction(tools: Sequence[Tool], format: ToolFormat = HERMES) -> str:
    """The description of tools in a prompt, for chat templates without one."""
    listed = "\n".join(json.dumps(tool.as_openai()["function"], ensure_ascii=False) for tool in tools)
    example = format.format_calls(("NAME", "{ARGUMENTS}"))
    return f"You can call these functions:\n{listed}\n\nTo call one, answer with its name and arguments:\n{example}"


def _plain(chat: list[dict[str, str]], tokenizer: Any, context: int | None) -> Prompt:
    """A chat without a template: labelled lines for a tokenizer, messages for a model that reads them itself."""
    if tokenizer is None:
        return chat
    lines = [f"{message['role'].capitalize()}: {message['content']}" for message in chat]
    return encode_text("\n\n".join([*lines, "Assistant:"]), tokenizer, context=context)


def with_schema_instruction(chat: list[dict[str, Any]], schema: Any) -> list[dict[str, Any]]:
    """The chat, its last text of the user followed by a request for the schema."""
    request = f"Answer with JSON only, of this type:\n{schema_to_text(schema)}"
    for place in range(len(chat) - 1, -1, -1):
        content = chat[place].get("content")
        if chat[place]["role"] == "user" and isinstance(content, str | list):
            more: Any = (
                f"\n\n{request}" if isinstance(content, str) else [{"type": "text", "text": f"\n\n{request}"}]
            )
            instructed = {**chat[place], "content": content + more}
            return [*chat[:place], instructed, *chat[place + 1 :]]
    return [*chat, {"role": "user", "content": request}]
