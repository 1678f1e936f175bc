"""What the operator of a vLLM server can set."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from constrained.errors import InvalidArgument

VARIABLE = "CONSTRAINED_VLLM"
"""Environment variable: ``1``, or the settings as a JSON object. vLLM's processes inherit it."""

CONFIG_KEY = "constrained"
"""Key of the settings in vLLM's ``--additional-config``."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """Limits of the plug-in.

    Attributes:
        compile_seconds: time limit for compiling the constraint of a request.
        compile_memory: bytes that compiling may allocate.
        max_schema: bytes of the constraint of a request.
        automata: compiled automata that are kept; the least recently used one is evicted.
        memory_limit: bytes of masks and tables, see `Vocabulary`.
        always_draft: draft in every pass, without measuring whether it pays; for tests and measurements.

    Raises:
        InvalidArgument: a setting is out of range.
    """

    compile_seconds: float = 5.0
    compile_memory: int = 1 << 30
    max_schema: int = 1 << 20
    automata: int = 256
    memory_limit: int = 256 << 20
    always_draft: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "always_draft":
                if not isinstance(value, bool):
                    raise InvalidArgument(f"{field.name} is {value!r}", action="give true or false")
                continue
            number = (int, float) if field.name == "compile_seconds" else int
            if isinstance(value, bool) or not isinstance(value, number) or value <= 0:
                raise InvalidArgument(f"{field.name} is {value!r}", action="give a positive number")

    @classmethod
    def from_environment(cls) -> VllmSettings | None:
        """The settings in `CONSTRAINED_VLLM`; None if it is unset, empty or ``0``.

        Raises:
            InvalidArgument: the variable is something else, or a setting is unknown or out of range.
        """
        text = os.environ.get(VARIABLE, "").strip()
        if text in ("", "0"):
            return None
        if text == "1":
            return cls()
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        return cls.from_mapping(value, VARIABLE)

    @classmethod
    def from_mapping(cls, value: Any, place: str) -> VllmSettings:
        """The settings of an object; ``True`` means the defaults.

        Args:
            value: names and values.
            place: where it stands, for errors.

        Raises:
            InvalidArgument: the value is no object, or a setting is unknown or out of range.
        """
        if value is True:
            return cls()
        names = [field.name for field in fields(cls)]
        if not isinstance(value, Mapping):
            raise InvalidArgument(
                f"{place} is {value!r}",
                action=f"set it to 1, or to a JSON object with some of: {', '.join(names)}",
            )
        unknown = [name for name in value if name not in names]
        if unknown:
            raise InvalidArgument(
                f"{place}: the setting {unknown[0]!r} is unknown", action=f"use some of: {', '.join(names)}"
            )
        return cls(**value)

    def to_environment(self) -> None:
        """Sets `CONSTRAINED_VLLM`, for the processes that this one starts."""
        os.environ[VARIABLE] = json.dumps({field.name: getattr(self, field.name) for field in fields(self)})
