"""Every token of every kind of tokenizer has exactly the bytes that its tokenizer gives it in the middle of a text."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import constrained
from constrained.errors import ModelMismatch, VocabularyError
from constrained.vocabulary import Vocabulary
from constrained.vocabulary.decoders import token_bytes
from tests.support.examples import examples
from tests.support.tokenizers_fixtures import (
    EOS,
    SENTENCEPIECE_FILES,
    TRAINED,
    corpus,
    llama2_style,
    llama3_style,
    qwen_style,
    sentencepiece_bpe,
    sentencepiece_tokenizer,
    small_bpe_tokenizer,
    small_bpe_vocabulary,
    tekken_tokenizer,
    tekken_vocabulary,
    trained_vocabulary,
    transformers_tokenizer,
)

REAL = ("tekken", *SENTENCEPIECE_FILES)
EVERY_KIND = (*TRAINED, *REAL)
PREFIXED = {"gpt2-prefix", "llama2", "mistral", "unigram-bytes", "t5", *SENTENCEPIECE_FILES}
"""Kinds whose tokenizer puts a space in front of a whole text."""
MARKED = {"llama2", "mistral", "gemma", "unigram-bytes", "t5", *SENTENCEPIECE_FILES}
"""Kinds that write U+2581 for a space, and so read U+2581 in a text as one."""

TEXTS = st.text(max_size=40) | st.lists(
    st.sampled_from(['{"', '": ', "\n", "  ", "é", "日本", "😀", "the", "12", "\u2581", "<tool_call>", "\t"]),
    max_size=8,
).map("".join)
BYTE_NAMES = st.sampled_from(["<0x41>", "<0x20>", "<0x7E>", "<0xG1>", "<0x411>"])
thorough = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])


@cache
def vocabulary(kind: str) -> Vocabulary:
    if kind == "tekken":
        return tekken_vocabulary()
    if kind in TRAINED:
        return trained_vocabulary(kind)
    return Vocabulary.from_tokenizer(sentencepiece_tokenizer(kind))


def functions(kind: str) -> tuple[Callable[[str], list[int]], Callable[[list[int]], str], set[int]]:
    """The tokenizer's own encode and decode, and the ids that it calls special."""
    if kind in TRAINED:
        backend = TRAINED[kind]()
        special = {i for i, token in backend.get_added_tokens_decoder().items() if token.special}
        if kind in MARKED:
            special.add(backend.token_to_id("<unk>"))
        return (
            lambda text: backend.encode(text, add_special_tokens=False).ids,
            lambda ids: str(backend.decode(ids, skip_special_tokens=False)),
            special,
        )
    tokenizer = tekken_tokenizer() if kind == "tekken" else sentencepiece_tokenizer(kind)
    special = set(tokenizer.special_ids) | ({0} if kind != "tekken" else set())
    return lambda text: tokenizer.encode(text, bos=False, eos=False), tokenizer.decode, special


# ---------------------------------------------------------------- whole vocabularies

_BEFORE = (
    b"", b"\xc3", b"\xe3", b"\xe3\x81", b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xe0", b"\xed", b"\xf4",
)  # fmt: skip
_AFTER = (b"", b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\xa0\x80", b"\xa0", b"\x90\x80\x80", b"\x90\x80")


def completions(token: bytes) -> Iterator[tuple[bytes, bytes, str]]:
    """Bytes around a token that make whole characters of it."""
    for before, after in product(_BEFORE, _AFTER):
        try:
            yield before, after, (before + token + after).decode()
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_token_is_what_its_decoder_adds_to_a_text(kind: str) -> None:
    table = vocabulary(kind)
    _, decode, special = functions(kind)
    letter = table.ids_by_bytes[b"a"]
    byte_ids = {token[0]: i for i, token in reversed(list(enumerate(table.tokens))) if len(token) == 1}
    fragments: list[bytes] = []
    samples: list[tuple[list[int], str]] = []  # ids that are whole characters, and their text
    step = (
        4 // examples(4) if table.size > 20_000 else 1
    )  # each fourth token, or all where all examples are drawn
    for i, token in list(enumerate(table.tokens))[::step]:
        if i in special or i in table.eos_ids:
            assert token == b"", f"special id {i} must never be allowed"
            continue
        assert token, f"id {i} is text"
        if kind == "qwen" and token.decode(errors="replace") in ("é à la carte", "öö"):
            continue  # see test_added_tokens_of_a_byte_level_tokenizer
        whole = next(completions(token), None)
        if whole is None:
            fragments.append(token)
        else:
            before, after, text = whole
            ids = [*(byte_ids[b] for b in before), i, *(byte_ids[b] for b in after)]
            samples.append(([*ids, letter], text + "a"))
    # Many at a time, as some decoders are slow; a letter in front, as they trim the start.
    for start in range(0, len(samples), 200):
        chunk = samples[start : start + 200]
        assert decode([letter, *(i for ids, _ in chunk for i in ids)]) == "a" + "".join(
            text for _, text in chunk
        )
    # Bytes that occur in no text at all can only be tokens by themselves.
    assert {len(token) for token in fragments} <= {1}
    assert {token[0] for token in fragments} <= {0xC0, 0xC1, *range(0xF5, 0x100)}


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind != "t5"])
def test_all_bytes_can_be_written(kind: str) -> None:
    assert {bytes([byte]) for byte in range(256)} <= set(vocabulary(kind).tokens)


