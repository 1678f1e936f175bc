"""Stream a value: every chunk has the new characters and the valid partial value so far."""

import constrained
from constrained.extraction.prompt import extraction_prompt

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "languages": {"type": "array", "items": {"type": "string"}}},
    "required": ["name", "languages"],
    "additionalProperties": False,
}

TEXT = "The name is Ana. The languages are Czech and Spanish."

generator = constrained.Generator(constrained.load(), SCHEMA)
shown = None
for chunk in generator.stream(extraction_prompt(TEXT, generator.constraint)):
    if chunk.value != shown:
        shown = chunk.value
        print(shown)
assert chunk.output is not None
assert chunk.output.value == shown
