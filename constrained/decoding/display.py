"""Displays a completion token by token: the source of each token, and its alternatives.

Draft sources are read from the stats; the alternatives come from a second walk through the automaton.
"""

from __future__ import annotations

import codecs
import html
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from constrained.automaton.protocol import NO_LIMIT
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.stats import AnnotatedToken, Stats, TokenSource
from constrained.spec.sources import DRAFT_SOURCES

if TYPE_CHECKING:
    from rich.text import Text

    from constrained.automaton import Automaton

_LOOKS: dict[TokenSource, tuple[str, str]] = {
    "model": ("bold green", "rgba(46, 160, 67, .30)"),
    "forced": ("cyan", "rgba(56, 139, 253, .22)"),
    "literal": ("blue", "rgba(9, 105, 218, .30)"),
    "prompt_lookup": ("magenta", "rgba(191, 57, 137, .25)"),
    "slot_ngrams": ("yellow", "rgba(210, 153, 34, .30)"),
    "ngram": ("bright_yellow", "rgba(219, 171, 9, .22)"),
    "assistant": ("bright_magenta", "rgba(163, 113, 247, .25)"),
    "slot_favourites": ("bright_cyan", "rgba(57, 197, 207, .25)"),
}
"""By source, in the order of the legend: style in terminals, background colour in notebooks."""

_DRAFTED: tuple[TokenSource, ...] = (
    "prompt_lookup",
    "slot_ngrams",
    "ngram",
    "assistant",
    "slot_favourites",
)
_SHOWN = 5  # alternative tokens


def annotate_tokens(
    automaton: Automaton, tokens: Sequence[int], stats: Stats | None = None
) -> list[AnnotatedToken]:
    """The tokens of a completion with their sources and alternatives; the token limit is ignored.

    Args:
        automaton: the compiled constraint.
        tokens: token ids of the completion.
        stats: of the completion; without them draft sources are unknown.
    """
    known = stats is not None and len(stats.passes) == len(stats.draft_origins) == len(tokens)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    state = automaton.start
    annotated = []
    for i, token in enumerate(tokens):
        characters = automaton.vocabulary.decode((token,))
        source, read = _origin_source(stats.draft_origins[i] if known and stats else 0), 0
        if automaton.forced(state).startswith(automaton.vocabulary.tokens[token]):
            source = "forced"
        if known and stats:
            read = stats.passes[i]
        allowed, others = _alternatives(automaton, state, token)
        annotated.append(AnnotatedToken(decoder.decode(characters), source, allowed, others, read))
        state = automaton.next(state, token)
    return annotated


def _origin_source(origin: int) -> TokenSource:
    """The source for one entry of `Stats.draft_origins`, whose bits are draft sources."""
    for name in _DRAFTED:
        if origin >> DRAFT_SOURCES.index(name) & 1:
            return name
    return "literal" if origin else "model"


def _alternatives(automaton: Automaton, state: int, token: int) -> tuple[int | None, tuple[str, ...]]:
    following = AutomatonCandidates(automaton, state, NO_LIMIT)
    if following.expensive_membership:
        return None, ()
    ids = following.ids
    rest = [int(other) for other in ids[: _SHOWN + 1] if other != token][:_SHOWN]
    ends = automaton.vocabulary.eos_ids
    names = [
        "(end)" if other in ends else automaton.vocabulary.tokens[other].decode("utf-8", "backslashreplace")
        for other in rest
    ]
    return len(ids), tuple(names)


def _counted(
    tokens: Sequence[AnnotatedToken], stats: Stats, notes: Sequence[str]
) -> Iterator[tuple[str, TokenSource | None]]:
    """The parts of the summary, each with the source that it counts or None."""
    counts = Counter(token.source for token in tokens)
    for source in _LOOKS:
        if counts[source]:
            yield f"{counts[source]} {source}", source
    if stats.drafted:
        yield f"{stats.accepted} of {stats.drafted} draft tokens accepted", None
    yield f"{stats.forwards} forward passes", None
    yield from ((note, None) for note in notes)


