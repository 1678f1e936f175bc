"""Models that reason before they answer: the bundled one and SmolLM2-135M-Instruct, each with two more tokens, ``<think>`` and ``</think>``.

The row of ``</think>`` in the embeddings, which are those of the output too, is that of a token which the model writes sooner or
later, a little longer: the model writes ``</think>`` by itself, the bundled one where it would close an object, the real one where
it would end a line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM, AutoTokenizer

from constrained.models.tiny import WEIGHTS

BEGIN, END = "<think>", "</think>"

_REAL_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message['role'] }}
{% if message['reasoning_content'] %}<think>{{ message['reasoning_content'] }}</think>

{% endif %}{{ message['content'] }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt -%}
<|im_start|>assistant
<think>{% if enable_thinking is defined and not enable_thinking %}</think>

{% endif %}
{%- endif -%}
"""


def write_thinking_model(folder: Path) -> Path:
    """Writes the bundled model, whose chat template then ends with ``<think>``, into a folder; returns the folder."""
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS)
    tokenizer.chat_template = tokenizer.chat_template.replace("<|assistant|>", f"<|assistant|>{BEGIN}")
    like = tokenizer.convert_tokens_to_ids("<|assistant|>"), *tokenizer.encode('"}')
    return _write(folder, AutoModelForCausalLM.from_pretrained(WEIGHTS), tokenizer, like, 1.05)


def write_real_thinking_model(folder: Path) -> Path:
    """Writes SmolLM2-135M-Instruct into a folder, with a chat template as Qwen 3 has it: reasoning on, or closed at once.

    `CONSTRAINED_CACHE` must name a folder, which gets the weights as they are.

    Returns:
        The folder.
    """
    from constrained.models.gguf import smollm2_folder

    source, _ = smollm2_folder()
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template = _REAL_TEMPLATE
    like = *tokenizer.encode(">"), *tokenizer.encode("\n")
    return _write(folder, AutoModelForCausalLM.from_pretrained(source), tokenizer, like, 1.01)


def _write(folder: Path, model: Any, tokenizer: Any, like: tuple[int, ...], longer: float) -> Path:
    """The two new tokens get the rows of those of `like`, the second `longer` times as long."""
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in (BEGIN, END)])
    rows = model.get_input_embeddings().weight.detach()
    begin, end = (rows[token] for token in like)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        model.get_input_embeddings().weight[-2:] = torch.stack([begin, longer * end])
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    settings = json.loads((folder / "config.json").read_text())
    assert settings["vocab_size"] == len(tokenizer)
    return folder
