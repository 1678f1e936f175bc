"""The options that several commands share, in groups, each declared once: name, metavar, help and default."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from constrained.decoding.repetition import OnRepeat
    from constrained.decoding.speculation import Speculation


class WhitespaceOption(str, Enum):
    """Values of `--whitespace`: those of `constrained.constraint.Whitespace`."""

    bounded = "bounded"
    none = "none"
    any = "any"
    indent = "indent"


class OnRepeatOption(str, Enum):
    """Values of `--on-repeat`."""

    close = "close"
    error = "error"
    off = "off"


class PropertyOrderOption(str, Enum):
    """Values of `--property-order`: those of `constrained.constraint.json.PropertyOrder`."""

    schema = "schema"
    any = "any"


class OnLimitOption(str, Enum):
    """Values of `--on-limit`: those of `constrained.decoding.cut.OnLimit`."""

    fail = "raise"
    close = "close"


class UnsupportedOption(str, Enum):
    """Values of `--unsupported`: those of `constrained.constraint.json.Unsupported`."""

    refuse = "refuse"
    check = "check"


File = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the text from a UTF-8 file.")
]
Device = Annotated[str | None, typer.Option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1, ...")]


def _check_speculation(value: str) -> str:
    if value not in ("auto", "off") and not (value.isascii() and value.isdecimal() and int(value)):
        raise typer.BadParameter(f"{value!r} is neither auto, off nor a number of draft tokens >= 1")
    return value


def speculation_option(help: str) -> Any:
    """The option `--speculation`; a wrong value is an error of usage."""
    return typer.Option("--speculation", metavar="auto|off|N", help=help, callback=_check_speculation)


def resolve_speculation_option(value: str) -> str | Speculation | None:
    """What a value of `--speculation` is in Python: ``"auto"``, None, or at most N draft tokens a forward pass."""
    if not value.isdecimal():
        return None if value == "off" else value
    from constrained.decoding.speculation import Speculation

    return Speculation(nodes=int(value))


@dataclass(frozen=True)
class ConstraintOptions:
    """The options that name a constraint; a command needs exactly one of them."""

    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", "-s", metavar="FILE", help='JSON Schema: a file, or the schema itself ("{...}").'
        ),
    ] = None
    type_: Annotated[
        str | None,
        typer.Option("--type", "-t", metavar="MODULE:NAME", help="Python type; also path/to/file.py:Name."),
    ] = None
    regex: Annotated[
        str | None,
        typer.Option("--regex", metavar="PATTERN", help="The whole output matches; printed without quotes."),
    ] = None
    fields: Annotated[
        str | None,
        typer.Option(
            "--fields",
            metavar="NAMES",
            help='Members of a record, with types: "name, born: date, tags: list[str]".',
        ),
    ] = None
    choice: Annotated[
        list[str] | None,
        typer.Option(
            "--choice", metavar="A,B,C", help="One of these; may be repeated; printed without quotes."
        ),
    ] = None


@dataclass(frozen=True)
class JsonOptions:
    """The options of `constrained.json_schema`."""

    whitespace: Annotated[
        WhitespaceOption | None,
        typer.Option(
            "--whitespace", help="Where JSON may have white space [default: bounded].", show_default=False
        ),
    ] = None
    property_order: Annotated[
        PropertyOrderOption | None,
        typer.Option(
            "--property-order",
            help="Order of the members of JSON objects [default: schema].",
            show_default=False,
        ),
    ] = None
    separators: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--separators",
            metavar="COMMA COLON",
            help='The exact separators between items and after keys, such as "," ":".',
            show_default=False,
        ),
    ] = None
    ensure_ascii: Annotated[
        bool | None,
        typer.Option(
            "--ensure-ascii/--no-ensure-ascii",
            help="Escape every character beyond ASCII in JSON strings, or none [default: both allowed].",
            show_default=False,
        ),
    ] = None
    closed: Annotated[
        bool | None,
        typer.Option(
            "--closed/--open",
            help="Only declared members where the schema has no additionalProperties keyword, or others, too "
            "[default: closed where a model writes].",
            show_default=False,
        ),
    ] = None
    json_schema_draft: Annotated[
        str | None,
        typer.Option(
            "--json-schema-draft",
            metavar="NAME",
            help="4, 6, 7, 2019-09 or 2020-12 [default: from $schema, else 2020-12].",
        ),
    ] = None
    formats: Annotated[
        bool,
        typer.Option("--formats/--no-formats", help="Whether `format` limits strings.", show_default=False),
    ] = True
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unknown keywords and formats.")] = False
    unsupported: Annotated[
        UnsupportedOption | None,
        typer.Option(
            "--unsupported",
            help="A keyword that cannot be enforced: an error, or a check of the finished value "
            "[default: refuse].",
            show_default=False,
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `constrained.json_schema`, without those at their defaults."""
        values = {
            "whitespace": self.whitespace and self.whitespace.value,
            "property_order": self.property_order and self.property_order.value,
            "separators": self.separators,
            "ensure_ascii": self.ensure_ascii,
            "additional_properties_default": None if self.closed is None else not self.closed,
            "draft": self.json_schema_draft,
            "formats": None if self.formats else False,
            "strict": self.strict or None,
            "unsupported": self.unsupported and self.unsupported.value,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class DecodingOptions:
    """The model, and how it is sampled."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME_OR_FOLDER",
            help="A Hugging Face causal model [default: the bundled one].",
        ),
    ] = None
    device: Device = None
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", metavar="N", help="Token limit; every result is complete within it."),
    ] = None
    on_limit: Annotated[
        OnLimitOption,
        typer.Option(
            "--on-limit",
            help="Where the token limit cuts the result: an error, or what was closed in time.",
        ),
    ] = OnLimitOption.fail
    on_repeat: Annotated[
        OnRepeatOption,
        typer.Option(
            "--on-repeat",
            help="A value in which the model repeats itself is closed, an error, or goes on to the token limit.",
        ),
    ] = OnRepeatOption.close
    temperature: Annotated[
        float | None, typer.Option("--temperature", metavar="T", help="0 is greedy, and the default.")
    ] = None
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="K", help="Sample from the K likeliest tokens.")
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", metavar="P", help="Sample from the likeliest tokens of total probability P."),
    ] = None
    min_p: Annotated[
        float | None,
        typer.Option(
            "--min-p", metavar="P", help="Sample from tokens at least P times as likely as the best."
        ),
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Same seed, same result.")] = None
    sampler: Annotated[
        str | None,
        typer.Option(
            "--sampler",
            metavar="NAME",
            help="local (the default), awrs, rejection, asap, cars, mcmc or smc.",
        ),
    ] = None
    speculation: Annotated[
        str,
        speculation_option("Draft tokens: where they pay, never, or at most N a forward pass; same result."),
    ] = "auto"

    def extractor_arguments(self) -> dict[str, Any]:
        """The keyword arguments of `constrained.Extractor`."""
        return {
            "sampler": self.sampler,
            "speculation": resolve_speculation_option(self.speculation),
            "on_limit": self.on_limit.value,
            "on_repeat": self.repeat_policy(),
        }

    def repeat_policy(self) -> OnRepeat:
        """The argument `on_repeat`."""
        return None if self.on_repeat is OnRepeatOption.off else self.on_repeat.value

    def settings(self) -> dict[str, Any]:
        """The settings of a call of `constrained.Generator`."""
        return {
            name: getattr(self, name)
            for name in ("max_tokens", "temperature", "top_k", "top_p", "min_p", "seed")
        }


@dataclass(frozen=True)
class OutputOptions:
    """What is printed, and where."""

    indent: Annotated[
        int | None,
        typer.Option(
            "--indent",
            metavar="N",
            min=0,
            max=16,
            help="Print JSON with N spaces a level; 0: on one line.",
        ),
    ] = None
    stream: Annotated[
        bool, typer.Option("--stream", help="Show the output on standard error while it is generated.")
    ] = False
    stats: Annotated[
        bool, typer.Option("--stats", help="Statistics on standard error, also when it is not a terminal.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Neither progress nor statistics.")] = False


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Makes a command out of a function whose parameters may be groups of options.

    Typer reads one option from each parameter. A parameter whose type is a dataclass is replaced in the signature by
    the fields of that dataclass; the function gets an instance of it.

    Args:
        command: its parameters that are groups have no defaults.
    """
    # Not typing.get_type_hints: before Python 3.11 it wraps the type of a default None in Optional, where typer misses the option.
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for name, parameter in signature.parameters.items():
        group = parameter.annotation
        if not is_dataclass(group):
            parameters.append(_keyword(name, group, parameter.default))
            continue
        assert isinstance(group, type)
        groups[name] = group
        field_types = typing.get_type_hints(group, include_extras=True)
        for field in fields(group):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            parameters.append(_keyword(field.name, field_types[field.name], default))

    @functools.wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    del call.__wrapped__
    return call


def _keyword(name: str, type_: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_)
