"""The tokenizer of the tiny model: byte-level BPE whose words look the same in prose and in JSON."""

# ruff: noqa: SIM905 (lists of words are easiest to read, and to add to, as texts)

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VOCABULARY_SIZE = 1536
END, PAD, SYSTEM, USER, ASSISTANT = "<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}" + END + "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)

# Only words that never open a value take the space before them; every other space stands alone, so that
# `Berlin` is one and the same token sequence after a space and after a quotation mark.
_FUNCTION_WORDS = (
    "the of is a an and at in on by to for from with has have was were are be can it its as that this not no or"
).split()
PIECES = "|".join(
    (
        rf" (?:{'|'.join(_FUNCTION_WORDS)})(?![\p{{L}}\p{{N}}_])",
        r"\p{Lu}?[\p{Ll}\p{M}]+",  # camelCase falls apart into its words
        r"\p{Lu}+(?!\p{Ll})",
        r"\p{L}",  # scripts without case: one character at a time
        r"\p{N}",
        r"[\s\"{}\[\],:]+",  # the skeleton of JSON: `", "` can be one token
        r"[^\s\"{}\[\],:\p{L}\p{N}\p{M}]+|\p{M}+",
    )
)


def train(
    texts: Iterable[str], phrases: Iterable[str] = (), vocabulary_size: int = VOCABULARY_SIZE
) -> PreTrainedTokenizerFast:
    """Trains the tokenizer on rendered examples.

    Args:
        texts: prompts and answers, without special tokens.
        phrases: what stands in every prompt and is worth one token of its own.
        vocabulary_size: all 256 bytes, the special tokens and the merges together.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size - len(phrases := list(phrases)),
        special_tokens=[END, PAD, SYSTEM, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases])
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
