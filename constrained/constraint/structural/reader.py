"""From the definition of a structural tag to its formats.

Every key is read or refused: what is not enforced would be lost in silence. Errors name the JSON Pointer of the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from constrained.constraint.json import MAX_DIGITS, _JsonConstraint, json_schema
from constrained.constraint.structural import formats as f
from constrained.constraint.structural.fields import Fields, checked_text, wrong
from constrained.constraint.structural.parameters import ParametersConstraint
from constrained.constraint.text import ebnf, regex
from constrained.errors import (
    ConstraintError,
    ConstraintTooLarge,
    Problem,
    UnsupportedConstraint,
)

MAX_DEPTH = 64
"""Maximum depth of formats inside formats."""

MAX_TRIGGERS = 500
"""Maximum number of triggers or patterns of one format: each stands for a language of its own."""

T = TypeVar("T")


def read_definition(definition: Any) -> f.StructuralFormat:
    """The format of a structural tag.

    Raises:
        InvalidConstraint: the definition is malformed.
        UnsupportedConstraint: a format or a key is unknown, or cannot be enforced.
        ConstraintTooLarge: formats are nested too deeply.
    """
    if isinstance(definition, Mapping) and "structures" in definition:
        # Older clients of vLLM and SGLang leave the type out.
        definition = {"type": "structural_tag", **definition}
    if not isinstance(definition, Mapping) or definition.get("type") != "structural_tag":
        raise wrong("#", "is not a structural tag", 'an object with "type": "structural_tag"')
    fields = _Formats(definition, "#", "structural_tag")
    if "structures" in definition:
        tags = tuple(_structure(one, place) for one, place in fields.objects("structures"))
        return _triggered(fields, tags, at_least_one=fields.flag("at_least_one"))  # SGLang adds that key
    form = fields.format("format", 0)
    fields.close()
    return form


class _Formats(Fields):
    """The keys of a format, with formats below some of them."""

    def format(self, name: str, depth: int) -> f.StructuralFormat:
        """A format."""
        return _format(self.get(name), self.at(name), depth)

    def formats(self, name: str, depth: int) -> tuple[f.StructuralFormat, ...]:
        """A non-empty list of formats."""
        return tuple(_format(one, place, depth) for one, place in self.objects(name))

    def tokens(self, name: str, *, required: bool = False) -> tuple[f.Token, ...]:
        """A list of tokens by name or number."""
        listed = self.get(name, ... if required else [])
        if not isinstance(listed, (list, tuple)) or (required and not listed):
            raise wrong(self.at(name), "is not a list of tokens", "a list of the texts or numbers of tokens")
        return tuple(_token(one, f"{self.at(name)}/{i}") for i, one in enumerate(listed))

    def tags(self, name: str, depth: int) -> tuple[f.Tag, ...]:
        """A non-empty list of tags, whose type may be left out."""
        read = []
        for one, place in self.objects(name):
            if not isinstance(one, Mapping):
                raise wrong(place, "is not a tag", "an object with begin, content and end")
            if one.get("type", "tag") != "tag":
                raise wrong(f"{place}/type", "is not a tag", '"type": "tag"')
            fields = _Formats(one, place, "tag")
            read.append(_tag(fields, depth))
            fields.close()
        return tuple(read)


def _format(definition: Any, place: str, depth: int) -> f.StructuralFormat:
    if depth > MAX_DEPTH:
        raise ConstraintTooLarge(
            "the structural tag is nested too deeply", Problem(place, f"more than {MAX_DEPTH} formats deep")
        )
    if not isinstance(definition, Mapping):
        raise wrong(place, "is not a format", 'an object with a "type"')
    kind = definition.get("type")
    if not isinstance(kind, str):
        raise wrong(
            f"{place}/type", "is missing" if kind is None else "is not a text", "the type of a format"
        )
    read = _READERS.get(kind)
    if read is None:
        raise _unsupported(f"{place}/type", "is unknown", f"use one of {', '.join(_READERS)}", kind)
    fields = _Formats(definition, place, kind)
    form = read(fields, depth + 1)
    fields.close()
    return form


def _schema(fields: _Formats, depth: int) -> f.StructuralFormat:
    style = fields.get("style", "json")
    any_order = fields.flag("any_order")
    most = fields.count("max_whitespace_cnt")
    return _schema_content(fields, "json_schema", style, any_order, most, fields.texts("excludes"))


def _schema_content(
    fields: _Formats,
    name: str,
    style: Any,
    any_order: bool = False,
    max_whitespace: int | None = None,
    excludes: tuple[str, ...] = (),
) -> f.Content:
    """The content of a schema. Objects are closed unless the schema says otherwise, as arguments of tools are."""
    from constrained.grammars.json_schema import PARAMETER_STYLES

    schema = fields.get(name)
    if not isinstance(schema, (Mapping, bool) if name == "json_schema" else (Mapping, bool, str)):
        raise wrong(fields.at(name), "is not a JSON Schema", "an object, true or false")
    if style != "json" and style not in PARAMETER_STYLES:
        action = f"use one of json, {', '.join(PARAMETER_STYLES)}"
        raise _unsupported(fields.at("style"), "is unknown", action, style, "style")
    constraint = below(
        fields.at(name),
        lambda: json_schema(
            schema,
            property_order="any" if any_order else "schema",
            additional_properties_default=False,
            max_digits=MAX_DIGITS,
        ),
    )
    assert isinstance(constraint, _JsonConstraint)
    options = replace(constraint.options, style=style, max_whitespace=max_whitespace, excludes=excludes)
    kind = _JsonConstraint if style == "json" else ParametersConstraint
    content = kind(constraint._text, options, None)
    texts = () if style == "json" else PARAMETER_STYLES[style].texts
    return f.Content(fields.place, content, fields.at(name), texts=texts)


def _regex(fields: _Formats, depth: int) -> f.StructuralFormat:
    source = fields.text("pattern")
    pattern = regex(source, dialect="ecma")
    return f.Content(fields.place, pattern, fields.at("pattern"), fields.texts("excludes"), (source,))


def _grammar(fields: _Formats, depth: int) -> f.StructuralFormat:
    source = fields.text("grammar")
    return f.Content(fields.place, ebnf(source), fields.at("grammar"), texts=(source,))


def _token(value: Any, place: str) -> f.Token:
    """A token by its name, or by its number."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 1 << 31:
            raise wrong(place, "is no number of a token", "a number from 0 on, or the text of a token")
        return f.Token(f"<[{value}]>")
    name = checked_text(value, place)
    if not name:
        raise wrong(place, "is empty", "the text of a token")
    return f.Token(name)


