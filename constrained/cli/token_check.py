"""`constrained check --token`: whether a token may follow a text, which of its bytes is refused, and the mask that the bytes of all tokens give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.cli.exit_status import BadInput

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
        "judge": _judge(automaton, state, mask),
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


def _judge(automaton: Automaton, state: int, mask: Any) -> str:
    """How the mask differs from what each token's bytes say, each as a token by itself."""
    from constrained import _core
    from constrained.automaton.bitmask import unpack_ids
    from constrained.automaton.protocol import DEAD

    if not isinstance(automaton, _core.BaseAutomaton):
        return f"cannot tell: a {type(automaton).__name__} counts tokens, or asks a function"
    vocabulary = automaton.vocabulary
    after: dict[bytes, int] = {b"": state}
    allowed = set(vocabulary.eos_ids) if automaton.accepts(state) else set()
    for token, data in sorted(enumerate(vocabulary.tokens), key=lambda one: one[1]):
        for end in range(1, len(data) + 1):
            if data[:end] not in after:
                single = vocabulary.ids_by_bytes.get(data[end - 1 : end], -1)
                before = after[data[: end - 1]]
                after[data[:end]] = automaton.next(before, single) if before != DEAD and single >= 0 else DEAD
        if data and after[data] != DEAD:
            allowed.add(token)
    found = set(unpack_ids(mask).tolist())
    wrong = sorted(found - allowed), sorted(allowed - found)
    return f"wrongly allowed {wrong[0]}, wrongly refused {wrong[1]}" if any(wrong) else "the same mask"
