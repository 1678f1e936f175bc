"""Chats whose answers the real model is sure of."""

from __future__ import annotations

from typing import Any

from constrained import choice, regex


def chat(*said: str) -> list[dict[str, str]]:
    """What a user and the assistant said in turn."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]


def closed(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT, INTEGER = {"type": "string"}, {"type": "integer"}

CAPITAL = (
    chat("What is the capital of Spain?", "Madrid", "What is the capital of France?"),
    choice(["Berlin", "London", "Paris", "Rome"]),
)
YEAR = (
    chat("In which year did Apollo 11 land on the Moon? Answer with the year."),
    regex(r"(19|20)[0-9]{2}"),
)
ECHO = (
    chat("Repeat after me: the quick brown fox jumps over the lazy dog"),
    regex(r"[a-z ]{20,60}"),
)
COUNTRY = (
    chat(
        "Answer with JSON: Lima is the capital of Peru.",
        '{"capital": "Lima", "country": "Peru"}',
        "Answer with JSON: Tallinn is the capital of Estonia.",
    ),
    closed(capital=TEXT, country=TEXT),
)
BORN = (
    chat(
        "Answer with JSON: Ada was born in 1815.",
        '{"name": "Ada", "born": 1815}',
        "Answer with JSON: Grace was born in 1906.",
    ),
    closed(name=TEXT, born=INTEGER),
)
ANIMALS = (
    chat(
        "Answer with JSON: I have two dogs and a cat.",
        '["dog", "cat"]',
        "Answer with JSON: She saw a horse, a cow and a sheep.",
    ),
    {"type": "array", "items": TEXT},
)
"""Pairs of a chat and a constraint."""
