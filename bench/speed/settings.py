"""What `bench speed` measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained.bench.harness.settings import names
from constrained.errors import InvalidArgument
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True, slots=True)
class SpeedSettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range.
    """

    model: str = option("bundled", "bundled, or what transformers loads.", metavar="NAME")
    random: str | None = option(
        None,
        "1m, 60m, 250m, 1b or 8b: random weights with recorded outputs, instead of a model.",
        metavar="SHAPE",
    )
    vocabulary: str | None = option(
        None, "Vocabulary of random weights: bundled, tekken, or a Hugging Face tokenizer.", metavar="NAME"
    )
    device: str | None = option(None, "cpu or cuda [default: a GPU, if there is one].", metavar="NAME")
    dtype: str | None = option(None, "Of the weights: float32, bfloat16, ...", metavar="NAME")
    sample: int = option(30, "Held-out extractions.", least=1)
    seed: int = option(0, "Same seed, same sample.", least=0)
    max_tokens: int = option(256, "Token limit.", least=16)
    threads: int = option(1, "Threads of torch and of the engines.", least=1)
    exact: bool = option(False, "Also measure the sampler cars.", flag="--exact")
    only: tuple[str, ...] = names(
        (), "Decoding methods to measure, beside the first one [default: all].", between=";"
    )
    engine: str = option("auto", "Of this library's passes: auto, eager, static or compiled.", metavar="NAME")
    data: Path | None = option(
        None,
        "Public schemas, texts and tool calls of a folder, in turn, instead of held-out extractions.",
        metavar="FOLDER",
    )
    temperature: float = option(0.0, "Of all decoding methods; 0: greedy.", least=0, metavar="T")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.exact and self.random is not None:
            raise InvalidArgument(
                "cars cannot be measured on a recorded text: it begins texts anew",
                action="leave out one of --random and --exact",
            )
