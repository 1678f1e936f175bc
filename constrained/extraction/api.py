"""`extract`: the shortest way from a text to a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from constrained.extraction.extractor import Extractor
from constrained.extraction.prompt import check_text

if TYPE_CHECKING:
    from constrained.decoding import Speculation
    from constrained.decoding.cut import OnLimit
    from constrained.sampling import Sampler

T = TypeVar("T")


@overload
def extract(
    model: Any,
    text: str,
    constraint: type[T],
    *,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    on_limit: OnLimit = "raise",
    **settings: Any,
) -> T: ...


@overload
def extract(
    model: Any,
    text: str,
    constraint: Any,
    *,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    on_limit: OnLimit = "raise",
    **settings: Any,
) -> Any: ...


def extract(
    model: Any,
    text: str,
    constraint: Any,
    *,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    on_limit: OnLimit = "raise",
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
        on_limit: ``"raise"`` raises `Truncated` where the token limit changed or ended the completion; ``"close"`` takes
            the value that was closed in time.
        settings: of the call: `max_tokens`, `temperature`, `top_k`, `top_p`, `min_p`, `seed`, as in `Generator`.

    Returns:
        An instance of the type (for a JSON Schema: the JSON value).

    Raises:
        PromptError: the text is empty, or too long (`PromptTooLong`).
        Truncated: the token limit changed or ended the completion, unless `on_limit` is ``"close"``.
        ConstrainedError: as `Generator` and its call.
    """
    # Before the constraint is compiled: nobody should wait for a compilation to hear of an empty file.
    check_text(text)
    extractor = Extractor(model, constraint, sampler=sampler, speculation=speculation, on_limit=on_limit)
    return extractor(text, **settings).value
