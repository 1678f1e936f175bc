"""Tokenizers for tests: real ones out of mistral-common, and one of every kind trained in the process.

Two vocabularies are ready for any test: `tekken_vocabulary` (131,072 tokens) and `small_bpe_vocabulary` (about 1,500).
"""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from constrained.vocabulary import Vocabulary

BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


_WORDS = (
    "ba ke li mo nu ra si to ve zan ter lin dor mi che sch ing ion al er",
    "the of and to in is was for with on at by from born lives works city name age year price",
    "Zoë Müller naïve café Łódź Ελλάδα Москва 東京 日本語 한국 😀",
)


@cache
def corpus() -> tuple[str, ...]:
    """Sentences and JSON about made-up people, in several scripts; the same on every machine."""
    rng = random.Random(20)
    syllables, glue, foreign = (words.split() for words in _WORDS)
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(900)]

    def name() -> str:
        return rng.choice([rng.choice(words).title(), rng.choice(foreign)])

    lines = []
    for _ in range(700):
        sentence = " ".join(
            rng.choice(glue if rng.random() < 0.5 else words) for _ in range(rng.randint(4, 14))
        )
        record = {
            "name": name(),
            "age": rng.randint(0, 120),
            "score": round(rng.uniform(-10, 10), 2),
            "tags": rng.choices(words, k=rng.randint(0, 3)),
            "address": {"city": name(), "zip": str(rng.randint(10000, 99999))},
            "active": rng.random() < 0.5,
            "note": None,
        }
        lines += [
            f"{name()} {sentence}.\n",
            json.dumps(record, ensure_ascii=False, indent=rng.choice([None, 2])),
        ]
    return tuple(lines)


# ---------------------------------------------------------------- real vocabularies


def _mistral_file(name: str) -> Path:
    package = importlib.util.find_spec("mistral_common")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs the package mistral-common, which carries real tokenizers")
    return Path(package.submodule_search_locations[0]) / "data" / name


@cache
def tekken_tokenizer() -> Any:
    """Mistral's Tekken as mistral-common loads it: 131,072 byte-level tokens. Skips the test without the package."""
    path = _mistral_file("tekken_240911.json")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    return Tekkenizer.from_file(path)


@cache
def tekken_vocabulary() -> Vocabulary:
    """131,072 tokens, 1,000 of them special. Skips the test without mistral-common."""
    return Vocabulary.from_tokenizer(tekken_tokenizer())


SENTENCEPIECE_FILES = ("tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3")


@cache
def sentencepiece_tokenizer(name: str) -> Any:
    """One of Mistral's SentencePiece models, 32,000 or 32,768 pieces with byte fallback."""
    path = _mistral_file(name)
    pytest.importorskip("sentencepiece", reason="needs sentencepiece to load a SentencePiece model")
    from mistral_common.tokens.tokenizers.sentencepiece import SentencePieceTokenizer

    return SentencePieceTokenizer(path)


# ---------------------------------------------------------------- trained here: byte-level


def _byte_level(
    size: int, special: list[str], *, pre_tokenizer: Any = None, normalizer: Any = None, prefix: bool = False
) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=special,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def _split_byte_level() -> Any:
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


@cache
def gpt2_style() -> Any:
    """Byte-level BPE as GPT-2 has it."""
    return _byte_level(1500, ["<|endoftext|>"])


@cache
def gpt2_prefix_style() -> Any:
    """The same with a space put in front of every text."""
    return _byte_level(600, ["<|endoftext|>"], prefix=True)


@cache
def llama3_style() -> Any:
    """A regular expression splits the text, then bytes."""
    return _byte_level(
        900, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], pre_tokenizer=_split_byte_level()
    )


@cache
def qwen_style() -> Any:
    """The same behind a normaliser, with added tokens of all sorts."""
    from tokenizers import AddedToken, normalizers

    tokenizer = _byte_level(
        900, ["<|endoftext|>"], pre_tokenizer=_split_byte_level(), normalizer=normalizers.NFC()
    )
    tokenizer.add_tokens(
        [
            AddedToken("<|im_start|>", special=True),
            AddedToken("<|im_end|>", special=True),
            AddedToken("<tool_call>", normalized=False),
            AddedToken("</tool_call>", normalized=False),
            AddedToken("<swallow>", lstrip=True, rstrip=True),
            AddedToken("wholeword", single_word=True),
            AddedToken(" spaced out "),
            AddedToken("é à la carte"),
            AddedToken("öö"),
        ]
    )
    return tokenizer


# ---------------------------------------------------------------- trained here: SentencePiece style


