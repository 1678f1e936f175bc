"""The decoder of a `tokenizers` tokenizer, read as: token string -> the bytes it adds in the middle of a text.

The serialised decoder is a chain of steps. Each is turned into a function of one token, or refused when what a token
adds depends on its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from constrained.errors import VocabularyError

Json = dict[str, Any]
Step = Callable[[str], str | bytes]
"""Text for the next step, or bytes, which are final."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 characters stand for themselves, the other bytes for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(0x100 + i): byte for i, byte in enumerate(others)}


BYTE_ALPHABET = _byte_alphabet()
_OUTSIDE = 0xFFFF  # has no place in Latin-1, so encoding stops there
_TO_LATIN_1 = dict.fromkeys(range(0x100), _OUTSIDE) | {
    ord(char): byte for char, byte in BYTE_ALPHABET.items()
}


def from_byte_level(token: str) -> bytes:
    """Bytes that a token spells in GPT-2's alphabet; one with any other character stands for itself."""
    try:
        return token.translate(_TO_LATIN_1).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def token_bytes(decoder: Json | None, pre_tokenizer: Json | None) -> Callable[[str], bytes]:
    """The function from token string to bytes that is equivalent to a decoder.

    Args:
        decoder: the serialised decoder. Without one, a byte-level or Metaspace pre-tokenizer determines how text
            became tokens.
        pre_tokenizer: the serialised pre-tokenizer.

    Raises:
        VocabularyError: the decoder forgets spaces, looks at neighbouring tokens, or is unknown.
    """
    steps = flatten(decoder)
    if not steps:
        steps = [s for s in flatten(pre_tokenizer) if s["type"] in ("ByteLevel", "Metaspace")]
    if not steps:
        raise _refused("it has no decoder, so what lies between two tokens is not known")
    functions: list[Step] = []
    fused = False  # from here on, the real decoder sees one text
    for step in steps:
        kind = step["type"]
        if kind == "Fuse":
            fused = True
        elif kind == "Strip" and fused:
            pass  # trims the ends of a whole text, never its middle
        elif kind == "Replace" and fused and len(step["pattern"].get("String", "")) > 1:
            raise _refused(
                f"its decoder replaces {step['pattern']['String']!r}, which may lie across two tokens"
            )
        elif kind in _STEPS:
            functions.append(_STEPS[kind](step))
            fused = fused or kind == "ByteLevel"
        else:
            raise _refused(_REASONS.get(kind, f"decoder step {kind} is not known"))
    if functions == [from_byte_level]:
        return from_byte_level  # by far the most common, and the largest vocabularies
    return lambda token: _run(functions, token)


def _run(functions: list[Step], token: str) -> bytes:
    for function in functions:
        result = function(token)
        if isinstance(result, bytes):
            return result
        token = result
    return token.encode()


def flatten(component: Json | None) -> list[Json]:
    """The leaves of a serialised component, in the order they are applied."""
    if component is None:
        return []
    for children in ("normalizers", "pretokenizers", "decoders"):
        if component["type"] == "Sequence" and children in component:
            return [leaf for child in component[children] for leaf in flatten(child)]
    return [component]


def _refused(reason: str) -> VocabularyError:
    return VocabularyError(
        f"the tokens of this tokenizer have no exact bytes: {reason}",
        action="use a model with a byte-level or SentencePiece tokenizer, or list the bytes with Vocabulary.from_bytes",
    )


def _byte_level(_: Json) -> Step:
    return from_byte_level


def _byte_fallback(_: Json) -> Step:
    def decode(token: str) -> str | bytes:
        match = _BYTE_TOKEN.fullmatch(token)
        if match is None:
            return token
        byte = int(match[1], 16)
        return chr(byte) if byte < 0x80 else bytes([byte])  # a whole character goes through the later steps

    return decode


def _metaspace(step: Json) -> Step:
    mark = step["replacement"]
    return lambda token: token.replace(mark, " ")


def _replace(step: Json) -> Step:
    pattern, content = step["pattern"].get("String"), step["content"]
    if pattern is None:
        raise _refused(f"its decoder replaces the regular expression {step['pattern'].get('Regex')!r}")
    return lambda token: token.replace(pattern, content)


def _strip(step: Json) -> Step:
    char, start, stop = re.escape(step["content"]), step["start"], step["stop"]
    ends = re.compile(f"^{char}{{,{start}}}|{char}{{,{stop}}}$")
    return lambda token: ends.sub("", token)


_STEPS: dict[str, Callable[[Json], Step]] = {
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Strip": _strip,
}

_REASONS = {
    "WordPiece": "WordPiece drops spaces and inserts them by rules when it decodes",
    "BPEDecoder": "what the end-of-word suffix stands for depends on the next token",
    "CTC": "CTC drops repeated tokens",
}
