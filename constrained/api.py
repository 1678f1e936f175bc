"""The two shortest ways to a value, `extract` and `generate`, and the prompts that they show a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.decoding import Generator
from constrained.errors import PromptError
from constrained.models import Prompt
from constrained.prompting import schema_text as prompts
from constrained.sampling import Local

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.decoding import Speculation
    from constrained.sampling import Sampler


def extract(
    model: Any,
    text: str,
    constraint: Any,
    *,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    **settings: Any,
) -> Any:
    """Reads a text into a typed value.

    The model is shown the type (with its docstrings and descriptions of fields) and the text.

    Args:
        model: a `LanguageModel`, or what `constrained.load` makes one of.
        text: what to read; it has to fit into the model's context.
        constraint: a Python type, a JSON Schema, or a `Constraint`.
        sampler: a name or a configured sampler, as for `Generator`.
        speculation: as for `Generator`; by default draft tokens are verified where that saves time.
        settings: of the call: `max_tokens`, `temperature`, `top_k`, `top_p`, `min_p`, `seed`, as in `Generator`.

    Returns:
        An instance of the type (for a JSON Schema: the JSON value).

    Raises:
        PromptError: the text is empty, or too long (`PromptTooLong`).
        ConstrainedError: as `Generator` and its call.
    """
    # Before the constraint is compiled: nobody should wait for a compilation to hear of an empty file.
    _check_text(text)
    generator = _generator(model, constraint, sampler, speculation)
    return generator(extraction_prompt(text, generator.constraint), **settings).value


def generate(
    model: Any,
    prompt: Prompt,
    constraint: Any,
    *,
    describe: bool = True,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    **settings: Any,
) -> Any:
    """Writes a typed value for a prompt.

    Args:
        model: a `LanguageModel`, or what `constrained.load` makes one of.
        prompt: a text, a list of messages, or token ids.
        constraint: a Python type, a JSON Schema, or a `Constraint`.
        describe: show the model what to answer with, after a prompt that is a text (`generation_prompt`). With False
            the prompt is used as it is, as messages and ids always are.
        sampler: a name or a configured sampler, as for `Generator`.
        speculation: as for `Generator`; by default draft tokens are verified where that saves time.
        settings: as for `extract`.

    Returns:
        An instance of the type (for a JSON Schema: the JSON value; for a regex the text; for a choice the chosen one).

    Raises:
        ConstrainedError: as `Generator` and its call.
    """
    generator = _generator(model, constraint, sampler, speculation)
    if describe and isinstance(prompt, str) and prompt.strip():
        prompt = generation_prompt(prompt, generator.constraint)
    return generator(prompt, **settings).value


def extraction_prompt(text: str, constraint: Constraint) -> list[dict[str, str]]:
    """The chat that asks for a value out of a text.

    Raises:
        PromptError: the text is empty, or no text.
    """
    _check_text(text)
    if constraint.is_json:
        return prompts.extraction_messages(text, constraint.schema)
    request = f"Read the text below. {_request(constraint)}"
    return [{"role": "user", "content": f"{request}\n\nText:\n{text.strip()}"}]


def generation_prompt(prompt: str, constraint: Constraint) -> str:
    """A prompt with a request behind it that says what to answer with."""
    return f"{prompt}\n\n{_request(constraint)}"


def _generator(
    model: Any, constraint: Any, sampler: str | Sampler | None, speculation: str | Speculation | None
) -> Generator:
    made = Generator(model, constraint, sampler=sampler, speculation=speculation)
    if made.sampler == Local():
        made.sampler = Local(
            weights=False
        )  # a value carries no weight: the same tokens, mostly without masks
    return made


def _request(constraint: Constraint) -> str:
    if constraint.is_json:
        return f"Answer with JSON only, of this type:\n{prompts.schema_to_text(constraint.schema)}"
    if constraint.schema is not None:
        return f"Answer with one of these only, without quotes:\n{prompts.schema_to_text(constraint.schema)}"
    return f"Answer with {constraint.render()} only."


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise PromptError(
            f"the text is of type {type(text).__name__}", action="pass a str: read or decode the file first"
        )
    if not text.strip():
        raise PromptError(
            "there is nothing to extract from: the text is empty", action="pass a text with content"
        )
