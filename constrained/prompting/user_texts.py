"""Texts of users in a chat never become special tokens, whatever they contain.

A chat template writes special tokens as text, such as ``<|im_end|>``, and the tokenizer reads them back. A text of a user
with these letters would end its message there. So a break is put into such letters before the template sees them, and the
rendered text is encoded in pieces between the breaks. A text that begins or ends inside of such a name has one, too: a template
may write the rest of the name, or another text with it, beside this one. Other texts have no breaks, and the ids that they
always had.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from constrained.errors import PromptError

BREAK = "\ufdd0"
"""A code point that is no character, and so in no text; see `mark`."""

_MARKUP = re.compile(r"[<\[\u300c\uff5c|].*[>\]\u300d\uff5c|]", re.DOTALL)

_ValueT = TypeVar("_ValueT")


class _Names(NamedTuple):
    """Names that no text may have a part in.

    Attributes:
        whole: matches one; None if there are none.
        begins: the first characters of those that look like markup, down to one.
        ends: their last characters, down to two: a text that begins with ``>`` is no rarity, and no template stops there.
        insides: them without their first and last character, which templates write around keys.
        longest: characters of the longest of these parts.
    """

    whole: re.Pattern[str] | None
    begins: frozenset[str]
    ends: frozenset[str]
    insides: frozenset[str]
    longest: int


_patterns: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()


def mark(value: _ValueT, tokenizer: Any, *, special_only: bool = False) -> _ValueT:
    """A text, or a JSON value with texts, with a break in everything that the tokenizer would read as a special token.

    Args:
        value: strings, and lists and mappings of them, are copied; other values are returned as they are.
        tokenizer: a Hugging Face tokenizer.
        special_only: leave markup that is not special to the tokenizer, such as ``<think>`` in many: templates look for it in
            what the assistant wrote.

    Raises:
        PromptError: a text contains `BREAK`.
    """
    marked: _ValueT = _mark(value, _patterns_of(tokenizer)[special_only])
    return marked


def mark_messages(messages: Iterable[Mapping[str, Any]], tokenizer: Any) -> list[dict[str, Any]]:
    """Messages of a chat in whose texts nothing can become a special token.

    Raises:
        PromptError: a text contains `BREAK`.
    """
    both = _patterns_of(tokenizer)  # once: a chat may have thousands of messages
    marked = []
    for message in messages:
        own = message.get("role") == "assistant"  # templates look for markup such as <think> in its content
        marked.append(
            {
                # A template compares roles, and writes them.
                name: value
                if name == "role" and str(value).isidentifier()
                else _mark(value, both[own and name == "content"])
                for name, value in message.items()
            }
        )
    return marked


def encode_marked(text: str, tokenizer: Any, *, special: bool) -> list[int]:
    """Token ids of a rendered text with breaks.

    Args:
        text: pieces between breaks are encoded one by one.
        tokenizer: a Hugging Face tokenizer.
        special: whether the tokenizer adds its special tokens around the text.
    """
    first, *others = text.split(BREAK)
    if not others:
        return _ids(text, tokenizer, special=special)
    ids = [token for piece in (first, *others) for token in _ids(piece, tokenizer, special=False)]
    if not special:
        return ids
    bare, around = (_ids("a", tokenizer, special=flag) for flag in (False, True))
    begin = next((i for i in range(len(around)) if around[i : i + len(bare)] == bare), 0)
    return [*around[:begin], *ids, *around[begin + len(bare) :]]


def _ids(text: str, tokenizer: Any, *, special: bool) -> list[int]:
    # Of transformers' tokenizers, whose warning about a text over the context would stand beside this library's error.
    quiet = {"verbose": False} if hasattr(tokenizer, "deprecation_warnings") else {}
    return [int(token) for token in tokenizer(text, add_special_tokens=special, **quiet)["input_ids"]]


def _mark(value: Any, names: _Names) -> Any:
    if isinstance(value, str):
        if BREAK in value:
            raise PromptError(
                f"character {value.index(BREAK)} of a text is U+FDD0, which is no character",
                action="remove it",
            )
        return _broken(value, names)
    if isinstance(value, Mapping):
        return {_mark(key, names): _mark(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_mark(one, names) for one in value]
    return value


def _broken(text: str, names: _Names) -> str:
    """The text with a break behind the first character of each name and part of one, overlapping ones too."""
    if names.whole is None:
        return text
    places = {1} if text in names.insides else set()
    begin = 0
    while found := names.whole.search(text, begin):
        begin = found.start() + 1
        places.add(begin)
    for size in range(1, min(names.longest, len(text)) + 1):
        if text[-size:] in names.begins:
            places.add(len(text) - size + 1)
        if text[:size] in names.ends:
            places.add(1)
    if not places:
        return text
    cuts = [0, *sorted(places), len(text)]
    return BREAK.join(text[start:end] for start, end in pairwise(cuts))


def _patterns_of(tokenizer: Any) -> tuple[_Names, _Names]:
    """Markup and special tokens, and special tokens alone."""
    try:
        known = _patterns.get(tokenizer)
    except TypeError:  # not hashable
        known = None
    if known is None or known[0] != _count(tokenizer):
        known = (_count(tokenizer), *_made(tokenizer))
        with contextlib.suppress(TypeError):
            _patterns[tokenizer] = known
    return known[1], known[2]


def _count(tokenizer: Any) -> int:
    return len(getattr(tokenizer, "added_tokens_decoder", ()))


def _made(tokenizer: Any) -> tuple[_Names, _Names]:
    added = dict(getattr(tokenizer, "added_tokens_decoder", {})).values()
    special = {str(token) for token in added if token.special} | set(
        map(str, getattr(tokenizer, "all_special_tokens", ()))
    )
    markup = {str(token) for token in added if _MARKUP.fullmatch(str(token))}
    return _names(special | markup), _names(special)


def _names(texts: set[str]) -> _Names:
    long = sorted((text for text in texts if len(text) > 1), key=lambda text: (-len(text), text))
    markup = [text for text in long if _MARKUP.fullmatch(text)]
    return _Names(
        re.compile("|".join(map(re.escape, long))) if long else None,
        frozenset(text[:size] for text in markup for size in range(1, len(text))),
        frozenset(text[start:] for text in markup for start in range(1, len(text) - 1)),
        frozenset(text[1:-1] for text in markup),
        max(map(len, markup), default=0),
    )
