"""GGUF files of models and tokenizers that the tests have, written by the `gguf` package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def write_llama(path: Path, model: Any, tokenizer: Any, kind: str = "F32", **metadata: str) -> Path:
    """Writes a Llama of transformers with its byte-level tokenizer.

    Args:
        path: of the file.
        model: a LlamaForCausalLM.
        tokenizer: its tokenizer.
        kind: of the matrices (``F32``, ``F16``, ``Q8_0``); those whose rows are no multiple of a block are ``F16``.
        metadata: more strings.
    """
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    _add_byte_level(writer, tokenizer, config.vocab_size)
    for key, value in metadata.items():
        writer.add_string(key, value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = weight.float().numpy()
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            array = _interleaved(array, heads)
        wanted = gguf.GGMLQuantizationType["F32" if array.ndim == 1 else kind]
        if array.shape[-1] % gguf.GGML_QUANT_SIZES[wanted][0]:
            wanted = gguf.GGMLQuantizationType.F16
        writer.add_tensor(
            names.get_name(name, (".weight",)), gguf.quants.quantize(array, wanted), raw_dtype=wanted
        )
    _finish(writer)
    return path


def write_sentencepiece(path: Path, processor: Any) -> Path:
    """Writes the tokenizer of a `SentencePieceProcessor`, without a model."""
    from gguf import TokenType

    size = processor.get_piece_size()
    types = [
        TokenType.UNKNOWN if processor.is_unknown(i)
        else TokenType.CONTROL if processor.is_control(i)
        else TokenType.UNUSED if processor.is_unused(i)
        else TokenType.BYTE if processor.is_byte(i)
        else TokenType.NORMAL
        for i in range(size)
    ]  # fmt: skip
    pieces = [processor.id_to_piece(i) for i in range(size)]
    scores = [processor.get_score(i) for i in range(size)]
    return write_pieces(
        path, pieces, types, scores, (processor.unk_id(), processor.bos_id(), processor.eos_id())
    )


def write_pieces(
    path: Path,
    pieces: list[str],
    types: list[int],
    scores: list[float] | None = None,
    ends: tuple[int, int, int] = (0, 1, 2),
) -> Path:
    """Writes a SentencePiece tokenizer, without a model.

    Args:
        path: of the file.
        pieces: with U+2581 for spaces.
        types: `gguf.TokenType` of each.
        scores: of each; by default longer ones are better.
        ends: ids of the unknown token, of the beginning and of the end.
    """
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(len(pieces))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([float(len(piece)) for piece in pieces] if scores is None else scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(ends[0])
    writer.add_bos_token_id(ends[1])
    writer.add_eos_token_id(ends[2])
    _finish(writer)
    return path


def _add_byte_level(writer: Any, tokenizer: Any, size: int) -> None:
    from gguf import TokenType

    backend = tokenizer.backend_tokenizer
    contents = {token: content for content, token in backend.get_vocab(with_added_tokens=True).items()}
    added = backend.get_added_tokens_decoder()
    kinds = [
        TokenType.NORMAL if i in contents and i not in added
        else TokenType.UNUSED if i not in contents
        else TokenType.CONTROL if added[i].special
        else TokenType.USER_DEFINED
        for i in range(size)
    ]  # fmt: skip
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([contents.get(i, f"[unused{i}]") for i in range(size)])
    writer.add_token_types(kinds)
    merges = json.loads(backend.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_add_bos_token(False)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)


def _interleaved(weight: Any, heads: int) -> Any:
    """Rows of a projection in the order of llama.cpp's rotary embedding: pairs stand together."""
    return np.ascontiguousarray(
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)
    )


def _finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
