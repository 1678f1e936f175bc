"""The prompt of an extraction: the request with the type, and the document; examples are turns of the chat before."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

from constrained.constraint import Constraint
from constrained.constraint.free_text import marker_and_content
from constrained.errors import InvalidArgument, PromptError, RejectedValue
from constrained.extraction.examples import PromptExample
from constrained.grammars.text.quantities import ungroup_numbers
from constrained.models.base import LanguageModel, Prompt
from constrained.prompting import schema_text as prompts
from constrained.prompting.ids import is_chat

Messages = list[dict[str, Any]]
"""A chat: ``{"role", "content"}`` items; contents are texts, or lists of parts where there are images."""

PromptTemplate = str | Callable[[str, str], str | Sequence[dict[str, str]]]
"""A prompt of a user's own: a text with ``{type}`` and ``{text}``, or a function of these two that gives a text or a chat.
Or ``"template"``: the form that the chat template has, see `constrained.extraction.template_prompt`."""

CHAT_TEMPLATE = "template"

EXTRACTION_REQUEST = "Fill this type from the text below. Answer with JSON only; leave out optional fields that the text does not mention."

_HEADING = re.compile(r"^[ \t]*(?:instructions|context|text):[ \t]*$", re.IGNORECASE | re.MULTILINE)
_MAX_REASON = 600
_FORM = (
    "pass a text with {text}, and {type} if the model is to see it, a function of type and text, "
    'or "template", for models that have a form of their own'
)


@dataclass(frozen=True)
class PromptParts:
    """What makes the prompt of a document.

    Attributes:
        instructions: what to look for and how.
        context: what is known about the documents, such as their source.
        examples: texts with their answers.
        system: the system message.
        template: a prompt of the user's own, in the place of the request, the instructions and the context.
    """

    instructions: str | None = None
    context: str | None = None
    examples: tuple[PromptExample, ...] = ()
    system: str | None = None
    template: PromptTemplate | None = None

    def __post_init__(self) -> None:
        for name in ("instructions", "context", "system"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InvalidArgument(f"{name} is of type {type(value).__name__}", action="pass a str")
        if self.template is None:
            return
        if self.instructions or self.context:
            raise InvalidArgument(
                "prompt= stands in the place of instructions and context", action="say them in the prompt"
            )
        if self.template == CHAT_TEMPLATE:
            if self.system:
                raise InvalidArgument(
                    'prompt="template" has a system message of its own', action="leave system out"
                )
            return
        if not callable(self.template) and (
            not isinstance(self.template, str) or "{text}" not in self.template
        ):
            raise InvalidArgument(f"prompt is {self.template!r:.80}", action=_FORM)

    def question(
        self, text: str, constraint: Constraint, images: Sequence[Mapping[str, Any]] = ()
    ) -> Messages:
        """The messages that ask about one text, and the images before it."""
        text = shown_text(text, constraint)
        if images:
            request = _request(constraint).replace("the text below", _named_images(images, text))
            asked: Any = [{"type": "text", "text": self.asked(request, text)}]
            return [{"role": "user", "content": [*images, *asked]}]
        if self.template is None:
            asked = self.asked(_request(constraint), text)
        elif isinstance(self.template, str):
            asked = _filled(self.template, type_text(constraint), text)
        else:
            asked = self.template(type_text(constraint), text)
        if isinstance(asked, str):
            asked = [{"role": "user", "content": asked}]
        if not isinstance(asked, Sequence) or not all(
            isinstance(one, dict) and "role" in one for one in asked
        ):
            raise InvalidArgument(f"prompt gave {asked!r:.80}", action="return a str, or a list of messages")
        return list(asked)

    def asked(self, request: str, text: str) -> str:
        """The request with instructions and context, and the text that it is about."""
        sections = [request]
        if self.instructions:
            sections.append(f"\n\nInstructions:\n{self.instructions.strip()}")
        if self.context:
            sections.append(f"\n\nContext:\n{self.context.strip()}")
        if text:
            sections.append(f"\n\nText:\n{fenced(text)}")
        return "".join(sections)


def extraction_prompt(
    text: str,
    constraint: Constraint,
    parts: PromptParts | None = None,
    images: Sequence[Mapping[str, Any]] = (),
) -> Messages:
    """The chat that asks for a value out of a text, and of images before it; each example is a question with its answer, before.

    Raises:
        PromptError: the text is empty, or no text.
        InvalidArgument: a function of the user's gave no prompt.
    """
    check_text(text, beside_images=bool(images))
    parts = parts or PromptParts()
    messages: Messages = [{"role": "system", "content": parts.system}] if parts.system else []
    for example in parts.examples:
        question = parts.question(example.text, constraint)
        messages += [*_after(messages, question), {"role": "assistant", "content": example.answer}]
    return [*messages, *_after(messages, parts.question(text, constraint, images))]


def open_prompt(text: str, parts: PromptParts) -> Messages:
    """The chat that asks for an answer in words, without the values that it may be."""
    asked = "Read the text below." if parts.instructions else "What is the text below about?"
    question = parts.asked(f"{asked} Answer in a few words.", text.strip())
    system: Messages = [{"role": "system", "content": parts.system}] if parts.system else []
    return [*system, {"role": "user", "content": question}]


def _after(messages: Messages, question: Messages) -> Messages:
    """The messages of a question behind others: without a system message that stands there already."""
    return (
        question[1:]
        if messages and question[0] == messages[0] and question[0]["role"] == "system"
        else question
    )


def shown_text(text: str, constraint: Constraint) -> str:
    """A document as the model reads it."""
    text = text.strip()
    return ungroup_numbers(text) if _has_numbers(constraint) else text


def fenced(text: str) -> str:
    """A document between two lines that it does not have, where it has headings of the prompt itself.

    Otherwise a model takes what stands behind them for instructions, or for another document. Without them a fence costs a little: see
    docs/values.md.
    """
    if not _HEADING.search(text):
        return text
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _has_numbers(constraint: Constraint) -> bool:
    """Whether values have numbers, which JSON writes without groups of digits, and no spans of the text."""
    if not constraint.is_json or constraint.needs_document:
        return False
    written = json.dumps(constraint.schema)
    return '"x-span"' not in written and ('"integer"' in written or '"number"' in written)


def _filled(template: str, notation: str, text: str) -> str:
    """The template with type and text; what stands in braces in these is theirs."""
    return text.join(part.replace("{type}", notation) for part in template.split("{text}"))


def _named_images(images: Sequence[Any], text: str) -> str:
    return f"the image{'s' if len(images) > 1 else ''} above{' and the text below' if text else ''}"


def _request(constraint: Constraint) -> str:
    if constraint.is_json:
        return f"{EXTRACTION_REQUEST}\n\n{type_text(constraint)}"
    return f"Read the text below. {answer_request(constraint)}"


def type_text(constraint: Constraint) -> str:
    """The type as a prompt shows it."""
    schema = constraint.local_schema
    return constraint.render() if schema is None else prompts.schema_to_text(schema)


def retry_prompt(prompt: Prompt, refused: RejectedValue) -> Prompt:
    """The chat after an answer that was refused: the answer, the reason, and the request for another one.

    Where a chat template wrote the prompt from more than messages, it is the same again: such models hold no conversation.
    """
    if not is_chat(prompt):
        return prompt
    said = " ".join(str(refused.__cause__ or refused.summary).split())[:_MAX_REASON]
    request = f"This answer was refused: {said}\nRead the text again and give a corrected answer."
    return [
        *prompt,
        {"role": "assistant", "content": refused.text},
        {"role": "user", "content": request},
    ]


def answer_request(constraint: Constraint) -> str:
    """The sentence that says what to answer with."""
    thinking = marker_and_content(constraint)
    if thinking is not None:
        marker, content = thinking
        request = answer_request(content)
        return f"Think first. Then write {marker} and, right after it, your answer. {request}"
    if constraint.is_json:
        return f"Answer with JSON only, of this type:\n{prompts.schema_to_text(constraint.local_schema)}"
    if constraint.local_schema is not None:
        return f"Answer with one of these only, without quotes:\n{prompts.schema_to_text(constraint.local_schema)}"
    return f"Answer with {constraint.render()} only."


def check_text(text: object, *, beside_images: bool = False) -> None:
    """Refuses what cannot be a document; `beside_images`: it may be empty.

    Raises:
        PromptError: the text is empty, or no text.
    """
    if not isinstance(text, str):
        order = isinstance(text, type | Mapping | Constraint | LanguageModel) or get_origin(text) is not None
        read = "path.read_text()" if isinstance(text, os.PathLike) else "read or decode the file first"
        read += "; or a list of images (PIL, bytes or paths) and texts" if isinstance(text, list) else ""
        raise PromptError(
            f"the text is of type {type(text).__name__}",
            action="the order is extract(model, text, type)" if order else f"pass a str: {read}",
        )
    if not text.strip() and not beside_images:
        raise PromptError(
            "there is nothing to extract from: the text is empty", action="pass a text with content"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PromptError(
            f"the text has a lone surrogate at character {error.start}: U+{ord(text[error.start]):04X}",
            action="decode the source with errors='replace', or repair it: "
            "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')",
        ) from None
