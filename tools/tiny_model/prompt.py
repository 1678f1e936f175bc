"""The prompt that the bundled model is trained on: `Extractor`'s without examples, at the time of the training."""

from __future__ import annotations

from typing import Any

from constrained.prompting.schema_text import schema_to_text

EXTRACTION_INSTRUCTION = "Fill this type from the text below. Answer with JSON only; leave out optional fields that the text does not mention."


def extraction_messages(text: str, schema: Any) -> list[dict[str, str]]:
    """The chat that asks the bundled model to read a text into a value of a JSON Schema."""
    request = f"{EXTRACTION_INSTRUCTION}\n\n{schema_to_text(schema)}\n\nText:\n{text.strip()}"
    return [{"role": "user", "content": request}]
