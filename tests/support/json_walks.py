"""Random texts of a JSON Schema's automaton, and whether a judge that computes with floats can tell them apart."""

from __future__ import annotations

import json
import math
import random
import re
import sys
from typing import Any

import numpy as np

from constrained.automaton import Automaton

DIGITS = 15
"""Digits that a number may have so that its float differs from its neighbours: the judge computes with floats."""
_SMALLEST = sys.float_info.min
"""The least number above zero whose float has all digits."""


def walk(automaton: Automaton, rng: random.Random, free: int) -> str:
    """A random text; fails where nothing is allowed.

    Args:
        automaton: over a vocabulary of single bytes and an end.
        rng: draws each byte uniformly from the allowed ones that leave enough of a budget.
        free: tokens that the walk may spend before it goes straight to the end.
    """
    state, text, row = automaton.start, b"", automaton.new_mask()
    tokens = automaton.vocabulary.tokens
    budget = automaton.shortest_completion(state) + free
    while True:
        automaton.fill_mask_within(state, row, budget)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert len(allowed), f"nothing may follow {text!r}"
        token = int(rng.choice(allowed))
        if not tokens[token]:
            return text.decode()
        state, text, budget = automaton.next(state, token), text + tokens[token], budget - 1


def is_distinct(schema: Any, text: str) -> bool:
    """Whether the judge can tell: floats hold the numbers, and `re` reads patterns as ECMA-262 does."""
    held: list[bool] = []

    def read(number: str) -> None:
        digits = number.lower().partition("e")[0].strip("-").replace(".", "").lstrip("0")
        held.append(not digits or (len(digits) <= DIGITS and _SMALLEST <= abs(float(number)) < math.inf))

    written = json.dumps(json.loads(text, parse_int=read, parse_float=read))  # all in ASCII
    classes = re.search(r"\\[wdsb]", json.dumps(schema), re.IGNORECASE)
    strange = re.search(r"\\u" if classes else r"\\[rn]|\\u202[89]", written)
    return not strange and all(held)