def _decoders() -> dict[str, Any]:
    from tokenizers import decoders as d

    return {
        "byte-level": d.ByteLevel(),
        "metaspace": d.Metaspace(),
        "strip-front": d.Sequence([d.Strip("a", 2, 0), d.Replace("\u2581", " "), d.ByteFallback()]),
        "strip-back": d.Sequence([d.Strip("!", 0, 1), d.Fuse()]),
        "strip-whole": d.Sequence([d.ByteFallback(), d.Fuse(), d.Strip("\u2581", 2, 0)]),
        "replace-after": d.Sequence([d.ByteFallback(), d.Replace("A", "BB"), d.Replace("ab", "!"), d.Fuse()]),
        "nested": d.Sequence([d.Sequence([d.Replace("\u2581", "\u0120"), d.Fuse()]), d.ByteLevel()]),
    }


@pytest.mark.parametrize(
    "name", ["byte-level", "metaspace", "strip-front", "strip-back", "strip-whole", "replace-after", "nested"]
)
def test_a_decoder_is_read_as_it_works(name: str) -> None:
    decoder = _decoders()[name]
    to_bytes = token_bytes(json.loads(decoder.__getstate__()), None)

    @thorough
    @given(
        st.lists(st.sampled_from(["a", "b", "A", " ", "\u2581", "\u0120", "!"]), min_size=1).map("".join)
        | BYTE_NAMES
    )
    def agree(token: str) -> None:
        assert to_bytes(token).decode() == decoder.decode(["b", token, "b"])[1:-1]

    agree()


# ---------------------------------------------------------------- text -> ids -> bytes


def as_read(kind: str, text: str) -> str:
    """What a tokenizer takes a text for, as documented."""
    if kind == "qwen":
        text = unicodedata.normalize("NFC", text)
    return text.replace("\u2581", " ") if kind in MARKED else text


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind != "t5"])
def test_the_bytes_of_a_tokenized_text_are_the_text(kind: str) -> None:
    encode, _, _ = functions(kind)
    table = vocabulary(kind)

    @thorough
    @given(TEXTS)
    @example("é à la carte öö")
    def round_trip(text: str) -> None:
        spelled = table.decode(encode(text))
        wanted = as_read(kind, text).encode()
        if kind in PREFIXED:
            assert spelled in (b" " + wanted, wanted)
        else:
            assert spelled == wanted

    round_trip()


@pytest.mark.parametrize("kind", ["t5"])
def test_a_tokenizer_that_collapses_spaces_is_exact_otherwise(kind: str) -> None:
    encode, _, _ = functions(kind)
    for line in corpus()[:200]:
        known = " ".join(word for word in line.split() if encode(word) and 2 not in encode(word))
        assert vocabulary(kind).decode(encode(known)) == (b" " + known.encode() if known else b"")


@pytest.mark.parametrize("kind", [kind for kind in EVERY_KIND if kind != "t5"])
def test_encode_spells_any_bytes_exactly(kind: str) -> None:
    table = vocabulary(kind)

    @thorough
    @given(TEXTS.map(str.encode) | st.binary(max_size=24))
    @example("<|endoftext|></s><unk>e\u0301 \u2581x".encode())
    @example("日本".encode()[:-1])
    @example(b"wholeword  <swallow>  y")
    def spell(data: bytes) -> None:
        ids = table.encode(data)
        assert table.decode(ids) == data
        assert all(table.tokens[token] for token in ids)

    spell()


