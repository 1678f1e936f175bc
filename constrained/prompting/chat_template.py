"""Chats as the text and the token ids that a model continues, by the chat template of its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.errors import PromptError
from constrained.prompting.context_length import check_context_length
from constrained.prompting.ids import check_ids, check_messages, is_chat
from constrained.prompting.images import ImageReader, as_parts, take_images
from constrained.prompting.user_texts import encode_marked, mark, mark_messages


def apply_template(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = True,
    image_count: int = 0,
    **variables: Any,
) -> str:
    """Renders a chat with the chat template of a Hugging Face tokenizer.

    Args:
        tokenizer: has a chat template.
        messages: ``{"role", "content", ...}`` items.
        tools: tool definitions in OpenAI's format.
        add_generation_prompt: whether the text ends with the header of the assistant's next message.
        image_count: number of images in the messages, whose places are `constrained.prompting.images.IMAGE`.
        variables: more variables of the template. ``enable_thinking`` is False unless it is among them, so that
            templates with that switch open no thinking block; ``thinking``, its name in other templates, is the same.

    Raises:
        PromptError: the template refuses the chat, or cannot be run.
    """
    if tools is not None:
        variables["tools"] = tools
    thinking = variables.get("enable_thinking", variables.get("thinking", False))
    chat = as_parts(messages, image_count) if image_count else [dict(message) for message in messages]
    try:
        rendered = tokenizer.apply_chat_template(
            chat,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            **{"enable_thinking": thinking, "thinking": thinking, **variables},
        )
    except Exception as error:  # jinja2's, and whatever the template raises
        roles = ", ".join(str(message.get("role")) for message in messages[:8])
        raise PromptError(
            f"the model's chat template refuses the messages: {' '.join(str(error).split())}",
            action=f"order the roles ({roles}) as the template requires, or set tokenizer.chat_template",
        ) from error
    return str(rendered)


def render_chat(messages: Sequence[Mapping[str, str]], tokenizer: Any, **variables: Any) -> str:
    """Renders a chat as the text that the model continues.

    Without a chat template the contents are joined, followed by the line ``JSON:``.

    Args:
        messages: ``{"role", "content"}`` items.
        tokenizer: a Hugging Face tokenizer.
        variables: as of `apply_template`; without a template they are nowhere.

    Raises:
        PromptError: the chat template refuses the chat.
    """
    if getattr(tokenizer, "chat_template", None):
        return apply_template(tokenizer, messages, **variables)
    return "\n\n".join(message["content"] for message in messages) + "\n\nJSON:\n"


def encode_prompt(
    prompt: object,
    tokenizer: Any,
    size: int,
    *,
    chat: bool = True,
    context: int | None = None,
    images: ImageReader | None = None,
) -> list[int]:
    """Token ids of a prompt, at least one; see `LanguageModel.encode`.

    Args:
        prompt: a string, messages, or ids.
        tokenizer: a Hugging Face tokenizer; None: only ids are a prompt.
        size: number of ids of the vocabulary.
        chat: put a string into the chat template, if there is one.
        context: tokens that the model reads.
        images: reads those of messages; None: the model takes none.

    Raises:
        PromptError: the prompt is of another type, empty, has a message without role or content, or ids outside the vocabulary.
        PromptTooLong: a text has so many tokens that not all of them were counted.
    """
    ids = prompt
    if tokenizer is None:
        pass
    elif isinstance(prompt, str):
        if chat and getattr(tokenizer, "chat_template", None):
            if not prompt.strip():  # the template would make a prompt of it
                raise PromptError("the prompt is empty", action="say what is wanted")
            ids = encode_chat([{"role": "user", "content": prompt}], tokenizer, context=context)
        else:
            ids = encode_text(prompt, tokenizer, context=context)
    elif is_chat(prompt):
        check_messages(prompt)
        ids = encode_chat(prompt, tokenizer, context=context, images=images)
    return check_ids(ids, size, images)


def encode_chat(
    messages: Sequence[Mapping[str, Any]],
    tokenizer: Any,
    *,
    context: int | None = None,
    images: ImageReader | None = None,
    **variables: Any,
) -> list[int]:
    """Encodes a chat as the token ids of a prompt.

    A chat template writes its own special tokens; without a template the tokenizer adds its own, such as BOS. Texts of the
    messages and of the template's `variables` never become special tokens.

    Raises:
        PromptError: the chat template refuses the chat; half a surrogate pair.
        PromptTooLong: see `check_context_length`.
    """
    templated = bool(getattr(tokenizer, "chat_template", None))
    messages, pictures = take_images(messages, read=images is not None and templated)
    if pictures:
        variables["image_count"] = len(pictures)
    marked = mark_messages(messages, tokenizer)
    text = render_chat(marked, tokenizer, **mark(variables, tokenizer))
    return encode_text(
        text, tokenizer, special=not templated, context=context, images=images, pictures=pictures
    )


def encode_text(
    text: str,
    tokenizer: Any,
    *,
    special: bool = True,
    context: int | None = None,
    images: ImageReader | None = None,
    pictures: Sequence[Any] = (),
) -> list[int]:
    """Token ids of a text.

    Args:
        text: what the model reads; a template may have rendered it from marked messages.
        tokenizer: a Hugging Face tokenizer.
        special: whether it adds its special tokens.
        context: tokens that the model reads; None: any number.
        images: reads the `pictures`.
        pictures: of the text, which a template rendered with their places.

    Raises:
        PromptError: half a surrogate pair, which has no bytes; an image that cannot be read.
        PromptTooLong: see `check_context_length`.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PromptError(
            f"character {error.start} of the prompt, {text[error.start]!r}, is half a surrogate pair and has no bytes",
            action="text.encode('utf-8', 'replace').decode() writes ? for it",
        ) from None
    check_context_length(text, lambda part: encode_marked(part, tokenizer, special=False), context)
    if pictures and images is not None:
        return images.encode(text, pictures)
    return encode_marked(text, tokenizer, special=special)
