"""Extract plain JSON values from a text with a JSON Schema, without defining a Python type."""

import json

import jsonschema

import constrained

SCHEMA = {
    "type": "object",
    "properties": {
        "flight_number": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{1,4}$"},
        "date": {"type": "string", "format": "date"},
        "passengers": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 4},
    },
    "required": ["flight_number", "date", "passengers"],
    "additionalProperties": False,
}
TEXT = "Flight number: KL1509\nDate: 2026-07-02\nPassengers: Ana Silva, Tomáš Novák"

value = constrained.extract(constrained.load(), TEXT, SCHEMA)
print(json.dumps(value, ensure_ascii=False))
jsonschema.validate(value, SCHEMA)
