"""Images of prompts for vision-language models of transformers, as ids behind those of the vocabulary.

The model computes the embeddings of an image once, when a prompt is encoded. Each of its positions then has an id, and the layer of
embeddings gives its row for this id. So whatever reads ids reads images: caches, batches, draft trees, prompts that begin alike.

Where a model counts positions in several dimensions (M-RoPE of Qwen-VL), an id also knows those of its place in the image
(`constrained.models.positions`); where images enter deeper layers too (DeepStack of Qwen3-VL), it has a row for each of them, which is added to
what the layer gives. Models that do more than that are refused by what their text model is called with: attention in both directions
(Gemma 3), inputs of other names. A trial of the first prompt finds all others.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from constrained.errors import ModelError, PromptError, PromptTooLong
from constrained.models.capabilities import CONTEXT_SHARE, TOLERANCE
from constrained.models.positions import ImagePositions
from constrained.prompting.user_texts import BREAK

_MEMORY = 1 << 28
"""Bytes of the embeddings that are kept. Those of the oldest images are overwritten."""
IDS = "ids_with_images"
"""What layers are called with in a pass, see `ImageEmbeddings`."""
_DEEPER, _WHERE = "deepstack_visual_embeds", "visual_pos_masks"
"""What a text model takes of images for its first layers, and where they are."""


class ImageEmbeddings:
    """The rows of images in the layer of embeddings of a model: stands in the place of the layer's `forward`.

    Attributes:
        first: the id of the first row; the later ones follow, and none is given twice.
        end: behind the last id that was given.
        places: number of ids whose rows are kept.
        deeper: number of layers that images enter besides.
        positions: of the ids.
    """

    def __init__(self, layer: Any, first: int, deeper: Sequence[Any] = ()) -> None:
        """Changes the layers.

        Args:
            layer: of the token embeddings.
            first: ids of the vocabulary are lower.
            deeper: layers to whose outputs images add rows, in passes that name their ids (`IDS`).
        """
        weight = layer.weight
        self.first: int = first
        self.end: int = first
        self.deeper = len(deeper)
        kinds = 1 + self.deeper
        self.places: int = max(1, _MEMORY // (kinds * weight.shape[1] * weight.element_size()))
        self.positions = ImagePositions(first, self.places)
        self._rows = torch.empty(
            kinds, self.places, weight.shape[1], dtype=weight.dtype, device=weight.device
        )
        for kind, one in enumerate(deeper, 1):
            one.register_forward_hook(partial(self._add, kind), with_kwargs=True)
        self._text = layer.forward
        self._known: dict[bytes, int] = {}  # the first id of rows that stand in a prompt side by side
        self._lock = threading.Lock()
        layer.forward = self

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows, whose prompts stay in this process."""
        kept = {"_rows": self._rows[:, :0], "_known": {}, "_lock": None}
        return {**self.__dict__, **kept, "positions": ImagePositions(self.first, self.places)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.end += self.places
        kinds, _, width = self._rows.shape
        self._rows, self._lock = self._rows.new_empty(kinds, self.places, width), threading.Lock()

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """Embeddings [..., width] of ids [...]. On a device both are looked up, without waiting for what the ids are."""
        of_image = ids >= self.first
        if not ids.is_cuda and not bool(of_image.any()):
            text: torch.Tensor = self._text(ids)
            return text
        return self._found(0, ids, self._text(torch.where(of_image, 0, ids)))

    def _add(
        self, kind: int, _: Any, __: tuple[Any, ...], named: Mapping[str, Any], output: torch.Tensor
    ) -> torch.Tensor | None:
        """The output [rows, tokens, width] of a layer with what images add to it; None: as it is."""
        ids = named.get(IDS)
        if ids is None or (not ids.is_cuda and not bool((ids >= self.first).any())):
            return None
        rows = self._found(kind, ids.to(self._rows.device), self._rows.new_zeros(()))
        return output + rows.to(output.device)

    def _found(self, kind: int, ids: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Rows [..., width] of the ids of images, and what is in the place of others."""
        of_image = ids >= self.first
        rows = self._rows[kind, torch.where(of_image, (ids - self.first) % self.places, 0)]
        return torch.where(of_image.unsqueeze(-1), rows, other)

    def keep(self, rows: torch.Tensor, apart: NDArray[np.int64] | None = None) -> range:
        """The ids of rows; of equal ones that are known, the same.

        Args:
            rows: [1 + deeper, n, width].
            apart: see `ImagePositions.keep`; None: their positions are their columns.

        Raises:
            PromptError: there are more than can be kept.
        """
        count = rows.shape[1]
        if 2 * count > self.places:
            raise PromptError(
                f"an image has {count} positions, and {self.places // 2} are kept", action="make it smaller"
            )
        places_too = b"" if apart is None else apart.tobytes()
        digest = hashlib.sha256(rows.to("cpu", torch.float32).numpy().tobytes() + places_too).digest()
        with self._lock:
            begin = self._known.get(digest)
            if begin is None or not self.knows(begin):
                begin = self.end
                places = (torch.arange(begin, begin + count, device=rows.device) - self.first) % self.places
                self._rows[:, places] = rows.to(self._rows.dtype)
                if apart is not None:
                    self.positions.keep(begin, apart)
                self.end += count
                self._known = {key: known for key, known in self._known.items() if self.knows(known)}
                self._known[digest] = begin
            return range(begin, begin + count)

    def knows(self, token: int) -> bool:
        """Whether the row of an id is there: of the newer half, so that none is overwritten between this and its pass."""
        return max(self.first, self.end - self.places // 2) <= token < self.end

    def check(self, tokens: Sequence[Sequence[int]]) -> None:
        """Checks the ids of a pass.

        Raises:
            ModelError: the row of one has been overwritten.
        """
        if any(token >= self.first and not self.knows(token) for row in tokens for token in row):
            raise ModelError(
                f"an image of a prompt is not kept any more: those read since have over {self.places // 2:,} positions",
                action="read fewer prompts with images at a time, or make the images smaller",
            )


class _Found(Exception):
    """Ends a pass when the text model is called, with what it is called with."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        super().__init__()
        self.inputs = inputs


class _Encoding(dict[str, Any]):
    """What a processor needs of the encodings of texts, each of which was encoded in pieces."""

    def __init__(self, pieces: Sequence[Sequence[tuple[str, Any]]]) -> None:
        ids = [[token for _, piece in text for token in piece["input_ids"]] for text in pieces]
        super().__init__(input_ids=ids, attention_mask=[[1] * len(one) for one in ids])
        self._pieces = pieces

    def char_to_token(self, text: int, place: int) -> int | None:
        """The token of a character of a text."""
        before = 0
        for piece, encoded in self._pieces[text]:
            if place < len(piece):
                token = encoded.char_to_token(place)
                return None if token is None else before + int(token)
            place, before = place - len(piece) - len(BREAK), before + len(encoded["input_ids"])
        return None


class _MarkedTokenizer:
    """A tokenizer for a processor: texts of users never become special tokens, see `constrained.prompting.user_texts`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        if name == "_tokenizer":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __call__(self, text: Any, **_: Any) -> _Encoding:
        texts = [text] if isinstance(text, str) else text
        return _Encoding(
            [
                [(piece, self._tokenizer(piece, add_special_tokens=False)) for piece in one.split(BREAK)]
                for one in texts
            ]
        )


class ProcessorImages:
    """Reads images by the processor of a model and the model's own vision part. Safe to share between threads."""

    def __init__(
        self,
        model: Any,
        processor: Any,
        tokenizer: Any,
        size: int,
        *,
        context: int | None,
        run: Callable[..., Any],
        read: Callable[[list[int]], NDArray[np.float32]],
    ) -> None:
        """Changes the model's layer of embeddings, see `ImageEmbeddings`.

        Args:
            model: of transformers, with a vision part.
            processor: of the model, or a partial function that loads it for the first image.
            tokenizer: of the model.
            size: number of ids of the vocabulary.
            context: tokens that the model reads; None: any number.
            run: a pass of the model over the inputs that its processor makes.
            read: logits [V] behind a prompt, as ids are read.
        """
        self._name = type(model).__name__
        self._processor, self._tokenizer = processor, tokenizer
        self._layer = model.get_input_embeddings()
        decoder = model.get_decoder()
        vision = getattr(model.config, "vision_config", None)
        deeper = len(getattr(vision, "deepstack_visual_indexes", None) or ())
        known = self._layer.forward  # of the model, loaded before
        self._rows = (
            known
            if isinstance(known, ImageEmbeddings)
            else ImageEmbeddings(self._layer, size, decoder.layers[:deeper] if deeper else ())
        )
        self._context, self._run, self._read = context, run, read
        self._reading: set[int] = set()  # threads that compute embeddings
        self._obstacle: str | None = None
        self._tried = False
        decoder.register_forward_pre_hook(self._stop, with_kwargs=True)

    @property
    def positions(self) -> ImagePositions:
        """Of the ids, for caches."""
        return self._rows.positions

    def named(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """What a pass over ids is called with besides: their name for layers that images enter, where there are such."""
        return {IDS: ids} if self._rows.deeper else {}

    def knows(self, token: int) -> bool:
        """See `ImageReader.knows`."""
        return self._rows.knows(token)

    def check(self, tokens: Sequence[Sequence[int]]) -> None:
        """Checks the ids of a pass, see `ImageEmbeddings.check`."""
        self._rows.check(tokens)

    def encode(self, text: str, images: Sequence[Any]) -> list[int]:
        """See `constrained.prompting.images.ImageReader.encode`."""
        processor = self._marking
        try:
            inputs = processor(text=[text], images=list(images), return_tensors="pt")
        except Exception as error:  # whatever a processor raises
            raise PromptError(
                f"the model's processor refuses the images: {' '.join(str(error).split()):.200}",
                action="check their number and size, and that the chat template has places for images",
            ) from error
        weight = self._layer.weight
        inputs = inputs.to(weight.device, dtype=weight.dtype)
        tokens = inputs["input_ids"]
        count, most = tokens.shape[1], self._context
        if most is not None and count > most:  # before they cost more
            raise PromptTooLong(
                f"the prompt has {count} tokens with its images: the model reads {most} in all",
                action="send fewer or smaller images, or use a model with a longer context",
            )
        rows, positions = self._computed(inputs)
        with torch.inference_mode():
            of_image = (rows[0] != self._layer(tokens)[0]).any(-1).tolist()
        ids: list[int] = []
        columns, shift = np.arange(count), 0
        for is_row, places in groupby(range(len(of_image)), of_image.__getitem__):
            here = list(places)
            part = slice(here[0], here[-1] + 1)
            if is_row:
                apart = None if positions is None else positions[:, 0, part] - columns[part] - shift
                kept = self._rows.keep(rows[:, part], apart)
                shift += self.positions.shift(kept)
                ids += kept
            else:
                ids += tokens[0, part].tolist()
        found = self.positions.of(np.array([ids]), columns[None], [0])
        if positions is not None and (found is None or bool((found != positions).any())):
            raise self._refusal("the positions of a text do not follow from the images before it")
        self._try(inputs, ids)
        return ids

    @cached_property
    def _marking(self) -> Any:
        """The processor, with a tokenizer for texts with breaks."""
        made = self._processor() if isinstance(self._processor, partial) else copy.copy(self._processor)
        made.tokenizer = _MarkedTokenizer(self._tokenizer)
        return made

    def _computed(self, inputs: Mapping[str, Any]) -> tuple[torch.Tensor, NDArray[np.int64] | None]:
        """What the text model is called with: rows [1 + deeper, tokens, width], and positions, see `_positions_in`."""
        thread = threading.get_ident()
        self._reading.add(thread)
        try:
            self._run(**inputs)
            obstacle: str | None = "its text model is not asked"
        except _Found as found:
            obstacle = more_than_rows(found.inputs, self._rows.deeper)
            if obstacle is None:
                return _rows_in(found.inputs), _positions_in(found.inputs)
        finally:
            self._reading.discard(thread)
        raise self._refusal(obstacle)

    def _refusal(self, why: str | None) -> ModelError:
        return ModelError(
            f"{self._name} cannot read images here, as rows among those of the text: {why}",
            action="send texts only, or load a model such as Qwen2.5-VL, LLaVA, SmolVLM, InternVL, Mistral 3 or LFM2-VL",
        )

    def _stop(self, _: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if threading.get_ident() in self._reading:
            raise _Found({"inputs_embeds": arguments[0] if arguments else None, **named})

    def _try(self, inputs: Mapping[str, Any], ids: list[int]) -> None:
        """Compares the logits behind the first prompt with images with those of the model's own way to read it.

        Raises:
            ModelError: they differ by more than rounding.
        """
        if not self._tried:
            read = torch.from_numpy(self._read(ids))
            own = self._run(**inputs).logits[0, -1, : len(read)].float().cpu()
            error = float((own - read).abs().max() / own.std().clamp(min=1e-30))
            dtype = str(self._layer.weight.dtype).removeprefix("torch.")
            if not error <= TOLERANCE.get(dtype, CONTEXT_SHARE):
                self._obstacle = f"its logits are off by {error:.2g} standard deviations"
            self._tried = True
        if self._obstacle is not None:
            raise self._refusal(self._obstacle)


def more_than_rows(inputs: Mapping[str, Any], deeper: int) -> str | None:
    """What a text model is called with for a prompt with images, besides rows and positions of their ids; None: nothing that matters.

    Args:
        inputs: by name.
        deeper: number of layers that have rows of images besides the embeddings.
    """
    rows = inputs.get("inputs_embeds")
    if not isinstance(rows, torch.Tensor) or rows.dim() != 3:
        return "its text model takes no embeddings"
    positions = _positions_in(inputs)
    if positions is not None and (positions.shape[0] == 1 or positions.shape[1] != 1):
        return "their positions are neither their columns nor in several dimensions"
    masks = inputs.get("attention_mask")
    for mask in masks.values() if isinstance(masks, Mapping) else [masks]:
        if isinstance(mask, torch.Tensor) and mask.dim() == 4:
            seen = mask if mask.dtype == torch.bool else mask > mask.min()
            if bool(seen.triu(1).any()):
                return "attention within them goes in both directions"
    known = (_DEEPER, _WHERE) if len(inputs.get(_DEEPER) or ()) == deeper > 0 else ()
    others = [
        name
        for name, value in inputs.items()
        if name.startswith(("deepstack", "visual", "per_layer")) and value is not None and name not in known
    ]
    return f"they enter its layers as {others[0]}, too" if others else None


def _rows_in(inputs: Mapping[str, Any]) -> torch.Tensor:
    """The rows of all tokens of a text, [1 + deeper, tokens, width]; those of deeper layers are 0 for tokens of texts."""
    embeddings = inputs["inputs_embeds"][0]
    rows = [embeddings]
    for deep in inputs.get(_DEEPER) or ():
        rows.append(torch.zeros_like(embeddings))
        rows[-1][inputs[_WHERE][0]] = deep.to(embeddings)
    return torch.stack(rows)


def _positions_in(inputs: Mapping[str, Any]) -> NDArray[np.int64] | None:
    """Positions in several dimensions that a text model is called with, int64 [dimensions, texts, tokens]; None: it counts columns.

    Those of one dimension that are not the columns are returned, too, as [1, texts, tokens].
    """
    positions = inputs.get("position_ids")
    columns = torch.arange(inputs["inputs_embeds"].shape[1], device=inputs["inputs_embeds"].device)
    if positions is None or (positions.dim() == 2 and bool((positions == columns).all())):
        return None
    found: NDArray[np.int64] = (positions if positions.dim() == 3 else positions[None]).cpu().numpy()
    return found
