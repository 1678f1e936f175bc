"""Extraction models whose chat template has a form of its own for the type, the examples and the document.

NuExtract 2 (huggingface.co/numind/NuExtract-2.0-8B, README.md and chat_template.json): the chat template reads two variables
more, ``template``, the text of a JSON object with a type in the place of each value, and ``examples``, objects of an ``input``
and an ``output``. The message of the user is the document alone.

LFM2-Extract (docs.liquid.ai, "Text generation and prompting", LFM2-Extract): a plain chat. The system message asks for JSON and
lists the members, with what each is; the message of the user is the document alone, examples are turns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from constrained.errors import PromptError
from constrained.grammars.json_schema.view import local_view, target_of
from constrained.prompting.chat_template import apply_template
from constrained.prompting.schema_text import schema_to_text

TemplateForm = Literal["json", "system"]
"""``json``: as NuExtract 2; ``system``: as LFM2-Extract."""

SYSTEM_REQUEST = (
    "Identify and extract information matching the following schema. "
    "Return data as a JSON object. Missing data should be omitted.\n\nSchema:"
)
"""What LFM2-Extract was trained to be asked; see above."""

_MARK = "\ue000template\ue000"
_LFM2 = "<|tool_list_start|>"
"""A special token that only templates of LFM2 write; those of its models for extraction are the same."""
_DEPTH = 6
"""Nesting that is shown: a recursive type has no last level."""


def template_form(tokenizer: Any) -> TemplateForm | None:
    """The form that the chat template of a tokenizer has for extraction; None: it has none."""
    template = getattr(tokenizer, "chat_template", None)
    if not template:
        return None
    try:
        shown = apply_template(
            tokenizer,
            [{"role": "user", "content": "Probe."}],
            template=_MARK,
            examples=[{"input": f"{_MARK}in", "output": f"{_MARK}out"}],
        )
    except PromptError:
        shown = ""
    if all(f"{_MARK}{part}" in shown for part in ("", "in", "out")):
        return "json"
    return "system" if _LFM2 in str(template) else None


def json_template(schema: Any) -> str:
    """A schema as a template of NuExtract 2: ``{"name": "string", "born": "date-time", "tags": ["string"]}``."""
    root = local_view(schema)
    return json.dumps(_template(root, root, 0), ensure_ascii=False, indent=4)


def schema_outline(schema: Any) -> str:
    """A schema as LFM2-Extract reads it: ``- name: "what it is"`` for each member, those of an object below it."""
    root = local_view(schema)
    return "\n".join(_outline(root, root, 0))


def _template(schema: Any, root: Any, depth: int) -> Any:
    schema = _plain(schema, root)
    choices = _choices(schema)
    if depth > _DEPTH:
        return "string"
    if choices:
        return choices
    if properties := _properties(schema):
        return {name: _template(one, root, depth + 1) for name, one in properties.items()}
    kind = schema.get("type")
    if kind == "array":
        return [_template(schema.get("items"), root, depth + 1)]
    if kind in ("integer", "number"):
        return kind
    if kind == "boolean":
        return ["true", "false"]  # the published types have no other for it
    if schema.get("format") in ("date", "date-time", "time"):
        return "date-time"
    return "verbatim-string" if schema.get("x-span") else "string"


def _outline(schema: Any, root: Any, depth: int) -> list[str]:
    lines = []
    for name, one in _properties(_plain(schema, root)).items():
        inner = _plain(one, root)
        if inner.get("type") == "array":
            inner = {**_plain(inner.get("items"), root), **_described(inner)}
        below = _outline(inner, root, depth + 1) if depth < _DEPTH else []
        said = {**inner, **_described(one)}.get("description")
        said = (
            " ".join(said.split())
            if isinstance(said, str)
            else schema_to_text(_typed(_plain(one, root), root))
        )
        lines += [f"{'  ' * depth}- {name}:" if below else f"{'  ' * depth}- {name}: {_quoted(said)}", *below]
    return lines


def _typed(schema: Any, root: Any) -> Any:
    """A schema with the definitions that its references lead to."""
    kept = {name: root[name] for name in ("$defs", "definitions") if name in root}
    return {**schema, **kept} if isinstance(schema, Mapping) else schema


def _described(schema: Any) -> dict[str, Any]:
    has = isinstance(schema, Mapping) and isinstance(schema.get("description"), str)
    return {"description": schema["description"]} if has else {}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _plain(schema: Any, root: Any) -> Mapping[str, Any]:
    """A schema behind its references, without the alternative null: of other alternatives, the first one."""
    for _ in range(_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        branches = next((schema[name] for name in ("anyOf", "oneOf", "allOf") if schema.get(name)), None)
        if isinstance(reference, str):
            schema = target_of(root, reference)
        elif isinstance(branches, Sequence):
            schema = next((one for one in branches if one != {"type": "null"}), {})
        elif isinstance(schema.get("type"), list):
            schema = {**schema, "type": next((kind for kind in schema["type"] if kind != "null"), "string")}
        else:
            return schema
    return {}


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _choices(schema: Mapping[str, Any]) -> list[str]:
    values = [schema["const"]] if "const" in schema else schema.get("enum") or ()
    return [one if isinstance(one, str) else json.dumps(one) for one in values if one is not None]
