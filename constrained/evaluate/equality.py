"""`bench equality`: texts with and without draft tokens, in the same batches: equal, token for token.

By the rule of `docs/speculation.md` they are equal but for float rounding: a tree is read by other sums than a single token, so
two tokens whose keys nearly tie may change places. Such a text is counted as different.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from constrained.constraint import json_schema
from constrained.decoding import Generator, Output, Speculation
from constrained.errors import DoesNotFit
from constrained.evaluate.harness.report import markdown_page
from constrained.evaluate.harness.results import RunRecord, make_folder
from constrained.evaluate.harness.settings import Progress, check_minimum, no_progress
from constrained.evaluate.harness.tables import ReportTable
from constrained.models import LanguageModel, load
from constrained.prompting import schema_text as prompts

TEMPERATURES = (0.0, 1.0)
NODES = (8, 32)
"""Of batches in turn: each of the first with each of the second."""


@dataclass(frozen=True, slots=True)
class EqualitySettings:
    """What is compared.

    Attributes:
        model: ``bundled``, or what transformers loads.
        device, dtype: of the model.
        texts: how many.
        batch: texts side by side, under one schema.
        max_tokens: of a text.
        seed: of prompts and draws.

    Raises:
        InvalidArgument: a value is out of range.
    """

    model: str = "bundled"
    device: str | None = None
    dtype: str | None = None
    texts: int = 1000
    batch: int = 16
    max_tokens: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        check_minimum(self, texts=1, batch=1, max_tokens=1, seed=0)


@dataclass(slots=True)
class EqualityCounts:
    """What was found at one temperature.

    Attributes:
        texts: compared.
        tokens: of the texts without draft tokens.
        drafted, accepted: draft tokens that were verified, and accepted.
        different: texts that are not equal.
        whole: texts with draft tokens that are whole.
        json: of the whole ones, those that are JSON.
    """

    texts: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    different: int = 0
    whole: int = 0
    json: int = 0

    def add(self, plain: Output, drafted: Output) -> None:
        """Counts a pair of texts."""
        self.texts += 1
        self.tokens += len(plain.tokens)
        self.drafted += drafted.stats.drafted
        self.accepted += drafted.stats.accepted
        self.different += drafted.tokens != plain.tokens
        if drafted.cut is None:
            self.whole += 1
            self.json += _is_json(drafted.text)


def run(settings: EqualitySettings, progress: Progress = no_progress) -> dict[float, EqualityCounts]:
    """Writes all texts twice; the counts by temperature."""
    model = load(settings.model, device=settings.device, dtype=settings.dtype)
    found = {temperature: EqualityCounts() for temperature in TEMPERATURES}
    for number, (schema, asked) in enumerate(_batches(model, settings)):
        done = sum(one.texts for one in found.values())
        progress("comparing", done, settings.texts)
        if done >= settings.texts:
            break
        temperature, nodes = TEMPERATURES[number % 2], NODES[number // 2 % 2]
        try:
            plain, drafted = (
                _written(
                    model, schema, asked, drafts,
                    max_tokens=settings.max_tokens, temperature=temperature, seed=settings.seed,
                )
                for drafts in (None, Speculation(nodes=nodes, adapts=False))
            )  # fmt: skip
        except DoesNotFit:  # a schema whose shortest text is too long
            continue
        for pair in zip(plain, drafted, strict=True):
            found[temperature].add(*pair)
    return found


def _batches(model: LanguageModel, settings: EqualitySettings) -> Iterator[tuple[Any, list[list[int]]]]:
    """A schema, and prompts that ask for a value of it out of short texts."""
    from constrained.models.tiny.training.score import heldout_examples

    rest = iter(heldout_examples(2 * settings.texts, settings.seed))  # some schemas are left out
    while examples := list(islice(rest, settings.batch)):
        schema = examples[0].schema
        yield (
            schema,
            [model.encode(prompts.extraction_messages(example.text, schema)) for example in examples],
        )


def _written(
    model: LanguageModel, schema: Any, asked: list[list[int]], drafts: Speculation | None, **options: Any
) -> list[Output]:
    return Generator(model, json_schema(schema), speculation=drafts).batch(asked, **options)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def table(found: dict[float, EqualityCounts]) -> ReportTable:
    """A line for each temperature."""
    heads = ("texts", "tokens", "drafted", "accepted", "different", "whole", "of these JSON")
    lines = [
        (
            f"temperature {temperature:g}",
            [
                *(str(count) for count in (one.texts, one.tokens, one.drafted, one.accepted, one.different)),
                str(one.whole),
                str(one.json),
            ],
        )
        for temperature, one in found.items()
    ]
    return ReportTable("texts with draft tokens beside the same without", heads, lines)


def write(found: dict[float, EqualityCounts], folder: Path, record: RunRecord) -> None:
    """Writes results and a page into a folder.

    Raises:
        InvalidArgument: the folder cannot be written.
    """
    make_folder(folder)
    results = {f"{temperature:g}": asdict(one) for temperature, one in found.items()}
    text = json.dumps(record.facts() | {"by_temperature": results}, indent=2)
    (folder / "equality.json").write_text(text + "\n", encoding="utf-8")
    page = markdown_page("Equal texts", [f"`{record.command}`"], [table(found)])
    (folder / "equality.md").write_text(page, encoding="utf-8")
