"""Prompts with images: texts are those of transformers' `generate` with the processor's inputs, in every way to read them."""

from __future__ import annotations

import base64
import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import constrained
from constrained import Generator, Speculation
from constrained.errors import ModelError, PromptError, PromptTooLong
from constrained.models import images as reader
from constrained.models.hugging_face import HuggingFaceModel
from constrained.prompting.images import take_images
from tests.support.tiny_vision import TEMPLATE, asked, generated, picture, tiny_vision

LETTERS = constrained.regex("[a-z ]{24}")
READ = ["llava", "idefics3", "mistral3", "internvl", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "qwen3_5"]


def load(kind: str = "llava") -> Any:
    return constrained.load(*tiny_vision(kind))


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.ci) if i else kind for i, kind in enumerate(READ)])  # fmt: skip
def test_texts_are_those_of_generate_with_the_inputs_of_the_processor(kind: str) -> None:
    model = load(kind)
    chats = [
        asked(picture(0), "What is it?"),
        asked("Compare ", picture(1, 90, 30), " and ", picture(2), "!"),
        asked(picture(1, 90, 30), "What is it?"),
    ]
    expected = [generated(kind, chat, LETTERS) for chat in chats]
    assert len({tuple(tokens) for tokens in expected}) == 3, "the images make no difference"
    for speculation in (None, Speculation(nodes=6)):
        generator = Generator(model, LETTERS, sampler="local", speculation=speculation)
        alone = [generator(chat, temperature=0, max_tokens=40) for chat in chats]
        together = generator.batch(chats, temperature=0, max_tokens=40)
        for one, other, tokens in zip(alone, together, expected, strict=True):
            assert list(one.tokens) == list(other.tokens) == tokens[: len(one.tokens)]


def test_a_model_that_does_more_for_images_refuses_them_by_name_and_reads_texts() -> None:
    model = load("gemma3")
    name = type(model.model).__name__
    with pytest.raises(ModelError, match=f"{name} cannot read images here.*both directions"):
        model.encode(asked(picture(0), "What?"))
    Generator(model, LETTERS)("What?", max_tokens=40)


def test_inputs_of_unknown_form_are_refused() -> None:
    rows, columns = torch.zeros(1, 3, 4), torch.arange(3)
    given: dict[str, Any] = {"inputs_embeds": rows, "visual_pos_masks": rows[..., 0] == 0}
    deep = {"deepstack_visual_embeds": [rows[0], rows[0]]}
    assert reader.more_than_rows({**given, **deep}, 2) is None
    for inputs, why in (
        ({**given, **deep}, "they enter its layers as visual_pos_masks"),
        ({**given, "per_layer_inputs": rows}, "they enter its layers as"),
        ({"inputs_embeds": None}, "takes no embeddings"),
        ({"inputs_embeds": rows, "position_ids": columns[None] + 1}, "neither their columns"),
        ({"inputs_embeds": rows, "position_ids": columns.expand(3, 2, 3)}, "neither their columns"),
    ):
        assert why in (reader.more_than_rows(inputs, 1) or "")
    assert reader.more_than_rows({"inputs_embeds": rows, "position_ids": columns.expand(3, 1, 3)}, 0) is None


def test_a_difference_of_logits_refuses_images_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_positions_in", lambda inputs: None)
    model = load("qwen2_vl")
    for _ in range(2):
        with pytest.raises(ModelError, match=r"logits are off by .* standard deviations"):
            model.encode(asked(picture(0), "What?"))


def test_equal_images_have_equal_ids_behind_the_vocabulary() -> None:
    model = load()
    one, same, other = (model.encode(asked(picture(seed), "?")) for seed in (0, 0, 1))
    assert one == same != other
    positions = [token for token in one if token >= model.vocabulary.size]
    assert len(positions) == 4
    assert model.encode(one) == one
    assert (
        Generator(model, LETTERS)(one, temperature=0).tokens
        == Generator(model, LETTERS)(asked(picture(0), "?"), temperature=0).tokens
    )
    with pytest.raises(PromptError, match="outside a vocabulary"):
        model.encode([*one, positions[-1] + 10_000])


def test_texts_of_users_have_no_places_for_images() -> None:
    model = load()
    ids = model.encode(asked(picture(0), "What is <image>?"))
    assert model.tokenizer.image_token_id not in ids
    assert sum(token >= model.vocabulary.size for token in ids) == 4
    with pytest.raises(PromptError, match="U\\+FDD1"):
        model.encode(asked(picture(0), "What is \ufdd1?"))
    assert model.tokenizer.image_token_id not in model.encode("What is \ufdd1 or <image>?")


def test_an_image_that_others_pushed_out_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MEMORY", 64 * 4 * 16)  # sixteen positions
    vision = tiny_vision.__wrapped__("llava")
    model = HuggingFaceModel(vision.model, vision.processor.tokenizer, processor=vision.processor)
    generator = Generator(model, LETTERS)
    first = model.encode(asked(picture(0), "?"))
    generator(first, temperature=0)
    for seed in range(1, 5):
        model.encode(asked(picture(seed), "?"))
    with pytest.raises(PromptError, match="outside a vocabulary"):
        generator(first, temperature=0)
    with pytest.raises(ModelError, match="not kept any more"):
        model.forward([first], model.cache(1))
    assert model.encode(asked(picture(0), "?")) != first
    with pytest.raises(PromptError, match="12 positions"):
        model.encode(asked(picture(0), picture(1), picture(2), "?"))


