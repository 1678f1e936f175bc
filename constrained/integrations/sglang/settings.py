"""What the operator of an SGLang server can set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from constrained.integrations.engines.settings import EngineSettings


@dataclass(frozen=True, slots=True)
class SglangSettings(EngineSettings):
    """Limits of the backend."""

    VARIABLE: ClassVar[str] = "CONSTRAINED_SGLANG"
