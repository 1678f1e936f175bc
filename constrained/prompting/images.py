"""Images in the messages of a chat: what clients send them as, and where they stand in the text that a template writes."""

from __future__ import annotations

import base64
import binascii
import io
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from constrained.errors import PromptError
from constrained.extras import require_extra

IMAGE = "\ufdd1"
"""A code point that is no character, in the place of each image in the text of a message."""

MAX_PIXELS = 64_000_000
"""Width times height of all images of a prompt together; a small file may hold a large one."""
MAX_IMAGES = 64
"""Images of a prompt."""

_FORMS = "pass a PIL image, the bytes of a file, a pathlib.Path, or a data URL"


class ImageReader(Protocol):
    """What reads the images of a prompt, for a model."""

    def encode(self, text: str, images: Sequence[Any]) -> list[int]:
        """Token ids of a rendered chat.

        Args:
            text: as a chat template wrote it, with breaks (`constrained.prompting.user_texts`).
            images: PIL images, in the order in which the text has places for them.

        Returns:
            Ids of the vocabulary, and behind them an id for each position of an image, the same for equal images.

        Raises:
            PromptError: the model's processor refuses the images.
            PromptTooLong: the text and the images have more tokens than the model reads.
            ModelError: the model cannot read images as this library does.
        """

    def knows(self, token: int) -> bool:
        """Whether an id stands for a position of an image that was encoded, and is kept."""


def is_image(part: object) -> bool:
    """Whether a part of a message's content is an image, in whatever form."""
    return isinstance(part, Mapping) and part.get("type") in ("image", "image_url", "input_image")


def as_part(image: Any) -> Mapping[str, Any] | None:
    """An image as a part of a message's content; None: it is none.

    Args:
        image: a PIL image, the bytes or the path of a file, or a part.
    """
    if is_image(image):
        part: Mapping[str, Any] = image
        return part
    is_picture = hasattr(image, "convert") and hasattr(image, "tobytes")
    if is_picture or isinstance(image, bytes | bytearray | memoryview | os.PathLike):
        return {"type": "image", "image": image}
    return None


def take_images(
    messages: Sequence[Mapping[str, Any]], *, read: bool
) -> tuple[Sequence[Mapping[str, Any]], list[Any]]:
    """Messages without images, and the images.

    Args:
        messages: contents are texts, or lists of parts. Parts that are images have the form of OpenAI's chats and responses,
            Anthropic's, LangChain's, or transformers' (``{"type": "image", "image": ...}``).
        read: whether the model takes images, and its chat template has places for them.

    Returns:
        The messages, in which `IMAGE` stands for each image, as texts; as they are, if there are none. And PIL images.

    Raises:
        PromptError: there are images, and the model takes none; one cannot be read, is too large, or is an address (nothing is
            fetched); names the message.
        MissingExtra: pillow is not installed.
    """
    pictures: list[Any] = []
    pixels = 0
    taken: list[Mapping[str, Any]] = []
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, list | tuple) or not any(map(is_image, content)):
            taken.append(message)
            continue
        if not read:
            raise PromptError(
                f"the content of message {index} has an image, and the model takes none",
                action="load a vision-language model by its name, or load(model, processor), with a chat template",
            )
        texts = []
        for part in content:
            if is_image(part):
                if len(pictures) == MAX_IMAGES:
                    raise PromptError(f"the messages have more than {MAX_IMAGES} images", action="send fewer")
                pictures.append(open_image(part, f"the content of message {index}", MAX_PIXELS - pixels))
                pixels += pictures[-1].width * pictures[-1].height
                texts.append(IMAGE)
            elif isinstance(part, str) or (isinstance(part, Mapping) and isinstance(part.get("text"), str)):
                texts.append(part if isinstance(part, str) else part["text"])
            else:
                kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
                raise PromptError(
                    f"the content of message {index} has a part of the type {kind!r:.40}",
                    action="pass parts that are texts or images",
                )
        taken.append({**message, "content": "".join(texts)})
    return taken, pictures


def as_parts(messages: Sequence[Mapping[str, Any]], images: int) -> list[dict[str, Any]]:
    """Messages whose contents are lists of parts, as the templates of vision-language models take them.

    Args:
        messages: contents are texts.
        images: number of images.

    Raises:
        PromptError: texts have `IMAGE` themselves.
    """
    if sum(str(message.get("content")).count(IMAGE) for message in messages) != images:
        raise PromptError("a text of the chat has U+FDD1, which is no character", action="remove it")
    return [
        {**message, "content": _parts(content)}
        if isinstance(content := message.get("content"), str)
        else dict(message)
        for message in messages
    ]


def _parts(content: str) -> list[dict[str, str]]:
    parts: list[dict[str, str]] = []
    for i, text in enumerate(content.split(IMAGE)):
        if i:
            parts.append({"type": "image"})
        if text:
            parts.append({"type": "text", "text": text})
    return parts


def open_image(part: Mapping[str, Any], place: str, most: int = MAX_PIXELS) -> Any:
    """The PIL image of a part, in RGB.

    Args:
        part: of a message's content, in one of the forms of `take_images`.
        place: where it is, in the words of an error.
        most: pixels that it may have.

    Raises:
        PromptError: it cannot be read, is too large, or is an address.
        MissingExtra: pillow is not installed.
    """
    with require_extra("images"):
        pil: Any = import_module("PIL.Image")
    given = _given(part)
    if isinstance(given, str):
        given = _decoded(given, place)
    try:
        if isinstance(given, pil.Image):
            picture = given
        elif isinstance(given, bytes | bytearray | memoryview):
            picture = pil.open(io.BytesIO(given))
        elif isinstance(given, os.PathLike):
            picture = pil.open(given)
        else:
            raise PromptError(f"an image in {place} is a {type(given).__name__}", action=_FORMS)
        width, height = picture.size
        if not 0 < width * height <= most:
            raise PromptError(
                f"an image in {place} has {width} x {height} pixels: those of a prompt have at most {MAX_PIXELS:,} together",
                action="make it smaller; models see some hundred pixels a side",
            )
        return picture.convert("RGB")
    except PromptError:
        raise
    except Exception as error:  # whatever a decoder of PIL raises
        why = str(error).partition(" <")[0]
        raise PromptError(f"an image in {place} cannot be read: {why}", action=_FORMS) from error


def _given(part: Mapping[str, Any]) -> Any:
    """What a part has as its image: bytes, a PIL image, a path, or a URL."""
    source = part.get("source")
    if isinstance(source, Mapping):  # Anthropic's
        return f"data:;base64,{source['data']}" if isinstance(source.get("data"), str) else source.get("url")
    if isinstance(part.get("base64"), str):  # LangChain's
        return f"data:;base64,{part['base64']}"
    url = part.get("image_url")
    url = url.get("url") if isinstance(url, Mapping) else url
    return next(
        (one for one in (part.get("image"), url, part.get("url"), part.get("path")) if one is not None), None
    )


def _decoded(url: str, place: str) -> bytes:
    """The bytes of a data URL. Other strings name files or hosts, which are not this program's to open for whoever sent them."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise PromptError(
            f"an image in {place} is {url[:40]!r}: addresses are not fetched",
            action="pass its bytes, or a data URL: data:image/png;base64,...",
        )
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PromptError(
            f"an image in {place} is no base64: {error}", action="encode it with base64"
        ) from None