def _repeat(fields: _Formats, depth: int) -> f.StructuralFormat:
    low = fields.count("min", required=True)
    high = fields.count("max", low=-1, required=True)
    assert low is not None
    assert high is not None
    if -1 < high < low:
        raise wrong(fields.at("max"), f"is less than min, {low}", "min <= max, or -1 for no limit")
    return f.RepeatFormat(fields.place, fields.format("content", depth), low, None if high < 0 else high)


def _tag(fields: _Formats, depth: int) -> f.Tag:
    begin = _boundary(fields, "begin")
    ends = fields.get("end")
    listed = tuple(ends) if isinstance(ends, (list, tuple)) else (_boundary(fields, "end"),)
    if not listed:
        raise wrong(fields.at("end"), "is an empty list", "a text, or a list of texts")
    texts = tuple(one if isinstance(one, f.Token) else checked_text(one, fields.at("end")) for one in listed)
    return f.Tag(fields.place, begin, fields.format("content", depth), tuple(dict.fromkeys(texts)))


def _boundary(fields: _Formats, name: str) -> str | f.Token:
    """A text, or the format of a token."""
    value = fields.get(name)
    if not isinstance(value, Mapping) or value.get("type") != "token":
        return checked_text(value, fields.at(name))
    inner = _Formats(value, fields.at(name), "token")
    token = _token(inner.get("token"), inner.at("token"))
    inner.close()
    return token


