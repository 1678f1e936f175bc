"""The markup in which model families write the parameters of a tool call.

The forms are those of the published chat templates, named as in XGrammar's structural tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from constrained.grammars import ir
from constrained.grammars.errors import InvalidConstraint

Kind = Literal["string", "number", "boolean", "null", "object", "array"]
"""Type of a parameter's value."""

SCALARS: tuple[Kind, ...] = ("number", "boolean", "null")
OTHERS: tuple[Kind, ...] = (*SCALARS, "object", "array")

_IDENTIFIER = ir.concat(
    ir.chars([(0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]),
    ir.repeat(ir.chars([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])),
)
LITERAL_NAME = re.compile(r"[\w.$@/-]+")
"""Names of parameters and members between literals."""
_UNESCAPED = ir.chars(
    [(0x20, 0x21), (0x23, 0x25), (0x27, 0x3B), (0x3D, 0x3D), (0x3F, 0x5B), (0x5D, ir.MAX_CODE_POINT)]
)
"""Characters that neither JSON nor XML escapes."""


@dataclass(frozen=True)
class ParameterStyle:
    """How one family writes parameters.

    Attributes:
        name: as ``style`` of a structural tag has it.
        before, after_name: text around the name of a parameter.
        types: by type of value, the text before the value, in parts between which white space may stand. Types with equal
            texts share one alternative.
        close: text after the value; ``{name}`` is the parameter's name.
        excluded: raw strings must not contain this text, or a reader would end them there.
        item: text before an item of an array, in styles that write objects and arrays in markup too; None: as JSON.
        spaced_strings: white space may surround strings that are limited by a keyword.
        spaced_values: white space may surround other values.
        spaced_items: white space may stand between items.
        escapes: spellings of characters in names.
        other_names: names that no schema declares.
        special: texts in the markup of which each is one byte, by that byte: special tokens of a vocabulary.
        closes: by type of value, the text after the value, where it is another one than `close`.
        separator: text between two parameters, two members and two items, in place of white space.
        quotes: a string stands between two of one of these characters, with the escapes of Python.
        words: spellings of ``true``, ``false`` and ``null``, where they differ from JSON.
        inner_names: texts before and after the name of a member inside, where they differ from those of a parameter.
        any_order: models write parameters in another order than that of their schema.
    """

    name: str
    before: str
    types: Mapping[Kind, tuple[str, ...]]
    close: str
    excluded: str
    after_name: str = ""
    item: str | None = None
    spaced_strings: bool = True
    spaced_values: bool = True
    spaced_items: bool = False
    escapes: Mapping[str, str] = field(default_factory=dict)
    other_names: ir.Regex | None = _IDENTIFIER
    special: Mapping[str, int] = field(default_factory=dict)
    closes: Mapping[Kind, str] = field(default_factory=dict)
    separator: str = ""
    quotes: str = ""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inner_names: tuple[tuple[str, str], ...] = ()
    any_order: bool = False

    @property
    def literals(self) -> bool:
        """Whether the type of each value is seen from how it is written, as in Python."""
        return bool(self.separator)

    @property
    def nested(self) -> bool:
        """Whether objects and arrays inside are written in markup too, not as JSON."""
        return self.item is not None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the markup."""
        typed = [text for texts in self.types.values() for text in texts]
        closing = (self.close, *self.closes.values())
        return (self.before, self.after_name, *typed, *closing, self.item or "")

    def spelled(self, name: str) -> str:
        """A parameter's name as it is written."""
        return "".join(self.escapes.get(char, char) for char in name)

    def markup(self, text: str) -> ir.Regex:
        """Text of the markup, its special tokens encoded."""
        data = text.encode()
        for name, byte in self.special.items():
            data = data.replace(name.encode(), bytes((byte,)))
        return ir.literal(data)

    def opening(self, kind: Kind, gap: ir.Regex) -> ir.Regex:
        """The text before a value of this type, after the name."""
        first, *others = map(self.markup, self.types[kind])
        return ir.concat(first, *(part for text in others for part in (gap, text)))

    def closing(self, name: str | None, kind: Kind) -> ir.Regex:
        """The text after the value of a parameter; None: of an item."""
        close = self.closes.get(kind, self.close)
        return self.markup(close.replace("{name}", "item" if name is None else self.spelled(name)))

    def ambiguous(self, name: str) -> bool:
        """Whether a reader could not tell where this name ends."""
        if self.literals:
            return not LITERAL_NAME.fullmatch(name)
        spelled = self.spelled(name)
        openings = (self.after_name + "".join(texts) for texts in self.types.values())
        return any((spelled + opening).find(opening) < len(spelled) for opening in openings)

    def spellings(self, word: str) -> ir.Regex:
        """The spellings of ``true``, ``false`` or ``null``."""
        return ir.union(*map(ir.literal, self.words.get(word, (word,))))


def _every(*texts: str) -> dict[Kind, tuple[str, ...]]:
    return dict.fromkeys(("string", *OTHERS), texts)


def _typed(**texts: str) -> dict[Kind, tuple[str, ...]]:
    named: dict[str, str] = texts
    return {kind: (named.get(kind, named["rest"]),) for kind in ("string", *OTHERS)}


def _deepseek(name: str, word: str) -> ParameterStyle:
    return ParameterStyle(
        name,
        before=f'<｜DSML｜{word} name="',
        types=_typed(string='" string="true">', rest='" string="false">'),
        close=f"</｜DSML｜{word}>",
        excluded=f"</｜DSML｜{word}>",
        spaced_strings=False,
    )


def _literals(name: str, after_name: str, separator: str, **attributes: Any) -> ParameterStyle:
    """Parameters as a list of names and literals."""
    spaced = dict.fromkeys(("spaced_strings", "spaced_values"), False)
    given = {"excluded": "", "item": "", **spaced, **attributes}
    return ParameterStyle(name, "", close="", after_name=after_name, separator=separator, **given)


_STYLES = (
    ParameterStyle("qwen_xml", "<parameter=", _every(">"), "</parameter>", "</parameter>"),
    ParameterStyle("minimax_xml", '<parameter name="', _every('">'), "</parameter>", "</parameter>"),
    ParameterStyle(
        "glm_xml", "<arg_key>", _every("</arg_key>", "<arg_value>"), "</arg_value>", "</arg_value>"
    ),
    _deepseek("deepseek_xml", "parameter"),
    _deepseek("deepseek_v4_1_xml", " parameter"),
    ParameterStyle(
        "kimi_k3_xml",
        '<|open|>argument key="',
        {kind: (f'" type="{kind}"<|sep|>',) for kind in ("string", *OTHERS)},
        "<|close|>argument<|sep|>",
        "<|close|>argument<|sep|>",
        escapes={"&": "&amp;", '"': "&quot;"},
    ),
    ParameterStyle(
        "cohere_xml",
        '<cofl:value name="',
        _typed(string=' type="raw">', object=' type="dict">', array=' type="list">', rest=' type="json">'),
        "</cofl:value>",
        "</cofl:value>",
        after_name='"',
        item="<cofl:value",
        escapes={"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"},
        other_names=ir.repeat(_UNESCAPED, 1),
    ),
    ParameterStyle(
        "minimax_m3_xml",
        "]<]minimax[>[<",
        _every(">"),
        "]<]minimax[>[</{name}>",
        "]<]minimax[>[",
        item="]<]minimax[>[<item",
        spaced_strings=False,
        spaced_values=False,
        spaced_items=True,
        other_names=None,
    ),
    _literals(
        "gemma",
        ":",
        ",",
        types=_typed(string='<|"|>', object="{", array="[", rest=""),
        closes={"string": '<|"|>', "object": "}", "array": "]"},
        excluded='<|"|>',
        words={"null": ("null", "None")},
        any_order=True,
    ),
    _literals(
        "pythonic",
        "=",
        ", ",
        types=_typed(object="{", array="[", rest=""),
        closes={"object": "}", "array": "]"},
        quotes="'\"",
        words={"true": ("True", "true"), "false": ("False", "false"), "null": ("None", "null")},
        inner_names=(('"', '": '), ("'", "': ")),
    ),
)
PARAMETER_STYLES = {style.name: style for style in _STYLES}


def parameter_style(style: str | Mapping[str, Any]) -> ParameterStyle | None:
    """The style of an option: by name, or as a mapping with the name of a style and the attributes that differ from it.

    Returns:
        None for ``"json"``.

    Raises:
        InvalidConstraint: there is no style of this name.
    """
    name = style if isinstance(style, str) else style["name"]
    if name == "json":
        return None
    if name not in PARAMETER_STYLES:
        raise InvalidConstraint(
            f"style={name!r} is not known",
            action=f"use one of {', '.join(map(repr, ('json', *PARAMETER_STYLES)))}",
        )
    known = PARAMETER_STYLES[name]
    if isinstance(style, str):
        return known
    types = {kind: tuple(texts) for kind, texts in style.get("types", known.types).items()}
    return replace(known, **{**style, "types": types})
