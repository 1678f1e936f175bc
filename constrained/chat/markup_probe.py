"""Detects arguments in markup: calls rendered by a chat template, compared.

Must not know: LangChain, servers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
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


class Markup(NamedTuple):
    """What a rendered call shows.

    Attributes:
        parameters: the markup of the arguments, as `ToolFormat` takes it.
        between: text between name and arguments.
        after: text after the arguments of the last call.
        more: text between the arguments of a call and the next name; None: no second call was shown.
    """

    parameters: dict[str, Any]
    between: str
    after: str
    more: str | None


def read_markup(body_of: Callable[..., str | None]) -> Markup | None:
    """The markup of a chat template; None if its calls have another form.

    Args:
        body_of: what the template writes for calls with these arguments, from the call on.
    """
    one, two = body_of({_KEY: _VALUE}), body_of({_KEY: _VALUE, _OTHER: _VALUE})
    called = body_of({_KEY: _VALUE}, {_KEY: _VALUE})
    if one is None or two is None or body_of({_KEY: _SIGNS}) != one.replace(_VALUE, _SIGNS):
        return None
    head, opening, tail = _cut(one)
    separator = _between_values(two)
    if None in (head, opening, tail, separator):
        return None
    assert head is not None
    assert opening is not None
    assert tail is not None
    assert separator is not None
    close = before_tag(common_prefix(separator, tail))
    named = next((style for style in _nested() if close.startswith(style.close.format(name=_KEY))), None)
    if named is not None:
        close = named.close.format(name=_KEY)
    before = separator[len(close) :]
    if not close.strip() or not before or not head.endswith(before):
        return None
    if _KEY in close and named is None:
        return None
    more = None
    if called is not None and NAMES[1] in called:
        after = called[called.index(_VALUE) + len(_VALUE) :]
        if not after.startswith(close):
            return None
        more = after[len(close) : after.index(NAMES[1])]
    parameters: dict[str, Any] = {"name": named.name} if named is not None else _style(before, opening, close)
    if named is None:
        for kind, sample in _SAMPLES.items():
            text = body_of({_KEY: sample})
            typed = None if text is None else _opening_of(text, sample)
            if typed is None:
                return None
            parameters["types"][kind] = [typed]
        parameters["types"]["null"] = parameters["types"]["number"]
        if _apart(parameters["types"]):
            parameters["types"]["null"] = [opening.replace("string", "null")]
    return Markup(parameters, head[: len(head) - len(before)], tail[len(close) :], more)


def read_literals(body_of: Callable[..., str | None]) -> Markup | None:
    """Arguments as names and literals; None: the calls have another form.

    What the template writes for a value of each type is read back.

    Args:
        body_of: as in `read_markup`.
    """
    one, two = body_of({_KEY: _VALUE}), body_of({_KEY: _VALUE, _OTHER: _VALUE})
    called = body_of({_KEY: _VALUE}, {_KEY: _VALUE})
    if one is None or two is None:
        return None
    head, opening, tail = _cut(one)
    between = _between_values(two)
    if head is None or opening is None or tail is None or between is None:
        return None
    for style in PARAMETER_STYLES.values():
        if not style.literals or not opening.startswith(style.after_name):
            continue
        quote = opening[len(style.after_name) :]
        close = quote + style.separator
        if not quote or not tail.startswith(quote) or between != close or style.quotes.find(quote) > 0:
            continue
        parameters: dict[str, Any] = {"name": style.name}
        if quote not in style.quotes and quote != style.closes["string"]:
            parameters["types"] = {**style.types, "string": [quote]}
            parameters["closes"] = {**style.closes, "string": quote}
            parameters["excluded"] = quote
        more = None
        if called is not None and NAMES[1] in called:
            after = called[called.index(_VALUE) + len(_VALUE) + len(quote) :]
            more = after[: after.index(NAMES[1])]
        found = Markup(parameters, head, tail[len(quote) :], more)
        if all(_reads(found, body_of({_KEY: sample}), sample) for sample in (_SIGNS, *_SAMPLES.values())):
            return found
    return None


def _reads(markup: Markup, body: str | None, sample: Any) -> bool:
    """Whether a value is read back from what a template writes."""
    style = parameter_style(markup.parameters)
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


def _nested() -> Iterator[Any]:
    return (style for style in PARAMETER_STYLES.values() if style.nested and "{name}" in style.close)


def _cut(body: str) -> tuple[str | None, str | None, str | None]:
    """The text between name and key, between key and value, and after the value."""
    name, value = body.find(NAMES[0]), body.find(_VALUE)
    key = body.find(_KEY, name + len(NAMES[0]))
    if not 0 <= name < key < value:
        return None, None, None
    return (
        body[name + len(NAMES[0]) : key],
        body[key + len(_KEY) : value],
        body[value + len(_VALUE) :],
    )


def _between_values(body: str) -> str | None:
    """The text between the first value and the second key."""
    value = body.find(_VALUE)
    other = body.find(_OTHER, value)
    return body[value + len(_VALUE) : other] if 0 <= value < other else None


def _opening_of(body: str, sample: Any) -> str | None:
    """The text between the key and this value, as JSON or as Python writes it."""
    key = body.find(_KEY)
    for text in (json.dumps(sample), str(sample)):
        value = body.find(text, key)
        if 0 <= key < value:
            return body[key + len(_KEY) : value]
    return None
