"""What `bench values` measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained.bench.harness.settings import VALUES_HELP, check_distinct, check_names, names
from constrained.options import check_ranges, documented, option

DOCUMENTS, LONG_DOCUMENTS, ORDERS, FORMS = "documents", "long-documents", "orders", "forms"
OWN = (DOCUMENTS, LONG_DOCUMENTS, ORDERS, FORMS)
ROWS = ("e2e", "snips", "banking77", "bfcl-simple_python", "bfcl-multiple", "bfcl-live_simple", "bfcl-parallel")  # fmt: skip
LISTS = {"e2e-lists": ("e2e", " "), "snips-lists": ("snips", "\n")}
"""Tasks whose texts are three of another one, with this between them, and are read into a list of records."""
STRICT = {"e2e-strict": "e2e", "snips-strict": "snips"}
"""Tasks that are another one under schemas as strict outputs have them: all members are required, and may be null."""
PUBLIC = (*ROWS, *LISTS, *STRICT)
TASKS = (*OWN, *PUBLIC)

VALUE_ENGINES = ("constrained", "xgrammar", "llguidance", "outlines", "unconstrained")
IN_VLLM = "vllm"
"""This library's extraction by an engine of vLLM; tools are not called there."""


@documented
@dataclass(frozen=True, slots=True)
class ValueSettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range, or a task or an engine is unknown.
    """

    data: Path | None = option(None, VALUES_HELP, metavar="FILE")
    model: str = option("bundled", "A name or folder of a chat model.", flag="--model -m", metavar="NAME")
    tasks: tuple[str, ...] = names(
        TASKS, "documents, long-documents, orders and forms are the project's own, the others public."
    )
    engines: tuple[str, ...] = names(VALUE_ENGINES, "In this order; vllm: this library in vLLM.")
    limit: int = option(20, "Items to draw from each task; 0: all.", least=0)
    seed: int = option(0, "Of the items that are drawn, and of answers at a temperature.", least=0)
    max_tokens: int = option(192, "Token limit.", least=1)
    temperature: float = option(0.0, "Of all engines; 0: greedy.", least=0, metavar="T")
    threads: int = option(1, "Threads of torch.", least=1)

    def __post_init__(self) -> None:
        check_distinct(self.tasks, "task")
        check_distinct(self.engines, "engine")
        check_names(self.tasks, TASKS)
        check_names(self.engines, (*VALUE_ENGINES, IN_VLLM))
        check_ranges(self)
