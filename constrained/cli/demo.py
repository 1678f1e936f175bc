"""`constrained demo`: the bundled model extracts typed objects from texts outside its training data."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from constrained.cli.exit_status import emit, result_console
from constrained.cli.generation import Verbosity, format_statistics, indent_json, load_model, status_line


@dataclass
class Person:
    """A person."""

    name: str
    born: date
    city: str
    languages: list[str]


@dataclass
class Recipient:
    """The recipient of a parcel."""

    name: str
    city: str


@dataclass
class Parcel:
    """A parcel."""

    tracking_number: str
    weight: float
    status: Literal["in transit", "delivered", "returned"]
    fragile: bool
    recipient: Recipient


@dataclass
class Flight:
    """A flight."""

    flight_number: str
    origin: str
    destination: str
    departs_on: date
    passengers: list[str]


SHOWN: tuple[tuple[str, tuple[type, ...]], ...] = (
    (
        "Marie Lefèvre was born on 1987-03-14 and lives in Lyon. She speaks French, German and Catalan.",
        (Person,),
    ),
    (
        "The parcel has the tracking number RX7741 and the weight 12.5. The status is in transit. Fragile: yes. "
        "The recipient has the name Jonas Berg and the city Göteborg.",
        (Recipient, Parcel),
    ),
    (
        "Flight number: KL1509\nOrigin: Amsterdam\nDestination: Kraków\nDeparts on: 2026-07-02\n"
        "Passengers: Ana Silva, Tomáš Novák",
        (Flight,),
    ),
)
"""Texts, each with the types that its type refers to, and its type last."""


def run(*, quiet: bool) -> None:
    """Extracts from every text; shows text, type, object and statistics, or with `quiet` only one line of JSON each.

    Raises:
        ConstrainedError: as `constrained.load` and `Generator`.
    """
    verbosity = Verbosity.of(stats=False, quiet=quiet)
    with contextlib.redirect_stdout(sys.stderr), status_line(shown=verbosity.progress) as show_status:
        show_status("loading the bundled model")
        model = load_model(None, None, watched=verbosity.progress)
    for text, types in SHOWN:
        output = _extract(model, text, types[-1])
        if quiet:
            emit(indent_json(output.text, 0))
        else:
            _show(text, types, output)


def _extract(model: Any, text: str, kind: type) -> Any:
    from constrained.decoding import Generator
    from constrained.extraction.prompt import extraction_prompt

    generator = Generator(model, kind)
    output = generator(extraction_prompt(text, generator.constraint))
    _validate(output.text, generator.constraint.schema)
    return output


def _validate(text: str, schema: Any) -> None:
    """Validates with an independent library, before "valid" is printed."""
    import jsonschema

    jsonschema.validate(
        json.loads(text),
        schema,
        cls=jsonschema.Draft202012Validator,
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )


def _show(text: str, types: tuple[type, ...], output: Any) -> None:
    from rich.console import Group
    from rich.panel import Panel
    from rich.pretty import Pretty
    from rich.syntax import Syntax
    from rich.text import Text

    source = "\n\n".join(inspect.getsource(kind).strip() for kind in types)
    console = result_console()
    console.rule(types[-1].__name__)
    console.print(
        Panel(Text(text), title="text", title_align="left"),
        Panel(Syntax(source, "python", background_color="default"), title="type", title_align="left"),
        Panel(
            Group(
                Syntax(output.text, "json", background_color="default", word_wrap=True),
                "",
                Pretty(output.value),
            ),
            title="JSON, and the Python object",
            title_align="left",
        ),
    )
    console.print(Text(f"valid against its schema; {format_statistics(output)}\n", style="dim"))
