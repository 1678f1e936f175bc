"""What a reply may have, and how it is written: `ReplyForm`, and the `ReplyFrame` around reasoning and content."""

from __future__ import annotations

from dataclasses import dataclass

from constrained.chat.tools import Tool, ToolChoice, ToolFormat
from constrained.constraint import Constraint


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


@dataclass(frozen=True, eq=False)
class ReplyForm:
    """What a reply may have, and how it is written.

    Attributes:
        tools: those that may be called.
        tool_choice: whether they may, must, or must not be.
        parallel: whether there may be several calls.
        stop: texts that end the free text.
        content: what the text is, if it is not free.
        format: how calls are written.
        frame: what stands around reasoning and content.
        asked: what the user's last message says, if it is the last one; see `ReplyGuard`. It is no part of the constraint.
    """

    tools: tuple[Tool, ...]
    tool_choice: ToolChoice
    parallel: bool
    stop: tuple[str, ...]
    content: Constraint | None
    format: ToolFormat
    frame: ReplyFrame = PLAIN
    asked: str = ""

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that a reply may call."""
        return () if self.tool_choice == "none" else self.tools

    @property
    def allows_more_calls(self) -> bool:
        """Whether a call may be followed by another one."""
        return self.parallel and not self.format.single
