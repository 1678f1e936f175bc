"""The commands, their options and their help."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from constrained.cli import inputs
from constrained.cli.bench import bench
from constrained.cli.bench.schemas import report
from constrained.cli.exit_status import EXIT_CODES, emit, report_errors
from constrained.cli.options import (
    Choice,
    Closed,
    Device,
    EnsureAscii,
    File,
    Formats,
    Indent,
    MaxTokens,
    MinP,
    Model,
    PropertyOrder,
    Quiet,
    Regex,
    Sampler,
    Schema,
    SchemaDraft,
    Seed,
    Separators,
    Stats,
    Stream,
    Strict,
    Temperature,
    TopK,
    TopP,
    Type,
    Unsupported,
    Whitespace,
    json_schema_options,
)
from constrained.cli.serve import serve

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.models import Prompt


class _Commands(TyperGroup):
    """All commands; every one of them ends the same way."""

    def invoke(self, ctx: Any) -> Any:
        with report_errors(traceback=bool(ctx.params.get("traceback"))):
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)  # in the order they are met


_EPILOG = f"""\b
Examples:
  constrained extract "Ada Lovelace was born in 1815." --schema person.json
  constrained extract --file letter.txt --type models.py:Letter --indent 2
  cat letter.txt | constrained extract --type mypackage.models:Letter > letter.json
  constrained generate "A colour:" --choice red,green,blue
  constrained generate "A UK postcode:" --regex "[A-Z]{{1,2}}[0-9]{{1,2}} [0-9][A-Z]{{2}}"
  constrained check person.json

\b
{EXIT_CODES}
"""

app = typer.Typer(
    name="constrained",
    cls=_Commands,
    help="Get valid, typed data out of a language model: the result follows your schema, type or pattern, always.",
    epilog=_EPILOG,
    rich_markup_mode=None,  # plain help: there at once, and the same in a pipe
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        import constrained

        emit(f"constrained {constrained.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="On an error show where it comes from (for developers).")
    ] = False,
) -> None:
    pass


@app.command(
    epilog="""\b
Examples:
  constrained extract "Ada Lovelace, born 1815" --schema '{"type": "object", "properties":
      {"name": {"type": "string"}, "born": {"type": "integer"}}, "required": ["name", "born"]}'
  constrained extract -f letter.txt -t models.py:Letter --model Qwen/Qwen3-0.6B
  echo "The parcel came late and broken." | constrained extract --choice positive,negative
"""
)
def extract(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; - or nothing: standard input.")
    ] = None,
    schema: Schema = None,
    type_: Type = None,
    regex: Regex = None,
    choice: Choice = None,
    file: File = None,
    model: Model = None,
    device: Device = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    sampler: Sampler = None,
    whitespace: Whitespace = None,
    property_order: PropertyOrder = None,
    separators: Separators = None,
    ensure_ascii: EnsureAscii = None,
    closed: Closed = False,
    draft: SchemaDraft = None,
    formats: Formats = True,
    strict: Strict = False,
    unsupported: Unsupported = None,
    indent: Indent = None,
    stream: Stream = False,
    stats: Stats = False,
    quiet: Quiet = False,
) -> None:
    """Read a text into a value: JSON on standard output, complete and valid, or nothing and an error.

    The text is an argument, a file (--file), or what is piped in. What to read it into is a JSON Schema, a Python
    type (a pydantic model, a dataclass, a TypedDict, ...), a regular expression, or a choice.
    """
    more = json_schema_options(
        property_order, separators, ensure_ascii, closed, draft, formats, strict, unsupported
    )
    constraint = inputs.read_constraint(schema, type_, regex, choice, whitespace and whitespace.value, **more)
    read = inputs.read_text(text, file, what="text")

    def ask(constraint: Constraint) -> Prompt:
        from constrained.api import extraction_prompt

        return extraction_prompt(read, constraint)

    _run(
        constraint,
        ask,
        model=model,
        device=device,
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        sampler=sampler,
        indent=indent,
        stream=stream,
        stats=stats,
        quiet=quiet,
    )


@app.command(
    epilog="""\b
Examples:
  constrained generate "Describe a city as JSON:" --schema city.json --temperature 1 --seed 7
  constrained generate "Is the sky green?" --choice yes,no
  constrained generate "A date:" --regex "20[0-9]{2}-(0[1-9]|1[0-2])" --stream
