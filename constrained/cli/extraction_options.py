"""The options of `extract` and `decide`: what the model is told, and runs over files of documents."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from constrained.cli.exit_status import BadInput
from constrained.cli.options import FIRST
from constrained.options import option

_CLUSTER = "Cluster and engine"


@dataclass(frozen=True)
class ResultOptions:
    """Where documents are read from, and results go; they need `--out`."""

    panel: ClassVar = "Files of documents (with --out)"
    out: str | None = option(
        None,
        "Read files of documents, and append results to this file: .jsonl or .parquet; -: standard output.",
        flag="--out -o",
        metavar="FILE",
        panel=FIRST,
    )
    text_column: str | None = option(None, "Column of the text [default: text].", metavar="NAME")
    id_column: str | None = option(
        None, "Column of the id [default: id, else file and line].", metavar="NAME"
    )
    errors: Path | None = option(
        None, "JSON Lines for documents that fail [default: rows of --out].", metavar="FILE"
    )
    resume: bool = option(False, "Go on with --out: documents that have a result are left out.")
    retry_errors: bool = option(False, "With --resume: documents that failed are read again.")

    def read_one_text(self, texts: Sequence[str], file: Path | None, *, beside_images: bool = False) -> str:
        """The text of a command without `--out`.

        Args:
            texts: arguments of the command.
            file: whose text is read.
            beside_images: there need not be a text: standard input is read where it is named.

        Raises:
            BadInput: an option is given that is about files of documents; there are several texts, or the name of a file,
                which would be read as the text; as `constrained.cli.inputs.read_text`.
        """
        from constrained.cli.inputs import read_text

        for one in fields(self):
            if getattr(self, one.name) != one.default:
                name = one.name.replace("_", "-")
                raise BadInput(
                    f"--{name} needs --out", action="name files of documents, and --out results.jsonl"
                )
        if len(texts) > 1:
            raise BadInput(
                f"{len(texts)} texts were given",
                action="for files of documents, say where results go: --out results.jsonl",
            )
        if texts and _is_file(texts[0]):
            raise BadInput(
                f"{texts[0]!r} is the name of a file, and TEXT is the text itself",
                action=f"--file {texts[0]} reads its text; --out results.jsonl reads its documents",
            )
        if beside_images and not texts and file is None:
            return ""
        return read_text(texts[0] if texts else None, file, what="text")

    @staticmethod
    def check_names(names: Sequence[str], file: Path | None) -> None:
        """Checks the arguments of a command with `--out`.

        Raises:
            BadInput: these are no names of files of documents.
        """
        if file is not None:
            raise BadInput(
                "--file is for one text", action="with --out, name files of documents without --file"
            )
        if not names:
            raise BadInput(
                "no files were given", action="name files of documents; - is standard input, as JSON Lines"
            )

    def check(self) -> None:
        """For a run.

        Raises:
            BadInput: options contradict each other.
        """
        if self.out == "-" and (self.resume or self.errors):
            raise BadInput("--resume and --errors need a file for --out", action="write --out results.jsonl")
        if self.retry_errors and not self.resume:
            raise BadInput("--retry-errors needs --resume")


@dataclass(frozen=True)
class FilesOptions(ResultOptions):
    """Options of an extraction from files of documents; they need `--out`."""

    details: str | None = option(
        None,
        "Further columns, such as spans,fields: spans (where each value stands), fields (its probability), partial (the "
        "text that the token limit cut).",
        metavar="NAMES",
    )
    batch_size: int = option(32, "Documents in one forward pass.", least=1)
    backend: Literal["local", "ray"] = option(
        "local", "This process, or actors of a Ray cluster.", panel=_CLUSTER
    )
    actors: int | None = option(
        None, "Ray: processes that hold the model [default: 1].", least=1, panel=_CLUSTER
    )
    cpus_per_actor: float | None = option(
        None, "Ray: cores for each [default: 1].", metavar="N", least=0, panel=_CLUSTER
    )
    gpus_per_actor: float | None = option(
        None, "Ray: GPUs for each [default: 0].", metavar="N", least=0, panel=_CLUSTER
    )
    address: str | None = option(
        None,
        "Ray: the cluster [default: RAY_ADDRESS, else one of this machine alone].",
        metavar="HOST:PORT|auto",
        panel=_CLUSTER,
    )
    engine: Literal["builtin", "vllm"] = option(
        "builtin", "What generates: this library's loop, or vLLM.", panel=_CLUSTER
    )
    engine_options: str | None = option(
        None, 'vLLM: arguments of vllm.LLM, as {"max_model_len": 8192}.', metavar="JSON", panel=_CLUSTER
    )

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

    def check(self) -> None:
        """For a run.

        Raises:
            BadInput: options contradict each other.
        """
        self.detail_names()
        if self.backend == "local":
            for name in ("actors", "cpus_per_actor", "gpus_per_actor", "address"):
                if getattr(self, name) is not None:
                    raise BadInput(f"--{name.replace('_', '-')} is an option of --backend ray")
        super().check()


@dataclass(frozen=True)
class ExtractionOptions:
    """What the model is told besides the type and the document, and how often it is asked."""

    panel: ClassVar = "Prompt and reading"
    instructions: str | None = option(None, "What to look for, in the prompt.", metavar="TEXT")
    context: str | None = option(None, "Facts about the documents, in the prompt.", metavar="TEXT")
    system: str | None = option(None, "The system message.", metavar="TEXT")
    prompt: str | None = option(
        None,
        "The prompt: a text with {type} and {text}; or template: the form that the model's chat template has.",
        metavar="TEXT",
    )
    examples: Path | None = option(
        None,
        'JSON Lines of {"text": "...", "value": ...}: examples for the prompt, checked against the type.',
        metavar="FILE",
    )
    retries: int | None = option(None, "Try again when the type's own validation refuses a value.", least=0)
    thinking: int | None = option(None, "The model reasons first, in at most so many tokens.", least=0)
    draft_first: bool = option(
        False, "The model answers first without the constraint, and reads its answer then."
    )
    no_decisions: bool = option(
        False,
        "The model writes closed members, choices, numbers, dates and phrases, which are else decided from the text.",
    )
    lists: Literal["auto", "apart", "whole"] = option(
        "auto",
        "Lists of records: read one by one, written from the whole text, or as suits the model (auto).",
    )
    require_grounding: bool = option(False, "Only values that stand in the document.")
    split: bool = option(False, "Read documents that do not fit into the model's context in parts.")
    chunk_tokens: int | None = option(None, "With --split: tokens of a part, at most.", least=1)

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `constrained.Extractor`, without those at their defaults.

        Raises:
            BadInput: the file of examples cannot be read, or options contradict each other.
        """
        if self.chunk_tokens is not None and not self.split:
            raise BadInput("--chunk-tokens needs --split")
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        values = {one.name: given[one.name] for one in fields(self) if given[one.name] != one.default}
        if self.examples is not None:
            values["examples"] = read_examples(self.examples)
        if values.pop("no_decisions", False):
            values["decisions"] = False
        if values.pop("split", False):
            values["long"] = "split"
        return values


def _is_file(text: str) -> bool:
    try:
        return os.path.isfile(text)
    except ValueError:  # a zero character
        return False


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