def test_penalties_guards_and_drafts_leave_positions_of_images_out() -> None:
    model = load()
    generator = Generator(
        model, constrained.json_schema({"type": "string", "maxLength": 20}), on_repeat="close"
    )
    text = generator(
        asked(picture(0), "aaaa"), temperature=0, repetition_penalty=1.3, repetition_window=400, max_tokens=60
    ).text
    assert text.startswith('"')


@pytest.mark.parametrize(
    "part",
    [
        lambda image, png, path: {"type": "image", "image": image},
        lambda image, png, path: {"type": "image", "image": png},
        lambda image, png, path: {"type": "image", "path": path},
        lambda image, png, path: {"type": "image_url", "image_url": {"url": _url(png)}},
        lambda image, png, path: {"type": "image_url", "image_url": _url(png)},
        lambda image, png, path: {"type": "input_image", "image_url": _url(png)},
        lambda image, png, path: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _b64(png)}},
        lambda image, png, path: {"type": "image", "base64": _b64(png), "mime_type": "image/png"},
    ],
)  # fmt: skip
def test_forms_of_images(part: Any, tmp_path: Path) -> None:
    image = picture(3)
    file = io.BytesIO()
    image.save(file, "png")
    path = tmp_path / "a.png"
    path.write_bytes(file.getvalue())
    chat = [{"role": "user", "content": [part(image, file.getvalue(), path), "What?"]}]
    messages, (found,) = take_images(chat, read=True)
    assert messages == [{"role": "user", "content": "\ufdd1What?"}]
    assert found.tobytes() == image.tobytes()


def _b64(png: bytes) -> str:
    return base64.b64encode(png).decode()


def _url(png: bytes) -> str:
    return f"data:image/png;base64,{_b64(png)}"


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            "addresses are not fetched",
        ),
        ({"type": "image", "image": "/etc/passwd"}, "addresses are not fetched"),
        ({"type": "image", "url": "file:///etc/passwd"}, "addresses are not fetched"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}, "no base64"),
        ({"type": "image", "image": b"GIF89a"}, "cannot be read"),
        ({"type": "image", "image": b""}, "cannot be read"),
        ({"type": "image", "path": Path("nowhere.png")}, "cannot be read"),
        ({"type": "image"}, "a NoneType"),
        ({"type": "image", "image": 3}, "a int"),
        ({"type": "audio", "audio": b""}, "of the type 'audio'"),
    ],
)
def test_what_is_no_image_is_refused(part: dict[str, Any], error: str) -> None:
    content = [{"type": "image", "image": picture(0)}, part]
    with pytest.raises(PromptError, match=error):
        take_images([{"role": "user", "content": content}], read=True)


def test_small_files_with_many_pixels_and_many_images_are_refused_before_they_cost() -> None:
    file = io.BytesIO()
    picture(0, 10, 10).resize((4000, 9000)).convert("1").save(file, "png")
    large: Any = {"type": "image", "image": file.getvalue()}
    with pytest.raises(
        PromptError, match="4000 x 9000 pixels: those of a prompt have at most 64,000,000 together"
    ):
        take_images([{"role": "user", "content": [large, large]}], read=True)
    with pytest.raises(PromptError, match="more than 64 images"):
        take_images(asked(*[picture(0, 1, 1)] * 65), read=True)
    model = load("idefics3")  # whose images have up to 102 positions
    with pytest.raises(PromptTooLong, match="with its images: the model reads 2048 in all"):
        model.encode(asked(*[picture(0)] * 40))


def test_a_model_that_takes_none_says_so() -> None:
    with pytest.raises(PromptError, match="message 0 has an image, and the model takes none"):
        constrained.load().encode(asked(picture(0), "What?"))


def test_a_checkpoint_brings_its_processor_along(tmp_path: Path) -> None:
    model, processor = tiny_vision("llava")
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    loaded: Any = constrained.load(str(tmp_path), device="cpu")
    chat = asked(picture(0), "What is it?")
    written = Generator(loaded, LETTERS, sampler="local")(chat, temperature=0, max_tokens=40)
    assert list(written.tokens) == generated("llava", chat, LETTERS)[: len(written.tokens)]
    again = pickle.loads(pickle.dumps(constrained.load(str(tmp_path), device="cpu")))
    assert Generator(again, LETTERS, sampler="local")(chat, temperature=0, max_tokens=40).text == written.text


def test_the_tokenizer_of_a_processor_is_pickled() -> None:
    marked = reader._MarkedTokenizer(tiny_vision("llava").processor.tokenizer)
    assert pickle.loads(pickle.dumps(marked))(["a b"]) == marked(["a b"])


def test_a_checkpoint_without_a_processor_names_what_is_missing(tmp_path: Path) -> None:
    model, processor = tiny_vision("llava")
    model.save_pretrained(tmp_path)
    processor.tokenizer.save_pretrained(tmp_path)
    loaded = constrained.load(str(tmp_path), device="cpu")
    with pytest.raises(ModelError, match="processor"):
        loaded.encode(asked(picture(0), "What?"))
    assert transformers.AutoConfig.from_pretrained(tmp_path).model_type == "llava"
