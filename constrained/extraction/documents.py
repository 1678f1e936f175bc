"""Documents in the forms that callers have them in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from constrained.errors import InvalidArgument, PromptError
from constrained.extraction.extraction import Document

_FORMS = "pass a str, a Document, a pair (id, text), or a dict with the keys text and id"


def iterate_documents(documents: Any, *, check_only: bool = False) -> Iterator[Any]:
    """An iterator over documents; an empty one to check the argument only.

    Raises:
        InvalidArgument: `documents` is a single text, a mapping, or nothing that can be iterated over.
    """
    if isinstance(documents, str | bytes | Mapping | Document) or not isinstance(documents, Iterable):
        raise InvalidArgument(
            f"documents is of type {type(documents).__name__}",
            action="pass a list or another iterable of documents; for one text use extract",
        )
    return iter(()) if check_only else iter(documents)


def to_document(item: Any, number: int) -> Document:
    """A document in one of its forms.

    Args:
        item: a str, a `Document`, a pair (id, text), or a mapping with the key text and perhaps id.
        number: the id of a document that has none.

    Raises:
        PromptError: the item has another form.
    """
    if isinstance(item, str):
        return Document(number, item)
    if isinstance(item, Document):
        return item if item.id is not None else Document(number, item.text)
    if isinstance(item, tuple) and len(item) == 2:
        return Document(number if item[0] is None else item[0], item[1])
    if isinstance(item, Mapping):
        if "text" not in item:
            names = ", ".join(map(repr, list(item)[:5]))
            raise PromptError(f"document {number} has no key 'text', only: {names}", action=_FORMS)
        name = item.get("id")
        return Document(number if name is None else name, item["text"])
    raise PromptError(f"document {number} is of type {type(item).__name__}", action=_FORMS)
