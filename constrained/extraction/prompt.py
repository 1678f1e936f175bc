"""The prompt of an extraction: the type, the request, and the document."""

from __future__ import annotations

from dataclasses import dataclass

from constrained.constraint import Constraint
from constrained.constraint.free_text import marker_and_content
from constrained.errors import PromptError, RejectedValue
from constrained.extraction.examples import PromptExample
from constrained.prompting import schema_text as prompts

Messages = list[dict[str, str]]
"""A chat: ``{"role", "content"}`` items."""

_MAX_REASON = 600


@dataclass(frozen=True)
class PromptExtras:
    """What the prompt says besides the type and the document.

    Attributes:
        instructions: what to look for and how.
        context: what is known about the documents, such as their source.
        examples: texts with their answers.
    """

    instructions: str | None = None
    context: str | None = None
    examples: tuple[PromptExample, ...] = ()

    def render(self) -> str:
        """The sections between the type and the document."""
        sections = []
        if self.instructions:
            sections.append(f"Instructions:\n{self.instructions.strip()}")
        if self.context:
            sections.append(f"Context:\n{self.context.strip()}")
        sections += [f"Example text:\n{one.text}\n\nExample answer:\n{one.answer}" for one in self.examples]
        return "".join(f"\n\n{section}" for section in sections)


def extraction_prompt(text: str, constraint: Constraint, extras: PromptExtras | None = None) -> Messages:
    """The chat that asks for a value out of a text; without extras exactly the one that the bundled model is trained on.

    Raises:
        PromptError: the text is empty, or no text.
    """
    check_text(text)
    document = f"\n\nText:\n{text.strip()}"
    if constraint.is_json:
        (message,) = prompts.extraction_messages(text, constraint.local_schema)
        request = message["content"].removesuffix(document)
    else:
        request = f"Read the text below. {answer_request(constraint)}"
    sections = "" if extras is None else extras.render()
    return [{"role": "user", "content": f"{request}{sections}{document}"}]


def retry_prompt(messages: Messages, refused: RejectedValue) -> Messages:
    """The chat after an answer that was refused: the answer, the reason, and the request for another one."""
    said = " ".join(str(refused.__cause__ or refused.summary).split())[:_MAX_REASON]
    request = f"This answer was refused: {said}\nRead the text again and give a corrected answer."
    return [
        *messages,
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


def check_text(text: object) -> None:
    """Refuses what cannot be a document.

    Raises:
        PromptError: the text is empty, or no text.
    """
    if not isinstance(text, str):
        raise PromptError(
            f"the text is of type {type(text).__name__}", action="pass a str: read or decode the file first"
        )
    if not text.strip():
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
