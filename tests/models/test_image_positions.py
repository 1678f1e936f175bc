"""Images in several dimensions (M-RoPE), and in deeper layers: positions are those of transformers, however a prompt is read."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

import constrained
from constrained.models.base import Cache
from constrained.models.capabilities import Capabilities
from constrained.models.hugging_face import HuggingFaceModel
from constrained.models.positions import COLUMNS, ImagePositions
from constrained.models.sequential_cache import ForwardMode
from tests.support.tiny_vision import asked, generated, inputs_of, picture, tiny_vision

KINDS = ["qwen2_vl", pytest.param("qwen2_5_vl", marks=pytest.mark.ci), "qwen3_vl"]
WIDE, HIGH, SMALL = picture(0, 150, 60), picture(1, 60, 150), picture(2)
CHATS = [
    asked(WIDE, "What?"),
    asked("Compare ", HIGH, " and ", SMALL, " with ", WIDE, "!"),
    asked(SMALL, ".", SMALL, ".", HIGH),
]


def load(kind: str, **options: Any) -> HuggingFaceModel:
    model: Any = constrained.load(*tiny_vision(kind), **options)
    return model  # type: ignore[no-any-return]


def expected(kind: str, chat: Any, more: list[int]) -> torch.Tensor:
    """The model's own logits [tokens + 1, V] behind a chat and behind each of more tokens."""
    model, inputs = tiny_vision(kind).model, inputs_of(kind, chat)
    behind = torch.tensor([more], dtype=torch.long)
    for name in ("input_ids", "attention_mask", "mm_token_type_ids"):
        tail = {"input_ids": behind, "attention_mask": torch.ones_like(behind)}.get(name, behind * 0)
        inputs[name] = torch.cat([inputs[name], tail], dim=1)
    with torch.inference_mode():
        return model(**inputs).logits[0, -1 - len(more) :]  # type: ignore[no-any-return]


