"""Membership of a text in a regular language, of bytes and of all kinds, by the simple judge."""

from __future__ import annotations

from functools import lru_cache

from constrained.grammars import ir
from tests.support.derivatives import Residuals


def matches(regex: ir.Regex, text: str | bytes) -> bool:
    """Whether the whole text is in the language."""
    residuals, residual = _read(regex)
    for byte in text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text:
        residual = residuals.derive(residual, byte)
    return residuals.nullable(residual)


@lru_cache(maxsize=64)
def _read(regex: ir.Regex) -> tuple[Residuals, int]:
    residuals = Residuals()
    return residuals, residuals.from_regex(regex)
