"""The markup in which model families write the parameters of a tool call.

The forms are those of the published chat templates, named as in XGrammar's structural tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grammars import ir
from grammars.errors import InvalidConstraint

Kind = Literal["string", "number", "boolean", "null", "object", "array"]
"""Type of a parameter's value."""

SCALARS: tuple[Kind, ...] = ("number", "boolean", "null")
OTHERS: tuple[Kind, ...] = (*SCALARS, "object", "array")

_IDENTIFIER = ir.concat(
    ir.chars([(0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]),
    ir.repeat(ir.chars([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])),
)
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

    @property
    def nested(self) -> bool:
        """Whether objects and arrays inside are written in markup too, not as JSON."""
        return self.item is not None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the markup."""
        typed = [text for texts in self.types.values() for text in texts]
        return (self.before, self.after_name, *typed, self.close, self.item or "")

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

    def closing(self, name: str | None) -> ir.Regex:
        """The text after the value of a parameter; None: of an item."""
        return self.markup(self.close.replace("{name}", "item" if name is None else self.spelled(name)))


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
