"""What the automaton says will come: forced bytes, in the layout of the text, and its usual choices.

A continuation runs on over free white space as the text before has it, over one of a few literals, and over the choice of
a comma or a closing bracket; it may end the string or number that is being written. Continuations are found by asking
about single bytes, once for each state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.reference.spec.byte_classes import byte_class, length_class
from tests.reference.spec.context import DraftContext
from tests.reference.spec.layout import OTHER, SPACE, USUAL, Layout, LayoutReader
from tests.reference.spec.protocols import DEAD
from tests.reference.spec.sources.base import DraftSource, DraftToken
from tests.reference.spec.sources.prompt_lookup import what_follows

_PROBES = b"aeT1 \xc3"
_FEW = 12  # bytes that are worth telling apart
_BRANCHES = 24
_CHOICES = 2  # with several outcomes, in one continuation
_LONGEST = 48
_DIGITS = b"0123456789"

_COPIED = 1 << 14
_COPIED_PRIORS = (0.0, 0.02, 0.2, 0.4, 0.1)
NO_CHOICE, LAYOUT, STRING_END, NUMBER_END, SEPARATOR, LITERAL = range(6)
_PRIORS = (0.5, 0.9, 0.1, 0.3, 0.4)


class Continuation(NamedTuple):
    """A continuation.

    Attributes:
        text: its bytes.
        forced: how many of them are forced.
        choice: the first one that it makes; LITERAL + n: one of n literals.
    """

    text: bytes
    forced: int
    choice: int


@dataclass(frozen=True)
class _Walk:
    """A continuation that is being written."""

    state: int
    reader: LayoutReader
    text: bytes = b""
    forced: int | None = None
    choice: int = NO_CHOICE
    choices: int = _CHOICES

    def choose(self, choice: int) -> _Walk:
        made = self.choice != NO_CHOICE
        return self if made else replace(self, choice=choice, forced=len(self.text))


class ForcedTokens(DraftSource):
    """Tokens of the continuations.

    Attributes:
        layout: of the last text; the drafter keeps it.
    """

    def __init__(self, layout: Layout = USUAL, document: bytes = b"") -> None:
        self.layout = layout
        self._document = document

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """The first token of each continuation."""
        pieces = place.request.pieces
        found: dict[int, DraftToken] = {}
        for one in self.continuations(place):
            token = pieces.next_token(place.recent_bytes, one.text)
            if token is None or token[0] in found:
                continue
            written = pieces.tokens[token[0]]
            if len(written) <= one.forced:
                found[token[0]] = (token[0], 0.99 if token[1] else 0.5, int(token[1]))
                continue
            last = written.rstrip(SPACE)[-1:]
            kind = one.choice * 8 + (b',}]":'.index(last) if last and last in b',}]":' else 5)
            literals = one.choice - LITERAL
            prior = 1 / literals if literals > 0 else _PRIORS[one.choice]
            following = 0
            if one.choice in (STRING_END, NUMBER_END):
                following = what_follows(self._document, place)
            if following:
                prior = _COPIED_PRIORS[following]
                kind = _COPIED + (kind * 8 + following) * 8 + byte_class(place.recent_bytes[-1])
            elif one.choice in (STRING_END, NUMBER_END):
                assert place.json_path is not None
                length = length_class(len(place.json_path.partial))
                kind = (kind * 8 + length) * 8 + byte_class(place.recent_bytes[-1]) + 1
            else:
                kind = kind * 64 + token[1] * 8
            found[token[0]] = (token[0], prior, kind + 2)
        return list(found.values())

    def continuations(self, place: DraftContext) -> list[Continuation]:
        """How texts usually go on after a place."""
        reader = LayoutReader.at(place.json_path, place.recent_bytes)
        out: list[Continuation] = []
        self._walk(place, _Walk(place.state, reader), out)
        return out

    def _walk(self, place: DraftContext, walk: _Walk, out: list[Continuation]) -> None:
        automaton, is_json = place.request.automaton, place.json_path is not None

        def appended(one: _Walk, byte: int) -> _Walk | None:
            token = place.request.pieces.ids.get(bytes((byte,)))
            state = DEAD if token is None else automaton.next(one.state, token)
            if state == DEAD:
                return None
            return replace(one, state=state, text=one.text + bytes((byte,)), reader=one.reader.read(byte))

        def end() -> None:
            if walk.text and len(out) < _BRANCHES:
                forced = len(walk.text) if walk.forced is None else min(walk.forced, len(walk.text))
                out.append(Continuation(walk.text, forced, walk.choice))

        while len(walk.text) < _LONGEST:
            forced = automaton.forced(walk.state)[: _LONGEST - len(walk.text)]
            stuck = not forced
            for byte in forced:
                after = appended(walk, byte)
                if after is None:
                    stuck = True
                    break
                walk = after
            if not stuck:
                continue
            choices = _first_bytes(place, walk.state)
            reader = walk.reader
            if choices is None or (not is_json and len(choices) > _FEW):
                if not is_json or walk.text or not reader.quoted or reader.escaped:
                    return end()
                walk = walk.choose(STRING_END)
                after = appended(walk, ord('"'))
                if after is None:
                    return end()
                walk = after
                continue
            choice = NO_CHOICE
            if is_json and not reader.quoted:
                spaces = any(byte in SPACE for byte in choices)
                if spaces and reader.place is not None:
                    usual = self.layout[reader.place]
                    if usual == b"\n" and reader.place != OTHER:
                        return end()
                    if usual == b" ":
                        walk = walk.choose(LAYOUT)
                        after = appended(walk, ord(" "))
                        if after is None:
                            return end()
                        walk = after
                        continue
                choices = bytes(byte for byte in choices if byte not in SPACE)
                choice = LAYOUT if spaces else NO_CHOICE
                if any(byte in _DIGITS for byte in choices):
                    if walk.text:
                        return end()
                    choices = bytes(byte for byte in choices if byte not in _DIGITS + b".eE+-")
                    choice = NUMBER_END
            if not choices or len(choices) > _FEW:
                return end()
            if len(choices) > 1 and choice != NUMBER_END:
                separates = is_json and not reader.quoted and all(byte in b",}]" for byte in choices)
                choice = SEPARATOR if separates else LITERAL + len(choices)
            if len(choices) > 1 and (not walk.choices or (not is_json and walk.text)):
                return end()
            if choice != NO_CHOICE:
                walk = walk.choose(choice)
            if len(choices) > 1:
                walk = replace(walk, choices=walk.choices - 1)
                for byte in choices:
                    branch = appended(walk, byte)
                    if branch is not None:
                        self._walk(place, branch, out)
                return None
            after = appended(walk, choices[0])
            if after is None:
                return end()
            walk = after
        return end()


def _first_bytes(place: DraftContext, state: int) -> bytes | None:
    """The bytes that are allowed in a state; None where bytes that have nothing in common are: text can stand there."""
    automaton, ids = place.request.automaton, place.request.pieces.ids

    def allowed(byte: int) -> bool:
        return bytes((byte,)) in ids and automaton.next(state, ids[bytes((byte,))]) != DEAD

    if sum(map(allowed, _PROBES)) > 2:
        return None
    return bytes(filter(allowed, range(256)))