def _triggered_tags(fields: _Formats, depth: int) -> f.StructuralFormat:
    return _triggered(
        fields,
        fields.tags("tags", depth),
        fields.texts("excludes"),
        at_least_one=fields.flag("at_least_one"),
        stop_after_first=fields.flag("stop_after_first"),
    )


def _triggered(
    fields: _Formats,
    tags: tuple[f.Tag, ...],
    excludes: tuple[str, ...] = (),
    *,
    at_least_one: bool = False,
    stop_after_first: bool = False,
) -> f.StructuralFormat:
    triggers = fields.texts("triggers", required=True)
    fields.close()
    begins = []
    for i, tag in enumerate(tags):
        if isinstance(tag.begin, f.Token):
            raise wrong(f"{fields.at('tags')}/{i}/begin", "is a token", "a text, or use token_triggered_tags")
        begins.append(tag.begin)
    place = fields.at("triggers")
    _check_count(len(triggers), place)
    for i, trigger in enumerate(triggers):
        if any(trigger in other for j, other in enumerate(triggers) if i != j):
            raise wrong(
                f"{place}/{i}", "is contained in another trigger", "triggers of which none contains another"
            )
        if not any(begin.startswith(trigger) for begin in begins):
            raise wrong(f"{place}/{i}", "is not a prefix of any begin", "a prefix of a tag's begin")
    for begin in begins:
        if sum(map(begin.startswith, triggers)) != 1:
            raise wrong(
                place, f"not exactly one trigger is a prefix of {begin!r}", "one trigger for each begin"
            )
    return f.TriggeredTags(fields.place, triggers, tags, excludes, at_least_one, stop_after_first)


def _token_triggered_tags(fields: _Formats, depth: int) -> f.StructuralFormat:
    tags = fields.tags("tags", depth)
    triggers = fields.tokens("trigger_tokens", required=True)
    begins = [tag.begin for tag in tags]
    for i, begin in enumerate(begins):
        if begin not in triggers:
            raise wrong(
                f"{fields.at('tags')}/{i}/begin",
                "is none of the trigger_tokens",
                "one of these tokens as a token",
            )
    for i, trigger in enumerate(triggers):
        if trigger not in begins:
            raise wrong(f"{fields.at('trigger_tokens')}/{i}", "is no begin", "the begin of a tag")
    return f.TriggeredTags(
        fields.place,
        tuple(dict.fromkeys(triggers)),
        tags,
        fields.tokens("exclude_tokens"),
        fields.flag("at_least_one"),
        fields.flag("stop_after_first"),
    )


def _structure(definition: Any, place: str) -> f.Tag:
    """A tag of the older form, with a schema in place of a content."""
    if not isinstance(definition, Mapping):
        raise wrong(place, "is not a structure", "an object with begin, schema and end")
    fields = _Formats(definition, place, "a structure")
    begin, end = fields.text("begin"), fields.text("end")
    tag = f.Tag(place, begin, _schema_content(fields, "schema", "json"), (end,))
    fields.close()
    return tag


def _dispatch(fields: _Formats, depth: int) -> f.StructuralFormat:
    rules = []
    for one, place in _rules(fields):
        pattern = checked_text(one[0], f"{place}/0")
        if not pattern:
            raise wrong(f"{place}/0", "is empty", "a non-empty text")
        rules.append((pattern, _format(one[1], f"{place}/1", depth)))
    for i, (pattern, _) in enumerate(rules):
        if any(pattern in other and pattern != other for other, _ in rules):
            raise wrong(
                f"{fields.at('rules')}/{i}/0",
                "is contained in another pattern",
                "patterns of which none contains another",
            )
    return f.Dispatch(fields.place, tuple(rules), fields.flag("loop", True), fields.texts("excludes"))


