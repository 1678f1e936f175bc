"""A chat model that says what a list of rules tells it, over a vocabulary of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from constrained.integrations.langchain import ChatConstrained
from constrained.testing import ScriptedModel
from constrained.vocabulary import Vocabulary
from tests.support.finite import byte_vocabulary


@cache
def vocabulary() -> Vocabulary:
    """Bytes, and what the form of a call is made of."""
    pieces = ["<tool_call>", "</tool_call>", '\n{"name": "', '", "arguments": {', '": "', '", "', '"}']
    return byte_vocabulary(*pieces, "Answer with JSON only")


def call(name: str, arguments: str) -> str:
    """A call as the default format writes it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def scripted(script: Mapping[str, str], **settings: Any) -> ChatConstrained:
    """A chat model that answers by the first key that occurs in its prompt."""
    return ChatConstrained(
        model=ScriptedModel(vocabulary(), dict(script)), **{"extraction": False, **settings}
    )
