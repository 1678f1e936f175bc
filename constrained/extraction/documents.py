"""Documents in the forms that callers have them in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from constrained.errors import InvalidArgument, PromptError
from constrained.extraction.extraction import Document
from constrained.extraction.prompt import check_text
from constrained.prompting.images import as_part

_FORMS = "pass a str, a Document, a pair (id, text), or a dict with the keys text and id; in the place of a text, a list of images and texts"

Content = str | list[Any]
"""What is read: a text, or a list of images and texts."""


def document_of(content: Any, name: str | int | None = None) -> Document:
    """A document.

    Args:
        content: a text; or a list of images (PIL images, bytes or paths of files, parts of a message) and texts.
        name: its id.

    Raises:
        PromptError: it is empty, or none of these.
    """
    document = _document(content, name)
    check_text(document.text, beside_images=bool(document.images))
    return document


def _document(content: Any, name: str | int | None) -> Document:
    """A document whose text may be anything."""
    if not isinstance(content, list) or all(isinstance(one, str) for one in content):
        return Document(name, content)
    images = [part for one in content if not isinstance(one, str) and (part := as_part(one)) is not None]
    texts = [one for one in content if isinstance(one, str)]
    if len(texts) + len(images) < len(content):
        return Document(name, content)  # type: ignore[arg-type]
    return Document(name, "\n\n".join(texts), tuple(images))


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
        item: a str, a `Document`, a pair (id, text), or a mapping with the key text and perhaps id; or a list of images and texts, in
            the place of a text, too.
        number: the id of a document that has none.

    Raises:
        PromptError: the item has another form.
    """
    if isinstance(item, str):
        return Document(number, item)
    if isinstance(item, Document):
        return item if item.id is not None else replace(item, id=number)
    if isinstance(item, tuple) and len(item) == 2:
        return _document(item[1], number if item[0] is None else item[0])
    if isinstance(item, Mapping):
        if "text" not in item:
            names = ", ".join(map(repr, list(item)[:5]))
            raise PromptError(f"document {number} has no key 'text', only: {names}", action=_FORMS)
        name = item.get("id")
        return _document(item["text"], number if name is None else name)
    if isinstance(item, list):
        return _document(item, number)
    raise PromptError(f"document {number} is of type {type(item).__name__}", action=_FORMS)
