"""The structural tags that XGrammar makes for each model format, for tests and for `constrained bench masks`.

    python -m tests.tools.structural_tags --write         writes tests/cases/structural_tags.json; XGrammar is needed
    python -m tests.tools.structural_tags --bench FILE    writes the tags and their texts as data of the bench

Plain tests read the file and so check the tags without XGrammar.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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


def read_tags() -> dict[str, dict[str, Any]]:
    """The tags of the file, by name."""
    tags: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
    return tags


def texts(name: str) -> tuple[str, str]:
    """A text that a tag accepts, written by hand, and one with a wrong value in the call."""
    model, choice, reasoning = name.split("/")
    case = tomllib.loads(PATH.with_suffix(".toml").read_text(encoding="utf-8"))[model]
    before = case["reasoning"] if reasoning == "reasoning" else case.get("plain", "")
    call = case.get("required", case["call"]) if choice == "required" else case["call"]
    end = case.get("end", "")
    return before + call + end, before + call.replace("3", "three") + end


def write_bench(path: Path) -> None:
    """Writes data for ``constrained bench masks --data``."""
    with path.open("w", encoding="utf-8") as lines:
        for name, tag in read_tags().items():
            good, bad = texts(name)
            tests = [{"valid": True, "text": good}, {"valid": False, "text": bad}]
            lines.write(json.dumps({"id": name, "schema": tag, "tests": tests}) + "\n")


def main() -> None:
    """Writes a file."""
    if len(sys.argv) == 3 and sys.argv[1] == "--bench":
        write_bench(Path(sys.argv[2]))
        return
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    lines = [
        f"{json.dumps(name)}: {json.dumps(tag, ensure_ascii=False)}"
        for name, tag in model_tags(TOOLS).items()
    ]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
