"""`Cut`: where the token limit changed or ended a completion, and what callers do about it.

Near its limit a sequence is completed in time: tokens after which it could not be completed are excluded. Where that
excluded the very token that would have been drawn, the completion is valid, but not what the model would have written.
This is a statement of one completion for samplers that draw token by token (``"local"``, ``"awrs"``). The others draw from
the model's distribution over the texts within the limit, and an excluded token is no cut: without the limit it
could have been rejected.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from constrained.decoding.json_reader import JsonReader
from constrained.decoding.partial_json import open_pointer, partial_json
from constrained.errors import InvalidArgument, Problem, RejectedValue, Truncated

if TYPE_CHECKING:
    from constrained.automaton import Automaton

OnLimit = Literal["raise", "close"]
"""What to do about a completion that the token limit changed: raise `Truncated`, or take it closed as it is."""

_SHOWN = 40
"""Characters of the completion that an error message shows."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The first place where the token limit changed or ended a completion.

    With a larger limit, equal settings and seed, the completion has the same tokens up to here. Behind it stands what
    the constraint needs to be complete in time.

    Attributes:
        limit: the token limit: `max_tokens`, or what the model's context leaves.
        position: number of tokens before it.
        offset: number of characters before it; a character whose bytes are not complete there is not counted.
        byte_offset: number of bytes before it.
        pointer: JSON pointer of the value that was open there; None if the constraint is not JSON.
        token: id of the token that the limit excluded; None if the limit ended the completion where it was complete,
            and the model was not asked whether it would go on (`constrained.sampling.ends`).
        token_text: characters of that token; empty for None and for an end of sequence.
    """

    limit: int
    position: int
    offset: int
    byte_offset: int
    pointer: str | None = None
    token: int | None = None
    token_text: str = ""


def locate_cut(
    automaton: Automaton, tokens: Sequence[int], limit: int, position: int, token: int | None
) -> Cut:
    """The cut at a position of a completion.

    Args:
        automaton: of the constraint.
        tokens: token ids of the completion.
        limit: the token limit.
        position: number of tokens before the cut.
        token: the token that the limit excluded, or None.
    """
    vocabulary, constraint = automaton.vocabulary, automaton.constraint
    before = vocabulary.decode(tokens[:position])
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(before)
    ends = token is None or token in vocabulary.eos_ids
    return Cut(
        limit=limit,
        position=position,
        offset=len(text),
        byte_offset=len(before),
        pointer=open_pointer(text) if constraint is not None and constraint.is_json else None,
        token=token,
        token_text="" if ends or token is None else vocabulary.decode((token,)).decode("utf-8", "replace"),
    )


def truncated_error(text: str, cut: Cut) -> Truncated:
    """The error for a completion that the token limit changed or ended.

    Args:
        text: the completion.
        cut: where.
    """
    before = text[: cut.offset]
    size = _repeated(before)
    is_json = cut.pointer is not None
    what, bounds = _what_goes_on(before, size) if is_json else ("the text", "a pattern")
    bound = f"bound it ({bounds})" if bounds else ""
    ways = (
        [bound, "ground it in the text (require_grounding=True)", 'pass on_repeat="close"']
        if is_json
        else [bound]
    )
    more = "raise max_tokens (if the model's context is the limit: shorten the prompt)"
    tail = before if len(before) <= _SHOWN else "..." + before[-_SHOWN:]
    reason = "the constraint allows more here" if cut.token is None else f"{cut.token_text!r} would follow"
    place = f"after {cut.position} tokens" + (f", in {cut.pointer}" if cut.pointer else "")
    return Truncated(
        f"the token limit of {cut.limit} cut the completion: {what} {'repeats' if size else 'goes on'}",
        Problem(place, reason, tail),
        action=(
            ", or ".join(filter(None, ways)) + "; a larger max_tokens gives more of the same"
            if size
            else ", ".join(
                filter(None, (more, bound, 'or pass on_limit="close" for what was closed in time'))
            )
        ),
        text=before,
        value=None if cut.pointer is None else partial_json(before),
        cut=cut,
    )


_REPEATED = re.compile(r"(.{1,80}?)\1{3,}\Z", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*\Z")
_BOUNDS = {
    "string": "max_string_length, maxLength, a pattern",
    "array": "max_items, maxItems; set[...] has no item twice",
    "number": "minimum and maximum, max_digits",
}


def _repeated(text: str) -> int:
    """How many characters a text ends with that are the same piece, four times or more; 0 if they are fewer than 24."""
    found = _REPEATED.search(text[-400:])
    return 0 if found is None or len(found[0]) < 24 else len(found[0])


def _what_goes_on(text: str, size: int) -> tuple[str, str]:
    """The innermost value of a JSON text that is open at its end and holds its last `size` characters; and what bounds it."""
    number = _NUMBER.search(text)
    reader = JsonReader()
    reader.read(text.encode("utf-8", "replace"))
    start = reader.value_around(len(text[len(text) - size :].encode("utf-8", "replace")))
    kind, pointer = "value", ""
    if reader.string is None and number is not None and len(number[0]) >= size:
        kind, pointer = "number", open_pointer(text)
    elif start is not None:
        before = bytes(reader.text[:start]).decode("utf-8", "replace")
        pointer = open_pointer(before)
        kind = "array" if reader.text[start] == 0x5B else "object" if reader.text[start] == 0x7B else "string"
        inside = reader.open and not reader.open[-1].is_array
        if kind == "string" and inside and not before.rstrip().endswith(":"):
            kind = "object"  # the string is the name of a member
    return f"the {kind} {pointer}".rstrip(), _BOUNDS.get(kind, "")


def check_on_limit(on_limit: Any) -> OnLimit:
    """The argument ``on_limit``.

    Raises:
        InvalidArgument: it is neither ``"raise"`` nor ``"close"``.
    """
    if on_limit not in ("raise", "close"):
        raise InvalidArgument(f"on_limit is {on_limit!r}", action='pass "raise" or "close"')
    return on_limit  # type: ignore[no-any-return]


@contextmanager
def truncation_first(on_limit: OnLimit) -> Iterator[None]:
    """Raises `Truncated` in place of the `RejectedValue` of a completion that the token limit changed.

    What a validator says of a value that was closed in time is a consequence of the limit. With ``"close"`` errors
    are left as they are.
    """
    try:
        yield
    except RejectedValue as error:
        if on_limit == "raise" and error.cut is not None:
            raise truncated_error(error.text, error.cut) from error
        raise
