"""`Vocabulary`: the bytes of every token id in one block of memory, with derived tables."""

from __future__ import annotations

import atexit
import copy
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, overload
from weakref import WeakValueDictionary

import numpy as np

from constrained.errors import ModelMismatch, VocabularyError
from constrained.vocabulary import encoding, eos
from constrained.vocabulary.shards import ShardPool
from constrained.vocabulary.special_tokens import marked_tokens
from constrained.vocabulary.tokenizer_info import Encoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEMORY_LIMIT = 256 << 20
"""Default limit, in bytes, for the masks and language tables of one vocabulary."""


_deriving = Lock()


class TokenBytes(Sequence[bytes]):
    """The bytes of every token, read from one block of memory: a sequence without a Python object per token."""

    __slots__ = ("blob", "offsets")

    def __init__(self, blob: bytes, offsets: NDArray[np.int64]) -> None:
        self.blob = blob
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"token id {index} is outside a vocabulary of {len(self)}")
        return self.blob[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[bytes]:
        ends = self.offsets.tolist()
        return (self.blob[start:end] for start, end in pairwise(ends))

    def __repr__(self) -> str:
        return f"<{len(self)} tokens, {len(self.blob)} bytes>"


class Vocabulary:
    """The exact bytes of every token id of a model, and the ids that end a sequence.

    Immutable, shared freely between threads; equal and hashed by content. A pickle carries the tokenizer along, for
    `encode`, and not the native table.

    Attributes:
        tokens: bytes per token id. ``b""`` means the id is never allowed in text: special, control, unknown or
            padding, a hole in the ids, an end of sequence. Ids with equal bytes are all kept, and all allowed.
        size: number of ids, which is the number of columns of the model's logits.
        eos_ids: ids that end a sequence, ascending; at least one.
        special: ids of the tokenizer's special tokens, by name. They do not affect equality.
        special_tokens: names of the special tokens that can stand in texts, see `with_special_tokens`; none by default.
        special_texts: names of the special tokens that spell their name, see `with_special_texts`; none by default.
        memory_limit: bytes of the shared masks and language tables; see `core`.
        shards: groups of automata that never wait for each other; see `core`.
    """

    special_tokens: frozenset[str] = frozenset()
    special_texts: frozenset[str] = frozenset()

    def __init__(
        self,
        tokens: Iterable[bytes],
        eos_ids: Iterable[int],
        *,
        encoder: Encoder | None = None,
        special: Mapping[str, int] | None = None,
        memory_limit: int = MEMORY_LIMIT,
        shards: int = 1,
    ) -> None:
        """Called by `from_tokenizer` and `from_bytes`; use these.

        Args:
            tokens: bytes per id.
            eos_ids: ids that end a sequence; whatever bytes they have are dropped.
            encoder: canonical ids of a text, if there is a tokenizer.
            special: ids of special tokens, by name.
            memory_limit: bytes of the shared masks and language tables; see `core`.
            shards: groups of automata that never wait for each other; see `core`.

        Raises:
            VocabularyError: no end of sequence, one outside the vocabulary, or no token that is text.
        """
        table = list(tokens)
        self.memory_limit = memory_limit
        self.shards = shards
        self.size = len(table)
        self.eos_ids = eos.check_eos_ids(eos_ids, self.size)
        ends = {table[token] for token in self.eos_ids if len(table[token]) == 1}
        for token in self.eos_ids:
            table[token] = b""
        if ends and (lost := frozenset(b"".join(ends.difference(table)))):
            # A byte whose only token ends the sequence cannot be written: not inside longer tokens either.
            table = [b"" if lost.intersection(token) else token for token in table]
        offsets = np.zeros(self.size + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, table), np.int64, self.size), out=offsets[1:])
        offsets.setflags(write=False)
        self.tokens = TokenBytes(b"".join(table), offsets)
        self._encoder = encoder
        self.special = dict(special or {})
        self._marked_texts: dict[int, bytes] = {}  # of the tokens of `special_tokens`
        self._marked: dict[frozenset[str], Vocabulary] = {}
        self._spelled: WeakValueDictionary[frozenset[str], Vocabulary] = WeakValueDictionary()
        if not self.tokens.blob:
            raise VocabularyError(
                "no token of this vocabulary is text", action="pass at least one non-empty token"
            )

    @classmethod
    def from_bytes(
        cls,
        tokens: Iterable[bytes],
        eos_ids: Iterable[int],
        *,
        memory_limit: int = MEMORY_LIMIT,
        shards: int = 1,
    ) -> Vocabulary:
        """A vocabulary written out: token id is the position in `tokens`.

        Args:
            tokens: bytes per id; ``b""`` for an id that is never allowed in text.
            eos_ids: ids that end a sequence. Their bytes, if any, are dropped: an end is not text.
            memory_limit: bytes of the shared masks and language tables; see `core`.
            shards: groups of automata that never wait for each other; see `core`.

        Raises:
            VocabularyError: `eos_ids` is empty or outside the list, a token is not `bytes`, or none is text.
        """
        table = list(tokens)
        wrong = [i for i, token in enumerate(table) if not isinstance(token, bytes)]
        if wrong:
            kind = type(table[wrong[0]]).__name__
            raise VocabularyError(
                f"{len(wrong)} tokens are not bytes, the first is id {wrong[0]} of type {kind}",
                action='encode text first: token.encode("utf-8")',
            )
        return cls(table, eos_ids, memory_limit=memory_limit, shards=shards)

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Any,
        *,
        model: Any = None,
        generation_config: Any = None,
        size: int | None = None,
        eos_ids: Iterable[int] | None = None,
        memory_limit: int = MEMORY_LIMIT,
        shards: int = 1,
    ) -> Vocabulary:
        """The vocabulary of a tokenizer, checked to be exact.

        Args:
            tokenizer: a fast tokenizer of transformers, a `tokenizers.Tokenizer`, a tokenizer of mistral-common
                (Tekken or SentencePiece, also wrapped in `MistralTokenizer`), a `SentencePieceProcessor`, or a
                `llama_cpp.Llama`.
            model: the Hugging Face model, if available: its `size` and its EOS ids are used.
            generation_config: its generation configuration, when it is not the model's own.
            size: columns of the logits, where the model pads its vocabulary; by default the model's, or else the
                number of ids of the tokenizer. Ids the tokenizer does not know are never allowed.
            eos_ids: ids that end a sequence, instead of those that tokenizer and model name.
            memory_limit: bytes of the shared masks and language tables; see `core`.
            shards: groups of automata that never wait for each other; see `core`.

        Raises:
            VocabularyError: the tokenizer names no end of sequence, is of no known kind, or has no exact bytes
                (WordPiece, for example, which does not keep spaces).
            ModelMismatch: the model has fewer ids than the tokenizer.
        """
        from constrained.vocabulary.readers import read_tokenizer

        reading = read_tokenizer(tokenizer)
        if size is None:
            size = eos.model_size(model)
        needed = len(reading.tokens)
        if size is not None and size < needed:
            raise ModelMismatch(
                f"the tokenizer has {needed} token ids, the model only {size}",
                action=f"use the tokenizer the model was trained with, or model.resize_token_embeddings({needed})",
            )
        if eos_ids is None:
            eos_ids = eos.find_eos_ids(reading, model, generation_config)
        padding = [b""] * ((size or needed) - len(reading.tokens))
        return cls(
            [*reading.tokens, *padding],
            eos_ids,
            encoder=reading.encoder,
            special=reading.special,
            memory_limit=memory_limit,
            shards=shards,
        )

    def without_tokenizer(self) -> Vocabulary:
        """An equal vocabulary that `encode`s by the fewest tokens: small when it is sent to another process."""
        twin = copy.copy(self)
        twin._encoder = None
        return twin

    def with_eos_ids(self, eos_ids: Iterable[int]) -> Vocabulary:
        """The vocabulary with other ids that end a sequence. What ended one before is not text now either.

        Raises:
            VocabularyError: there is none, or one outside the vocabulary.
        """
        return Vocabulary(
            self.tokens,
            eos_ids,
            encoder=self._encoder,
            special=self.special,
            memory_limit=self.memory_limit,
            shards=self.shards,
        )

    def with_shards(self, shards: int) -> Vocabulary:
        """An equal vocabulary with tables of its own, whose automata are assigned to so many shards; see `core`."""
        twin = Vocabulary(
            self.tokens,
            self.eos_ids,
            encoder=self._encoder,
            special=self.special,
            memory_limit=self.memory_limit,
            shards=shards,
        )
        twin.special_tokens, twin.special_texts = self.special_tokens, self.special_texts
        twin._marked_texts = self._marked_texts
        return twin

    def text_ids(self, ids: Iterable[int]) -> list[int]:
        """The ids of a prompt without those of images, which are behind the vocabulary's."""
        return [token for token in ids if token < self.size]

    def decode(self, ids: Iterable[int]) -> bytes:
        """The text that token ids add in the middle of a generation; ids that are never text add nothing.

        Raises:
            VocabularyError: an id is outside the vocabulary.
        """
        numbers = [int(token) for token in ids]
        for token in numbers:
            if not 0 <= token < self.size:
                raise VocabularyError(
                    f"token id {token} is outside a vocabulary of {self.size}",
                    action="pass ids of this vocabulary's model",
                )
        shown = self._marked_texts
        return b"".join([shown.get(token) or self.tokens[token] for token in numbers])

    def with_special_tokens(self, names: Iterable[str]) -> Vocabulary:
        """The vocabulary in which these special tokens are text, as in grammars of `encode_with_special`.

        Such a token, and nothing else, is one byte that is in no UTF-8 text. An ordinary token with that byte could
        never be part of a text; here it is never allowed. `decode` gives the name.

        Args:
            names: of special tokens, or ordinary tokens of several bytes, by their text. ``<[5]>`` is the token with this
                number; ``<[5-9,12]>`` is any of these that does not end a sequence, and all have the same byte.

        Raises:
            VocabularyError: a token does not exist, ends a sequence or has two names, or there are too many names.
        """
        wanted = frozenset(names)
        if wanted == self.special_tokens:
            return self
        with _deriving:
            if wanted not in self._marked:
                table, texts = marked_tokens(self.tokens, self.special, self.eos_ids, wanted)
                marked = self._with_tokens(table)
                marked.special_tokens, marked._marked_texts = wanted, texts
                self._marked[wanted] = marked
            return self._marked[wanted]

    def with_special_texts(self, names: Iterable[str]) -> Vocabulary:
        """The vocabulary in which these special tokens have their name as bytes, as structural tags take them.

        A name can then be written as the special token, or by ordinary tokens. Names that are no special token, one
        that ends a sequence, or one of `with_special_tokens`, change nothing.

        Args:
            names: of special tokens.
        """
        wanted = frozenset(
            name
            for name in names
            if name not in self.special_tokens
            and self.special.get(name) not in (None, *self.eos_ids, *self._marked_texts)
        )
        if wanted == self.special_texts:
            return self
        with _deriving:
            vocabulary = self._spelled.get(wanted)
            if vocabulary is None:
                tokens = list(self.tokens)
                for name in wanted:
                    tokens[self.special[name]] = name.encode()
                vocabulary = self._with_tokens(tokens)
                vocabulary.special_tokens, vocabulary.special_texts = self.special_tokens, wanted
                vocabulary._marked_texts = self._marked_texts
                self._spelled[wanted] = vocabulary
            return vocabulary

    def _with_tokens(self, tokens: list[bytes]) -> Vocabulary:
        return Vocabulary(
            tokens,
            self.eos_ids,
            encoder=self._encoder,
            special=self.special,
            memory_limit=self.memory_limit,
            shards=self.shards,
        )

    def encode(self, text: bytes | str) -> list[int]:
        """Token ids whose bytes are exactly `text`, as the tokenizer would write it in the middle of a text.

        What the tokenizer cannot write as it stands takes the fewest tokens with those bytes: bytes that are not
        UTF-8, a text its normaliser would change, any text in a vocabulary without a tokenizer.

        Raises:
            VocabularyError: no sequence of tokens has these bytes.
        """
        return encoding.encode(self, text, self._encoder)

    @cached_property
    def ids_by_bytes(self) -> dict[bytes, int]:
        """The lowest id of each token's bytes."""
        table = {token: i for i, token in reversed(list(enumerate(self.tokens)))}
        table.pop(b"", None)
        return table

    @property
    def has_tokenizer(self) -> bool:
        """Whether `encode` writes text as a tokenizer would, and not with the fewest tokens."""
        return self._encoder is not None

    def begins_token(self, text: bytes) -> bool:
        """Whether a token begins with `text` and is longer."""
        if not text:
            return True
        ordered = self._tokens_with_first(text[0])
        at = bisect_right(ordered, text)
        return at < len(ordered) and ordered[at].startswith(text)

    def _tokens_with_first(self, byte: int) -> list[bytes]:
        """The tokens that begin with a byte, in order: to sort all of a large vocabulary takes a tenth of a second."""
        ordered = self._by_first.get(byte)
        if ordered is None:
            offsets = self.tokens.offsets
            filled = np.flatnonzero(np.diff(offsets) > 0)
            blob = np.frombuffer(self.tokens.blob, dtype=np.uint8)
            ids = filled[blob[offsets[filled]] == byte]
            ordered = self._by_first[byte] = sorted(self.tokens[int(id)] for id in ids)
        return ordered

    @cached_property
    def _by_first(self) -> dict[int, list[bytes]]:
        return {}

    @cached_property
    def token_lengths(self) -> tuple[int, ...]:
        """The lengths that tokens have, in bytes, the longest first; without empty ones."""
        return tuple(
            np.unique(np.diff(self.tokens.offsets))[::-1].tolist()[: -1 if b"" in self.tokens else None]
        )

    @cached_property
    def unspelled_bytes(self) -> bytes:
        """The bytes that occur in tokens, and are no token by themselves, ascending; `constrained.compile` refuses a vocabulary that has some."""
        offsets = self.tokens.offsets
        blob = np.frombuffer(self.tokens.blob, dtype=np.uint8)
        alone = blob[offsets[:-1][np.diff(offsets) == 1]]
        return bytes(np.setdiff1d(blob, alone).tolist())

    @cached_property
    def fingerprint(self) -> str:
        """Hash of size, bytes and end-of-sequence ids: all that a compiled automaton depends on."""
        digest = blake2b(digest_size=16)
        for part in (
            np.array([self.size, len(self.eos_ids), *self.eos_ids], dtype="<i8"),
            self.tokens.offsets,
        ):
            digest.update(part.astype("<i8", copy=False).tobytes())
        digest.update(self.tokens.blob)
        return digest.hexdigest()

    @cached_property
    def core(self) -> Any:
        """The native vocabulary, with the tables and the masks that automata share; built at the first access.

        Shared masks and language tables take at most `memory_limit` bytes, in addition to the token tables and to what
        live automata need; the rest is evicted and computed again. Automata are assigned to `shards` in round-robin
        order. Automata of one shard share language tables and wait for each other while these grow; automata of
        different shards do not.
        """
        from constrained import _core

        tables = _core.Vocabulary(
            self.tokens.blob,
            self.tokens.offsets,
            list(self.eos_ids),
            memory_limit=self.memory_limit,
            shards=self.shards,
        )
        _with_core[id(self)] = self
        return tables

    @cached_property
    def shard_pool(self) -> ShardPool:
        """Assigns automata to shards."""
        return ShardPool(self.core)

    @cached_property
    def mark_shard_pool(self) -> ShardPool:
        """Assigns automata of grammars with marks (`constrained.grammars.ir.Mark`) to shards of their own."""
        return ShardPool(self.core, marks=True)

    @property
    def masks(self) -> Any:
        """The masks of all automata over this vocabulary by id (native): `first`, `end`, `words`, `copy`.

        An id never names two masks. Masks with ids below `first` are evicted; a state whose mask was evicted gets a new
        id at the next query.
        """
        return self.core.masks

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Vocabulary(size={self.size}, eos_ids={self.eos_ids}, fingerprint={self.fingerprint[:8]})"

    def __getstate__(self) -> dict[str, Any]:
        # Derived tables are not pickled: the native one cannot be, and the index is as large as the rest.
        derived = ("core", "ids_by_bytes", "shard_pool", "mark_shard_pool", "_spelled")
        return {k: v for k, v in self.__dict__.items() if k not in derived} | {"_marked": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._spelled = WeakValueDictionary()
        self.tokens.offsets.setflags(write=False)


_with_core: WeakValueDictionary[int, Vocabulary] = WeakValueDictionary()


def _release_cores() -> None:
    """Frees the native tables before the interpreter ends: other libraries may keep a `Vocabulary` alive beyond that."""
    for vocabulary in list(_with_core.values()):
        vocabulary.__dict__.pop("shard_pool", None)
        vocabulary.__dict__.pop("mark_shard_pool", None)
        vocabulary.__dict__.pop("core", None)


atexit.register(_release_cores)
