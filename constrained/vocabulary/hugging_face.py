"""Fast tokenizers of Hugging Face: `tokenizers.Tokenizer`, and the classes of transformers around it.

What the tokenizer does is read from its serialised components. They are serialised by a clone without vocabulary,
so that hundreds of thousands of tokens are not written out as JSON only to be parsed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from constrained.errors import VocabularyError
from constrained.vocabulary.decoders import flatten, from_byte_level, token_bytes
from constrained.vocabulary.tokenizer_info import SPACE_MARK, TokenizerInfo

Json = dict[str, Any]

_DROP_SPACES = ("WhitespaceSplit", "Whitespace")


@dataclass(frozen=True, slots=True)
class ContinuationEncoder:
    """A private clone of the tokenizer that takes text as a continuation, and special tokens as plain text."""

    tokenizer: Any

    def __call__(self, text: str) -> list[int]:
        """Ids of a text, without special tokens."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)


def read_transformers(tokenizer: Any) -> TokenizerInfo:
    """A fast tokenizer of transformers: its backend, and the EOS ids and chat template of the wrapper.

    Raises:
        VocabularyError: see `read_tokenizers`.
    """
    reading = read_tokenizers(tokenizer.backend_tokenizer)
    tokens, special = list(reading.tokens), dict(reading.special)
    for name, token in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True):
        if token is not None:
            special[str(name)] = token
            tokens[token] = b""
    eos = tokenizer.eos_token_id
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, dict):  # several templates by name
        template = "\n".join(template.values())
    return replace(
        reading,
        tokens=tokens,
        special=special,
        eos_ids=() if eos is None else (int(eos),),
        chat_template=template,
    )


def read_tokenizers(backend: Any) -> TokenizerInfo:
    """A `tokenizers.Tokenizer`. It names no end of sequence.

    Added tokens are decoded like others, with one exception: a byte-level tokenizer matches them in the text itself
    and not in its byte alphabet, so there they are their content, letter by letter.

    Raises:
        VocabularyError: its decoder does not give every token exact bytes.
    """
    parts = _components(backend)
    to_bytes = token_bytes(parts["decoder"], parts["pre_tokenizer"])
    ids: dict[str, int] = backend.get_vocab(with_added_tokens=True)
    tokens = [b""] * (max(ids.values(), default=-1) + 1)
    for content, token in ids.items():
        tokens[token] = to_bytes(content)
    byte_level = _uses(parts, "ByteLevel")
    added = backend.get_added_tokens_decoder()
    special = {entry.content: token for token, entry in added.items() if entry.special}
    for token, entry in added.items():
        if entry.special:
            tokens[token] = b""
        elif byte_level:
            tokens[token] = _content(backend, entry.content)
    unknown = _unknown_id(backend, ids)
    if unknown is not None:
        tokens[unknown] = b""
    clone = _continuing(backend, parts)
    return TokenizerInfo(
        tokens,
        ContinuationEncoder(clone),
        decoder=_decoder(backend) if parts["decoder"] else None,
        normalize=_normalize(clone, parts),
        special=special,
        added=frozenset(added),
    )


def _content(backend: Any, content: str) -> bytes:
    """Bytes of a byte-level tokenizer's added token, which must not be a token of its model in other letters."""
    data = content.encode()
    if from_byte_level(content) != data and backend.model.token_to_id(content) is not None:
        raise VocabularyError(
            f"the added token {content!r} is also a token of the model, which reads it as {from_byte_level(content)!r}",
            action="remove the added token: its id cannot mean both",
        )
    return data


def _components(backend: Any) -> Json:
    """Normaliser, pre-tokenizer and decoder as JSON."""
    from tokenizers import Tokenizer, models

    shell = Tokenizer(models.BPE())
    _dress(shell, backend)
    if backend.decoder is not None:
        shell.decoder = backend.decoder
    serialised: Json = json.loads(shell.to_str())
    return {name: serialised[name] for name in ("normalizer", "pre_tokenizer", "decoder")}


def _dress(tokenizer: Any, like: Any) -> None:
    """Give a tokenizer the normaliser and pre-tokenizer of another."""
    for name in ("normalizer", "pre_tokenizer"):
        component = getattr(like, name)
        if component is not None:
            setattr(tokenizer, name, component)


def _uses(parts: Json, kind: str) -> bool:
    leaves = [leaf for component in parts.values() for leaf in flatten(component)]
    return any(leaf["type"] == kind for leaf in leaves)


def _unknown_id(backend: Any, ids: dict[str, int]) -> int | None:
    """The id of the unknown token."""
    model = backend.model
    if hasattr(model, "unk_token"):
        return ids.get(model.unk_token)
    unknown: int | None = json.loads(backend.to_str())["model"].get("unk_id")  # Unigram shows it nowhere else
    return unknown


def _continuing(backend: Any, parts: Json) -> Any:
    """A clone that shares the model but puts no space in front of a text, and knows no truncation or padding."""
    from tokenizers import Tokenizer

    edited = parts
    if not any(_uses(parts, kind) for kind in _DROP_SPACES):
        edited = {name: _without_prefix(component) for name, component in parts.items()}
    empty_model = {"type": "BPE", "vocab": {}, "merges": []}
    donor = Tokenizer.from_str(
        json.dumps(
            {"version": "1.0", "added_tokens": [], "post_processor": None, "model": empty_model} | edited
        )
    )
    clone = Tokenizer(backend.model)
    _dress(clone, donor)
    # Added in the order of their ids, the tokens keep their ids.
    clone.add_tokens([entry for _, entry in sorted(backend.get_added_tokens_decoder().items())])
    clone.encode_special_tokens = True
    return clone


def _without_prefix(component: Json | None) -> Json | None:
    """The component without the space that it puts in front of a whole text."""
    if component is None:
        return None
    if component["type"] == "Prepend":
        return {"type": "Sequence", "normalizers": []}
    changed = dict(component)
    for key in ("normalizers", "pretokenizers"):
        if key in component:
            changed[key] = [_without_prefix(child) for child in component[key]]
    if component["type"] == "Metaspace":
        changed["prepend_scheme"] = "never"
        changed.pop("add_prefix_space", None)
    elif component["type"] == "ByteLevel" and "add_prefix_space" in component:
        changed["add_prefix_space"] = False
    return changed


def _decoder(backend: Any) -> Callable[[list[int]], str]:
    return lambda ids: str(backend.decode(ids, skip_special_tokens=False))


def _normalize(tokenizer: Any, parts: Json) -> Callable[[str], set[bytes]]:
    """What the text becomes before it is split, undone as far as the decoder undoes it."""
    drops_spaces = any(_uses(parts, kind) for kind in _DROP_SPACES)

    def normalize(text: str) -> set[bytes]:
        normal = text if tokenizer.normalizer is None else tokenizer.normalizer.normalize_str(text)
        spaced = normal.replace(SPACE_MARK, " ")
        forms = {normal.encode(), spaced.encode(), text.replace(SPACE_MARK, " ").encode()}
        if any(leaf["type"] == "ByteLevel" for leaf in flatten(parts["normalizer"])):
            forms.add(from_byte_level(normal))
        if drops_spaces:
            forms.add(" ".join(spaced.split()).encode())
        return forms

    return normalize
