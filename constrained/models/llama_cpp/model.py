"""`LlamaCppModel`: a language model over `llama_cpp.Llama`."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import llama_cpp as api
import numpy as np
from numpy.typing import NDArray

from constrained.errors import ModelError, ModelMismatch
from constrained.models.attention_masks import is_chain
from constrained.models.base import Cache, LanguageModel, Prompt
from constrained.models.llama_cpp.cache import LlamaCppCache
from constrained.models.llama_cpp.memory import Reading, SequenceMemory
from constrained.models.llama_cpp.tokenizer import GgufTokenizer
from constrained.models.prompt_model import PromptModel
from constrained.prompting.chat_template import encode_prompt
from constrained.vocabulary import Vocabulary
from constrained.vocabulary.llama_vocabulary import llama_vocabulary

_VALUE_BYTES = {api.GGML_TYPE_F32: 4.0, api.GGML_TYPE_Q8_0: 34 / 32, api.GGML_TYPE_Q4_0: 18 / 32}
"""Bytes of a key or value, by type; others are counted as f16."""

_SAMPLES = 256
"""Places of a file that its fingerprint is of."""


class LlamaCppModel(LanguageModel):
    """A model in a GGUF file.

    Logits of a batch differ from those of single sequences by float rounding, as llama.cpp computes them.

    Attributes:
        llama: its weights and settings; it must not be closed before the model is gone.
        tokenizer: for prompts and chats.
    """

    no_trees = "llama.cpp is given one continuation of each sequence"
    reads_prompts_in_parts = True

    def __init__(self, llama: Any, tokenizer: Any = None, *, context: int | None = None) -> None:
        """Reads the vocabulary.

        Args:
            llama: a `llama_cpp.Llama`. Its own context is not used, so it can generate by itself besides.
            tokenizer: of transformers, for prompts and chats; by default the file's own, which llama.cpp has to know.
            context: greatest number of positions; by default as many as the model was trained with, or ``n_ctx`` of
                `llama` if that is more.

        Raises:
            ModelError: not a causal language model, or one with a LoRA adapter.
            VocabularyError, ModelMismatch: its tokenizer has no exact bytes, or `tokenizer` is another model's.
        """
        weights = llama.model
        if api.llama_model_has_encoder(weights) or api.llama_model_is_diffusion(weights):
            raise ModelError(
                f"{llama.model_path} is not a causal language model",
                action="use a file of a decoder-only model",
            )
        if llama.lora_path is not None:
            raise ModelError(
                "adapters of llama.cpp belong to its own context, which is not used here",
                action="merge the adapter into the GGUF file: llama-export-lora",
            )
        self.llama = llama
        self.vocabulary = llama_vocabulary(llama)
        if tokenizer is not None:
            self.vocabulary = _checked(tokenizer, self.vocabulary)
        self.tokenizer = GgufTokenizer(llama) if tokenizer is None else tokenizer
        self.context = context or max(api.llama_model_n_ctx_train(weights), llama.n_ctx())
        self.no_chains = None
        if api.llama_model_is_recurrent(weights) or api.llama_model_is_hybrid(weights):
            self.no_chains = "its recurrent states cannot take back a token"
        if not (llama.model_params.n_gpu_layers and llama.context_params.offload_kqv):
            self.cache_bytes_per_token = _cache_bytes(llama)
        self._memory = SequenceMemory(llama)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of parts of the file and of the settings that logits depend on; equal in all processes."""
        size = os.path.getsize(self.llama.model_path)
        digest = hashlib.sha256(f"{size} {self.llama.kv_overrides}".encode())
        settings = self.llama.context_params
        for name in (
            "rope_scaling_type",
            "rope_freq_base",
            "rope_freq_scale",
            "yarn_ext_factor",
            "yarn_attn_factor",
        ):
            digest.update(f" {name}={getattr(settings, name)}".encode())
        with open(self.llama.model_path, "rb") as file:
            for sample in range(_SAMPLES):
                file.seek(size * sample // _SAMPLES)
                digest.update(file.read(4096))
        return digest.hexdigest()

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """See `LanguageModel.encode`."""
        return encode_prompt(prompt, self.tokenizer, self.vocabulary.size, chat=chat, context=self.context)

    def prompt_model(self) -> PromptModel | None:
        """See `LanguageModel.prompt_model`; None for a class with an `encode` of its own."""
        plain = type(self).encode is LlamaCppModel.encode
        return PromptModel(self.vocabulary, self.tokenizer, self.context) if plain else None

    def cache(self, rows: int) -> Cache:
        """An empty cache of `rows` rows."""
        return LlamaCppCache(self._memory, self._memory.take(rows), [0] * rows)

    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NDArray[np.float32]:
        """See `LanguageModel.forward`.

        Raises:
            ModelError: llama.cpp cannot compute the logits, or there is no memory.
        """
        return self._read(tokens, [len(ids) - 1 for ids in tokens], cache)

    def forward_trees(
        self,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        cache: Cache,
    ) -> list[NDArray[np.float32]]:
        """See `LanguageModel.forward_trees`; the trees must be chains."""
        if not all(is_chain(before) for before in parents):
            raise ValueError("this model reads one continuation of a row, not a tree")
        logits = self._read(tokens, skip, cache)
        ends = np.cumsum([len(ids) - start for ids, start in zip(tokens, skip, strict=True)])
        return np.split(logits, ends[:-1].tolist())

    def _read(
        self, tokens: Sequence[Sequence[int]], skip: Sequence[int], cache: Cache
    ) -> NDArray[np.float32]:
        if not isinstance(cache, LlamaCppCache):
            raise TypeError(f"a cache of another model was passed: {type(cache).__name__}")
        rows = zip(cache.sequences, cache.lengths, tokens, skip, strict=True)
        logits = self._memory.read([Reading(*row) for row in rows])
        cache.advance([len(ids) for ids in tokens])
        return logits

    def __repr__(self) -> str:
        return f"LlamaCppModel({self.llama.model_path!r}, {self.vocabulary!r}, context={self.context})"


def load_gguf(
    path: str, tokenizer: Any = None, *, device: str | None = None, n_ctx: int | None = None, **options: Any
) -> LlamaCppModel:
    """Opens a GGUF file.

    Args:
        path: of the file.
        tokenizer: see `LlamaCppModel`.
        device: ``"cpu"`` keeps all layers off the GPU; any other, or none, puts all of them there if llama.cpp was built
            for one.
        n_ctx: greatest number of positions; by default as many as the model was trained with. Memory is taken as needed.
        options: more arguments of `llama_cpp.Llama`.

    Raises:
        ModelError: it cannot be read, is not a causal language model, or an option does not exist.
        VocabularyError, ModelMismatch: see `LlamaCppModel`.
    """
    known = set(inspect.signature(api.Llama).parameters) - {"model_path", "kwargs", "tokenizer"}
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ModelError(
                f"llama-cpp-python has no option {name}",
                action=f"did you mean {near[0]}?" if near else "leave it out",
            )
    if not os.path.isfile(path):
        raise ModelError(f"there is no file {path}", action="check the path of the GGUF file")
    on_gpu = bool(api.llama_supports_gpu_offload())
    if device not in (None, "cpu") and not on_gpu:
        raise ModelError(
            f"device={device!r}: this llama.cpp was built for the CPU alone",
            action="install llama-cpp-python for your GPU, or leave device out",
        )
    settings = {"n_gpu_layers": -1 if on_gpu and device != "cpu" else 0, "verbose": False, **options}
    try:
        llama = api.Llama(path, n_ctx=n_ctx or 512, **settings)
        if "flash_attn" not in options:  # faster where many sequences share a memory; not all models have it
            llama.context_params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_AUTO
    except (ValueError, RuntimeError, TypeError, OSError) as error:
        raise ModelError(
            f"the model {path!r} cannot be loaded: {error}",
            action="load(path, verbose=True) shows what llama.cpp says; it may be damaged, or too new for it",
        ) from error
    return LlamaCppModel(llama, tokenizer, context=n_ctx)


def _cache_bytes(llama: Any) -> int:
    """Bytes of keys and values of a position in all layers, as of llama.cpp's types for them."""
    weights, settings = llama.model, llama.context_params
    usual = api.llama_model_n_embd(weights) // max(1, api.llama_model_n_head(weights))
    place = f"{llama.metadata.get('general.architecture')}.attention"
    sizes = [
        int(llama.metadata.get(f"{place}.{name}_length", usual)) * _VALUE_BYTES.get(kind, 2.0)
        for name, kind in (("key", settings.type_k), ("value", settings.type_v))
    ]
    return int(api.llama_model_n_layer(weights) * api.llama_model_n_head_kv(weights) * sum(sizes))


def _checked(tokenizer: Any, own: Vocabulary) -> Vocabulary:
    """The vocabulary of a tokenizer for a file, whose tokens have the same bytes.

    Raises:
        ModelMismatch: a token is another text.
    """
    vocabulary = Vocabulary.from_tokenizer(tokenizer, size=own.size)
    for token, (mine, theirs) in enumerate(zip(vocabulary.tokens, own.tokens, strict=True)):
        if mine and theirs and mine != theirs:
            raise ModelMismatch(
                f"token {token} is {mine!r} for the tokenizer and {theirs!r} in the file",
                action="use the tokenizer of the model that the file was made from",
            )
    return vocabulary.with_eos_ids([*vocabulary.eos_ids, *own.eos_ids])
