"""Vocabularies with odd tokens."""

from __future__ import annotations

from constrained.bench.hostile.case import byte_vocabulary, schema

_ANY = {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 4}
schema("tokens without bytes", _ANY, accepted=(["a"],), vocabulary=byte_vocabulary(b"", b"", b"ab", b""))
schema("the same token ten times", _ANY, accepted=(["a"],), vocabulary=byte_vocabulary(*[b'["a'] * 10))
schema(
    "tokens that end inside a character",
    _ANY,
    accepted=(["€"],),
    vocabulary=byte_vocabulary(b'"\xe2', b"\x82", b'\xac"', b"\xf0\x9f", b"\x98\x80\xe2\x82"),
)
schema(
    "tokens that are no UTF-8",
    _ANY,
    accepted=(["€"],),
    vocabulary=byte_vocabulary(b"\xff\xfe", b"a\xc0\x80", b"\xed\xa0\x80"),
)
schema(
    "a token of 1,000 bytes",
    _ANY,
    accepted=(["aaaa"],),
    vocabulary=byte_vocabulary(b"[" + b'"aaaa",' * 142, b"a" * 1_000),
)
schema(
    "a token of 100,000 bytes",
    {"type": "string"},
    accepted=("aaaa",),
    vocabulary=byte_vocabulary(b"a" * 100_000, b'"' + b"a" * 70_000),
)
schema("many ends", _ANY, accepted=([],), vocabulary=byte_vocabulary(b"[]", ends=51))
