"""The options of several commands, each declared once: name, metavar and help."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class WhitespaceOption(str, Enum):
    """Values of `--whitespace`; the same as `constrained.constraint.Whitespace`."""

    bounded = "bounded"
    none = "none"
    any = "any"
    indent = "indent"


Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", "-s", metavar="FILE", help='JSON Schema: a file, or the schema itself ("{...}").'
    ),
]
Type = Annotated[
    str | None,
    typer.Option("--type", "-t", metavar="MODULE:NAME", help="Python type; also path/to/file.py:Name."),
]
Regex = Annotated[
    str | None, typer.Option("--regex", metavar="PATTERN", help="Text that matches as a whole; printed bare.")
]
Choice = Annotated[
    list[str] | None,
    typer.Option("--choice", metavar="A,B,C", help="One of these; may be repeated; printed bare."),
]
Whitespace = Annotated[
    WhitespaceOption | None,
    typer.Option(
        "--whitespace", help="Where JSON may have white space [default: bounded].", show_default=False
    ),
]
File = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the text from a UTF-8 file.")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME_OR_FOLDER",
        help="A Hugging Face causal model [default: the bundled one].",
    ),
]
Device = Annotated[str | None, typer.Option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1, ...")]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", metavar="N", help="Room for the result; it is always complete within it."),
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", metavar="T", help="0 is greedy, and the default.")
]
TopK = Annotated[int | None, typer.Option("--top-k", metavar="K", help="Draw among the K likeliest tokens.")]
TopP = Annotated[float | None, typer.Option("--top-p", metavar="P", help="Draw among tokens of mass P.")]
MinP = Annotated[
    float | None,
    typer.Option("--min-p", metavar="P", help="Draw among tokens at least P times as likely as the best."),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Same seed, same result.")]
Indent = Annotated[
    int | None,
    typer.Option(
        "--indent", metavar="N", min=0, max=16, help="Lay JSON out with N spaces a level; 0: on one line."
    ),
]
Stats = Annotated[bool, typer.Option("--stats", help="Figures on standard error, also when nobody watches.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Neither progress nor figures.")]
Stream = Annotated[
    bool, typer.Option("--stream", help="Show the text on standard error while it is written.")
]