@pytest.mark.parametrize("kind", ["gpt2", "llama3", "qwen", "gemma", "tekken"])
def test_encode_is_the_tokenizers_own_way(kind: str) -> None:
    encode, _, _ = functions(kind)
    for text in corpus()[:60]:
        assert vocabulary(kind).encode(text) == encode(text)


@pytest.mark.parametrize("kind", sorted(PREFIXED - {"t5"}))
def test_encode_continues_a_text_instead_of_starting_one(kind: str) -> None:
    encode, _, _ = functions(kind)
    table = vocabulary(kind)
    for text in corpus()[:60]:
        ids = table.encode(" " + text)
        assert ids == encode(
            " " + text if kind == "gpt2-prefix" else text
        )  # the space it would have put there
        line_break = encode("\n")
        assert [*line_break, *table.encode(text)] == encode("\n" + text)
        assert table.decode(table.encode(text)) == text.encode()


def test_a_leading_space_belongs_to_the_token() -> None:
    for kind in ("llama2", "mistral", "gemma"):
        table, tokenizer = vocabulary(kind), TRAINED[kind]()
        assert table.tokens[tokenizer.token_to_id("\u2581the")] == b" the"
        assert table.tokens[tokenizer.token_to_id("\u2581")] == b" "
        assert table.tokens[tokenizer.token_to_id("<0x0A>")] == b"\n"


# ---------------------------------------------------------------- special and added tokens


def test_added_tokens_of_a_byte_level_tokenizer() -> None:
    table, tokenizer = vocabulary("qwen"), qwen_style()
    for name in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"):
        assert table.tokens[tokenizer.token_to_id(name)] == b""
    for content in (
        "<tool_call>",
        "</tool_call>",
        "<swallow>",
        "wholeword",
        " spaced out ",
        "é à la carte",
        "öö",
    ):
        assert table.tokens[tokenizer.token_to_id(content)] == content.encode()
    assert table.encode("<tool_call>") == [tokenizer.token_to_id("<tool_call>")]


def test_an_added_token_that_swallows_spaces_does_not_lose_them() -> None:
    table, tokenizer = vocabulary("qwen"), qwen_style()
    assert tokenizer.decode(tokenizer.encode("a  <swallow>  b").ids) == "a<swallow>b"
    assert table.decode(table.encode("a  <swallow>  b")) == b"a  <swallow>  b"


def test_added_tokens_of_a_sentencepiece_tokenizer() -> None:
    table, tokenizer = vocabulary("gemma"), TRAINED["gemma"]()
    assert table.tokens[tokenizer.token_to_id("\u2581\u2581")] == b"  "
    assert table.tokens[tokenizer.token_to_id("\n\n")] == b"\n\n"
    assert table.tokens[tokenizer.token_to_id("<table>")] == b"<table>"
    assert table.tokens[tokenizer.token_to_id("<end_of_turn>")] == b""


def test_an_added_token_that_means_two_things_is_refused() -> None:
    from tokenizers import AddedToken, Tokenizer

    tokenizer = Tokenizer.from_str(llama3_style().to_str())
    tokenizer.add_tokens([AddedToken("é")])  # in the byte alphabet, this letter is the byte E9
    with pytest.raises(VocabularyError, match="'é' is also a token of the model"):
        Vocabulary.from_tokenizer(tokenizer, eos_ids=[1])


def test_special_tokens_of_the_transformers_wrapper_count() -> None:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=llama3_style(),
        eos_token="<|end_of_text|>",
        pad_token="of",
        extra_special_tokens=["the"],
    )
    table = Vocabulary.from_tokenizer(tokenizer)
    for name in ("of", "the", "<|eot_id|>"):
        assert table.tokens[tokenizer.convert_tokens_to_ids(name)] == b""


def test_holes_in_the_ids_are_never_allowed() -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 3, "ab": 7, "</s>": 5}, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["</s>"])
    table = Vocabulary.from_tokenizer(tokenizer, eos_ids=[5])
    assert list(table.tokens) == [b"a", b"", b"", b"b", b"", b"", b"", b"ab"]
    assert table.encode("abb") == [7, 3]


# ---------------------------------------------------------------- the classes of transformers 5


