"""What a model with other tokens reads and predicts, in the tokens of a vocabulary."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained.errors import VocabularyError
from constrained.vocabulary import Vocabulary
from constrained.vocabulary.token_map import TokenMap
from tests.support.tiny_models import llama

LETTERS = Vocabulary.from_bytes([b"", b"a", b"b", b"c", b"ab", b"abc", b"abcab"], eos_ids=[0])
FEWER = Vocabulary.from_bytes([b"ab", b"c", b"b", b"", b"a"], eos_ids=[3])


@cache
def between_models() -> tuple[TokenMap, Vocabulary, Vocabulary]:
    one, two = constrained.load().vocabulary, llama().vocabulary
    return TokenMap(one, two), one, two


@given(st.text(max_size=40) | st.binary(max_size=20))
def test_a_text_is_read_as_its_tokenizer_writes_it(text: str | bytes) -> None:
    translated, one, two = between_models()
    ids = translated.ids(one.encode(text))
    assert ids == two.encode(text)


def test_special_tokens_are_read_by_their_names() -> None:
    one = Vocabulary([b"", b"a", b"", b""], eos_ids=[0], special={"<end>": 0, "<user>": 2, "<own>": 3})
    two = Vocabulary([b"aa", b"", b"a", b""], eos_ids=[3], special={"<user>": 1, "<stop>": 3})
    translated = TokenMap(one, two)
    assert translated.ids([2, 1, 1, 3, 1]) == [1, 0, 2]
    row = translated.logits(np.array([-1, -2, -3, -4], dtype=np.float32))
    assert row.tolist() == [-4, -3, -2, -np.inf]  # the end is the other one's end


def test_a_token_has_the_logit_of_the_same_bytes() -> None:
    row = np.array([0.5, 1.5, 2.5, 3.5, 4.5], dtype=np.float32)
    end, a, b, c, ab, *longer = TokenMap(LETTERS, FEWER).logits(row).tolist()
    assert [end, a, b, c, ab] == [3.5, 4.5, 2.5, 1.5, 0.5]
    # What begins with one token shares its probability: all of it together is no likelier than the token.
    assert np.logaddexp.reduce(longer) < 0.5
    assert longer[0] == longer[1] == pytest.approx(0.5 - np.log(3))


def test_ids_at_the_end_that_are_no_text_change_nothing() -> None:
    padded = Vocabulary.from_bytes([*LETTERS.tokens, b"", b""], eos_ids=[0])
    row = np.arange(7, dtype=np.float32)
    assert TokenMap(LETTERS, padded).same
    assert TokenMap(padded, LETTERS).logits(row).tolist() == [*range(7), -np.inf, -np.inf]
    assert TokenMap(LETTERS, padded).logits(np.arange(9, dtype=np.float32)).tolist() == [*range(7)]
    assert TokenMap(LETTERS, padded).ids([4, 1]) == [4, 1]


def test_fewer_bytes_are_refused() -> None:
    for tokens in ([b"", b"a", b"b"], [b"", b"a", b"b", b"ac"]):
        with pytest.raises(VocabularyError, match="no token for the byte 0x63 alone"):
            TokenMap(LETTERS, Vocabulary.from_bytes(tokens, eos_ids=[0]))
