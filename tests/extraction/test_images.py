"""Documents with images: what the model reads, and which plans refuse them."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest

import constrained
from constrained import Extractor
from constrained.errors import PromptError
from constrained.extraction import Document
from tests.support.tiny_vision import picture, tiny_vision


class Receipt(TypedDict):
    """What a receipt says."""

    kind: Literal["receipt", "invoice"]
    total: int


def extractor(**options: Any) -> Extractor[Receipt]:
    model: Any = constrained.load(*tiny_vision("llava"))
    return Extractor(model, Receipt, on_limit="close", max_tokens=60, **options)


@pytest.fixture(scope="module")
def plain() -> Extractor[Receipt]:
    return extractor()


def png(seed: int) -> bytes:
    file = io.BytesIO()
    picture(seed).save(file, "png")
    return file.getvalue()


def test_the_model_reads_images_before_the_request_and_the_text(plain: Extractor[Receipt]) -> None:
    (message,) = plain.prompt("Shop: A", images=({"type": "image", "image": picture(0)},))
    image, text = message["content"]
    assert image["type"] == "image"
    assert text["text"].startswith("Fill this type from the image above and the text below.")
    assert text["text"].endswith("Text:\nShop: A")
    (message,) = plain.prompt("", images=({"type": "image", "image": picture(0)},) * 2)
    assert "Fill this type from the images above. Answer" in message["content"][-1]["text"]
    assert "Text:" not in message["content"][-1]["text"]


def test_all_ways_to_read_a_document_give_the_same_value(plain: Extractor[Receipt], tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(0))
    content = [picture(0), "Shop: A"]
    wanted = plain(content).value
    assert set(wanted) == {"kind", "total"}
    *_, last = plain.stream(content)
    assert last.result is not None
    assert last.result.value == wanted
    assert asyncio.run(plain.aextract(content)).value == wanted
    part = {"type": "image", "image": png(0)}
    forms: list[Any] = [
        content, [png(0), "Shop: A"], [path, "Shop: A"], ("b", content), {"id": "c", "text": content},
        Document("d", "Shop: A", (part,)),
    ]  # fmt: skip
    read = list(plain.many(forms, ordered=True, batch_size=2))
    assert [one.id for one in read] == [0, 1, 2, "b", "c", "d"]
    assert [one.value for one in read] == [wanted] * 6
    assert {one.document for one in read} == {"Shop: A"}


def test_images_decide_what_is_read(plain: Extractor[Receipt]) -> None:
    assert len({str(plain([picture(seed)]).value) for seed in range(4)}) > 1


def test_a_bad_image_is_the_error_of_its_document(plain: Extractor[Receipt]) -> None:
    good, bad, neither = plain.many([[picture(0)], [b"no image"], [3, picture(0)]], ordered=True)
    assert good.error is None
    assert isinstance(bad.error, PromptError)
    assert "cannot be read" in bad.error.summary
    assert "list of images" in str(neither.error)
    for content in (["a text"], [], [picture(0), 3]):
        with pytest.raises(PromptError, match="list of images"):
            plain(content)


@pytest.mark.parametrize(
    "options",
    [{"require_grounding": True}, {"long": "split"}, {"prompt": "{type} {text}"}],
)
def test_plans_that_need_a_text_refuse_images_by_name(options: Any) -> None:
    with pytest.raises(PromptError, match="reads texts only"):
        extractor(**options)([picture(0)])


def test_drafts_examples_and_other_plans_read_images() -> None:
    options: list[dict[str, Any]] = [
        {"draft_first": True},
        {"decisions": False},
        {"retries": 1},
        {"speculation": None},
        {"examples": [("A receipt of 3.", {"kind": "receipt", "total": 3})], "system": "Be exact.", "instructions": "Sum."},
    ]  # fmt: skip
    for one in options:
        assert set(extractor(**one)([picture(0), "Shop: A"]).value) == {"kind", "total"}
