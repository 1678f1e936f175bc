"""One generation: load a model, compile the constraint, decode; progress and statistics on standard error."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from constrained.cli.exit_status import BadInput
from constrained.cli.options import DecodingOptions, Verbosity, resolve_speculation_option

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.decoding import Output
    from constrained.extraction import Extraction
    from constrained.models import LanguageModel, Prompt

StatusCallback = Callable[[str], None]
"""Shows the present step."""

_TAIL = 48
"""Characters of the output that the status line shows."""


def load_model(name: str | None, device: str | None, *, watched: bool) -> LanguageModel:
    """Loads a model by name or folder, or the bundled one; progress bars of downloads are shown if `watched`.

    Raises:
        ModelError, VocabularyError: as `constrained.load`.
    """
    silence_libraries(bars=watched and name is not None)
    from constrained.models import load

    loaded = load(name, device=device)
    if name is None:
        import torch

        torch.set_num_threads(1)  # the model is so small that threads wait longer than they compute
    return loaded


def silence_libraries(*, bars: bool = False) -> None:
    """Silences the warnings of other libraries, and their progress bars unless `bars`; the environment overrides it."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not bars:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def run_generation(
    constraint: Constraint,
    make_prompt: Callable[[Constraint], Prompt],
    options: DecodingOptions,
    verbosity: Verbosity,
) -> Output:
    """Generates one completion.

    Args:
        constraint: the completion satisfies it.
        make_prompt: makes the prompt.
        options: the model, its sampler and their settings.
        verbosity: what is shown meanwhile.

    Raises:
        Truncated: the token limit changed or ended the completion, unless the options say ``close``.
        ConstrainedError: as `constrained.load`, `Generator` and its call.
    """
    with status_line(shown=verbosity.progress and not verbosity.stream) as show_status:
        show_status("reading the constraint")
        from constrained.sampling import resolve_sampler

        sampler = None if options.sampler is None else resolve_sampler(options.sampler)
        _ = constraint.grammar  # errors in the constraint come before the model is loaded
        show_status("loading the model")
        model = load_model(options.model, options.device, watched=verbosity.progress)
        from constrained.automaton import compile
        from constrained.decoding.cut import check_on_limit, truncation_first
        from constrained.extraction.plan import value_generator

        on_limit = check_on_limit(options.on_limit)
        show_status("compiling the constraint")
        start = time.perf_counter()
        automaton = compile(constraint, model.vocabulary)
        compile_seconds = time.perf_counter() - start
        speculation = resolve_speculation_option(options.speculation)
        generator = value_generator(model, automaton, sampler, speculation, options.on_repeat)
        show_status("reading the prompt")
        output = None
        tokens = 0
        from constrained.cli.stream_display import live_display

        with (
            truncation_first(on_limit),
            live_display(shown=verbosity.stream, is_json=constraint.is_json) as show,
        ):
            for chunk in generator.stream(make_prompt(constraint), **options.settings()):
                tokens += len(chunk.tokens)
                show(chunk.text)
                show_status(f"{tokens} tokens  {_tail(chunk.text)}")
                output = chunk.output
    assert output is not None, "a stream ended without its output"
    if verbosity.statistics:
        print(format_statistics(output, compile_seconds), file=sys.stderr)
    output.raise_if_cut(on_limit)
    return output


def run_extraction(
    constraint: Constraint,
    text: str,
    arguments: dict[str, Any],
    options: DecodingOptions,
    verbosity: Verbosity,
    images: Sequence[Any] = (),
) -> Extraction[Any]:
    """Extracts a value from one text, and images.

    Args:
        constraint: of the value.
        text: the document; may be empty beside images.
        arguments: of `Extractor`.
        options: the model, its sampler and their settings.
        verbosity: what is shown meanwhile.
        images: PIL images before the text.

    Raises:
        BadInput: there are images, and the model reads none.
        ConstrainedError: as `constrained.load`, `Extractor` and its call.
    """
    with status_line(shown=verbosity.progress and not verbosity.stream) as show_status:
        show_status("loading the model")
        _ = constraint.grammar
        from constrained.cli.stream_display import live_display
        from constrained.errors import ModelError
        from constrained.extraction import Extractor

        model = load_model(options.model, options.device, watched=verbosity.progress)
        if images and model.images is None:
            raise BadInput(
                f"--image: the model {options.model or 'bundled'} reads no images",
                action="name a vision-language model of transformers: --model Qwen/Qwen2.5-VL-3B-Instruct",
            )
        document = [*images, *([text] if text else [])] if images else text
        extractor: Extractor[Any] = Extractor(model, constraint, **options.extractor_arguments(), **arguments)
        show_status("reading the text")
        found: Extraction[Any] | None = None
        try:
            if not verbosity.stream:
                found = extractor(document, **options.settings())
            with live_display(shown=verbosity.stream, is_json=constraint.is_json) as show:
                for partial in extractor.stream(document, **options.settings()) if verbosity.stream else ():
                    show(partial.text)
                    found = partial.result
        except ModelError as error:  # no batch of texts, whose size its advice is about
            raise error if error.__cause__ is None else error.__cause__ from None
    assert found is not None, "a stream ended without its result"
    if verbosity.statistics and found.output is not None:
        print(format_statistics(found.output), file=sys.stderr)
    return found


@contextlib.contextmanager
def status_line(*, shown: bool) -> Iterator[StatusCallback]:
    """A line on standard error that shows the present step and disappears at the end; what is printed meanwhile goes there, too."""
    with contextlib.redirect_stdout(sys.stderr):
        if not shown:
            yield lambda text: None
            return
        from rich.console import Console
        from rich.text import Text

        with Console(stderr=True).status("") as status:
            yield lambda text: status.update(Text(text, overflow="ellipsis", no_wrap=True))


def _tail(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TAIL else "..." + line[3 - _TAIL :]


def format_statistics(output: Output, compile_seconds: float | None = None) -> str:
    """Statistics of one completion in one line.

    Args:
        output: the completion.
        compile_seconds: seconds of compilation; None leaves them out.
    """
    stats = output.stats
    parts = [
        f"{stats.tokens} tokens in {stats.seconds:.2f} s",
        f"{stats.forwards} forward passes",
        f"prompt {stats.prompt_tokens} tokens",
        f"distribution {output.distribution}",
        f"ended: {output.finish}",
    ]
    parts += [f"{stats.accepted} of {stats.drafted} draft tokens accepted"] if stats.drafted else []
    parts += [] if stats.attempts == 1 else [f"{stats.attempts} attempts"]
    parts += [] if output.distribution == "greedy" else [f"seed {stats.seed}"]
    parts += [] if compile_seconds is None else [f"compiled in {1000 * compile_seconds:.1f} ms"]
    return ", ".join(parts)


# ---------------------------------------------------------------- layout of JSON

_LEXEMES = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def indent_json(text: str, indent: int) -> str:
    """Lays out JSON text on several lines without changing its strings and numbers.

    `json.loads` and `json.dumps` would change `1e400`, `1.10` and long integers.

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


def format_text(text: str, constraint: Constraint, indent: int | None) -> str:
    """A completion for standard output: as generated, or with `indent` spaces a level."""
    return text if indent is None or not constraint.is_json else indent_json(text, indent)
