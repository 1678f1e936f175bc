"""The options that several commands share, in groups, and the making of commands from groups."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import typer
from typer.core import TyperCommand

from constrained.options import Option, option, options_of

if TYPE_CHECKING:
    from constrained.decoding.speculation import Speculation

FIRST = "Options"
"""The section of the help that comes first: options that a newcomer needs."""

File = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the text from a UTF-8 file.")
]
SPECULATION = "Draft tokens: where they pay, never, or at most N a forward pass; same results."


def resolve_speculation_option(value: str) -> str | Speculation | None:
    """What a value of `--speculation` is in Python: ``"auto"``, None, or at most N draft tokens a forward pass.

    Raises:
        BadParameter: it is something else.
    """
    if value in ("auto", "off"):
        return None if value == "off" else value
    if not (value.isascii() and value.isdecimal() and int(value)):
        raise typer.BadParameter(
            f"{value!r} is neither auto, off nor a number of draft tokens >= 1",
            param_hint="'--speculation'",
        )
    from constrained.decoding.speculation import Speculation

    return Speculation(nodes=int(value))


@dataclass(frozen=True)
class ConstraintOptions:
    """The options that name a constraint; a command needs exactly one of them."""

    panel: ClassVar = "Other constraints"
    schema: str | None = option(
        None,
        'JSON Schema: a file, or the schema itself ("{...}").',
        flag="--schema -s",
        metavar="FILE",
        panel=FIRST,
    )
    type_: str | None = option(
        None, "Python type; also path/to/file.py:Name.", flag="--type -t", metavar="MODULE:NAME", panel=FIRST
    )
    regex: str | None = option(None, "The whole output matches; printed without quotes.", metavar="PATTERN")
    fields: str | None = option(
        None, 'Members of a record, with types: "name, born: date, tags: list[str]".', metavar="NAMES"
    )
    choice: list[str] | None = option(
        None, "One of these; may be repeated; printed without quotes.", metavar="A,B,C"
    )


@dataclass(frozen=True)
class JsonOptions:
    """The options of `constrained.json_schema`."""

    panel: ClassVar = "Form of JSON"
    whitespace: Literal["bounded", "none", "any", "indent"] | None = option(
        None, "Where JSON may have white space [default: bounded]."
    )
    property_order: Literal["schema", "any"] | None = option(
        None, "Order of the members of JSON objects [default: schema]."
    )
    separators: tuple[str, str] | None = option(
        None, 'The exact separators between items and after keys, such as "," ":".', metavar="COMMA COLON"
    )
    ensure_ascii: bool | None = option(
        None,
        "Escape every character beyond ASCII in JSON strings, or none [default: both allowed].",
        flag="--ensure-ascii/--no-ensure-ascii",
    )
    closed: bool | None = option(
        None,
        "Only declared members where the schema has no additionalProperties keyword, or others, too "
        "[default: closed where a model writes].",
        flag="--closed/--open",
    )
    max_string_length: int | None = option(
        None, "Characters of a string that the schema or type does not bound [default: no limit].", least=1
    )
    max_items: int | None = option(
        None, "Items of a list that the schema or type does not bound [default: no limit].", least=1
    )
    draft: str | None = option(
        None,
        "4, 6, 7, 2019-09 or 2020-12 [default: from $schema, else 2020-12].",
        flag="--json-schema-draft",
        metavar="NAME",
    )
    formats: bool | None = option(
        None, "Whether `format` limits strings [default: it does].", flag="--formats/--no-formats"
    )
    strict: bool | None = option(None, "Refuse unknown keywords and formats.", flag="--strict")
    unsupported: Literal["refuse", "check"] | None = option(
        None,
        "A keyword that cannot be enforced: an error, or a check of the finished value [default: refuse].",
    )

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `constrained.json_schema`, without those that are not given."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        closed = values.pop("closed")
        values["additional_properties_default"] = None if closed is None else not closed
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class ModelOptions:
    """The model."""

    model: str | None = option(
        None,
        "A Hugging Face causal model [default: the bundled one].",
        flag="--model -m",
        metavar="NAME_OR_FOLDER",
        panel=FIRST,
    )
    device: str | None = option(None, "cpu, cuda, cuda:1, ...", metavar="DEVICE")


@dataclass(frozen=True)
class DecodingOptions(ModelOptions):
    """The model, and how it is sampled."""

    panel: ClassVar = "Model, limits and sampling"
    max_tokens: int | None = option(
        None,
        "Token limit of a result [default: 512, more if the shortest one is longer].",
        panel=FIRST,
    )
    on_limit: Literal["raise", "close"] = option(
        "raise", "Where the token limit cuts the result: an error, or what was closed in time."
    )
    on_repeat: Literal["close", "error"] | None = option(
        "close",
        "A value in which the model repeats itself is closed, an error, or goes on to the token limit.",
        none="off",
    )
    temperature: float | None = option(None, "0 is greedy, and the default.", metavar="T")
    top_k: int | None = option(None, "Sample from the K likeliest tokens.", metavar="K")
    top_p: float | None = option(
        None, "Sample from the likeliest tokens of total probability P.", metavar="P"
    )
    min_p: float | None = option(
        None, "Sample from tokens at least P times as likely as the best.", metavar="P"
    )
    seed: int | None = option(None, "Same seed, same result; in bfloat16 rounding can change near ties.")
    sampler: str | None = option(
        None, "local (the default), awrs, rejection, asap, cars, mcmc or smc.", metavar="NAME"
    )
    speculation: str = option("auto", SPECULATION, metavar="auto|off|N")

    def __post_init__(self) -> None:
        resolve_speculation_option(self.speculation)

    def extractor_arguments(self) -> dict[str, Any]:
        """The keyword arguments of `constrained.Extractor`."""
        return {
            "sampler": self.sampler,
            "speculation": resolve_speculation_option(self.speculation),
            "on_limit": self.on_limit,
            "on_repeat": self.on_repeat,
        }

    def settings(self) -> dict[str, Any]:
        """The settings of a call of `constrained.Generator`."""
        return {
            name: getattr(self, name)
            for name in ("max_tokens", "temperature", "top_k", "top_p", "min_p", "seed")
        }


@dataclass(frozen=True, slots=True)
class Verbosity:
    """What a command prints on standard error.

    Attributes:
        progress: a line with the present step, on a terminal.
        statistics: a line of statistics at the end.
        stream: the completion while it is generated.
    """

    progress: bool
    statistics: bool
    stream: bool = False

    @classmethod
    def of(cls, *, stats: bool, quiet: bool, stream: bool = False) -> Verbosity:
        """Progress and statistics where standard error is a terminal, unless options say otherwise."""
        terminal = sys.stderr is not None and sys.stderr.isatty()
        return cls(
            progress=terminal and not quiet, statistics=stats or (terminal and not quiet), stream=stream
        )


@dataclass(frozen=True)
class OutputOptions:
    """What is printed, and where."""

    panel: ClassVar = "Output"
    indent: int | None = option(None, "Print JSON with N spaces a level; 0: on one line.", least=0, most=16)
    stream: bool = option(False, "Show the output on standard error while it is generated.")
    stats: bool = option(False, "Statistics on standard error, also when it is not a terminal.")
    quiet: bool = option(False, "Neither progress nor statistics.", flag="--quiet -q")

    @property
    def verbosity(self) -> Verbosity:
        """What is shown on standard error."""
        return Verbosity.of(stats=self.stats, quiet=self.quiet, stream=self.stream)


class PanelCommand(TyperCommand):
    """A command whose help has the options in sections, those that everyone needs first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments and the sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], FIRST: []}
        for parameter in self.get_params(ctx):
            if (row := parameter.get_help_record(ctx)) is not None:
                first = "Arguments" if parameter.param_type_name == "argument" else FIRST
                panel = getattr(parameter, "rich_help_panel", None) or first
                sections.setdefault(panel, []).append(row)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Makes a command out of a function whose parameters may be groups of options.

    Typer reads one option from each parameter. A parameter whose type is a dataclass is replaced in the signature by
    the options of that dataclass; the function gets an instance of it.

    Args:
        command: its parameters that are groups have no defaults.
    """
    # Not typing.get_type_hints: before Python 3.11 it wraps the type of a default None in Optional, where typer misses the option.
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[Any], list[tuple[Field[Any], Option]]]] = {}
    for name, parameter in signature.parameters.items():
        group = parameter.annotation
        if not is_dataclass(group):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        assert isinstance(group, type)
        there = [pair for pair in options_of(group) if pair[1].flag is not None]
        panel = getattr(group, "panel", None)
        groups[name] = group, there
        # Types of fields that are no options may be unknown here.
        typed = types.SimpleNamespace(__annotations__={one.name: one.type for one, _ in there})
        known: dict[str, Any] = {}
        for base in reversed(group.__mro__):  # options are inherited across modules
            known |= vars(sys.modules[base.__module__])
        hints = typing.get_type_hints(typed, known, include_extras=True)
        parameters += [_parameter(one, about, hints[one.name], panel) for one, about in there]

    @functools.wraps(command)
    def call(**values: Any) -> None:
        for name, (group, there) in groups.items():
            values[name] = group(
                **{one.name: _value(one, about, values.pop(one.name)) for one, about in there}
            )
        command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    del call.__wrapped__
    return call


def _parameter(one: Field[Any], about: Option, hint: Any, panel: str | None) -> inspect.Parameter:
    """The parameter of which Typer makes the option of a field, in a section of the help."""
    default = cast("Any", one.default)
    if about.unit is not None:
        hint, default = float if default else float | None, default and default / about.unit
    elif isinstance(about.none, str):
        choices = [choice for part in typing.get_args(hint) for choice in typing.get_args(part)]
        hint = Literal.__getitem__((*choices, about.none))
    elif about.between is not None:
        hint, default = str | None, about.between.join(map(str, default)) or None
    elif hint == tuple[str, ...]:
        hint, default = list[str] | None, None
    counted = int in (hint, *typing.get_args(hint))
    flags = (about.flag or f"--{one.name.replace('_', '-')}").split()
    said = typer.Option(
        *flags,
        help=about.help,
        metavar=about.metavar or ("N" if counted else None),
        min=about.least if about.unit is None and about.none is None else None,
        max=about.most,
        envvar=about.variable,
        show_envvar=False,
        rich_help_panel=about.panel or panel,
    )
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(one.name, keyword, default=default, annotation=Annotated[hint, said])


def _value(one: Field[Any], about: Option, value: Any) -> Any:
    """The value of a field, by that of the command line."""
    if about.none is not None and value == about.none:
        return None
    if about.between is not None:
        return _parts(one, about.between, value or "")
    if isinstance(one.default, tuple):
        return tuple(value or one.default)
    return value if about.unit is None or value is None else round(value * about.unit)


def _parts(one: Field[Any], between: str, value: str) -> tuple[Any, ...]:
    """The values of a field that is a tuple of strings or of integers.

    Raises:
        typer.BadParameter: integers are wanted, and something else is there.
    """
    parts = tuple(part.strip() for part in value.split(between) if part.strip())
    if "int" not in str(one.type):
        return parts
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise typer.BadParameter(f"{value!r} is not a list of numbers", param_hint=f"--{one.name}")
    return tuple(map(int, parts))
