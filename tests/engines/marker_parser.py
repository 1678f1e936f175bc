"""A reasoning parser for vLLM: reasoning ends with a token that the test names. vLLM loads this file by its path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from vllm.reasoning import ReasoningParser, ReasoningParserManager

MARKER = int(os.environ.get("CONSTRAINED_TEST_MARKER", "-1"))


class MarkerParser(ReasoningParser):
    """Reasoning up to and with the marker."""

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        return False  # the prompts of the test contain the marker too

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Any) -> bool:
        return MARKER in list(delta_ids)

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        return input_ids[input_ids.index(MARKER) + 1 :] if MARKER in input_ids else []

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        return None, model_output

    def extract_reasoning_streaming(self, *arguments: Any, **options: Any) -> None:
        return None


ReasoningParserManager.register_module("marker", module=MarkerParser)
