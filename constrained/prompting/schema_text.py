"""JSON Schemas in a compact type notation for prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from constrained.grammars.content import CHECKED_KEYWORD, CONTENT_KEYWORD
from constrained.grammars.json_schema.view import local_view, target_of

Schema = Mapping[str, Any] | bool

_MAX_CHARS = 8000
_MAX_NESTING = 24
_MAX_EXAMPLES = 3
_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "contentMediaType"}
    | {
        "contentEncoding",
        "contentSchema",
        "$schema",
        "$id",
        "id",
        "$comment",
        "$defs",
        "definitions",
        "$anchor",
    }
    | {"$vocabulary", "$dynamicAnchor", CONTENT_KEYWORD, CHECKED_KEYWORD}
)
_PRIMITIVES = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
_OBJECT_KEYWORDS = frozenset({"properties", "required", "additionalProperties"})
_ARRAY_KEYWORDS = frozenset({"items", "prefixItems", "additionalItems"})
_RANGES = (
    ("minimum", "maximum", ""),
    ("exclusiveMinimum", "exclusiveMaximum", ""),
    ("minLength", "maxLength", " chars"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " properties"),
)


@dataclass(frozen=True)
class _Detail:
    """How much of a schema is shown: the first level that fits the budget is used."""

    comments: bool = True
    choices: int = 64
    fields: int = 512
    nesting: int = _MAX_NESTING


_LEVELS = (
    _Detail(),
    _Detail(comments=False),
    _Detail(comments=False, choices=12, fields=64, nesting=8),
    _Detail(comments=False, choices=4, fields=24, nesting=3),
)


def schema_to_text(schema: Schema, *, max_chars: int = _MAX_CHARS) -> str:
    """Renders a JSON Schema as a compact type, one line for it and one for each named type it uses.

    Objects read `{name: string, age?: integer}` (`?` marks a property that may be left out), arrays `string[]`,
    alternatives `"open" | "closed"`, formats and bounds `string(date)` and `integer(0..120)`, descriptions
    `/* comments */` with the first `examples`. The description of a type follows that of the member. A definition that is
    recursive or used twice becomes `type Node = ...`; keywords without a notation are shown as compact JSON.

    Args:
        schema: a JSON Schema of any draft, or `True` / `False`; references to other documents are followed in a
            view that holds them, see `constrained.grammars.json_schema.view`.
        max_chars: the budget. A schema that does not fit loses its comments first, then long enumerations,
            then deep parts; only then is the text cut, which is marked by `...`.

    Returns:
        The same text for the same schema, at most `max_chars` characters long.
    """
    text, schema = "", local_view(schema)
    for detail in _LEVELS:
        text = _Renderer(schema, detail).document()
        if len(text) <= max_chars:
            return text
    return text[: max(0, max_chars - 3)] + "..."


@dataclass
class _Renderer:
    """One rendering of one root schema at one level of detail."""

    root: Schema
    detail: _Detail
    names: dict[str, str] = field(default_factory=dict)  # pointer of a definition -> name of its type

    def document(self) -> str:
        self.names = _named_definitions(self.root)
        lines = []
        for pointer, name in self.names.items():
            definition = _target(self.root, pointer)
            comment = "" if pointer == "#" else self.comment(definition)
            lines.append(f"type {name} = {self.type_of(definition, 0)}{comment}")
        heading = self.heading()
        body = self.names.get("#") or self.type_of(self.root, 0)
        return "\n".join([*([heading] if heading else []), *lines, body])

    def heading(self) -> str:
        if not self.detail.comments or not isinstance(self.root, Mapping):
            return ""
        words = [self.root.get("title"), self.root.get("description")]
        said = [_one_line(word) for word in words if isinstance(word, str) and word.strip()]
        return _commented(": ".join(said) or self.inner_description(self.root), self.root)

    def type_of(self, schema: Any, depth: int) -> str:
        if schema is True or schema == {}:
            return "any"
        if schema is False:
            return "never"
        if not isinstance(schema, Mapping):
            return _compact(schema)
        if depth > self.detail.nesting:
            return "..."
        return self.noted(self.shape(schema, depth), schema)

    def shape(self, schema: Mapping[str, Any], depth: int) -> tuple[str, set[str]]:
        """Returns the type without its notes, and the keywords that it shows."""
        if "const" in schema:
            return _compact(schema["const"]), {"const", "type"}
        if isinstance(schema.get("enum"), list):
            return self.choices(schema["enum"]), {"enum", "type"}
        parts: list[str] = []
        shown: set[str] = set()
        if isinstance(schema.get("$ref"), str):
            parts.append(self.reference(schema["$ref"], depth))
            shown |= {"$ref"}
        for keyword, joint in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
            if isinstance(schema.get(keyword), list) and schema[keyword]:
                kinds = [self.type_of(branch, depth + 1) for branch in schema[keyword]]
                parts.append(joint.join(dict.fromkeys(kinds)))
                shown.add(keyword)
        own, own_shown = self.own_type(schema, depth)
        # Beside a reference or alternatives a bare `type` says nothing that a reader needs.
        if own and (not parts or own_shown & (_OBJECT_KEYWORDS | _ARRAY_KEYWORDS)):
            parts.append(own)
        shown |= own_shown
        if not parts:
            return "any", shown
        return (parts[0] if len(parts) == 1 else " & ".join(_atom(part) for part in parts)), shown

    def own_type(self, schema: Mapping[str, Any], depth: int) -> tuple[str, set[str]]:
        kinds = schema.get("type")
        listed = [kinds] if isinstance(kinds, str) else list(kinds) if isinstance(kinds, list) else []
        if not listed:
            listed = ["object"] if "properties" in schema else ["array"] if "items" in schema else []
        shown: set[str] = {"type"}
        rendered = []
        for kind in listed:
            if kind == "object":
                rendered.append(self.object(schema, depth))
                shown |= _OBJECT_KEYWORDS
            elif kind == "array":
                rendered.append(self.array(schema, depth))
                shown |= _ARRAY_KEYWORDS
            else:
                rendered.append(_PRIMITIVES.get(str(kind), str(kind)))
        return " | ".join(rendered), shown

    def object(self, schema: Mapping[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        listed = schema.get("required")
        required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
        fields = []
        for name, value in list(properties.items())[: self.detail.fields]:
            optional = "" if name in required else "?"
            fields.append(f"{_key(name)}{optional}: {self.type_of(value, depth + 1)}{self.comment(value)}")
        fields += [f"{_key(name)}: any" for name in sorted(required - set(properties))[: self.detail.fields]]
        if len(properties) > self.detail.fields:
            fields.append("...")
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping) and extra:
            fields.append(f"[key: string]: {self.type_of(extra, depth + 1)}")
        if fields:
            return "{" + ", ".join(fields) + "}"
        return "{}" if extra is False else "object"

    def array(self, schema: Mapping[str, Any], depth: int) -> str:
        items, prefix = schema.get("items"), schema.get("prefixItems")
        if isinstance(items, list):  # the tuple form of the drafts before 2020-12
            prefix, items = items, schema.get("additionalItems")
        if not isinstance(prefix, list) or not prefix:
            return "any[]" if items is None else _atom(self.type_of(items, depth + 1)) + "[]"
        members = [self.type_of(item, depth + 1) for item in prefix[: self.detail.fields]]
        if items is not False:
            rest = "any" if items is None else self.type_of(items, depth + 1)
            members.append(f"...{_atom(rest)}[]")
        return "[" + ", ".join(members) + "]"

    def choices(self, values: list[Any]) -> str:
        shown = [_compact(value) for value in values[: self.detail.choices]]
        if len(values) > len(shown):
            shown.append("...")
        return " | ".join(shown) or "never"

    def reference(self, pointer: str, depth: int) -> str:
        if pointer in self.names:
            return self.names[pointer]
        return self.type_of(_target(self.root, pointer), depth + 1)

    def noted(self, shape: tuple[str, set[str]], schema: Mapping[str, Any]) -> str:
        """Adds formats, bounds and the keywords without a notation: `string(email)`."""
        text, shown = shape
        notes = [schema["format"]] if isinstance(schema.get("format"), str) else []
        done = {"format"} | set(shown) | _ANNOTATIONS
        for low, high, unit in _RANGES:
            span = _span(schema.get(low), schema.get(high), strict=low == "exclusiveMinimum")
            if span:
                notes.append(span + unit)
            done |= {low, high}
        if isinstance(schema.get("pattern"), str):
            notes.append(f"/{schema['pattern']}/")
            done.add("pattern")
        notes += [f"{keyword} {_compact(value)}" for keyword, value in schema.items() if keyword not in done]
        if not notes:
            return text
        kind, null = (text.removesuffix(" | null"), " | null") if text.endswith(" | null") else (text, "")
        return f"{_atom(kind)}({', '.join(notes)}){null}"

    def comment(self, schema: Any) -> str:
        if not self.detail.comments or not isinstance(schema, Mapping):
            return ""
        texts = dict.fromkeys((_description(schema), self.inner_description(schema)))
        comment = _commented("; ".join(filter(None, texts)), schema)
        return f" {comment}" if comment else ""

    def inner_description(self, schema: Mapping[str, Any]) -> str:
        """The description of the type of a member or of its items, unless that type has a line of its own."""
        for _ in range(_MAX_NESTING):
            pointer = schema.get("$ref")
            branches = schema.get("anyOf")
            if isinstance(branches, list):
                inner: Any = [part for part in branches if part != {"type": "null"}]
                inner = inner[0] if len(inner) == 1 else None
            elif isinstance(pointer, str):
                inner = None if pointer in self.names else _target(self.root, pointer)
            else:
                inner = schema.get("items")
            if not isinstance(inner, Mapping):
                return ""
            if text := _description(inner):
                return text
            schema = inner
        return ""


def _description(schema: Mapping[str, Any]) -> str:
    text = schema.get("description")
    return _one_line(text) if isinstance(text, str) else ""


def _commented(description: str, schema: Mapping[str, Any]) -> str:
    """A comment of a description and of the first examples; empty if there are none."""
    listed = schema.get("examples")
    shown = [_compact(value) for value in listed[:_MAX_EXAMPLES]] if isinstance(listed, list) else []
    examples = [_one_line(f"e.g. {', '.join(shown)}")] if shown else []
    text = "; ".join([*([description] if description else []), *examples])
    return f"/* {text} */" if text else ""


def _named_definitions(root: Schema) -> dict[str, str]:
    """Names the references that must not be written in place: those met twice, or inside themselves."""
    met: dict[str, int] = {}

    def count(node: Any) -> None:
        stack = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, Mapping):
                pointer = part.get("$ref")
                if isinstance(pointer, str):
                    met[pointer] = met.get(pointer, 0) + 1
                    if met[pointer] == 1:
                        stack.append(True if pointer == "#" else _target(root, pointer))
                # Definitions count where they are used, not where they are kept.
                stack += [
                    value
                    for key, value in reversed(list(part.items()))
                    if key not in ("$defs", "definitions")
                ]
            elif isinstance(part, list):
                stack += reversed(part)

    count(root)
    names: dict[str, str] = {}
    for pointer in [pointer for pointer, times in met.items() if times > 1 or pointer == "#"]:
        base = re.sub(r"\W+", "_", pointer.rsplit("/", 1)[-1].lstrip("#")).strip("_") or "Root"
        name, suffix = base, 2
        while name in names.values():
            name, suffix = f"{base}{suffix}", suffix + 1
        names[pointer] = name
    return names


def _target(root: Schema, pointer: str) -> Any:
    """What a reference leads to; one that leads nowhere is shown by its last name."""
    target = target_of(root, pointer)
    return {"type": pointer.rsplit("/", 1)[-1]} if target is None else target


def _span(low: Any, high: Any, *, strict: bool) -> str:
    """`0..120`, `>= 0` or `< 1`; nothing if neither bound is a number."""
    low, high = (bound if _is_number(bound) else None for bound in (low, high))
    if low is not None and high is not None and not strict:
        return f"{low}..{high}"
    bounds = [(">" if strict else ">=", low), ("<" if strict else "<=", high)]
    return ", ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _atom(text: str) -> str:
    """Puts alternatives in parentheses, so that `[]` or a note applies to all of them."""
    depth, quoted, escaped = 0, False, False
    for char in text:
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char in "|&" and depth == 0:
            return f"({text})"
    return text


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "..."


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("*/", "* /")
