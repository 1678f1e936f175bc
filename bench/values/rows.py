"""An answer as a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ValueRow:
    """The answer of one engine to one item.

    Attributes:
        task, id, engine: what was answered, by whom.
        temperature: 0: greedy.
        text: as far as it came; of this library's calls of tools their JSON.
        value: the answer; None if there is none.
        scores: of its fields, as `constrained.extraction.values.scoring.FieldScore` has them.
        cut: the limit of tokens changed or ended it.
        repeated: a phrase or an item comes more than five times in a row.
        refused: why the engine did not take the schema; empty: it did.
        error: what went wrong afterwards.
        prompt_tokens, tokens: that were read and written.
        passes: of the model.
        seconds: of processor time for the call; what compiling takes is not in it, but for this library's calls of tools.
    """

    task: str
    id: str
    engine: str
    temperature: float = 0.0
    text: str = ""
    value: Any = None
    scores: list[dict[str, Any]] = field(default_factory=list)
    cut: bool = False
    repeated: bool = False
    refused: str = ""
    error: str = ""
    prompt_tokens: int = 0
    tokens: int = 0
    passes: int = 0
    seconds: float = 0.0

    def count(self, verdict: str) -> int:
        """How many fields have a verdict."""
        return sum(score["verdict"] == verdict for score in self.scores)

    @property
    def right(self) -> int:
        """How many fields are right."""
        return self.count("right")

    @property
    def asked(self) -> int:
        """How many fields are asked for: the same number for every engine."""
        return len(self.scores) - self.count("invented")

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong, missing or invented."""
        return self.right == len(self.scores)