def render_summary(tokens: Sequence[AnnotatedToken], stats: Stats, notes: Sequence[str]) -> Text:
    """One line with the counts of sources and forward passes, and the notes; also the legend of the colours."""
    from rich.text import Text

    parts = [
        Text(part, _LOOKS[source][0] if source else "dim") for part, source in _counted(tokens, stats, notes)
    ]
    return Text(", ", "dim").join(parts)


def _lines(tokens: Sequence[AnnotatedToken]) -> list[tuple[int, list[tuple[str, int]]]]:
    """By line: the number of forward passes that started in it, and its pieces with the indices of their tokens."""
    lines: list[tuple[int, list[tuple[str, int]]]] = [(0, [])]
    last = 0
    for number, token in enumerate(tokens):
        pieces = token.text.split("\n")
        for i, piece in enumerate(pieces):
            begun, line = lines[-1]
            if token.pass_index != last:
                begun, last = begun + 1, token.pass_index
            line.append((piece if i == len(pieces) - 1 else piece + "\n", number))
            lines[-1] = (begun, line)
            if i < len(pieces) - 1:
                lines.append((0, []))
    return lines


def _gutter(begun: int, lines: int, last: int) -> str:
    """The margin of a line; empty if there is one line only, or if the passes are unknown."""
    return f"{begun or '':>{len(str(last))}} \u2502 " if lines > 1 and last else ""


def render_terminal(tokens: Sequence[AnnotatedToken]) -> Text:
    """The completion for a terminal; several lines have a margin with the number of passes that started in each."""
    from rich.text import Text

    text = Text()
    lines, last = _lines(tokens), max((token.pass_index for token in tokens), default=0)
    for begun, line in lines:
        text.append(_gutter(begun, len(lines), last), style="dim")
        for piece, number in line:
            text.append(piece, style=_LOOKS[tokens[number].source][0])
    return text


def render_table(tokens: Sequence[AnnotatedToken]) -> Any:
    """A table for a terminal: one token per row, with its alternatives."""
    from rich.table import Table
    from rich.text import Text

    rows = Table("token", "from", "pass", "allowed", "among them", box=None, pad_edge=False)
    for token in tokens:
        allowed = "" if token.allowed is None else f"{token.allowed:,}"
        others = "  ".join(repr(other) for other in token.alternative_tokens)
        name = Text(repr(token.text), style=_LOOKS[token.source][0])
        rows.add_row(name, token.source, str(token.pass_index or ""), allowed, Text(others))
    return rows


def render_html(tokens: Sequence[AnnotatedToken], stats: Stats, notes: Sequence[str]) -> str:
    """The completion as HTML for a notebook: coloured tokens, with alternatives as tooltips, and the summary."""
    titles = []
    for token in tokens:
        note: str = token.source
        if token.pass_index:
            note += f", pass {token.pass_index}"
        if token.allowed is not None:
            note += f", {token.allowed:,} allowed"
        if token.alternative_tokens:
            note += ": " + "  ".join(repr(other) for other in token.alternative_tokens)
        titles.append(note)
    spans = []
    lines, last = _lines(tokens), max((token.pass_index for token in tokens), default=0)
    for begun, line in lines:
        gutter = _gutter(begun, len(lines), last)
        spans += [f'<span style="opacity: .5; user-select: none">{gutter}</span>'] if gutter else []
        for piece, number in line:
            style = _background(tokens[number].source)
            spans.append(f'<span title="{html.escape(titles[number])}" {style}>{html.escape(piece)}</span>')
    legend = [
        f"<span {_background(source)}>{html.escape(part)}</span>" if source else html.escape(part)
        for part, source in _counted(tokens, stats, notes)
    ]
    return (
        '<div><pre style="white-space: pre-wrap; margin: 0">' + "".join(spans) + "</pre>"
        f"<small style='font-family: system-ui, sans-serif'>{', '.join(legend)}</small></div>"
    )


def _background(source: TokenSource) -> str:
    return f'style="background: {_LOOKS[source][1]}; border-radius: 2px"'
