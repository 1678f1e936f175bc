"""The formats of a model's replies: calls, reasoning, content."""

from __future__ import annotations

from typing import NamedTuple

from constrained.chat.reply_form import PLAIN, ReplyFrame
from constrained.chat.reply_frame_probe import detect_reply_frame
from constrained.chat.tool_format import HERMES, ToolFormat
from constrained.chat.tool_format_probe import detect_tool_format
from constrained.models import LanguageModel


class ReplyFormats(NamedTuple):
    """How a model writes its replies.

    Attributes:
        tools: its calls.
        frame: what stands around reasoning and content.
    """

    tools: ToolFormat = HERMES
    frame: ReplyFrame = PLAIN


def detect_formats(
    model: LanguageModel, *, tools: bool, thinking: bool = False, format: ToolFormat | None = None
) -> ReplyFormats:
    """The formats of a reply, read off the chat template.

    Args:
        model: the model.
        tools: the chat has tools or calls.
        thinking: the reply has reasoning.
        format: of calls; None: detected where there are any.

    Raises:
        InvalidArgument: the template does not show how calls or reasoning are written.
    """
    if format is None:
        format = detect_tool_format(model) if tools else HERMES
    return ReplyFormats(format, detect_reply_frame(model, thinking=thinking))
