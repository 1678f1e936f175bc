"""The command `decide`: a value with the probability of each option, of one text, or of each document of files."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from constrained.cli import generation, inputs
from constrained.cli.exit_status import emit
from constrained.cli.extract_files import FilesRun
from constrained.cli.extraction_options import ExtractionOptions, FilesOptions, ResultOptions
from constrained.cli.options import (
    FIRST,
    ConstraintOptions,
    DecodingOptions,
    File,
    JsonOptions,
    ModelOptions,
    Verbosity,
    with_option_groups,
)
from constrained.errors import ConstrainedError
from constrained.options import option

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.extraction.decider import Decided, Decider
    from constrained.extraction.files.records import Record
    from constrained.extraction.files.results import ResultRow

DECIDE_EPILOG = """\b
Examples:
  constrained decide "The parcel came late and broken." --choice positive,negative
  constrained decide -f ticket.txt -t models.py:Ticket --instructions "Read the ticket of a customer."
  constrained decide tickets.jsonl --choice billing --choice "technical support" --out - --prior none
"""


@dataclass(frozen=True)
class DecisionOptions(ModelOptions):
    """The model, and how it decides."""

    panel: ClassVar = "Decision"
    instructions: str | None = option(
        None, "What to decide and how, in the prompt.", metavar="TEXT", panel=FIRST
    )
    prior: Literal["subtract", "none"] = option(
        "subtract",
        "Take off what the model says to texts that say nothing, or keep the model's own distribution.",
    )
    joint: bool = option(False, "Weigh whole values in the place of single members.")

    def decider(self, constraint: Constraint, *, watched: bool) -> Decider[Any]:
        """The decider; its model is loaded here.

        Raises:
            ConstrainedError: as `constrained.load` and `Decider`.
        """
        from constrained.extraction.decider import Decider

        _ = constraint.grammar  # errors in the constraint come before the model is loaded
        model = generation.load_model(self.model, self.device, watched=watched)
        return Decider(model, constraint, instructions=self.instructions, prior=self.prior, joint=self.joint)


@with_option_groups
def decide(
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
    files: ResultOptions,
    decision: DecisionOptions,
    json: JsonOptions,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Decide about a text: one JSON line with the value, the probability of each option, and their mass.

    The type is a choice, an enum, a boolean, an integer between bounds, or a record of such members, whose probabilities
    and masses are listed by JSON pointer. The mass is how likely the model would have written one of the options at all.

    With --out, decide about each document of files, as extract does.
    """
    constraint = inputs.read_constraint(target, json, for_generation=True)
    verbosity = Verbosity.of(stats=False, quiet=quiet)
    if files.out is not None:
        files.check_names(texts or [], file)
        DecisionsRun(
            texts or [],
            constraint,
            FilesOptions(**asdict(files)),
            ExtractionOptions(instructions=decision.instructions),
            DecodingOptions(model=decision.model, device=decision.device),
            verbosity,
            quiet=quiet,
            decision=decision,
        ).start()
        return
    text = files.read_one_text(texts or [], file)
    with generation.status_line(shown=verbosity.progress) as show_status:
        show_status("loading the model")
        decider = decision.decider(constraint, watched=verbosity.progress)
        show_status("reading the text")
        found = decider(text)
    emit(json_module.dumps({"value": _json_value(found), **_columns(found)}, ensure_ascii=False))


@dataclass(frozen=True)
class DecisionsRun(FilesRun):
    """A run over files of documents that decides about each of them.

    Attributes:
        decision: how.
    """

    decision: DecisionOptions = field(default_factory=DecisionOptions)

    @property
    def columns(self) -> tuple[str, ...]:
        """See `FilesRun.columns`."""
        return ("probabilities", "mass")

    def settings(self) -> dict[str, Any]:
        """See `FilesRun.settings`."""
        return {**super().settings(), "prior": self.decision.prior, "joint": self.decision.joint}

    def _local_rows(self, records: Iterator[Record], begin: Callable[[], None]) -> Iterator[ResultRow]:
        from constrained.extraction.files.results import ResultRow

        decider = self.decision.decider(self.constraint, watched=self.verbosity.progress)
        begin()
        for record in records:
            try:
                found = decider(record.text)
            except ConstrainedError as error:
                yield ResultRow(record.id, None, str(error), type(error).__name__)
            else:
                value = json_module.dumps(_json_value(found), ensure_ascii=False)
                yield ResultRow(record.id, value, more=_columns(found))


def _json_value(found: Decided[Any]) -> Any:
    from constrained.extraction.examples import to_json

    return to_json(found.value)


def _columns(found: Decided[Any]) -> dict[str, Any]:
    """The probabilities and masses of a decision, or of those of members, by pointer."""
    masses: Any = {pointer: one.mass for pointer, one in found.fields.items()}
    return {"probabilities": found.probabilities, "mass": masses.get("", masses)}
