"""What `bench decisions` measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained.bench.harness.settings import VALUES_HELP, check_distinct, check_names, names
from constrained.options import check_ranges, documented, option

BANKING, INTENTS, TOOLS, FIELDS = "banking77", "snips-intents", "bfcl-multiple", "e2e-closed"
LABELS = "label-sets"
PUBLIC = (BANKING, INTENTS, TOOLS, FIELDS)
TASKS = (*PUBLIC, LABELS)

SUBTRACT, NONE = "decide", "decide-none"
"""`decide` with its defaults, and with the model's own distribution."""
MASKS = "masks"
"""The text that `Generator` writes by masks, one likely token after the other: an answer without probabilities."""
LETTERS = "letters"
"""The options stand in the prompt behind letters, and the answer is one token."""
ONE_BY_ONE = "one-by-one"
"""A pass for each option behind a prompt that is read once: what `decide` gets from one pass over a tree."""
WAYS = (SUBTRACT, NONE, MASKS, LETTERS, ONE_BY_ONE)


@documented
@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range, or a task or a way is unknown.
    """

    data: Path | None = option(None, VALUES_HELP, metavar="FILE")
    model: str = option("bundled", "A name or folder of a chat model.", flag="--model -m", metavar="NAME")
    tasks: tuple[str, ...] = names(PUBLIC, "Also label-sets.")
    ways: tuple[str, ...] = names(WAYS, "In this order.")
    limit: int = option(25, "Items to draw from each task; 0: all.", least=0)
    seed: int = option(0, "Same seed, same sample.", least=0)
    threads: int = option(1, "Threads of torch.", least=1)

    def __post_init__(self) -> None:
        check_distinct(self.tasks, "task")
        check_distinct(self.ways, "way")
        check_names(self.tasks, TASKS)
        check_names(self.ways, WAYS)
        check_ranges(self)
