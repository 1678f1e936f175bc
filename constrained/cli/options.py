"""The options of several commands, each declared once: name, metavar and help."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer


class WhitespaceOption(str, Enum):
    """Values of `--whitespace`; the same as `constrained.constraint.Whitespace`."""

    bounded = "bounded"
    none = "none"
    any = "any"
    indent = "indent"


class PropertyOrderOption(str, Enum):
    """Values of `--property-order`; the same as `constrained.constraint.json.PropertyOrder`."""

    schema = "schema"
    any = "any"


class UnsupportedOption(str, Enum):
    """Values of `--unsupported`; the same as `constrained.constraint.json.Unsupported`."""

    refuse = "refuse"
    check = "check"


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
PropertyOrder = Annotated[
    PropertyOrderOption | None,
    typer.Option(
        "--property-order", help="Order of the members of JSON objects [default: schema].", show_default=False
    ),
]
Separators = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--separators",
        metavar="COMMA COLON",
        help='What JSON has between items and after keys, exactly, such as "," ":".',
        show_default=False,
    ),
]
EnsureAscii = Annotated[
    bool | None,
    typer.Option(
        "--ensure-ascii/--no-ensure-ascii",
        help="JSON strings with every character beyond ASCII escaped, or none [default: both].",
        show_default=False,
    ),
]
Closed = Annotated[
    bool,
    typer.Option("--closed", help="No members but declared ones where the schema says nothing of others."),
]
SchemaDraft = Annotated[
    str | None,
    typer.Option("--draft", metavar="NAME", help="4, 6, 7, 2019-09 or 2020-12 [default: what $schema says]."),
]
Formats = Annotated[
    bool, typer.Option("--formats/--no-formats", help="Whether `format` limits strings.", show_default=False)
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse keywords and formats that nobody defines.")]
Unsupported = Annotated[
    UnsupportedOption | None,
    typer.Option(
        "--unsupported",
        help="What becomes of a keyword that cannot be enforced: an error, or a check of the finished value.",
        show_default=False,
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
Sampler = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        metavar="NAME",
        help="How texts are drawn: local (the default), awrs, rejection, asap, cars, mcmc, smc.",
    ),
]
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


def json_schema_options(
    property_order: PropertyOrderOption | None,
    separators: tuple[str, str] | None,
    ensure_ascii: bool | None,
    closed: bool,
    draft: str | None,
    formats: bool,
    strict: bool,
    unsupported: UnsupportedOption | None,
) -> dict[str, Any]:
    """What these options ask of `constrained.json_schema`, those at their defaults left out."""
    asked = {
        "property_order": property_order and property_order.value,
        "separators": separators,
        "ensure_ascii": ensure_ascii,
        "additional_properties_default": False if closed else None,
        "draft": draft,
        "formats": None if formats else False,
        "strict": strict or None,
        "unsupported": unsupported and unsupported.value,
    }
    return {name: value for name, value in asked.items() if value is not None}
