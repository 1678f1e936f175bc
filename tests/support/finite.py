"""A plain automaton for tests: the language is a finite set of texts, everything is computed from that list."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from constrained.automaton import Automaton
from constrained.vocabulary import Vocabulary


class FiniteConstraint:
    """The constraint of a `FiniteAutomaton`: reads its texts as JSON, or leaves them as they are."""

    def __init__(self, parse: Callable[[str], Any] = str, schema: Any = None) -> None:
        self.parse = parse
        self.schema = schema
        self.is_json = parse is json.loads

    def render(self) -> str:
        return "one of a few texts"


class FiniteAutomaton(Automaton):
    """The automaton of a finite language, by looking at its texts one by one.

    States: 0 is dead, 1 follows an end of sequence, others are prefixes of texts.
    """

    start = 2

    def __init__(
        self, texts: Iterable[bytes | str], vocabulary: Vocabulary, constraint: FiniteConstraint | None = None
    ) -> None:
        self.texts = {text.encode() if isinstance(text, str) else text for text in texts}
        self.vocabulary = vocabulary
        self.constraint = constraint or FiniteConstraint()
        self.prefixes = sorted({text[:n] for text in self.texts for n in range(len(text) + 1)})
        self.state_of = {prefix: i + 2 for i, prefix in enumerate(self.prefixes)}
        self.moves = {
            prefix: {
                token: prefix + piece
                for token, piece in enumerate(vocabulary.tokens)
                if piece and prefix + piece in self.state_of
            }
            for prefix in self.prefixes
        }
        self.needs = {prefix: 0 if prefix in self.texts else 10**9 for prefix in self.prefixes}
        for prefix in sorted(self.prefixes, key=len, reverse=True):
            after = [self.needs[target] + 1 for target in self.moves[prefix].values()]
            self.needs[prefix] = min([self.needs[prefix], *after])

    def next(self, state: int, token: int) -> int:
        if state < 2:
            return 1 if state == 1 and token in self.vocabulary.eos_ids else 0
        prefix = self.prefixes[state - 2]
        if token in self.vocabulary.eos_ids:
            return int(prefix in self.texts)
        return self.state_of.get(self.moves[prefix].get(token, b"\0dead"), 0)

    def accepts(self, state: int) -> bool:
        return state == 1 or (state > 1 and self.prefixes[state - 2] in self.texts)

    def forced(self, state: int) -> bytes:
        if state < 2:
            return b""
        prefix = self.prefixes[state - 2]
        rests = [text[len(prefix) :] for text in self.texts if text.startswith(prefix)]
        low, high = min(rests), max(rests)  # what these two have in common, all in between have
        same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
        return low[:same]

    def shortest_completion(self, state: int) -> int:
        return 0 if state == 1 else self.needs[self.prefixes[state - 2]]


def json_automaton(values: Iterable[Any], vocabulary: Vocabulary) -> FiniteAutomaton:
    """The automaton of these JSON values, compactly written."""
    texts = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values]
    return FiniteAutomaton(texts, vocabulary, FiniteConstraint(json.loads, {"enum": list(values)}))


def byte_vocabulary(*pieces: str | bytes) -> Vocabulary:
    """All single bytes, then these pieces, then an end of sequence."""
    more = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    tokens = [bytes([b]) for b in range(256)] + more
    return Vocabulary.from_bytes([*tokens, b""], [len(tokens)])
