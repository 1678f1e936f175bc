"""`Extractor`: a model and a constraint, ready to read documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, overload

from constrained.decoding import Generator, limits
from constrained.decoding.cut import OnLimit, check_on_limit
from constrained.decoding.output import ValueT
from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.many import BatchOptions, extract_documents, extract_one
from constrained.extraction.prompt import Messages, check_text, extraction_prompt
from constrained.sampling import Local

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from constrained.decoding import Speculation
    from constrained.sampling import Sampler


class Extractor(Generic[ValueT]):
    """Reads documents into values of a constraint; compiles the constraint once. Safe to share between threads.

    Attributes:
        generator: generates the completions.
        retries: how often a value is generated again that code of the type refused.
    """

    generator: Generator[ValueT]

    @overload
    def __init__(
        self,
        model: Any,
        constraint: type[ValueT],
        *,
        sampler: str | Sampler | None = None,
        speculation: str | Speculation | None = "auto",
        retries: int = 0,
        on_limit: OnLimit = "raise",
    ) -> None: ...

    @overload
    def __init__(
        self: Extractor[Any],
        model: Any,
        constraint: Any,
        *,
        sampler: str | Sampler | None = None,
        speculation: str | Speculation | None = "auto",
        retries: int = 0,
        on_limit: OnLimit = "raise",
    ) -> None: ...

    def __init__(
        self,
        model: Any,
        constraint: Any,
        *,
        sampler: str | Sampler | None = None,
        speculation: str | Speculation | None = "auto",
        retries: int = 0,
        on_limit: OnLimit = "raise",
    ) -> None:
        """Loads the model and compiles the constraint.

        Args:
            model: a `LanguageModel`, or what `constrained.load` makes one of.
            constraint: a Python type, a JSON Schema, or a `Constraint`.
            sampler: a name or a configured sampler, as for `Generator`.
            speculation: as for `Generator`; by default draft tokens are verified where that saves time.
            retries: generate a value again, at most so many times, if code of the type (a validator) refuses it. The model
                is shown the refused answer and the reason, and samples: at the temperature of the call, or at 0.7
                if that is greedy.
            on_limit: ``"raise"``: `Truncated` where the token limit changed or ended a completion; ``"close"`` takes the value
                that was closed in time, see `Output.cut`.

        Raises:
            ConstrainedError: as `Generator`.
        """
        self.on_limit: OnLimit = check_on_limit(on_limit)
        self.retries = limits.nonnegative_int("retries", retries)
        self.generator = value_generator(model, constraint, sampler, speculation)

    def __call__(self, text: str, **settings: Any) -> Extraction[ValueT]:
        """Reads one text.

        Args:
            text: what to read; it has to fit into the model's context.
            settings: of the call: `max_tokens`, `temperature`, `top_k`, `top_p`, `min_p`, `seed`, as in `Generator`.

        Raises:
            PromptError: the text is empty, or too long (`PromptTooLong`).
            Truncated: the token limit changed or ended the completion, unless `on_limit` is ``"close"``.
            ConstrainedError: as the call of `Generator`.
        """
        check_text(text)
        result: Extraction[ValueT] = extract_one(self, Document(None, text), settings)
        if result.error is not None:
            raise result.error
        return result

    def many(self, documents: Iterable[Any], **options: Unpack[BatchOptions]) -> Iterator[Extraction[ValueT]]:
        """Reads many documents in one continuous batch; arguments, results and errors as of `extract_many`."""
        return extract_documents(self, documents, **options)

    def prompt(self, text: str) -> Messages:
        """The chat that asks for the value of a text.

        Raises:
            PromptError: the text is empty, or cannot be read.
        """
        return extraction_prompt(text, self.generator.constraint)


def value_generator(
    model: Any, constraint: Any, sampler: str | Sampler | None, speculation: str | Speculation | None
) -> Generator[Any]:
    """A generator whose values are wanted, and not their weights: it draws the same tokens, mostly without masks."""
    generator = Generator(model, constraint, sampler=sampler, speculation=speculation)
    if generator.sampler == Local():
        generator.sampler = Local(weights=False)
    return generator