"""
)
def generate(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The prompt; - or nothing: standard input.")
    ] = None,
    schema: Schema = None,
    type_: Type = None,
    regex: Regex = None,
    choice: Choice = None,
    file: File = None,
    model: Model = None,
    device: Device = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    sampler: Sampler = None,
    whitespace: Whitespace = None,
    property_order: PropertyOrder = None,
    separators: Separators = None,
    ensure_ascii: EnsureAscii = None,
    closed: Closed = False,
    draft: SchemaDraft = None,
    formats: Formats = True,
    strict: Strict = False,
    unsupported: Unsupported = None,
    indent: Indent = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Use the prompt as it is: do not show the type to the model.")
    ] = False,
    stream: Stream = False,
    stats: Stats = False,
    quiet: Quiet = False,
) -> None:
    """Answer a prompt with a value that follows a schema, type, pattern or choice.

    The type is shown to the model after the prompt, unless --raw is given.
    """
    more = json_schema_options(
        property_order, separators, ensure_ascii, closed, draft, formats, strict, unsupported
    )
    constraint = inputs.read_constraint(schema, type_, regex, choice, whitespace and whitespace.value, **more)
    read = inputs.read_text(prompt, file, what="prompt")

    def ask(constraint: Constraint) -> Prompt:
        from constrained.api import generation_prompt

        return read if raw else generation_prompt(read, constraint)

    _run(
        constraint,
        ask,
        model=model,
        device=device,
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        sampler=sampler,
        indent=indent,
        stream=stream,
        stats=stats,
        quiet=quiet,
    )


def _run(
    constraint: Constraint,
    ask: Callable[[Constraint], Prompt],
    *,
    model: str | None,
    device: str | None,
    sampler: str | None,
    indent: int | None,
    stream: bool,
    stats: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    from constrained.cli.generation import Verbosity, format_output, run_generation

    voice = Verbosity.of(stats=stats, quiet=quiet, stream=stream)
    output = run_generation(
        constraint, ask, model=model, device=device, sampler=sampler, settings=settings, verbosity=voice
    )
    emit(format_output(output, constraint, indent))


@app.command(
    epilog="""\b
Examples:
  constrained check person.json
  constrained check models.py:Person
  constrained check --regex "[a-z]+@example\\.org"
  for schema in schemas/*.json; do constrained check "$schema" --quiet || exit 1; done
"""
)
def check(
    target: Annotated[
        str | None, typer.Argument(metavar="SCHEMA_FILE|MODULE:NAME", help="What to check.")
    ] = None,
    schema: Schema = None,
    type_: Type = None,
    regex: Regex = None,
    choice: Choice = None,
    whitespace: Whitespace = None,
    property_order: PropertyOrder = None,
    separators: Separators = None,
    ensure_ascii: EnsureAscii = None,
    closed: Closed = False,
    draft: SchemaDraft = None,
    formats: Formats = True,
    strict: Strict = False,
    unsupported: Unsupported = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            metavar="NAME_OR_FOLDER",
            help="Compile for this tokenizer [default: the bundled one].",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors, and the exit code.")] = False,
) -> None:
    """Can a constraint be enforced? What becomes of each keyword, and how big is it?

    Exits with 0 if all of it is enforced, and otherwise names everything that stands in the way.
    """
    from constrained.cli import checking

    if target is not None:
        schema, type_ = inputs.split_target(target, schema, type_)
    more = json_schema_options(
        property_order, separators, ensure_ascii, closed, draft, formats, strict, unsupported
    )
    options = (schema, type_, regex, choice, whitespace and whitespace.value)
    checking.check(lambda: inputs.read_constraint(*options, **more), tokenizer, json=json, quiet=quiet)


@app.command()
def demo(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the results, as JSON lines.")] = False,
) -> None:
    """See it work: the bundled model reads typed objects out of texts, offline."""
    from constrained.cli import demo as show

    show.run(quiet=quiet)


app.command()(serve)
app.command()(report)
app.add_typer(bench, name="bench")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command `constrained`.

    Args:
        arguments: instead of those of the process.

    Raises:
        SystemExit: always, with a code out of `constrained.cli.exit_status.EXIT_CODES`.
    """
    app(args=list(sys.argv[1:] if arguments is None else arguments), prog_name="constrained")
