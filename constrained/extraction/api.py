"""`extract` and `extract_many`: the shortest ways from texts to values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from constrained.extraction.documents import iterate_documents
from constrained.extraction.extraction import Extraction
from constrained.extraction.extractor import Extractor
from constrained.extraction.many import BATCH_SIZE, BatchOptions
from constrained.extraction.prompt import check_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

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
    retries: int = 0,
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
    retries: int = 0,
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
    retries: int = 0,
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
        retries: generate a value again, at most so many times, if code of the type (a validator) refuses it: see `Extractor`.
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
    extractor = Extractor(
        model, constraint, sampler=sampler, speculation=speculation, retries=retries, on_limit=on_limit
    )
    return extractor(text, **settings).value


@overload
def extract_many(
    model: Any,
    documents: Iterable[Any],
    constraint: type[T],
    *,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    retries: int = 0,
    on_limit: OnLimit = "raise",
    **options: Unpack[BatchOptions],
) -> Iterator[Extraction[T]]: ...


@overload
def extract_many(
    model: Any,
    documents: Iterable[Any],
    constraint: Any,
    *,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    retries: int = 0,
    on_limit: OnLimit = "raise",
    **options: Unpack[BatchOptions],
) -> Iterator[Extraction[Any]]: ...


def extract_many(
    model: Any,
    documents: Iterable[Any],
    constraint: Any,
    *,
    sampler: str | Sampler | None = None,
    speculation: str | Speculation | None = "auto",
    retries: int = 0,
    on_limit: OnLimit = "raise",
    batch_size: int = BATCH_SIZE,
    max_batch_tokens: int | None = None,
    errors: Literal["collect", "raise"] = "collect",
    ordered: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Iterator[Extraction[Any]]:
    """Reads many documents in one continuous batch, and yields each result when it is there.

    A document joins the batch when another one ends, so about `batch_size` documents are held at a time, however many
    there are. A result is that of `extract` for this document with equal settings. Closing the iterator stops the model.

    Args:
        model: as for `extract`.
        documents: any iterable, read as the batch has room, of texts, `Document`s, pairs (id, text), or dicts with the key
            `text` and perhaps `id`. A document without an id gets its number, from 0.
        constraint: as for `extract`.
        sampler: as for `extract`. Samplers that draw whole sequences read one document after another.
        speculation: as for `extract`.
        retries: as for `extract`.
        on_limit: as for `extract`.
        batch_size: most documents (or parts of documents) in a forward pass.
        max_batch_tokens: bound of the KV cache: most positions, which are the rows times the longest prompt with its token
            limit. By default what fits into half of the memory that is free now, where that is known.
        errors: ``"collect"``: a document that fails is a result with an `error`, and the others go on; ``"raise"``: the
            first error is raised.
        ordered: yield results in the order of the documents; by default as they end.
        progress: show a progress bar on standard error.
        settings: as for `extract`. With a seed and a temperature, all documents are drawn with this seed.

    Returns:
        An iterator of results. If `documents` raises, the documents that have begun are finished before the exception
        is raised.

    Raises:
        InvalidArgument, DoesNotFit: an argument is wrong; raised at once, before a document is read.
        ConstrainedError: as `Generator`, at once; and the error of a document if `errors` is ``"raise"``.
    """
    iterate_documents(documents)  # before the model is loaded
    extractor = Extractor(
        model, constraint, sampler=sampler, speculation=speculation, retries=retries, on_limit=on_limit
    )
    return extractor.many(
        documents,
        batch_size=batch_size,
        max_batch_tokens=max_batch_tokens,
        errors=errors,
        ordered=ordered,
        progress=progress,
        **settings,
    )
