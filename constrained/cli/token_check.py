"""`constrained check --token`: whether a token may follow a text, which of its bytes is refused, and the slow judge's mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.cli.exit_status import BadInput
from constrained.errors import ConstrainedError

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint
    from constrained.vocabulary import Vocabulary


def examine_token(constraint: Constraint, vocabulary: Vocabulary, text: str, token: str) -> dict[str, Any]:
    """What the mask after `text` says of a token, named by its text or ``id:NUMBER``, and why; as JSON values.

    Raises:
        BadInput: there is no such token, or the constraint refuses the text itself.
        ConstrainedError: the constraint cannot be enforced.
    """
    from constrained.automaton import DEAD, compile
    from constrained.automaton.bitmask import allows

    automaton = compile(constraint, vocabulary)
    vocabulary = automaton.vocabulary
    number = token[3:] if token.startswith("id:") else ""
    id_ = int(number) if number.isdecimal() else vocabulary.ids_by_bytes.get(token.encode(), -1)
    if not 0 <= id_ < vocabulary.size:
        raise BadInput(f"{token!r} is no token", action="name a whole token by its text, or by id:NUMBER")
    tokens = vocabulary.encode(text)
    *_, state = states = [automaton.start, *automaton.walk(automaton.start, tokens)]
    if len(states) <= len(tokens):
        raise BadInput(f"--after is refused: {_why(automaton, state, tokens[len(states) - 1])}")
    mask = automaton.new_mask()
    automaton.fill_mask(state, mask)
    return {
        "token": id_,
        "bytes": repr(vocabulary.tokens[id_]),
        "allowed": allows(mask, id_),
        "transition": automaton.next(state, id_) != DEAD,
        "reason": _why(automaton, state, id_),
        "judge": _judge(constraint, text, vocabulary, mask),
    }


def _why(automaton: Automaton, state: int, token: int) -> str:
    """Why a token is allowed or refused: the automaton follows its bytes, each as a token."""
    data = automaton.vocabulary.tokens[token]
    for number, byte in enumerate(data, 1):
        single = automaton.vocabulary.ids_by_bytes.get(bytes([byte]), -1)
        after = automaton.next(state, single) if single >= 0 else 0
        if not after:
            refused = f"byte {number} of {len(data)}, {bytes([byte])!r}"
            return f"{refused}, is refused; {_following(automaton, state)}"
        state = after
    return f"{'each of its bytes is allowed' if data else 'it has no bytes'}; {_following(automaton, state)}"


def _following(automaton: Automaton, state: int) -> str:
    singles = ((byte, automaton.vocabulary.ids_by_bytes.get(bytes([byte]), -1)) for byte in range(256))
    allowed = bytes(byte for byte, single in singles if single >= 0 and automaton.next(state, single))
    shown = allowed.decode("ascii", "replace").rstrip("\ufffd")
    others = f" and {len(allowed) - len(shown)} bytes that are not ASCII" if not allowed.isascii() else ""
    return f"there may follow: {shown!r}{others}{', or the end' if automaton.accepts(state) else ''}"


def _judge(constraint: Constraint, text: str, vocabulary: Vocabulary, mask: Any) -> str:
    """How the mask differs from that of the independent recognizer, which reads the grammar byte by byte."""
    from constrained.testing import ReferenceRecognizer, brute_force_mask, mask_diff

    try:
        recognizer = ReferenceRecognizer(constraint.grammar)
    except ConstrainedError as error:
        return f"cannot tell: {error.summary}"
    wrong = mask_diff(mask, brute_force_mask(recognizer, text.encode(), vocabulary))
    return f"wrongly allowed {wrong[0]}, wrongly refused {wrong[1]}" if wrong else "the same mask"