def _token_dispatch(fields: _Formats, depth: int) -> f.StructuralFormat:
    rules = tuple(
        (_token(one[0], f"{place}/0"), _format(one[1], f"{place}/1", depth)) for one, place in _rules(fields)
    )
    return f.Dispatch(fields.place, rules, fields.flag("loop", True), fields.tokens("exclude_tokens"))


def _rules(fields: _Formats) -> list[tuple[Any, str]]:
    """The pairs of a pattern and a format, each with its place."""
    rules = fields.objects("rules")
    _check_count(len(rules), fields.at("rules"))
    for one, place in rules:
        if not isinstance(one, (list, tuple)) or len(one) != 2:
            raise wrong(place, "is not a rule", "a pair of a pattern and a format")
    return rules


def _unsupported(
    place: str, reason: str, action: str, value: Any = None, keyword: str = "type"
) -> UnsupportedConstraint:
    """The error about a part of a definition that is well formed and not enforced."""
    return UnsupportedConstraint(
        "the structural tag cannot be enforced", Problem(place, reason, value, keyword), action=action
    )


def _check_count(count: int, place: str) -> None:
    if count > MAX_TRIGGERS:
        raise ConstraintTooLarge(
            "the structural tag is too large",
            Problem(place, f"has {count} texts; at most {MAX_TRIGGERS} can be told apart"),
            action="use a trigger that many tags begin with",
        )


def below(place: str, make: Callable[[], T]) -> T:
    """What `make` returns; the places in its errors are put below a JSON Pointer, if there is one."""
    try:
        return make()
    except (ConstraintError, ConstraintTooLarge) as error:
        if place:
            moved = [replace(problem, place=_moved(problem.place, place)) for problem in error.problems]
            error.reword(problems=moved or [Problem(place, "see above")])
        raise


def _moved(place: str, root: str) -> str:
    """A place in a content as a place in the definition."""
    if not place.startswith("#"):
        return f"{root}, {place}"
    return " & ".join(root + one[1:] if one.startswith("#") else one for one in place.split(" & "))


_READERS: dict[str, Callable[[_Formats, int], f.StructuralFormat]] = {
    "const_string": lambda fields, _: f.ConstString(fields.place, fields.text("value")),
    "json_schema": _schema,
    # The older name of a schema in this style.
    "qwen_xml_parameter": lambda fields, _: _schema_content(fields, "json_schema", "qwen_xml"),
    "grammar": _grammar,
    "regex": _regex,
    "any_text": lambda fields, _: f.AnyText(
        fields.place, fields.texts("excludes"), fields.count("max_chars"), fields.count("max_tokens")
    ),
    "token": lambda fields, _: f.OneToken(fields.place, _token(fields.get("token"), fields.at("token"))),
    "exclude_token": lambda fields, _: f.AnyToken(fields.place, fields.tokens("exclude_tokens")),
    "any_tokens": lambda fields, _: f.AnyTokens(
        fields.place, fields.tokens("exclude_tokens"), fields.count("max_tokens")
    ),
    "sequence": lambda fields, depth: f.SequenceFormat(fields.place, fields.formats("elements", depth)),
    "or": lambda fields, depth: f.OrFormat(fields.place, fields.formats("elements", depth)),
    "optional": lambda fields, depth: f.RepeatFormat(fields.place, fields.format("content", depth), 0, 1),
    "plus": lambda fields, depth: f.RepeatFormat(fields.place, fields.format("content", depth), 1, None),
    "star": lambda fields, depth: f.RepeatFormat(fields.place, fields.format("content", depth), 0, None),
    "repeat": _repeat,
    "tag": _tag,
    "triggered_tags": _triggered_tags,
    "token_triggered_tags": _token_triggered_tags,
    "tags_with_separator": lambda fields, depth: f.TagsWithSeparator(
        fields.place,
        fields.tags("tags", depth),
        fields.text("separator"),
        fields.flag("at_least_one"),
        fields.flag("stop_after_first"),
    ),
    "dispatch": _dispatch,
    "token_dispatch": _token_dispatch,
}
