"""One generation: load a model, compile, write the text; with progress and statistics on standard error."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.decoding import Output
    from constrained.models import LanguageModel, Prompt

StatusCallback = Callable[[str], None]
"""Shows what is being done."""

_TAIL = 48


@dataclass(frozen=True, slots=True)
class Verbosity:
    """What a command tells its user besides the result.

    Attributes:
        progress: a line that says what is being done, where standard error is a terminal.
        statistics: a line of figures at the end.
        stream: the text while it is written.
    """

    progress: bool
    statistics: bool
    stream: bool = False

    @classmethod
    def of(cls, *, stats: bool, quiet: bool, stream: bool = False) -> Verbosity:
        """By default both where a person is watching."""
        watched = sys.stderr is not None and sys.stderr.isatty()
        return cls(progress=watched and not quiet, statistics=stats or (watched and not quiet), stream=stream)


def load_model(name: str | None, device: str | None, *, watched: bool) -> LanguageModel:
    """A model by name or folder, or the bundled one; other libraries keep quiet unless a download is watched.

    Raises:
        ModelError, VocabularyError: as `constrained.load`.
    """
    silence_libraries(bars=watched and name is not None)
    from constrained.models import load

    loaded = load(name, device=device)
    if name is None:
        import torch

        torch.set_num_threads(1)  # so small that threads would wait for each other longer than they compute
    return loaded


def silence_libraries(*, bars: bool = False) -> None:
    """Silences the warnings of other libraries (and their progress bars), unless the environment asks for them."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not bars:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def run_generation(
    constraint: Constraint,
    ask: Callable[[Constraint], Prompt],
    *,
    model: str | None = None,
    device: str | None = None,
    sampler: str | None = None,
    settings: dict[str, Any],
    verbosity: Verbosity,
) -> Output:
    """Writes one text.

    Args:
        constraint: what it satisfies.
        ask: makes the prompt.
        model: name or folder; None for the bundled model.
        device: where the model goes.
        sampler: name of one; None for the default of `Generator`.
        settings: of the call: `max_tokens`, `temperature` and so on.
        verbosity: what is shown meanwhile.

    Raises:
        Described: as `constrained.load`, `Generator` and its call.
    """
    with (
        contextlib.redirect_stdout(sys.stderr),
        status_line(shown=verbosity.progress and not verbosity.stream) as say,
    ):
        say("reading the constraint")
        from constrained.sampling import resolve_sampler

        drawn_by = None if sampler is None else resolve_sampler(sampler)
        _ = constraint.grammar  # what is wrong with it is known before a model is loaded
        say("loading the model")
        loaded = load_model(model, device, watched=verbosity.progress)
        from constrained.automaton import compile
        from constrained.decoding import Generator

        say("compiling the constraint")
        began = time.perf_counter()
        automaton = compile(constraint, loaded.vocabulary)
        compiled = time.perf_counter() - began
        generator = (
            Generator(loaded, automaton)
            if drawn_by is None
            else Generator(loaded, automaton, sampler=drawn_by)
        )
        say("reading the prompt")
        output = None
        tokens = 0
        from constrained.cli.stream_display import live_display

        with live_display(shown=verbosity.stream, is_json=constraint.is_json) as follow:
            for chunk in generator.stream(ask(constraint), **settings):
                tokens += len(chunk.tokens)
                follow(chunk)
                say(f"{tokens} tokens  {_tail(chunk.text)}")
                output = chunk.output
    assert output is not None, "a stream ended without its output"
    if verbosity.statistics:
        print(format_statistics(output, compiled), file=sys.stderr)
    return output


@contextlib.contextmanager
def status_line(*, shown: bool) -> Iterator[StatusCallback]:
    """A line on standard error that changes with what is said, and goes away at the end."""
    if not shown:
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    with console.status("") as status:
        yield lambda text: status.update(Text(text, overflow="ellipsis", no_wrap=True))


def _tail(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TAIL else "..." + line[3 - _TAIL :]


def format_statistics(output: Output, compiled: float | None = None) -> str:
    """What a text cost, in one line.

    Args:
        output: the text.
        compiled: seconds of compilation, if they are to be told.
    """
    stats = output.stats
    parts = [
        f"{stats.tokens} tokens in {stats.seconds:.2f} s",
        f"{stats.forwards} forward passes",
        f"prompt {stats.prompt_tokens} tokens",
        f"law {output.distribution}",
        f"ended: {output.finish}",
    ]
    parts += [] if stats.attempts == 1 else [f"{stats.attempts} attempts"]
    parts += [] if output.distribution == "greedy" else [f"seed {stats.seed}"]
    parts += [] if compiled is None else [f"compiled in {1000 * compiled:.1f} ms"]
    return ", ".join(parts)


# ---------------------------------------------------------------- layout of JSON

_LEXEMES = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def indent_json(text: str, indent: int) -> str:
    """A JSON text on several lines, its strings and numbers exactly as they were written.

    Reading and writing it again would not do: `1e400`, `1.10` and long integers would come out as others.

    Args:
        text: valid JSON.
        indent: spaces a level; 0 for everything on one line.
    """
    lexemes = _LEXEMES.findall(text)
    out: list[str] = []
    depth = 0
    for i, lexeme in enumerate(lexemes):
        empty = i > 0 and lexeme in "}]" and lexemes[i - 1] in "{["
        if lexeme in "}]":
            depth -= 1
            out += [] if empty or not indent else ["\n", " " * (indent * depth)]
        out.append(lexeme)
        if lexeme in "{[":
            depth += 1
        opened = lexeme in "{[" and lexemes[i + 1] not in "}]"
        if (opened or lexeme == ",") and indent:
            out += ["\n", " " * (indent * depth)]
        elif lexeme in ",:":
            out.append(" ")
    return "".join(out)


def format_output(output: Output, constraint: Constraint, indent: int | None) -> str:
    """A text as it goes to standard output: as it was generated, or laid out with `indent`."""
    if indent is None or not constraint.is_json:
        return output.text
    return indent_json(output.text, indent)
