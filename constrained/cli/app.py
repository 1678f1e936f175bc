"""The commands, their options and their help."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from constrained.cli import inputs
from constrained.cli.decision import DECIDE_EPILOG, decide
from constrained.cli.evaluation import EVAL_EPILOG, evaluate
from constrained.cli.exit_status import EXIT_CODES, emit, report_errors
from constrained.cli.extraction import EXTRACT_EPILOG, extract
from constrained.cli.options import (
    ConstraintOptions,
    DecodingOptions,
    File,
    JsonOptions,
    OutputOptions,
    PanelCommand,
    with_option_groups,
)
from constrained.cli.serve import serve

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.models import Prompt


class _Commands(TyperGroup):
    """All commands, with one way to report errors."""

    def invoke(self, ctx: Any) -> Any:
        with report_errors(traceback=bool(ctx.params.get("traceback"))):
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)  # in the order of their declaration


_EPILOG = f"""\b
Examples:
  constrained extract "Ada Lovelace was born in 1815." --schema person.json
  constrained extract --file letter.txt --type models.py:Letter --indent 2
  cat letter.txt | constrained extract --type mypackage.models:Letter > letter.json
  constrained extract docs.jsonl 'letters/*.txt' --type models.py:Letter --out letters.jsonl --resume
  constrained decide "The parcel came late." --choice positive,negative
  constrained eval labelled.jsonl --type models.py:Letter
  constrained generate "A colour:" --choice red,green,blue
  constrained generate "A UK postcode:" --regex "[A-Z]{{1,2}}[0-9]{{1,2}} [0-9][A-Z]{{2}}"
  constrained check person.json

\b
{EXIT_CODES}
"""

app = typer.Typer(
    name="constrained",
    cls=_Commands,
    help="Get valid, typed data out of a language model: the result always follows your schema, type or pattern.",
    epilog=_EPILOG,
    rich_markup_mode=None,  # plain help: no import of rich, and identical in a pipe
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        import constrained

        emit(f"constrained {constrained.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the traceback of an error (for developers).")
    ] = False,
) -> None:
    pass


app.command(cls=PanelCommand, epilog=EXTRACT_EPILOG)(extract)
app.command(cls=PanelCommand, epilog=DECIDE_EPILOG)(decide)
app.command("eval", cls=PanelCommand, epilog=EVAL_EPILOG)(evaluate)


@app.command(
    cls=PanelCommand,
    epilog="""\b
Examples:
  constrained generate "Describe a city as JSON:" --schema city.json --temperature 1 --seed 7
  constrained generate "Is the sky green?" --choice yes,no
  constrained generate "A date:" --regex "20[0-9]{2}-(0[1-9]|1[0-2])" --stream
""",
)
@with_option_groups
def generate(
    *,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The prompt; - or nothing: standard input.")
    ] = None,
    target: ConstraintOptions,
    file: File = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Use the prompt unchanged: do not describe the type to the model.")
    ] = False,
    decoding: DecodingOptions,
    json: JsonOptions,
    output: OutputOptions,
) -> None:
    """Complete a prompt with a value that satisfies a schema, type, pattern or choice.

    The type is described to the model after the prompt, unless --raw is given.
    """
    constraint = inputs.read_constraint(target, json, for_generation=True)
    source = inputs.read_text(prompt, file, what="prompt")

    def make_prompt(constraint: Constraint) -> Prompt:
        from constrained.api import generation_prompt

        return source if raw else generation_prompt(source, constraint)

    from constrained.cli.generation import format_text, run_generation

    result = run_generation(constraint, make_prompt, decoding, output.verbosity)
    emit(format_text(constraint.standard_text(result.text), constraint, output.indent))


@app.command(
    cls=PanelCommand,
    epilog="""\b
Examples:
  constrained check person.json
  constrained check models.py:Person
  constrained check grammar.lark
  constrained check --regex "[a-z]+@example\\.org"
  constrained check person.json --token '"' --after '{"name'
  for schema in schemas/*.json; do constrained check "$schema" --quiet || exit 1; done
""",
)
@with_option_groups
def check(
    *,
    path: Annotated[
        str | None, typer.Argument(metavar="SCHEMA_FILE|GRAMMAR.lark|MODULE:NAME", help="What to check.")
    ] = None,
    target: ConstraintOptions,
    json: JsonOptions,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            metavar="NAME_OR_FOLDER",
            help="Compile for this tokenizer [default: the bundled one].",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TEXT|id:NUMBER",
            help="May this token follow, and why? Compares the mask with the bytes of all tokens.",
        ),
    ] = None,
    after: Annotated[
        str,
        typer.Option("--after", metavar="TEXT", help="What is written before --token [default: nothing]."),
    ] = "",
    json_report: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only errors; the exit code tells the rest.")
    ] = False,
) -> None:
    """Can a constraint be enforced? How is each keyword treated, and how large is the automaton?

    Exits with 0 if all of it is enforced; otherwise it lists everything that cannot be.
    """
    from constrained.cli import checking

    if path is not None:
        target = inputs.add_positional(path, target)
    checking.check(
        lambda: inputs.read_constraint(target, json),
        tokenizer,
        token=token,
        after=after,
        as_json=json_report,
        quiet=quiet,
    )


@app.command()
def demo(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the results, as JSON lines.")] = False,
) -> None:
    """Watch a model read typed values out of texts, offline: each with its place, and whether it is right."""
    from constrained.cli import demo as show

    show.run(quiet=quiet)


app.command()(serve)
# The benches lie above the command line: known by name alone.
app.add_typer(import_module("constrained.bench.commands").bench, name="bench")


@cache
def _command() -> Any:
    """The commands as Typer builds them, once: it reads the signature and type hints of each."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command `constrained`.

    Args:
        arguments: the command line without the program's name; by default that of the process.

    Raises:
        SystemExit: always, with a code listed in `constrained.cli.exit_status.EXIT_CODES`.
    """
    _command()(args=list(sys.argv[1:] if arguments is None else arguments), prog_name="constrained")
