"""The command `extract`: a value from one text, or one from each document of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constrained.cli import inputs
from constrained.cli.exit_status import BadInput, emit
from constrained.cli.extraction_options import ExtractionOptions, FilesOptions
from constrained.cli.options import (
    ConstraintOptions,
    DecodingOptions,
    File,
    JsonOptions,
    OutputOptions,
    with_option_groups,
)

if TYPE_CHECKING:
    from constrained.constraint import Constraint

EXTRACT_EPILOG = """\b
Examples:
  constrained extract "Ada Lovelace, born 1815" --schema '{"type": "object", "properties":
      {"name": {"type": "string"}, "born": {"type": "integer"}}, "required": ["name", "born"]}'
  constrained extract -f letter.txt -t models.py:Letter --model Qwen/Qwen3-0.6B
  constrained extract --image receipt.jpg -t models.py:Receipt --model Qwen/Qwen2.5-VL-3B-Instruct
  echo "The parcel came late and broken." | constrained extract --choice positive,negative
  constrained extract docs.jsonl 'letters/*.txt' table.csv --text-column body --id-column id
      -t models.py:Letter --out results.jsonl --resume

\b
Files of documents (with --out):
  .jsonl .ndjson   an object a line          .csv .tsv   with a header
  .parquet         needs pyarrow             .txt .md    one document each, the path is its id
  -                standard input, as JSON Lines
"""


@with_option_groups
def extract(
    *,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT | FILES...",
            help="The text; - or nothing: standard input. With --out: files of documents, and patterns.",
        ),
    ] = None,
    target: ConstraintOptions,
    file: File = None,
    files: FilesOptions,
    image: Annotated[
        list[Path] | None,
        typer.Option(
            "--image",
            metavar="FILE",
            rich_help_panel=ExtractionOptions.panel,
            help="An image, for a model that reads images; may be repeated. The text may then be left out.",
        ),
    ] = None,
    extraction: ExtractionOptions,
    decoding: DecodingOptions,
    json: JsonOptions,
    output: OutputOptions,
) -> None:
    """Extract a value from a text: JSON on standard output, complete and valid, or nothing and an error.

    The text is an argument, a file (--file), or standard input; images (--image) stand before it, or in its place. The
    value follows a JSON Schema, a Python type (a pydantic model, a dataclass, a TypedDict, ...), a regular expression, or a choice.

    With --out, extract a value from each document of files. Each result is on the disk as soon as it is there, and
    --resume goes on after an interruption.
    """
    constraint = inputs.read_constraint(target, json, for_generation=True)
    if files.out is not None:
        if image:
            raise BadInput("--image is for one text", action="leave it out with --out")
        _extract_files(texts or [], constraint, file, files, extraction, decoding, output)
        return
    text = files.read_one_text(texts or [], file, beside_images=bool(image))
    images = inputs.read_images(image or ())
    from constrained.cli.generation import format_text, run_extraction

    arguments = extraction.arguments()
    for name, option in (("retries", "--retries"), ("long", "--split")) if output.stream else ():
        if name in arguments:
            raise BadInput(f"--stream does not go with {option}")
    found = run_extraction(constraint, text, arguments, decoding, output.verbosity, images)
    emit(format_text(found.text, constraint, output.indent))


def _extract_files(
    names: list[str],
    constraint: Constraint,
    file: Path | None,
    files: FilesOptions,
    extraction: ExtractionOptions,
    decoding: DecodingOptions,
    output: OutputOptions,
) -> None:
    files.check_names(names, file)
    if output.indent is not None or output.stream:
        raise BadInput("--indent and --stream are for one text", action="leave them out with --out")
    from constrained.cli.extract_files import FilesRun

    FilesRun(names, constraint, files, extraction, decoding, output.verbosity, quiet=output.quiet).start()
