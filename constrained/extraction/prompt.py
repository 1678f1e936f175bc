"""The prompt of an extraction: the type, the request, and the document."""

from __future__ import annotations

from constrained.constraint import Constraint
from constrained.errors import PromptError, RejectedValue
from constrained.prompting import schema_text as prompts

Messages = list[dict[str, str]]
"""A chat: ``{"role", "content"}`` items."""

_MAX_REASON = 600


def extraction_prompt(text: str, constraint: Constraint) -> Messages:
    """The chat that asks for a value out of a text.

    Raises:
        PromptError: the text is empty, or no text.
    """
    check_text(text)
    if constraint.is_json:
        return prompts.extraction_messages(text, constraint.schema)
    request = f"Read the text below. {answer_request(constraint)}"
    return [{"role": "user", "content": f"{request}\n\nText:\n{text.strip()}"}]


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
    if constraint.is_json:
        return f"Answer with JSON only, of this type:\n{prompts.schema_to_text(constraint.schema)}"
    if constraint.schema is not None:
        return f"Answer with one of these only, without quotes:\n{prompts.schema_to_text(constraint.schema)}"
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