@cache
def _sentencepiece_bpe_model() -> dict[str, Any]:
    """Vocabulary and merges of a SentencePiece-like BPE: <unk>, <s>, </s>, 256 byte tokens, pieces."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", behavior="merged_with_next")
    reserved = ["<unk>", "<s>", "</s>", *BYTE_TOKENS]
    trainer = trainers.BpeTrainer(
        vocab_size=1100, special_tokens=reserved, limit_alphabet=90, show_progress=False
    )
    # Line breaks are left to the byte tokens, as SentencePiece does.
    tokenizer.train_from_iterator((line.replace("\n", " ") for line in corpus()), trainer)
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    return model | {"byte_fallback": True, "fuse_unk": True}


def sentencepiece_bpe(**parts: Any) -> Any:
    """A tokenizer with that model and the given components, `<unk>`, `<s>` and `</s>` being special."""
    from tokenizers import AddedToken, Tokenizer

    empty = {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    tokenizer = Tokenizer.from_str(
        json.dumps({"version": "1.0", "added_tokens": [], "model": _sentencepiece_bpe_model()} | empty)
    )
    for name, component in parts.items():
        setattr(tokenizer, name, component)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<unk>", "<s>", "</s>")])
    return tokenizer


def _without_first_space() -> Any:
    """The decoder of tokenizers that put a space in front of a text."""
    from tokenizers import decoders as d

    return d.Sequence([d.Replace("\u2581", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])


@cache
def llama2_style() -> Any:
    """Byte fallback; the space in front comes from a normaliser."""
    from tokenizers import normalizers

    return sentencepiece_bpe(
        normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
        decoder=_without_first_space(),
    )


@cache
def mistral_style() -> Any:
    """Byte fallback; the space in front comes from a Metaspace pre-tokenizer."""
    from tokenizers import pre_tokenizers

    return sentencepiece_bpe(
        pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        decoder=_without_first_space(),
    )


@cache
def gemma_style() -> Any:
    """Byte fallback, no space in front, runs of spaces and line breaks as added tokens."""
    from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers

    tokenizer = sentencepiece_bpe(
        normalizer=normalizers.Replace(" ", "\u2581"),
        pre_tokenizer=pre_tokenizers.Split(" ", behavior="merged_with_previous"),
        decoder=decoders.Sequence(
            [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        ),
    )
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("\u2581\u2581", "\n\n", "<table>")])
    tokenizer.add_special_tokens([AddedToken("<end_of_turn>", special=True)])
    return tokenizer


def _unigram(*, byte_fallback: bool) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    reserved = ["<pad>", "</s>", "<unk>", *(BYTE_TOKENS if byte_fallback else [])]
    trainer = trainers.UnigramTrainer(
        vocab_size=700, special_tokens=reserved, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator((line.replace("\n", " ") for line in corpus()[:600]), trainer)
    model = json.loads(tokenizer.to_str())["model"] | {"byte_fallback": byte_fallback}
    empty = {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    tokenizer = Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": model} | empty))
    tokenizer.add_special_tokens(["<pad>", "</s>"])  # not <unk>: readers must know it from the model
    return tokenizer


@cache
def t5_style() -> Any:
    """Unigram on words, spaces collapsed, no way to write an unknown character."""
    from tokenizers import decoders, pre_tokenizers

    tokenizer = _unigram(byte_fallback=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return tokenizer


@cache
def unigram_bytes_style() -> Any:
    """Unigram with byte fallback and a Metaspace that marks only the start."""
    from tokenizers import decoders, pre_tokenizers

    tokenizer = _unigram(byte_fallback=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


TRAINED: dict[str, Callable[[], Any]] = {
    "gpt2": gpt2_style,
    "gpt2-prefix": gpt2_prefix_style,
    "llama3": llama3_style,
    "qwen": qwen_style,
    "llama2": llama2_style,
    "mistral": mistral_style,
    "gemma": gemma_style,
    "unigram-bytes": unigram_bytes_style,
    "t5": t5_style,
}
"""Every supported kind; the value builds a `tokenizers.Tokenizer` once."""

EOS = {
    "gpt2": "<|endoftext|>",
    "gpt2-prefix": "<|endoftext|>",
    "llama3": "<|end_of_text|>",
    "qwen": "<|endoftext|>",
}
"""End of sequence of each kind where it is not ``</s>``."""


def transformers_tokenizer(kind: str) -> Any:
    """A trained tokenizer wrapped as transformers does it, with its end of sequence."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=TRAINED[kind](), eos_token=EOS.get(kind, "</s>"))


@cache
def trained_vocabulary(kind: str) -> Vocabulary:
    """The vocabulary of a trained tokenizer, read without transformers."""
    tokenizer = TRAINED[kind]()
    return Vocabulary.from_tokenizer(tokenizer, eos_ids=[tokenizer.token_to_id(EOS.get(kind, "</s>"))])


@cache
def small_bpe_tokenizer() -> Any:
    """A transformers tokenizer of about 1,500 byte-level tokens that can write any bytes; ``<|endoftext|>`` ends."""
    return transformers_tokenizer("gpt2")


def small_bpe_vocabulary() -> Vocabulary:
    """The vocabulary of `small_bpe_tokenizer`; quick, as it does not import transformers."""
    return trained_vocabulary("gpt2")
