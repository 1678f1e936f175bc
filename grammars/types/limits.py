"""Bounds for values that a format allows and Python cannot represent: years before 1, leap seconds, long durations.

The bounds are for the grammar only: a prompt shows the schema without them, as they do not help a model.
"""

from __future__ import annotations

PATTERNS = {
    "date": "^(?!0000)",
    "date-time": "^(?!0000|.{17}60)",
    "time": "^(?!.{6}60)",
    "duration": "^(?!.*[0-9]{7})",
}
"""Format -> ECMA-262 pattern of the values that `datetime` (and pydantic) can represent."""