def check(logits: Any, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(torch.as_tensor(logits), wanted[..., : logits.shape[-1]], atol=2e-3, rtol=1e-3)


def step(model: HuggingFaceModel, cache: Cache, *tokens: list[int]) -> Any:
    return model.forward(tokens, cache)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chat", range(len(CHATS)))
def test_positions_are_those_of_get_rope_index(kind: str, chat: int) -> None:
    model, inputs = load(kind), inputs_of(kind, CHATS[chat])
    names = ("input_ids", "mm_token_type_ids", "image_grid_thw")
    wanted, delta = model.model.model.get_rope_index(**{name: inputs[name] for name in names})
    ids = model.encode(CHATS[chat])
    assert model.images is not None
    positions = model.images.positions
    found = positions.of(np.array([ids]), np.arange(len(ids))[None], [0])
    assert found is not None
    assert found.tolist() == wanted.tolist()
    assert positions.shift(ids) == int(delta) != 0
    for cut in range(1, len(ids)):
        rest = positions.of(
            np.array([ids[cut:]]), np.arange(cut, len(ids))[None], [positions.shift(ids[:cut])]
        )
        assert rest is None or rest.tolist() == wanted[:, :, cut:].tolist()


def test_positions_of_ids_that_took_the_place_of_others() -> None:
    positions = ImagePositions(100, 6)
    assert positions.of(np.array([[1, 100]]), np.array([[0, 1]]), [0]) is None
    positions.keep(100, np.array([[0, -1, -2, -3], [0, -1, -1, -2], [0, 0, -2, -2]]))
    assert positions.shift(range(100, 104)) == -2
    assert positions.shift(range(100, 103)) == 0
    positions.keep(104, np.zeros((3, 4), dtype=np.int64))
    assert positions.shift(range(104, 108)) == 0
    row = np.array([[5, 104, 105, 106, 107, 6], [7, 8, 9, 7, 8, 9]])
    found = positions.of(row, np.arange(6)[None] + [[0], [10]], [0, -4])
    assert found is not None
    assert found[:, 0].tolist() == [[0, 1, 2, 3, 4, 5]] * 3
    assert found[:, 1].tolist() == [[6, 7, 8, 9, 10, 11]] * 3
    assert COLUMNS.of(row, row, [1, 1]) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_in_parts_and_rows_that_are_copied_go_on_from_its_positions(kind: str) -> None:
    model, more = load(kind), [3, 5, 8]
    prompts = [model.encode(chat) for chat in CHATS]
    wanted = [expected(kind, chat, more) for chat in CHATS]
    for ids, rows in zip(prompts, wanted, strict=True):
        for cut in range(1, len(ids), 3):  # also within an image
            cache = model.cache(1)
            step(model, cache, ids[:cut])
            check(step(model, cache, ids[cut:])[0], rows[0])
        check(step(model, cache, [3])[0], rows[1])
        for other in (cache.fork([0, 0]), cache.branch(2)):
            check(step(model, other, [5], [5, 8]), rows[2:])
        cache.keep([0])
        check(step(model, cache, [5, 8])[0], rows[3])
    together = model.cache(0)
    for ids in prompts:
        one = model.cache(1)
        step(model, one, ids)
        together.join(one)
    check(step(model, together, [3], [3, 5], [3, 5, 8]), torch.stack([wanted[i][i + 1] for i in range(3)]))
    together.keep([2, 1])
    check(
        step(model, together, [9], [8]), torch.stack([expected(kind, CHATS[2], [*more, 9])[-1], wanted[1][3]])
    )


@pytest.mark.parametrize("options", [{}, {"isolate": True}, {"engine": "static"}])
@pytest.mark.parametrize("kind", KINDS)
def test_trees_behind_images(kind: str, options: dict[str, Any]) -> None:
    model: Any = constrained.load(*tiny_vision.__wrapped__(kind), **options)
    assert model.no_engine is None
    rows = [[3, 5, 8], [4, 6]]
    wanted = [expected(kind, chat, more) for chat, more in zip(CHATS, rows, strict=False)]
    prompts = [model.encode(chat) for chat in CHATS[:2]]
    other = expected(kind, CHATS[0], [7])
    # Behind the prompt: 3 5 and, beside it, 7.
    cache = model.cache(1)
    tokens, count = [*prompts[0], 3, 5, 7], len(prompts[0])
    (found,) = model.forward_trees([tokens], [[*range(-1, count + 1), count - 1]], [count - 1], cache)
    check(found, torch.cat([wanted[0][:3], other[1:]]))
    cache.keep_paths([0], [[*range(count + 1)]])
    # Two rows: each of them goes on along a branch that is not the first.
    second = model.cache(1)
    step(model, second, prompts[1])
    cache.join(second)
    first, last = model.forward_trees([[9, 5, 8], [9, 4, 6]], [[-1, -1, 1]] * 2, [0, 0], cache)
    check(first[1:], wanted[0][2:])
    check(last[1:], wanted[1][1:])
    cache.keep_paths([1, 0], [[1, 2], [1]])
    check(step(model, cache, [2], [8]), torch.stack([expected(kind, CHATS[1], [4, 6, 2])[-1], wanted[0][3]]))


@pytest.mark.parametrize("kind", KINDS)
def test_long_prompts_in_chunks_of_fixed_steps(kind: str) -> None:
    model: Any = constrained.load(*tiny_vision.__wrapped__(kind), engine="static")
    chat = asked(*[part for i in range(13) for part in (HIGH if i % 3 else WIDE, f" {i} ")])
    ids, cache = model.encode(chat), model.cache(1)
    assert len(ids) > 128
    wanted = expected(kind, chat, [3, 5])
    check(step(model, cache, ids)[0], wanted[0])
    check(step(model, cache, [3, 5])[0], wanted[2])


@pytest.mark.parametrize("mode", [ForwardMode.CHAINS, ForwardMode.STEPS, ForwardMode.WHOLE])
def test_models_that_are_read_one_text_at_a_time(mode: ForwardMode) -> None:
    model, more = load("qwen2_vl"), [3, 5, 8]
    model.capabilities = Capabilities(mode, no_trees="of a test")
    ids, wanted = model.encode(CHATS[1]), expected("qwen2_vl", CHATS[1], more)
    cache = model.cache(1)
    check(step(model, cache, ids)[0], wanted[0])
    if mode is not ForwardMode.STEPS:
        (found,) = model.forward_trees([[3, 9]], [[-1, 0]], [0], cache)
        check(found[0], wanted[1])
        cache.keep_paths([0], [[0]])
    else:
        check(step(model, cache, [3])[0], wanted[1])
    check(step(model, cache, [5, 8])[0], wanted[3])


@pytest.mark.parametrize("kind", KINDS)
def test_extraction_writes_what_generate_writes(kind: str) -> None:
    letters = constrained.regex("[a-z ]{24}")
    model = load(kind, engine="eager")
    extractor = constrained.Extractor(model, letters, temperature=0, max_tokens=40)
    for image in (WIDE, HIGH):
        part = {"type": "image", "image": image}
        chat = extractor.prompt("From Brno.", images=(part,))
        text = model.vocabulary.decode(generated(kind, chat, letters)).decode()
        assert (
            constrained.extract(model, [image, "From Brno."], letters, temperature=0, max_tokens=40)
            == text[:24]
        )


def test_the_model_reads_texts_after_images_as_before() -> None:
    letters = constrained.regex("[a-z ]{24}")
    fresh: Any = constrained.load(*tiny_vision.__wrapped__("qwen3_vl"))
    model: Any = pickle.loads(pickle.dumps(fresh))
    before = constrained.Generator(model, letters)("What?", temperature=0, max_tokens=40)
    chats: list[Any] = [CHATS[1], "What?", CHATS[0]]
    together = constrained.Generator(model, letters, sampler="local").batch(
        chats, temperature=0, max_tokens=40
    )
    for i in (0, 2):
        tokens = list(together[i].tokens)
        assert tokens == generated("qwen3_vl", chats[i], letters)[: len(tokens)]
    assert together[1].tokens == before.tokens
    assert (
        constrained.Generator(model, letters)("What?", temperature=0, max_tokens=40).tokens == before.tokens
    )
