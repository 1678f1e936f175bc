"""What the automaton says will come: bytes that every completion begins with, and small sets of literals.

Where nothing is forced but few bytes are possible (the next optional name, an enumeration), each of them is followed to
where the next choice is. Such literals are found by asking about the single bytes, once for each state.
"""

from __future__ import annotations

from tests.reference.spec.context import DraftContext
from tests.reference.spec.protocols import DEAD, Automaton
from tests.reference.spec.sources.base import DraftSource, DraftToken

_PROBES = b"aeT1 \xc3"
_FEW = 12  # first bytes of literals
_LONGEST = 40

ForcedLiterals = dict[int, tuple[bytes, ...]]
"""By state: what may come first, as far as it is then forced. Empty where much is possible."""


class ForcedTokens(DraftSource):
    """Certain tokens, and literals.

    Attributes:
        literals: what was found out; may outlive a text, not its automaton.
    """

    def __init__(self, literals: ForcedLiterals | None = None) -> None:
        self.literals: ForcedLiterals = {} if literals is None else literals

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """The token of what is forced; or the first tokens of the literals."""
        pieces = place.request.pieces
        forced = place.forced
        if forced:
            token = pieces.next_token(place.recent_bytes, forced)
            if token is None:
                return []
            return [(token[0], 0.99 if token[1] else 0.5, int(token[1]))]
        literals = self.literals.get(place.state)
        if literals is None:
            if len(self.literals) > 1 << 16:
                self.literals.clear()
            literals = self.literals[place.state] = self._find(place)
        if not literals:
            return []
        found: dict[int, DraftToken] = {}
        share = 1.0 / len(literals)
        for literal in literals:
            token = pieces.next_token(place.recent_bytes, literal)
            if token is not None and token[0] not in found:
                found[token[0]] = (token[0], share, 2 + 16 * token[1] + len(literals))
        return list(found.values())

    def _find(self, place: DraftContext) -> tuple[bytes, ...]:
        automaton = place.request.automaton
        ids = place.request.pieces.ids
        if _many(automaton, place.state, ids):
            return ()
        found = []
        for byte in range(256):
            first = bytes((byte,))
            token = ids.get(first)
            if token is None:
                continue
            state = automaton.next(place.state, token)
            if state != DEAD:
                found.append((first + automaton.forced(state))[:_LONGEST])
                if len(found) > _FEW:
                    return ()
        return tuple(found)


def _many(automaton: Automaton, state: int, ids: dict[bytes, int]) -> bool:
    """Whether text can stand here: bytes that have nothing in common are allowed."""
    allowed = 0
    for byte in _PROBES:
        token = ids.get(bytes((byte,)))
        allowed += token is not None and automaton.next(state, token) != DEAD
    return allowed > 2
