"""What became of one schema with one engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from constrained.bench.jsonschemabench.settings import BUNDLED

OK = "ok"
REFUSED = "refused"
COMPILE_TIMEOUT = "compile_timeout"
GENERATION_TIMEOUT = "generation_timeout"
TRUNCATED = "truncated"
INVALID = "invalid"
CRASH = "crash"

STATUSES = {
    OK: "the text is complete, perhaps closed in time, and valid",
    REFUSED: "the engine refused the schema by an error of its own",
    COMPILE_TIMEOUT: "the schema was not compiled in time",
    GENERATION_TIMEOUT: "the text was not finished in time",
    TRUNCATED: "the text was not complete within the limit of tokens",
    INVALID: "the text does not satisfy the schema",
    CRASH: "the engine raised an error after it had compiled the schema, or its process died",
}
"""Everything that can become of a schema."""


@dataclass(slots=True)
class SchemaBenchRow:
    """One schema with one engine.

    Attributes:
        engine: its name.
        model: its name.
        id: the schema's name in the data.
        split: the part of the data it belongs to.
        status: a key of `STATUSES`.
        phase: ``compile``, ``generate`` or ``instances``: where it ended, or the last one there was.
        message: message of the engine or of the validator.
        compile_seconds: from the schema to what the engine calls compiled.
        first_seconds: from the prompt to the first token.
        token_seconds: per token after the first.
        mask_seconds: processor time per token, of masks and of what follows a token; None where they are not timed apart.
        again_seconds: the same when the engine reads the text once more, as in a second request.
        tokens: of the text.
        text: what was generated.
        cut: whether the limit of tokens cut the text: it had not ended there, or was closed in time.
        valid: whether it satisfies the schema, in its own draft, formats included; None without a text.
        valid_2020: the same by the rules of the benchmark's scripts, see `judging`.
        instances: how many the data has.
        exact: whether the engine agrees with every recorded instance: takes the valid ones, refuses the others; None
            where it has none, or the engine did not come so far.
        lax: whether it takes an invalid one.
    """

    engine: str
    id: str
    split: str
    status: str = OK
    phase: str = "compile"
    message: str = ""
    compile_seconds: float | None = None
    first_seconds: float | None = None
    token_seconds: float | None = None
    tokens: int = 0
    text: str | None = None
    cut: bool = False
    valid: bool | None = None
    valid_2020: bool | None = None
    instances: int = 0
    exact: bool | None = None
    lax: bool | None = None
    mask_seconds: float | None = None
    again_seconds: float | None = None
    model: str = BUNDLED

    @property
    def declared(self) -> bool:
        """Whether the engine took the schema."""
        return self.status not in (REFUSED, COMPILE_TIMEOUT) and self.phase != "compile"

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self)
