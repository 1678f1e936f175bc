"""The options of `extract`: what the model is told, and runs over files of documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from constrained.cli.exit_status import BadInput


class BackendOption(str, Enum):
    """Values of `--backend`."""

    local = "local"
    ray = "ray"


class EngineOption(str, Enum):
    """Values of `--engine`."""

    builtin = "builtin"
    vllm = "vllm"


@dataclass(frozen=True)
class FilesOptions:
    """Options of a run over files of documents; they need `--out`."""

    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Read files of documents, and append results to this file: .jsonl or .parquet; -: standard output.",
        ),
    ] = None
    text_column: Annotated[
        str | None, typer.Option("--text-column", metavar="NAME", help="Column of the text [default: text].")
    ] = None
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id-column", metavar="NAME", help="Column of the id [default: id, else file and line]."
        ),
    ] = None
    errors: Annotated[
        Path | None,
        typer.Option(
            "--errors", metavar="FILE", help="JSON Lines for documents that fail [default: rows of --out]."
        ),
    ] = None
    details: Annotated[
        str | None,
        typer.Option(
            "--details",
            metavar="NAMES",
            help="Further columns: spans (where each value stands), fields (its probability), or spans,fields.",
        ),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with --out: documents that have a result are left out.")
    ] = False
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="With --resume: documents that failed are read again.")
    ] = False
    batch_size: Annotated[
        int, typer.Option("--batch-size", metavar="N", min=1, help="Documents in one forward pass.")
    ] = 32
    backend: Annotated[
        BackendOption, typer.Option("--backend", help="This process, or actors of a Ray cluster.")
    ] = BackendOption.local
    actors: Annotated[
        int | None,
        typer.Option("--actors", metavar="N", min=1, help="Ray: processes that hold the model [default: 1]."),
    ] = None
    cpus_per_actor: Annotated[
        float | None,
        typer.Option("--cpus-per-actor", metavar="N", min=0, help="Ray: cores for each [default: 1]."),
    ] = None
    gpus_per_actor: Annotated[
        float | None,
        typer.Option("--gpus-per-actor", metavar="N", min=0, help="Ray: GPUs for each [default: 0]."),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT|auto",
            help="Ray: the cluster [default: RAY_ADDRESS, else one of this machine alone].",
        ),
    ] = None

    engine: Annotated[
        EngineOption, typer.Option("--engine", help="What generates: this library's loop, or vLLM.")
    ] = EngineOption.builtin
    engine_options: Annotated[
        str | None,
        typer.Option(
            "--engine-options",
            metavar="JSON",
            help='vLLM: arguments of vllm.LLM, as {"max_model_len": 8192}.',
        ),
    ] = None

    def engine_arguments(self) -> dict[str, Any]:
        """The arguments of the engine.

        Raises:
            BadInput: they are no JSON object.
        """
        try:
            arguments = json.loads(self.engine_options or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise BadInput("--engine-options is not a JSON object", action='write {"max_model_len": 8192}')
        return arguments

    def detail_names(self) -> tuple[str, ...]:
        """The further columns of results.

        Raises:
            InvalidArgument: there is no such column.
        """
        from constrained.extraction.files.results import check_details

        return check_details([] if self.details is None else self.details.replace(" ", "").split(","))

    def check_no_files(self) -> None:
        """For the extraction of one text.

        Raises:
            BadInput: an option is given that is about files of documents.
        """
        for option in fields(self):
            if getattr(self, option.name) != option.default:
                name = option.name.replace("_", "-")
                raise BadInput(
                    f"--{name} needs --out", action="name files of documents, and --out results.jsonl"
                )

    def check(self) -> None:
        """For a run.

        Raises:
            BadInput: options contradict each other.
        """
        self.detail_names()
        if self.backend is BackendOption.local:
            for name in ("actors", "cpus_per_actor", "gpus_per_actor", "address"):
                if getattr(self, name) is not None:
                    raise BadInput(f"--{name.replace('_', '-')} is an option of --backend ray")
        if self.out == "-" and (self.resume or self.errors):
            raise BadInput("--resume and --errors need a file for --out", action="write --out results.jsonl")
        if self.retry_errors and not self.resume:
            raise BadInput("--retry-errors needs --resume")


@dataclass(frozen=True)
class ExtractionOptions:
    """What the model is told besides the type and the document, and how often it is asked."""

    instructions: Annotated[
        str | None, typer.Option("--instructions", metavar="TEXT", help="What to look for, in the prompt.")
    ] = None
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="TEXT", help="Facts about the documents, in the prompt."),
    ] = None
    examples: Annotated[
        Path | None,
        typer.Option(
            "--examples",
            metavar="FILE",
            help='JSON Lines of {"text": "...", "value": ...}: examples for the prompt, checked against the type.',
        ),
    ] = None
    retries: Annotated[
        int | None,
        typer.Option(
            "--retries", metavar="N", min=0, help="Try again when the type's own validation refuses a value."
        ),
    ] = None
    require_grounding: Annotated[
        bool,
        typer.Option("--require-grounding", help="Only values that stand in the document."),
    ] = False
    split: Annotated[
        bool,
        typer.Option("--split", help="Read documents that do not fit into the model's context in parts."),
    ] = False
    chunk_tokens: Annotated[
        int | None,
        typer.Option("--chunk-tokens", metavar="N", min=1, help="With --split: tokens of a part, at most."),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `constrained.Extractor`, without those at their defaults.

        Raises:
            BadInput: the file of examples cannot be read, or options contradict each other.
        """
        if self.chunk_tokens is not None and not self.split:
            raise BadInput("--chunk-tokens needs --split")
        values = {
            "instructions": self.instructions,
            "context": self.context,
            "examples": None if self.examples is None else read_examples(self.examples),
            "retries": self.retries,
            "require_grounding": self.require_grounding or None,
            "long": "split" if self.split else None,
            "chunk_tokens": self.chunk_tokens,
        }
        return {name: value for name, value in values.items() if value is not None}


def read_examples(path: Path) -> list[tuple[str, Any]]:
    """Examples of a file: lines with a text and its value.

    Raises:
        BadInput: the file cannot be read, or a line is not an object with ``text`` and ``value``.
    """
    from constrained.cli.inputs import read_file

    examples = []
    for number, line in enumerate(read_file(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            examples.append((row["text"], row["value"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise BadInput(
                f"{path}, line {number}: not an example",
                action='write {"text": "...", "value": ...} in each line',
            ) from None
    return examples