def _vocab_and_merges(backend: Any) -> dict[str, Any]:
    model = json.loads(backend.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


@pytest.mark.parametrize("name", ["GPT2Tokenizer", "Qwen2Tokenizer", "LlamaTokenizer", "GemmaTokenizer"])
def test_tokenizer_classes_of_transformers(name: str) -> None:
    import transformers

    kind = {"GPT2Tokenizer": "gpt2", "Qwen2Tokenizer": "qwen"}.get(name, "llama2")
    tokenizer = getattr(transformers, name)(
        **_vocab_and_merges(TRAINED[kind]()), eos_token=EOS.get(kind, "</s>")
    )
    table = Vocabulary.from_tokenizer(tokenizer)
    assert table.eos_ids == (tokenizer.eos_token_id,)
    for text in corpus()[:40]:
        spelled = table.decode(tokenizer.encode(text, add_special_tokens=False))
        assert spelled.removeprefix(b" ") == text.encode()
        assert table.decode(table.encode(text)) == text.encode()


def test_wrapped_and_bare_tokenizer_give_the_same_vocabulary() -> None:
    for kind in ("gpt2", "llama2", "gemma", "unigram-bytes"):
        assert Vocabulary.from_tokenizer(transformers_tokenizer(kind)) == vocabulary(kind)


def test_a_tokenizer_is_found_inside_its_wrappers() -> None:
    name = SENTENCEPIECE_FILES[-1]
    path = sentencepiece_tokenizer(name).file_path
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    from sentencepiece import SentencePieceProcessor

    assert Vocabulary.from_tokenizer(MistralTokenizer.from_file(path)) == vocabulary(name)
    assert Vocabulary.from_tokenizer(SentencePieceProcessor(model_file=str(path))) == vocabulary(name)
    processor = SimpleNamespace(image_processor=object(), tokenizer=transformers_tokenizer("gpt2"))
    assert Vocabulary.from_tokenizer(processor) == vocabulary("gpt2")


def test_a_tokenizer_that_truncates_and_pads_is_read_and_left_as_it_is() -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(llama2_style().to_str())
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=5)
    before = tokenizer.to_str()
    table = Vocabulary.from_tokenizer(tokenizer, eos_ids=[2])
    assert table.decode(table.encode("a longer text")) == b"a longer text"
    assert tokenizer.to_str() == before


# ---------------------------------------------------------------- tokenizers without exact bytes


