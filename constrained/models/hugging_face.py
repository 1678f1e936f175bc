"""Causal language models of transformers."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.errors import InvalidArgument, ModelError
from constrained.models.adapters import SharedWeights, without_wrapper
from constrained.models.attention_masks import TREE_ATTENTION
from constrained.models.base import Cache, LanguageModel, Prompt
from constrained.models.cache import HuggingFaceCache, PerRowCache
from constrained.models.capabilities import (
    CACHE_NAMES,
    Capabilities,
    cache_argument,
    cache_factory,
    decoder_config,
    probe_capabilities,
    probe_steps,
    returned_cache,
    unused_cache,
)
from constrained.models.logits import DeviceLogits, Logits, PlannedDraws
from constrained.models.positions import COLUMNS
from constrained.models.prompt_model import PromptModel
from constrained.models.sequential_cache import ForwardMode, SequentialCache
from constrained.models.slab_cache import SlabCache
from constrained.models.upload import PassUpload
from constrained.prompting.chat_template import encode_prompt
from constrained.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

    from constrained.models.fixed_steps import FixedSteps
    from constrained.models.images import ProcessorImages

ENGINES = ("eager", "static", "compiled")
"""How forward passes are computed, see `HuggingFaceModel`."""


class HuggingFaceModel(LanguageModel):
    """A transformers causal language model with its tokenizer.

    Only the EOS tokens are read from the checkpoint's generation configuration; temperature, top-p and other settings
    are ignored.
    """

    images: ProcessorImages | None = None

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        processor: Any = None,
        isolate: bool | None = None,
        force_trees: bool = False,
        allow_slow: bool = False,
        engine: str = "auto",
    ) -> None:
        """Puts the model into evaluation mode and reads the vocabulary.

        Args:
            model: a `PreTrainedModel` with a language modelling head; stays on its device and in its dtype. A `PeftModel`
                is read with the adapters that are active in it.
            tokenizer: its tokenizer; or the `Vocabulary` of one: then prompts are token ids.
            processor: makes inputs of images, of a model that takes them; None: prompts are texts.
            isolate: run each sequence of a batch in a forward pass of its own. Then the logits of a batch are
                bit-identical to those of single sequences, but it is slower. By default only models that cannot read padded
                batches exactly (recurrent layers, flash attention, see `probe_capabilities`) do so; for the others logits
                differ by float rounding between batch sizes.
            force_trees: read draft trees, and batches side by side, also where the probe finds their logits further off
                than rounding explains (`capabilities.tree_error`, `capabilities.tree_tolerance`).
            allow_slow: read a model whose cache cannot be used all the same: the whole sequence for each token.
            engine: ``"eager"``: passes have the rows, tokens and columns that are there. ``"static"``: passes of a few fixed
                sizes over a cache that is written in place; on a CUDA device each size is captured as a graph.
                ``"compiled"``: these passes, through `torch.compile`. ``"auto"``: static on a CUDA device, eager elsewhere.
                Models for which a trial of fixed passes fails are read eagerly; `no_engine` says why.

        Raises:
            InvalidArgument: there is no such engine.
            ModelError: not a causal language model, one whose cache goes by a name that is not known (`allow_slow`),
                or not a tokenizer of transformers.
            VocabularyError, ModelMismatch: the tokenizer does not fit, see `Vocabulary.from_tokenizer`.
        """
        model = without_wrapper(model)
        _check_causal(model)
        if isinstance(tokenizer, Vocabulary):
            vocabulary, tokenizer = tokenizer, None
        elif not callable(tokenizer):
            raise ModelError(
                f"a {type(tokenizer).__name__} cannot encode prompts for a transformers model",
                action="pass a transformers tokenizer; PreTrainedTokenizerFast(tokenizer_object=...) makes one",
            )
        else:
            vocabulary = Vocabulary.from_tokenizer(tokenizer, model=model)
        if engine not in ("auto", *ENGINES):
            raise InvalidArgument(f"engine is {engine!r}", action=f"use one of: auto, {', '.join(ENGINES)}")
        self.engine = engine
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.context = getattr(decoder_config(model), "max_position_embeddings", None)
        self._isolate = isolate
        self._force_trees = force_trees
        self._allow_slow = allow_slow
        self.bitwise_reproducible = isolate is True
        self._accepted = set(inspect.signature(model.forward).parameters)
        self._cache_name = cache_argument(model)
        if self._cache_name is None and not allow_slow and (found := returned_cache(model, self.device)):
            known = ", ".join(CACHE_NAMES)
            raise unused_cache(model, f"its passes return one as {found!r} and take none as any of {known}")
        self._shared: SharedWeights | None = None
        self._adapter: str | None = None
        if processor is not None:
            from constrained.models.images import ProcessorImages

            self.images = ProcessorImages(
                model, processor, tokenizer, vocabulary.size,
                context=self.context, run=self._in_turn, read=self._behind,
            )  # fmt: skip

    def with_adapter(self, source: str | os.PathLike[str]) -> HuggingFaceModel:
        """This model with a LoRA adapter: another model over the same weights, which both can be used side by side.

        Forward passes of models that share weights take turns, from whatever threads they come.

        Args:
            source: the adapter's folder, or its name on the Hub.

        Returns:
            The model with the adapter and this model's tokenizer, chat template and engine.

        Raises:
            InvalidArgument: `source` is neither.
            ModelError: it cannot be loaded, was made for another model, or changes more than LoRA does.
            MissingExtra: peft is not installed.
        """
        if not isinstance(source, str | os.PathLike) or not os.fspath(source):
            raise InvalidArgument(
                f"{source!r:.100} names no adapter", action="pass a folder, or a name on the Hub"
            )
        # What is computed once and must not see the adapter: it is the model's own.
        own = self.fingerprint, self.capabilities
        shared = self._shared or SharedWeights(self.model)
        added = shared.add(os.fspath(source), str(self.device))
        self._shared = shared
        adapted = copy.copy(self)
        adapted._adapter = added
        adapted.adapted_from = self.adapted_from or self
        adapted.fingerprint = _digest(shared.weights(added), own[0])
        return adapted

    @cached_property
    def capabilities(self) -> Capabilities:
        """How the model is read; computed at the first access, by a probe with a few tokens.

        Raises:
            ModelError: it is not a causal language model.
        """
        return probe_capabilities(
            self.model, self._run, self.device, self.vocabulary.size,
            force_trees=self._force_trees, allow_slow=self._allow_slow,
        )  # fmt: skip

    @property
    def isolate(self) -> bool:
        """Whether each sequence of a batch has a forward pass of its own."""
        return self.capabilities.mode is not ForwardMode.TREES if self._isolate is None else self._isolate

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to this process: slabs, graphs, and what was compiled."""
        return {name: value for name, value in self.__dict__.items() if name != "_steps"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        config = decoder_config(self.model)
        if config._attn_implementation == TREE_ATTENTION:
            from constrained.models.tree_attention import choose

            choose(config, TREE_ATTENTION)

    @cached_property
    def _steps(self) -> FixedSteps | str | None:
        """Passes of fixed sizes, or why there are none; None if they were not asked for."""
        if self.engine == "eager" or (self.engine == "auto" and self.device.type != "cuda"):
            return None
        if self.isolate and self._isolate:
            return "each text of a batch is to have a pass of its own"
        if len({parameter.device for parameter in self.model.parameters()}) > 1:
            return "the layers of the model are on several devices"
        return probe_steps(
            self.model, self._run, self.capabilities, self.device, self.vocabulary.size,
            compiles=self.engine == "compiled", tree_attention=self.device.type == "cuda",
        )  # fmt: skip

    @property
    def no_engine(self) -> str | None:  # type: ignore[override]
        """Why fixed passes are not used, compiled or captured; None where they are, or were not asked for."""
        steps = self._steps
        return steps if steps is None or isinstance(steps, str) else steps.no_compiling or steps.no_graphs

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the configuration and of a sample of every weight; equal in all processes."""
        return _digest(dict(self.model.named_parameters()), repr(self.model.config.to_dict()))

    @property
    def device(self) -> torch.device:
        """Where token ids go: to the embeddings, or where accelerate runs those that it keeps off the device."""
        import torch

        embeddings = self._embeddings
        device: torch.device = embeddings.weight.device
        if device.type == "meta":
            return torch.device(getattr(embeddings._hf_hook, "execution_device", None) or "cpu")
        return device

    @cached_property
    def _embeddings(self) -> Any:
        return self.model.get_input_embeddings()

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """See `LanguageModel.encode`. A string without a template gets the special tokens that its tokenizer adds."""
        return encode_prompt(
            prompt, self.tokenizer, self.vocabulary.size, chat=chat, context=self.context, images=self.images
        )

    def prompt_model(self) -> PromptModel | None:
        """See `LanguageModel.prompt_model`; None for a class with an `encode` of its own, and for a model that takes images."""
        plain = type(self).encode is HuggingFaceModel.encode and self.images is None
        return PromptModel(self.vocabulary, self.tokenizer, self.context) if plain else None

    def warm_up(self, rows: int, drafted: int = 0) -> None:
        """Probes the model, and captures fixed passes, see `LanguageModel.warm_up`."""
        steps = self._steps
        if steps is not None and not isinstance(steps, str):
            steps.warm_up(self.device, rows, drafted, self.context)

    def cache(self, rows: int) -> Cache:
        """An empty cache of `rows` rows."""
        layout, mode = self.capabilities.layout, self.capabilities.mode
        positions = COLUMNS if self.images is None else self.images.positions
        if layout is None:
            make = cache_factory(self.model)
            return PerRowCache(rows, lambda: SequentialCache(make, mode, positions))
        if self.isolate:
            return PerRowCache(rows, lambda: SlabCache(1, layout, positions=positions))
        return SlabCache(rows, layout, None if isinstance(self._steps, str) else self._steps, positions)

    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NDArray[np.float32]:
        """See `LanguageModel.forward`.

        Raises:
            ModelError: the model's output is not as wide as its vocabulary.
        """
        import torch

        (logits,) = self._logits(tokens, None, cache)
        array: NDArray[np.float32] = logits.to(torch.float32).cpu().numpy()
        return array

    @property
    def no_trees(self) -> str | None:  # type: ignore[override]
        """Why draft trees cannot be read: attention without arbitrary masks, recurrent states, or a failed probe."""
        return self.capabilities.no_trees

    @property
    def reads_prompts_in_parts(self) -> bool:  # type: ignore[override]
        """Whether the model's cache holds rows of any lengths, see `SlabCache`, and it need not give the same bits in any company."""
        return self.capabilities.no_trees is None and not self.bitwise_reproducible

    @property
    def no_chains(self) -> str | None:  # type: ignore[override]
        """Why chains cannot be read either: after the prompt the model reads one token at a time."""
        return self.capabilities.no_trees if self.capabilities.mode is ForwardMode.STEPS else None

    def forward_trees(
        self,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        cache: Cache,
    ) -> list[NDArray[np.float32]]:
        """See `LanguageModel.forward_trees`."""
        import torch

        outputs = self._logits(tokens, (parents, skip), cache)
        return [logits.to(torch.float32).cpu().numpy() for logits in outputs]

    @property
    def plans_draws(self) -> bool:  # type: ignore[override]
        """Whether the model is on a device, which computes what draws need of its logits."""
        return self.device.type != "cpu"

    def forward_logits(
        self,
        tokens: Sequence[Sequence[int]],
        trees: tuple[Sequence[Sequence[int]], Sequence[int]] | None,
        cache: Cache,
        draws: PlannedDraws | None = None,
    ) -> Logits:
        """See `LanguageModel.forward_logits`; logits of a model on a GPU stay there."""
        import torch

        if not self.plans_draws:
            return super().forward_logits(tokens, trees, cache)
        upload = PassUpload(self.device, () if draws is None else draws.arrays())
        read = self._logits(tokens, trees, cache, upload)
        counts = [] if trees is None else [len(one) for one in read]
        with torch.inference_mode():
            return DeviceLogits(torch.cat(read), counts, draws, upload.later)

    def _logits(
        self,
        tokens: Sequence[Sequence[int]],
        trees: tuple[Sequence[Sequence[int]], Sequence[int]] | None,
        cache: Cache,
        upload: PassUpload | None = None,
    ) -> list[torch.Tensor]:
        """Logits [places, vocabulary.size] of all rows together, or of each tree."""
        import torch

        if not isinstance(cache, HuggingFaceCache):
            raise TypeError(f"a cache of another model was passed: {type(cache).__name__}")
        if self.images is not None:
            self.images.check(tokens)
        upload = upload or PassUpload(self.device)
        with torch.inference_mode():
            if trees is None:
                outputs = [cache.forward(self._run, tokens, upload)]
            else:
                outputs = cache.forward_trees(self._run, tokens, *trees, upload)
        width = outputs[0].shape[-1]
        if width < self.vocabulary.size:
            raise ModelError(
                f"the model gives {width} logits for a vocabulary of {self.vocabulary.size} ids",
                action="use the tokenizer the model was trained with",
            )
        return [logits[:, : self.vocabulary.size] for logits in outputs]

    def _run(self, *, every: bool | int = False, **inputs: Any) -> torch.Tensor:
        """One forward pass: logits [rows, columns, V], of the last column or columns unless `every` one is wanted."""
        with self._turn():
            return self._pass(every, inputs)

    def _turn(self) -> contextlib.AbstractContextManager[None]:
        """The turn of this model, among those that share its weights."""
        return contextlib.nullcontext() if self._shared is None else self._shared.using(self._adapter)

    def _in_turn(self, **inputs: Any) -> Any:
        """A pass of the model over the inputs that its processor makes."""
        import torch

        with self._turn(), torch.inference_mode():
            return self.model(**inputs)

    def _behind(self, ids: list[int]) -> NDArray[np.float32]:
        """Logits [V] behind a prompt."""
        row: NDArray[np.float32] = self.forward([ids], self.cache(1))[0]
        return row

    def _pass(self, every: bool | int, inputs: dict[str, Any]) -> torch.Tensor:
        count = None if every is True else int(every) or 1
        mask = inputs.get("attention_mask")
        if mask is not None:
            own = self._embeddings.weight.dtype  # `model.dtype` looks at all weights
            dtype = own if own.is_floating_point else self.model.dtype
            several = isinstance(mask, dict)
            inputs["attention_mask"] = (
                {kind: one.to(dtype) for kind, one in mask.items()} if several else mask.to(dtype)
            )
        cache = inputs.pop("cache", None)
        inputs = {name: value for name, value in inputs.items() if name in self._accepted or name == "tree"}
        if self.images is not None:
            inputs |= self.images.named(inputs["input_ids"])
        if self._cache_name is not None:
            inputs[self._cache_name] = cache
        if count is not None:
            # avoids the logits of a long prompt: columns x V floats
            inputs["logits_to_keep"] = count
        logits: torch.Tensor = self.model(**inputs, use_cache=True).logits
        return logits if count is None else logits[:, -count:]

    def __repr__(self) -> str:
        return f"HuggingFaceModel({type(self.model).__name__}, {self.vocabulary!r}, context={self.context})"


def _digest(weights: Mapping[str, Any], start: str) -> str:
    """A hash of a text and of a sample of every weight."""
    import torch

    digest = hashlib.sha256(start.encode())
    for name, weight in weights.items():
        flat = weight.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // 64)][:64].to("cpu", torch.float32)
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode() + some.numpy().tobytes())
    return digest.hexdigest()


def _check_causal(model: Any) -> None:
    config = getattr(model, "config", None)
    name = type(model).__name__
    if getattr(model, "_orig_mod", None) is not None:
        raise ModelError(
            f"{name} is a model compiled by torch.compile, whose forward pass takes no caches of other shapes",
            action="pass the model itself: load(compiled._orig_mod, tokenizer)",
        )
    if config is None or not callable(getattr(model, "forward", None)):
        raise ModelError(
            f"{name} is not a transformers model",
            action="pass a causal language model and its tokenizer, or the name of one",
        )
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"{name} is an encoder-decoder model", action="pass a causal (decoder-only) model")
    if getattr(model, "get_output_embeddings", lambda: None)() is None:
        raise ModelError(f"{name} has no language modelling head", action="load it with AutoModelForCausalLM")
