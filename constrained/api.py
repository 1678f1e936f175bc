"""`generate`: the shortest way from a prompt to a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from constrained.decoding.cut import OnLimit, check_on_limit, truncation_first
from constrained.extraction.first_pass import FirstPass
from constrained.extraction.plan import value_generator
from constrained.extraction.prompt import answer_request
from constrained.models import Prompt

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from constrained.constraint import Constraint
    from constrained.decoding import Speculation
    from constrained.extraction.options import CallOptions
    from constrained.sampling import Sampler

T = TypeVar("T")


@overload
def generate(
    model: Any,
    prompt: Prompt,
    constraint: type[T],
    *,
    describe: bool = True,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    on_limit: OnLimit = "raise",
    thinking: int | None = None,
    **settings: Unpack[CallOptions],
) -> T: ...


@overload
def generate(
    model: Any,
    prompt: Prompt,
    constraint: Any,
    *,
    describe: bool = True,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    on_limit: OnLimit = "raise",
    thinking: int | None = None,
    **settings: Unpack[CallOptions],
) -> Any: ...


def generate(
    model: Any,
    prompt: Prompt,
    constraint: Any,
    *,
    describe: bool = True,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    on_limit: OnLimit = "raise",
    thinking: int | None = None,
    **settings: Unpack[CallOptions],
) -> Any:
    """Writes a typed value for a prompt.

    Args:
        model: a `LanguageModel`, or what `constrained.load` makes one of.
        prompt: a text, a list of messages, or token ids.
        constraint: a Python type, a JSON Schema, or a `Constraint`.
        describe: append a description of the constraint to a prompt that is a str (`generation_prompt`). With False
            the prompt is used as it is, as messages and ids always are.
        sampler: a name or a configured sampler, as for `Generator`.
        speculation: as for `Generator`; by default draft tokens are verified where that saves time.
        on_limit: as for `extract`.
        thinking: the model reasons first, in at most so many tokens; for models whose chat template has reasoning, and for a
            str or messages.
        settings: as for `extract`.

    Returns:
        An instance of the type (for a JSON Schema: the JSON value; for a regex the text; for a choice the chosen one).

    Raises:
        Truncated: the token limit changed or ended the completion, unless `on_limit` is ``"close"``.
        ConstrainedError: as `Generator` and its call.
    """
    check_on_limit(on_limit)
    generator = value_generator(model, constraint, sampler, speculation)
    if describe and isinstance(prompt, str) and prompt.strip():
        prompt = generation_prompt(prompt, generator.constraint)
    if thinking is not None:
        asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        prompt = FirstPass(generator, thinking)(asked, settings).prompt
    with truncation_first(on_limit):
        output = generator(prompt, **settings)
    output.raise_if_cut(on_limit)
    return output.value


def generation_prompt(prompt: str, constraint: Constraint) -> str:
    """A prompt followed by a description of the constraint."""
    return f"{prompt}\n\n{answer_request(constraint)}"