def _refusals() -> dict[str, tuple[Any, str]]:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    word_piece = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    word_piece.decoder = decoders.WordPiece()
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    suffixed = sentencepiece_bpe(decoder=decoders.BPEDecoder("</w>"))
    pattern = sentencepiece_bpe(decoder=decoders.Replace(Regex("\u2581+"), " "))
    across = sentencepiece_bpe(decoder=decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", " ")]))
    lying = sentencepiece_bpe(  # the decoder drops spaces that the tokenizer needs
        pre_tokenizer=pre_tokenizers.Metaspace(),
        decoder=decoders.Sequence([decoders.Replace("\u2581", ""), decoders.ByteFallback(), decoders.Fuse()]),
    )
    return {
        "word-piece": (word_piece, "WordPiece drops spaces"),
        "no-decoder": (words, "no decoder"),
        "suffix": (suffixed, "depends on the next token"),
        "pattern": (pattern, "replaces the regular expression"),
        "across": (across, "may lie across two tokens"),
        "lying": (lying, "samples disagree"),
    }


@pytest.mark.parametrize("name", ["word-piece", "no-decoder", "suffix", "pattern", "across", "lying"])
def test_a_tokenizer_without_exact_bytes_is_refused(name: str) -> None:
    tokenizer, reason = _refusals()[name]
    with pytest.raises(VocabularyError, match=reason) as caught:
        Vocabulary.from_tokenizer(tokenizer, eos_ids=[0])
    assert "->" in str(caught.value)


def test_an_unknown_kind_of_tokenizer_is_refused() -> None:
    with pytest.raises(VocabularyError, match="no reader for a tokenizer of type dict"):
        Vocabulary.from_tokenizer({"a": 1})


def test_a_byte_level_tokenizer_without_decoder_is_taken_at_its_pre_tokenizer() -> None:
    from tokenizers import Tokenizer

    data = json.loads(llama3_style().to_str()) | {"decoder": None}
    assert Vocabulary.from_tokenizer(Tokenizer.from_str(json.dumps(data)), eos_ids=[1]) == vocabulary(
        "llama3"
    )


# ---------------------------------------------------------------- ends of sequence and sizes


class Model:
    """As much of a Hugging Face model as says how wide its logits are and where it stops."""

    def __init__(self, size: int, eos: Any = None, generation_eos: Any = None) -> None:
        self.config = SimpleNamespace(vocab_size=size, eos_token_id=eos)
        self.generation_config = SimpleNamespace(eos_token_id=generation_eos)


def test_a_tokenizer_without_end_of_sequence_is_refused_with_advice() -> None:
    with pytest.raises(
        VocabularyError, match=r"names no end-of-sequence(.|\n)*<\|eot_id\|>=2(.|\n)*eos_ids="
    ):
        Vocabulary.from_tokenizer(llama3_style())


def test_ends_of_sequence_come_from_everyone_who_names_one() -> None:
    tokenizer = transformers_tokenizer("llama3")
    assert Vocabulary.from_tokenizer(tokenizer).eos_ids == (1,)
    assert Vocabulary.from_tokenizer(tokenizer, model=Model(900, 0, [1, 2])).eos_ids == (0, 1, 2)
    config = SimpleNamespace(eos_token_id=np.int64(2))
    assert Vocabulary.from_tokenizer(tokenizer, generation_config=config).eos_ids == (1, 2)
    assert Vocabulary.from_tokenizer(tokenizer, model=Model(900, 0), eos_ids=[2, 2]).eos_ids == (2,)


def test_the_end_of_turn_of_the_chat_template_ends_a_sequence() -> None:
    tokenizer = transformers_tokenizer("qwen")
    end_of_turn = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert Vocabulary.from_tokenizer(
        tokenizer, model=Model(tokenizer.backend_tokenizer.get_vocab_size())
    ).eos_ids == (0,)
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    assert Vocabulary.from_tokenizer(tokenizer).eos_ids == (0,), (
        "without a model, the end of turn is not added"
    )
    assert Vocabulary.from_tokenizer(tokenizer, model=Model(2000)).eos_ids == (0, end_of_turn)


def test_padding_of_the_model_is_never_allowed() -> None:
    tokenizer = small_bpe_tokenizer()
    for table in (
        Vocabulary.from_tokenizer(tokenizer, size=1536),
        Vocabulary.from_tokenizer(tokenizer, model=Model(1536)),
    ):
        assert table.size == len(table.tokens) == 1536
        assert not any(table.tokens[1500:])
        assert list(table.tokens[:1500]) == list(small_bpe_vocabulary().tokens)
        assert table.decode(table.encode("text")) == b"text"


def test_the_width_of_the_logits_comes_from_the_model() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=1600, eos_token_id=[0, 7], **sizes))
    table = Vocabulary.from_tokenizer(small_bpe_tokenizer(), model=model)
    assert (table.size, table.eos_ids) == (1600, (0, 7))


def test_a_model_smaller_than_the_tokenizer_does_not_fit() -> None:
    for arguments in ({"size": 1400}, {"model": Model(1400)}):
        with pytest.raises(
            ModelMismatch, match=r"1500 token ids, the model only 1400(.|\n)*resize_token_embeddings"
        ):
            Vocabulary.from_tokenizer(small_bpe_tokenizer(), **arguments)


# ---------------------------------------------------------------- explicit lists, and what every vocabulary can do


def test_an_explicit_list() -> None:
    table = Vocabulary.from_bytes([b"a", b"b", b"ab", b"a", b"", b"</s>"], eos_ids=[5])
    assert list(table.tokens) == [b"a", b"b", b"ab", b"a", b"", b""], (
        "ids of equal bytes are kept; an end is no text"
    )
    assert table.tokens[-4] == b"ab"
    assert table.tokens[1:3] == [b"b", b"ab"]
    assert table.encode(b"aabb") == [0, 2, 1]
    assert table.decode([3, 4, 2]) == b"aab"
    assert (table.size, len(table), table.eos_ids) == (6, 6, (5,))


def test_encode_takes_the_fewest_tokens_not_the_greediest() -> None:
    table = Vocabulary.from_bytes([b"a", b"ab", b"bcd", b"c", b"d", b""], eos_ids=[5])
    assert table.encode("abcd") == [0, 2]
    with pytest.raises(VocabularyError, match="this vocabulary cannot encode b'xyz'"):
        table.encode("xyz")


