"""What the operator of a vLLM server can set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from constrained.integrations.engines.settings import EngineSettings

CONFIG_KEY = "constrained"
"""Key of the settings in vLLM's ``--additional-config``."""


@dataclass(frozen=True, slots=True)
class VllmSettings(EngineSettings):
    """Limits of the plug-in; `CONSTRAINED_VLLM` switches it on.

    Attributes:
        always_draft: draft in every pass, without measuring whether it pays; for tests and measurements.
    """

    VARIABLE: ClassVar[str] = "CONSTRAINED_VLLM"

    always_draft: bool = False
