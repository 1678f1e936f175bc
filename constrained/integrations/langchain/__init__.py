"""LangChain: `ChatConstrained`, a chat model whose tool calls and structured output cannot be malformed.

`chat_model` is the class, `structured` its structured output, `messages` the conversion of messages, `provider` its name for
`init_chat_model`.
"""

from __future__ import annotations

from constrained.extras import require_extra

with require_extra("langchain"):
    import langchain_core  # noqa: F401

from constrained.integrations.langchain.chat_model import ChatConstrained
from constrained.integrations.langchain.provider import register_provider

__all__ = ["ChatConstrained", "register_provider"]
