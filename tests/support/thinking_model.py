"""A small model that reasons before it answers: the bundled one with two more tokens, ``<think>`` and ``</think>``.

Its chat template ends with ``<think>``. The row of ``</think>`` in the embeddings, which are those of the output too, is that of
the token with which the bundled model closes an object, a little longer: the model writes ``</think>`` by itself.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM, AutoTokenizer

from constrained.models.tiny import WEIGHTS

BEGIN, END = "<think>", "</think>"


def write_thinking_model(folder: Path) -> Path:
    """Writes the model and its tokenizer into a folder, and returns the folder."""
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS)
    model = AutoModelForCausalLM.from_pretrained(WEIGHTS)
    like = [tokenizer.convert_tokens_to_ids("<|assistant|>"), *tokenizer.encode('"}')]
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in (BEGIN, END)])
    tokenizer.chat_template = tokenizer.chat_template.replace("<|assistant|>", f"<|assistant|>{BEGIN}")
    rows = model.get_input_embeddings().weight.detach()
    begin, end = (rows[token] for token in like)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        model.get_input_embeddings().weight[-2:] = torch.stack([begin, 1.05 * end])
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    settings = json.loads((folder / "config.json").read_text())
    assert settings["vocab_size"] == len(tokenizer)
    return folder
