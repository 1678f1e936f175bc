"""`extract`, `aextract` and `extract_many`: the shortest ways from texts to values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, overload

from constrained.extraction.documents import Content, document_of, iterate_documents
from constrained.extraction.extraction import Extraction
from constrained.extraction.extractor import Extractor
from constrained.extraction.options import split_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from constrained.extraction.options import ExtractManyOptions, ExtractOptions

T = TypeVar("T")


@overload
def extract(model: Any, text: Content, constraint: type[T], **options: Unpack[ExtractOptions]) -> T: ...


@overload
def extract(model: Any, text: Content, constraint: Any, **options: Unpack[ExtractOptions]) -> Any: ...


def extract(model: Any, text: Content, constraint: Any, **options: Any) -> Any:
    """Reads a text into a typed value.

    The model is shown the type (with its docstrings and descriptions of fields) and the text.

    Args:
        model: a `LanguageModel`, or what `constrained.load` makes one of.
        text: what to read; it has to fit into the model's context, unless ``long="split"``. For a model that takes images: also a list of
            images (PIL images, bytes or paths of files) and texts.
        constraint: a Python type, a JSON Schema, or a `Constraint`.
        options: of `Extractor`: `instructions`, `examples`, `context`, `system`, `prompt`, `draft_first`, `thinking`, `sampler`,
            `speculation`, `on_limit`, `retries`, `long`, `chunk_tokens`, `overlap_tokens`, `passes`; and of the call, as in `Generator`: `seed`,
            `max_tokens`, `temperature`, and the others of `constrained.decoding.GenerationSettings`.

    Returns:
        An instance of the type (for a JSON Schema: the JSON value).

    Raises:
        PromptError: the text is empty, or too long (`PromptTooLong`).
        Truncated: the token limit changed or ended the completion, unless `on_limit` is ``"close"``.
        ConstrainedError: as `Extractor` and its call.
    """
    # Before the constraint is compiled: nobody should wait for a compilation to hear of an empty file.
    document_of(text)
    return Extractor(model, constraint, **options)(text).value


@overload
async def aextract(
    model: Any, text: Content, constraint: type[T], **options: Unpack[ExtractOptions]
) -> T: ...


@overload
async def aextract(model: Any, text: Content, constraint: Any, **options: Unpack[ExtractOptions]) -> Any: ...


async def aextract(model: Any, text: Content, constraint: Any, **options: Any) -> Any:
    """Reads a text into a typed value, without blocking the event loop.

    Concurrent calls for one model share a batch, whatever their constraints. Cancelling a call frees its place in the batch.

    Args:
        model: as for `extract`; pass a loaded model, or each call loads one of its own.
        text: as for `extract`.
        constraint: as for `extract`.
        options: as for `extract`.

    Returns:
        As `extract`.

    Raises:
        ConstrainedError: as `extract`.
    """
    document_of(text)
    extractor: Extractor[Any] = await asyncio.to_thread(lambda: Extractor(model, constraint, **options))
    return (await extractor.aextract(text)).value


@overload
def extract_many(
    model: Any, documents: Iterable[Any], constraint: type[T], **options: Unpack[ExtractManyOptions]
) -> Iterator[Extraction[T]]: ...


@overload
def extract_many(
    model: Any, documents: Iterable[Any], constraint: Any, **options: Unpack[ExtractManyOptions]
) -> Iterator[Extraction[Any]]: ...


def extract_many(
    model: Any, documents: Iterable[Any], constraint: Any, **options: Any
) -> Iterator[Extraction[Any]]:
    """Reads many documents in one continuous batch, and yields each result when it is there.

    A document joins the batch when another one ends, so about `batch_size` documents are held at a time, however many
    there are. A result is that of `extract` for this document with equal settings. Closing the iterator stops the model.

    Args:
        model: as for `extract`.
        documents: any iterable, read as the batch has room, of texts, `Document`s, pairs (id, text), or dicts with the key
            `text` and perhaps `id`. A document without an id gets its number, from 0.
        constraint: as for `extract`.
        options: as for `extract` (samplers that draw whole sequences read one document after another; with a seed and a
            temperature, all documents are drawn with this seed), and these:

            - `batch_size`: most documents, or parts of documents, in a forward pass; 32 by default.
            - `max_batch_tokens`: bound of the KV cache: most positions, which are the rows times the longest prompt with its
              token limit. By default what fits into half of the memory that is free now, where that is known.
            - `errors`: ``"collect"`` (the default): a document that fails is a result with an `error`, and the others go on;
              ``"raise"``: the first error is raised.
            - `ordered`: yield results in the order of the documents; by default as they end.
            - `progress`: show a progress bar on standard error.

    Returns:
        An iterator of results. If `documents` raises, the documents that have begun are finished before the exception
        is raised.

    Raises:
        InvalidArgument, DoesNotFit: an argument is wrong; raised at once, before a document is read.
        ConstrainedError: as `Extractor`, at once; and the error of a document if `errors` is ``"raise"``.
        ModelError: the model, or code of the type, failed at 32 documents in a row, whose results were yielded.
    """
    iterate_documents(documents, check_only=True)  # before the model is loaded
    own, settings = split_options(options)
    return Extractor(model, constraint, **own).many(documents, **settings)
