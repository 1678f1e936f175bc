"""A finished text, token by token: where each token came from, and what else was allowed in its place.

Nothing of this is recorded while a text is written; it is found by going along the automaton once more.
"""

from __future__ import annotations

import codecs
import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from constrained.decoding.candidates import Following

if TYPE_CHECKING:
    from rich.text import Text

    from constrained.automaton import TokenAutomaton
    from constrained.decoding.output import Output

Source = Literal["model", "forced"]
"""``model``: it was chosen among others; ``forced``: the constraint leaves no other characters."""

_STYLES: dict[Source, str] = {"model": "bold green", "forced": "cyan"}
_COLOURS: dict[Source, str] = {"model": "rgba(46, 160, 67, .30)", "forced": "rgba(56, 139, 253, .22)"}
_SHOWN = 5  # of the other tokens
_UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token of a text.

    Attributes:
        text: its characters; a character that several tokens share stands with the last of them.
        source: where it came from.
        allowed: tokens that the constraint allowed in this place (an end of sequence counts as one); None under a
            predicate, which would have to be asked about each.
        others: a few of those that were not taken.
    """

    text: str
    source: Source
    allowed: int | None
    others: tuple[str, ...]


def shown_tokens(automaton: TokenAutomaton, tokens: Sequence[int]) -> list[ShownToken]:
    """The tokens of a text of this automaton; limits on the number of tokens are not looked at."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    state = automaton.start
    found = []
    for token in tokens:
        said = automaton.vocabulary.tokens[token]
        source: Source = "forced" if automaton.forced(state).startswith(said) else "model"
        allowed, others = _alternatives(automaton, state, token)
        found.append(ShownToken(decoder.decode(said), source, allowed, others))
        state = automaton.next(state, token)
    return found


def _alternatives(automaton: TokenAutomaton, state: int, token: int) -> tuple[int | None, tuple[str, ...]]:
    following = Following(automaton, state, _UNLIMITED)
    if following.costly:
        return None, ()
    ids = following.ids
    rest = [int(other) for other in ids[: _SHOWN + 1] if other != token][:_SHOWN]
    ends = automaton.vocabulary.eos_ids
    names = [
        "(end)" if other in ends else automaton.vocabulary.tokens[other].decode("utf-8", "backslashreplace")
        for other in rest
    ]
    return len(ids), tuple(names)


def summary(output: Output, tokens: Sequence[ShownToken]) -> str:
    """What a text cost and where its tokens came from, in one line."""
    counts = Counter(token.source for token in tokens)
    parts = [f"{counts[source]} {source}" for source in _STYLES if counts[source]]
    # Sources of guesses, where there were any: they never change a text, only what it costs.
    guessed: dict[str, Any] = getattr(output.stats, "sources", None) or {}
    parts += [f"{name} guessed {hits} right" for name, (_, hits) in guessed.items() if hits]
    parts += [f"{output.stats.forwards} forward passes", output.law, f"ended: {output.finish}"]
    return ", ".join(parts)


def coloured(tokens: Sequence[ShownToken]) -> Text:
    """The text for a terminal."""
    from rich.text import Text

    text = Text()
    for token in tokens:
        text.append(token.text, style=_STYLES[token.source])
    return text


def table(tokens: Sequence[ShownToken]) -> Any:
    """The tokens for a terminal, one a line, with what else was allowed."""
    from rich.table import Table
    from rich.text import Text

    rows = Table("token", "from", "allowed", "among them", box=None, pad_edge=False)
    for token in tokens:
        allowed = "" if token.allowed is None else f"{token.allowed:,}"
        others = "  ".join(repr(other) for other in token.others)
        rows.add_row(Text(repr(token.text), style=_STYLES[token.source]), token.source, allowed, Text(others))
    return rows


def as_html(output: Output, tokens: Sequence[ShownToken]) -> str:
    """The text for a notebook: colours, and what else was allowed where the pointer rests on a token."""
    spans = []
    for token in tokens:
        note: str = token.source
        if token.allowed is not None:
            note += f", {token.allowed:,} allowed"
        if token.others:
            note += ": " + "  ".join(repr(other) for other in token.others)
        style = f"background: {_COLOURS[token.source]}; border-radius: 2px"
        spans.append(f'<span title="{html.escape(note)}" style="{style}">{html.escape(token.text)}</span>')
    return (
        '<div><pre style="white-space: pre-wrap; margin: 0">' + "".join(spans) + "</pre>"
        f"<small>{html.escape(summary(output, tokens))}</small></div>"
    )
