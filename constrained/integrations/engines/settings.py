"""What the operator of an engine can set: an environment variable with a JSON object."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from constrained.errors import InvalidArgument

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits of a plug-in.

    Attributes:
        VARIABLE: environment variable: ``1``, or the settings as a JSON object. The engine's processes inherit it.
        compile_seconds: time limit for compiling the constraint of a request.
        compile_memory: bytes that compiling may allocate.
        max_schema: bytes of the constraint of a request.
        automata: compiled automata that are kept; the least recently used one is evicted.
        memory_limit: bytes of masks and tables, see `Vocabulary`.
        canonical: text that is forced has the tokens that the tokenizer writes; false: any tokens, as the model likes.

    Raises:
        InvalidArgument: a setting is out of range.
    """

    VARIABLE: ClassVar[str]

    compile_seconds: float = 5.0
    compile_memory: int = 1 << 30
    max_schema: int = 1 << 20
    automata: int = 256
    memory_limit: int = 256 << 20
    canonical: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                if not isinstance(value, bool):
                    raise InvalidArgument(f"{field.name} is {value!r}", action="give true or false")
                continue
            number = (int, float) if isinstance(field.default, float) else int
            if isinstance(value, bool) or not isinstance(value, number) or value <= 0:
                raise InvalidArgument(f"{field.name} is {value!r}", action="give a positive number")

    @classmethod
    def from_environment(cls) -> Self | None:
        """The settings in `VARIABLE`; None if it is unset, empty or ``0``.

        Raises:
            InvalidArgument: the variable is something else, or a setting is unknown or out of range.
        """
        text = os.environ.get(cls.VARIABLE, "").strip()
        if text in ("", "0"):
            return None
        if text in ("1", "true"):
            return cls()
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        names = [field.name for field in fields(cls)]
        if not isinstance(value, Mapping):
            raise InvalidArgument(
                f"{cls.VARIABLE} is {value!r}",
                action=f"set it to 1, or to a JSON object with some of: {', '.join(names)}",
            )
        unknown = [name for name in value if name not in names]
        if unknown:
            raise InvalidArgument(
                f"{cls.VARIABLE}: the setting {unknown[0]!r} is unknown",
                action=f"use some of: {', '.join(names)}",
            )
        return cls(**value)


@dataclass(frozen=True, slots=True)
class VllmSettings(EngineSettings):
    """Limits of the plug-in; `CONSTRAINED_VLLM` switches it on.

    Attributes:
        installed: whether the plug-in is active in this process.
        always_draft: draft in every pass, without measuring whether it pays; for tests and measurements.
    """

    VARIABLE: ClassVar[str] = "CONSTRAINED_VLLM"
    installed: ClassVar[bool] = False

    always_draft: bool = False


@dataclass(frozen=True, slots=True)
class SglangSettings(EngineSettings):
    """Limits of the backend."""

    VARIABLE: ClassVar[str] = "CONSTRAINED_SGLANG"
