"""Detects arguments in markup: calls rendered by a chat template, compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from constrained.chat.literals import LiteralReader
from constrained.chat.template_probe import NAMES, before_tag
from constrained.chat.tool_format import common_prefix
from constrained.grammars.json_schema import PARAMETER_STYLES, parameter_style

_KEY, _OTHER = "probe_key", "probe_other"
_VALUE = "probe value"
_SIGNS = "probe < sign & more"
_SAMPLES: Mapping[str, Any] = {
    "number": 7,
    "boolean": True,
    "object": {"probe_member": 1},
    "array": ["probe item"],
}


class CallParts(NamedTuple):
    """The texts of a rendered call around its name and its arguments.

    Attributes:
        before: text before the name.
        between: text between name and arguments.
        after: text after the arguments of the last call.
        more: text between the arguments of a call and the next name; None: no second call was shown.
        parameters: the markup of the arguments, as `ToolFormat` takes it; None: they are JSON.
    """

    before: str
    between: str
    after: str
    more: str | None
    parameters: dict[str, Any] | None = None


class _Sample(NamedTuple):
    """A call with one argument, of text.

    Attributes:
        body: all of it.
        around: the texts around key and value.
        opening: text between key and value.
        separator: text between the value and the key of another argument.
    """

    body: str
    around: CallParts
    opening: str
    separator: str


def _sample(body_of: Callable[..., str | None]) -> _Sample | None:
    """What calls have around a value; None: they have no argument in this order."""
    one, two = body_of({_KEY: _VALUE}), body_of({_KEY: _VALUE, _OTHER: _VALUE})
    called = body_of({_KEY: _VALUE}, {_KEY: _VALUE})
    if one is None or two is None:
        return None
    name, value = one.find(NAMES[0]), one.find(_VALUE)
    key = one.find(_KEY, name + len(NAMES[0]))
    first = two.find(_VALUE)
    other = two.find(_OTHER, first)
    if not (0 <= name < key < value and 0 <= first < other):
        return None
    following = None
    if called is not None and NAMES[1] in called:
        following = called[called.index(_VALUE) + len(_VALUE) :]
        following = following[: following.index(NAMES[1])]
    around = CallParts(one[:name], one[name + len(NAMES[0]) : key], one[value + len(_VALUE) :], following)
    return _Sample(one, around, one[key + len(_KEY) : value], two[first + len(_VALUE) : other])


def read_markup(body_of: Callable[..., str | None]) -> CallParts | None:
    """The markup of a chat template; None if its calls have another form.

    Args:
        body_of: what the template writes for calls with these arguments, from the call on.
    """
    shown = _sample(body_of)
    if shown is None or body_of({_KEY: _SIGNS}) != shown.body.replace(_VALUE, _SIGNS):
        return None
    around = shown.around
    close = before_tag(common_prefix(shown.separator, around.after))
    nested = [style for style in PARAMETER_STYLES.values() if style.nested and "{name}" in style.close]
    named = next((style for style in nested if close.startswith(style.close.format(name=_KEY))), None)
    if named is not None:
        close = named.close.format(name=_KEY)
    before = shown.separator[len(close) :]
    if not close.strip() or not before or not around.between.endswith(before):
        return None
    if _KEY in close and named is None:
        return None
    if around.more is not None and not around.more.startswith(close):
        return None
    parameters: dict[str, Any] = (
        {"name": named.name} if named is not None else _style(before, shown.opening, close)
    )
    if named is None:
        for kind, sample in _SAMPLES.items():
            text = body_of({_KEY: sample})
            typed = None if text is None else _opening_of(text, sample)
            if typed is None:
                return None
            parameters["types"][kind] = [typed]
        parameters["types"]["null"] = parameters["types"]["number"]
        if _apart(parameters["types"]):
            parameters["types"]["null"] = [shown.opening.replace("string", "null")]
    return _inside(around, len(before), len(close), parameters)


def read_literals(body_of: Callable[..., str | None]) -> CallParts | None:
    """Arguments as names and literals; None: the calls have another form.

    What the template writes for a value of each type is read back.

    Args:
        body_of: as in `read_markup`.
    """
    shown = _sample(body_of)
    if shown is None:
        return None
    for style in PARAMETER_STYLES.values():
        if not style.literals or not shown.opening.startswith(style.after_name):
            continue
        quote = shown.opening[len(style.after_name) :]
        close = quote + style.separator
        if not quote or not shown.around.after.startswith(quote):
            continue
        if shown.separator != close or style.quotes.find(quote) > 0:
            continue
        parameters: dict[str, Any] = {"name": style.name}
        if quote not in style.quotes and quote != style.closes["string"]:
            parameters["types"] = {**style.types, "string": [quote]}
            parameters["closes"] = {**style.closes, "string": quote}
            parameters["excluded"] = quote
        found = _inside(shown.around, 0, len(quote), parameters)
        if all(_reads(found, body_of({_KEY: sample}), sample) for sample in (_SIGNS, *_SAMPLES.values())):
            return found
    return None


def _inside(around: CallParts, before: int, close: int, parameters: dict[str, Any]) -> CallParts:
    """The texts around all arguments: without so many characters before the key and behind the value."""
    more = None if around.more is None else around.more[close:]
    between = around.between[: len(around.between) - before]
    return CallParts(around.before, between, around.after[close:], more, parameters)


def _reads(markup: CallParts, body: str | None, sample: Any) -> bool:
    """Whether a value is read back from what a template writes."""
    style = None if markup.parameters is None else parameter_style(markup.parameters)
    if body is None or style is None or (start := body.find(_KEY)) < 0:
        return False
    found = LiteralReader(style).read(body[start:])
    return (
        found is not None and json.loads(found.text) == sample and body[start + found.end :] == markup.after
    )


def _apart(types: Mapping[str, list[str]]) -> bool:
    """Whether each type has an opening of its own, which names it."""
    return len({texts[0] for kind, texts in types.items() if kind != "null"}) == 1 + len(_SAMPLES)


def _style(before: str, opening: str, close: str) -> dict[str, Any]:
    known = next((style.name for style in PARAMETER_STYLES.values() if style.before == before), "qwen_xml")
    first_tag = close.strip()
    return {
        "name": known,
        "before": before,
        "after_name": "",
        "types": {"string": [opening]},
        "close": close,
        "excluded": first_tag[: first_tag.find(">") + 1] if known == "qwen_xml" else first_tag,
    }


def _opening_of(body: str, sample: Any) -> str | None:
    """The text between the key and this value, as JSON or as Python writes it."""
    key = body.find(_KEY)
    for text in (json.dumps(sample), str(sample)):
        value = body.find(text, key)
        if 0 <= key < value:
            return body[key + len(_KEY) : value]
    return None
