"""What stands in a reply around its reasoning and its content.

Must not know: LangChain, servers, models.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplyFrame:
    """The texts around reasoning and content, as the chat template of a model writes them.

    Attributes:
        reasoning: the text before the reasoning and the text that ends it; None: the reply has no reasoning.
        lead: text before content and calls.
        content: text before the content.
        close: text after the content.
        calls_alone: a reply has either content or calls.
        special: names of special tokens; where they occur in the texts, the special token is required, not its letters.
    """

    reasoning: tuple[str, str] | None = None
    lead: str = ""
    content: str = ""
    close: str = ""
    calls_alone: bool = False
    special: tuple[str, ...] = ()


PLAIN = ReplyFrame()
"""Content alone."""
