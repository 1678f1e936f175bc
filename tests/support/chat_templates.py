"""What the published chat templates of models write, recorded, and models with these templates.

`tests/cases/chat_templates.json` holds for each template the texts that it renders for some chats, from the last message of
the user on; `python -m tests.tools.chat_templates` records them. So tests know the templates' texts without the templates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from constrained.chat.template_probe import USER
from tests.support.paths import ROOT
from tests.support.speaking import Speaker

PATH = ROOT / "tests" / "cases" / "chat_templates.json"

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "where": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["lat"],
        },
    },
    "required": ["city"],
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": "Of a city.", "parameters": CITY}}
    for name in ("weather", "weather_map")
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("weather", {"city": "São <b>Paulo</b> 3", "days": 3, "where": {"lat": 1.5, "tags": ["a", "b c"]}}),
    ("weather_map", {"city": "7"}),
]
"""Calls in which the markup of a family matters: a string like a tag, one like a number, an object with an array."""


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """The records by name of the template: special tokens, ends of sequence, and rendered texts."""
    records: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
    return records


def key_of(messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> str:
    """The key of a rendered chat; tools are not part of it."""
    wanted = {name: value for name, value in variables.items() if name not in ("tools", "tokenize")}
    return json.dumps([list(messages), wanted], sort_keys=True, ensure_ascii=False)


class TemplateSpeaker(Speaker):
    """A scripted model with the recorded texts of a published template."""

    def __init__(self, name: str, script: str = "") -> None:
        record = recorded()[name]
        names = (*record["special"], *record["ends"])
        super().__init__(" ".join(("recorded", *record["tags"])), script, special=names)
        self.record = record
        ends = [self.tokenizer.convert_tokens_to_ids(end) for end in record["ends"]]
        self.vocabulary = self.vocabulary.with_eos_ids([self.tokenizer.eos_token_id, *ends])
        self.tokenizer.apply_chat_template = self.render

    def render(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        """As the template renders these messages, if that is recorded; otherwise their texts, and the recorded prompt."""
        if any(message["content"] == USER for message in messages):
            text = self.record["texts"].get(key_of(messages, variables))
            if text is None:
                raise ValueError("the template refuses the messages")
            return str(text)
        asked = [{"role": "user", "content": USER}]
        variables.pop("reasoning_effort", None)
        told = "\n".join(str(message["content"]) for message in messages)
        tools = json.dumps(variables.pop("tools", None), default=str)
        return f"{tools}\n{told}" + str(self.record["texts"][key_of(asked, variables)]).removeprefix(USER)
