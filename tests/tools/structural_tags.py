"""Writes the structural tags that XGrammar makes for each model format to ``tests/cases/structural_tags.json``.

    python -m tests.tools.structural_tags --write

XGrammar must be installed. Plain tests read the file and so check the tags without it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent.parent / "cases" / "structural_tags.json"

_WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city"],
    "additionalProperties": False,
}
_MAIL = {
    "type": "object",
    "properties": {
        "to": {"type": "array", "items": {"type": "string"}},
        "body": {
            "type": "object",
            "properties": {"subject": {"type": "string"}, "size": {"type": "number"}},
            "required": ["subject"],
            "additionalProperties": False,
        },
    },
    "required": ["to", "body"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": parameters}}
    for name, parameters in (("weather", _WEATHER), ("mail", _MAIL))
]


def model_tags(tools: list[dict[str, Any]], **options: Any) -> dict[str, dict[str, Any]]:
    """The tags by format, choice of tools and reasoning, such as ``qwen_3/auto/plain``; XGrammar makes them."""
    from xgrammar import builtin_structural_tag as made

    tags = {}
    for name in made._structural_tag_registry:
        for choice in ("auto", "required"):
            for reasoning in (True, False):
                tag = made.get_model_structural_tag(
                    name, tools=tools, tool_choice=choice, reasoning=reasoning, **options
                )
                key = f"{name}/{choice}/{'reasoning' if reasoning else 'plain'}"
                tags[key] = json.loads(tag.model_dump_json())
    return tags


def main() -> None:
    """Writes the file."""
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    lines = [
        f"{json.dumps(name)}: {json.dumps(tag, ensure_ascii=False)}"
        for name, tag in model_tags(TOOLS).items()
    ]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
