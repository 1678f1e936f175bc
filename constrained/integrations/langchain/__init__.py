"""LangChain: `ChatConstrained`, a chat model whose tool calls and structured output cannot be malformed, and `ConstrainedDecisionModel`.

`chat_model` is the class, `structured` its structured output, `extraction` the one that reads a text, `messages` the conversion of messages, `provider` its name for
`init_chat_model`; `decision_model` is the other one, for which langchain-core 1.8 is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from constrained.extras import require_extra

with require_extra("langchain"):
    import langchain_core  # noqa: F401

from constrained.integrations.langchain.chat_model import ChatConstrained
from constrained.integrations.langchain.provider import register_provider

if TYPE_CHECKING:
    from constrained.integrations.langchain.decision_model import (
        ConstrainedDecisionModel as ConstrainedDecisionModel,
    )

__all__ = ["ChatConstrained", "ConstrainedDecisionModel", "register_provider"]


def __getattr__(name: str) -> Any:
    if name != "ConstrainedDecisionModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with require_extra("langchain"):
        return getattr(import_module(f"{__name__}.decision_model"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
