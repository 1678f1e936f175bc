"""`Extractor`: a model and a constraint, ready to read documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from constrained.decoding.output import ValueT
from constrained.extraction.documents import Content, document_of
from constrained.extraction.extraction import Extraction
from constrained.extraction.first_pass import FirstText
from constrained.extraction.many import (
    extract_documents,
    extract_in_background,
    extract_one,
    finished,
)
from constrained.extraction.partial import Partial, item_parser, stream_item_values, stream_partials
from constrained.extraction.plan import ExtractionPlan
from constrained.extraction.read import list_steps

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from constrained.extraction.options import BatchOptions, CallOptions


class Extractor(ExtractionPlan[ValueT]):
    """Reads documents into values of a constraint; compiles the constraint once. Safe to share between threads."""

    def __call__(self, text: Content, **settings: Unpack[CallOptions]) -> Extraction[ValueT]:
        """Reads one text.

        Args:
            text: what to read, or a list of images and texts; it has to fit into the model's context, unless `long` is ``"split"``.
            settings: of the call, as in `Generator`: `seed`, `max_tokens`, `temperature`, and the others of
                `constrained.decoding.GenerationSettings`.

        Raises:
            PromptError: the text is empty, or too long (`PromptTooLong`).
            Truncated: the token limit changed or ended the completion, unless `on_limit` is ``"close"``.
            ConstrainedError: as the call of `Generator`.
        """
        document = document_of(text)
        result: Extraction[ValueT] = extract_one(self, document, {**self.settings, **settings})
        if result.error is not None:
            raise result.error
        return result

    def many(self, documents: Iterable[Any], **options: Unpack[BatchOptions]) -> Iterator[Extraction[ValueT]]:
        """Reads many documents in one continuous batch; arguments, results and errors as of `extract_many`."""
        settings: Any = {**self.settings, **options}
        return extract_documents(self, documents, **settings)

    async def aextract(self, text: Content, **settings: Unpack[CallOptions]) -> Extraction[ValueT]:
        """Reads one text; concurrent calls for one model share a batch, in a thread that lives while there is work.

        Arguments, results and errors are those of a call. Cancelling frees the document's place in the batch.
        """
        document = document_of(text)
        result: Extraction[ValueT] = await extract_in_background(
            self, document, {**self.settings, **settings}
        )
        if result.error is not None:
            raise result.error
        return result

    def stream(self, text: Content, **settings: Unpack[CallOptions]) -> Iterator[Partial[ValueT]]:
        """Reads one text and yields the value so far, token by token; the last `Partial` has the result.

        A value whose lists are read record by record (`lists`) comes when all of them were read.
        Arguments and errors are those of a call; without retries and parts.
        """
        document = document_of(text)
        first = FirstText(self.prompt(document.text, images=document.images), None)
        generator = self.bound(self.generator, document.text)
        wanted = {**self.settings, **settings}
        if self.first_pass is not None:
            first = self.first_pass(first.prompt, wanted)
        text, lists, questions = document.text, None, None
        if not document.images:  # what is decided are values of the text
            lists = finished(self, list_steps(self, generator, text, wanted))
            questions = None if lists is not None else self.questions(generator, text)
        if lists is not None:
            return stream_partials(lists.writer, first, text, wanted, self.on_limit, lists)
        return stream_partials(generator, first, text, wanted, self.on_limit, questions)

    def stream_items(self, text: Content, **settings: Unpack[CallOptions]) -> Iterator[Any]:
        """Reads one text into an array, and yields each item when it is complete: an instance, if `constraint` is a `list[T]`.

        Raises:
            InvalidArgument: the constraint is not an array.
            ConstrainedError: as a call; the token limit is noticed behind the last complete item.
        """
        parse = item_parser(self.generator.constraint)
        return stream_item_values(parse, self.stream(text, **settings))
