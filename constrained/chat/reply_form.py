"""`ReplyForm`: what a reply may have, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass

from constrained.chat.reply_frame import PLAIN, ReplyFrame
from constrained.chat.tools import Tool, ToolChoice, ToolFormat
from constrained.constraint import Constraint


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
