"""Which texts repeat themselves."""

from __future__ import annotations

from typing import Any

import pytest

from constrained.bench.harness.repetition import repeats


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ('["Rome", "Rome", "Rome", "Rome", "Rome", "Rome", "Rome", "Ro', None, True),  # cut by the limit
        ('{"a": [1, 1, 1, 1, 1, 1]}', None, True),
        ('{"a": [1, 1, 1, 1, 1]}', None, False),
        ("```json\n[2, 2, 2, 2, 2, 2]\n```", [2] * 6, True),  # read from a text that is no JSON
        ("```json\n[2, 2, 2, 2, 2, 2]\n```", None, False),
        ('{"a": [{"b": [true, true, true, true, true, true]}]}', None, True),
        ("as well as " * 6, None, True),
        ("as well as " * 5, None, False),
        ("{" + "\n" * 40, None, True),
        ("{\n" + " " * 60 + '"a": 1}', None, False),  # indentation
        ("0.33333333333333333333", None, False),
        ('"00000000000000000000000000000000"', None, False),  # a digest
        ("", None, False),
    ],
)
def test_repetition(text: str, value: Any, expected: bool) -> None:
    assert repeats(text, value) is expected