@pytest.mark.parametrize(
    ("tokens", "eos_ids", "reason"),
    [
        ([b"a"], [], "no token ends a sequence"),
        ([b"a"], [1], "id 1 is outside a vocabulary of 1"),
        ([b"a"], [-1], "id -1 is outside"),
        ([b"a", "b"], [0], "1 tokens are not bytes, the first is id 1 of type str"),
        ([b"", b"</s>"], [1], "no token of this vocabulary is text"),
    ],
)
def test_a_bad_list_is_refused(tokens: list[Any], eos_ids: list[int], reason: str) -> None:
    with pytest.raises(VocabularyError, match=reason):
        Vocabulary.from_bytes(tokens, eos_ids)


def test_ids_outside_the_vocabulary_are_refused() -> None:
    table = small_bpe_vocabulary()
    for bad in (1500, -1):
        with pytest.raises(VocabularyError, match="outside a vocabulary of 1500"):
            table.decode([bad])


def test_text_that_has_no_bytes_is_refused() -> None:
    with pytest.raises(VocabularyError, match="half a surrogate pair"):
        small_bpe_vocabulary().encode("a\ud800")


def test_text_read_with_surrogateescape_keeps_its_bytes() -> None:
    table = small_bpe_vocabulary()
    assert table.decode(table.encode(b"caf\xe9 !".decode("utf-8", "surrogateescape"))) == b"caf\xe9 !"


def test_equal_by_content() -> None:
    tokens = [b"a", b"bc", b""]
    table = Vocabulary.from_bytes(tokens, [2])
    assert table == Vocabulary.from_bytes(tokens, [2])
    assert hash(table) == hash(Vocabulary.from_bytes(tokens, [2]))
    others = [
        ([b"ab", b"c", b""], [2]),
        ([b"a", b"bc", b"", b""], [2]),
        ([b"a", b"bc", b""], [2, 1]),
        (tokens[::-1], [0]),
    ]
    assert len({table.fingerprint, *(Vocabulary.from_bytes(*other).fingerprint for other in others)}) == 5


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    assert Vocabulary.from_bytes([b"a", b"bc", b""], [2]).fingerprint == "e8e2b9a9bc27757c073245c885134742"


@pytest.mark.parametrize("kind", ["gpt2", "llama2", *REAL])
def test_a_pickled_vocabulary_is_the_same(kind: str) -> None:
    table = vocabulary(kind)
    copy = pickle.loads(pickle.dumps(table))
    text = " Some text,\n日本 \u2581"
    assert copy == table
    assert copy.encode(text) == table.encode(text)
    with pytest.raises(ValueError, match="read-only"):
        copy.tokens.offsets[0] = 1


def test_tokens_are_one_block() -> None:
    tokens = tekken_vocabulary().tokens
    assert len(tokens) == 131_072
    assert tokens.offsets.dtype == np.int64
    assert tokens.offsets[0] == 0
    assert tokens.offsets[-1] == len(tokens.blob)
    assert list(tokens) == [tokens[i] for i in range(len(tokens))]
    with pytest.raises(IndexError):
        tokens[131_072]


def test_importing_it_is_light() -> None:
    code = "import constrained.vocabulary, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "transformers", "tokenizers", "mistral_common", "sentencepiece"} & set(loaded)


def test_a_token_that_goes_on_with_a_text_is_found() -> None:
    vocabulary = constrained.load().vocabulary
    rng, tokens = random.Random(1), list(vocabulary.tokens)
    for token in rng.sample([token for token in tokens if token], 60):
        for text in (token[: rng.randint(1, len(token))], token + bytes([rng.randrange(256)])):
            longer = any(other.startswith(text) and other != text for other in tokens)
            assert vocabulary.begins_token(text) == longer, text


def test_a_byte_whose_only_token_ends_the_sequence_is_in_no_text():
    vocabulary = Vocabulary.from_bytes([b"a", b"\n", b"a\n", b"b", b"ab"], [1])
    assert list(vocabulary.tokens) == [b"a", b"", b"", b"b", b"ab"]
    assert vocabulary.unspelled_bytes == b""
    twice = Vocabulary.from_bytes([b"a", b"\n", b"a\n", b"\n"], [1])
    assert list(twice.tokens) == [b"a", b"", b"a\n", b"\n"]
