"""What a chat model may answer: free text, or calls of tools, exactly as their schemas want them.

Must not know: LangChain, servers, models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from constrained.constraint import Constraint, as_constraint
from constrained.constraint.base import digest
from constrained.errors import InvalidArgument, InvalidConstraint
from constrained.integrations.reading import Piece, Reply, ReplyReader, ToolCall
from constrained.integrations.tools import HERMES, Choice, Tool, ToolFormat, read_choice, read_tools

if TYPE_CHECKING:
    from grammars import ir

__all__ = ["Piece", "Replies", "Reply", "ReplyReader", "ToolCall", "replies"]


@dataclass(frozen=True, eq=False)
class Replies(Constraint):
    """The constraint that `replies` makes; its value is a `Reply`.

    Attributes:
        tools: those that may be called.
        choice: whether they may, must, or must not be.
        parallel: whether there may be several calls.
        stop: texts that end the free text.
        content: what the text is, if it is not free.
        format: how calls are written.
    """

    tools: tuple[Tool, ...]
    choice: Choice
    parallel: bool
    stop: tuple[str, ...]
    content: Constraint | None
    format: ToolFormat

    @property
    def calls(self) -> tuple[Tool, ...]:
        """The tools that a reply may call."""
        return () if self.choice == "none" else self.tools

    @cached_property
    def key(self) -> str:
        """See `Constraint`."""
        form = self.format
        tools = [part for tool in self.calls for part in (tool.name, tool.arguments.key)]
        content = "free" if self.content is None else self.content.key
        return digest(
            "reply",
            repr((self.choice, bool(self.tools), self.parallel, self.stop)),
            repr((form.begin, form.head, form.tail, form.between)),
            content,
            *tools,
        )

    @cached_property
    def grammar(self) -> ir.Grammar:
        """See `Constraint`."""
        from grammars import ir
        from grammars.merging import added, fresh
        from grammars.sections import up_to, without

        rules: dict[str, ir.Expr] = {}
        form = self.format
        calls: ir.Expr = ir.NEVER
        if self.calls:
            each = [
                ir.sequence(
                    ir.terminal(form.opening(tool.name)),
                    added(tool.arguments.grammar, rules),
                    ir.terminal(form.tail),
                )
                for tool in self.calls
            ]
            call = fresh("tool call", rules)
            rules[call] = ir.choice(*each)
            more = ir.sequence(ir.terminal(form.between + form.begin), ir.call(call))
            calls = ir.sequence(ir.call(call), ir.loop(more, 0, None if self.parallel else 0))
        body: ir.Expr
        if self.choice == "required":
            body = ir.sequence(ir.terminal(form.begin), calls)
        elif self.content is not None:
            body = ir.choice(added(self.content.grammar, rules), ir.sequence(ir.terminal(form.begin), calls))
        else:
            # Also where calls are ruled out, none may stand in the text.
            markers = [*([form.begin] if self.tools else []), *self.stop]
            ends = [ir.terminal(up_to(stop, markers)) for stop in self.stop]
            plain = ir.terminal(without(markers) if markers else ir.TEXT)
            called = [ir.sequence(ir.terminal(up_to(form.begin, markers)), calls)] if self.calls else []
            body = ir.choice(plain, *ends, *called)
        name = fresh("reply", rules)
        rules[name] = body
        return ir.Grammar(rules, name)

    def parse(self, text: str) -> Reply:
        """The reply that a text is, also of a text that is not finished."""
        reader = self.reader()
        reader.feed(text)
        reader.finish()
        return reader.reply

    def reader(self) -> ReplyReader:
        """Reads a text of this constraint while it is written."""
        return ReplyReader(self)

    def render(self) -> str:
        """See `Constraint`."""
        names = ", ".join(tool.name for tool in self.calls)
        text = "free text" if self.content is None else self.content.render()
        if not names:
            return text
        return f"a call of {names}" if self.choice == "required" else f"{text}, or a call of {names}"


def replies(
    tools: Sequence[Any] = (),
    *,
    tool_choice: Any = None,
    parallel: bool = True,
    stop: Sequence[str] = (),
    content: Any = None,
    closed: bool = True,
    format: ToolFormat = HERMES,
) -> Replies:
    """The constraint of a chat's answer: free text and then calls, if there are tools; the value is a `Reply`.

    A call is exact from its opening marker on: one of the names, and arguments of its schema. Between calls and after
    them there is no free text; where calls are required, there is none before them, and where they are ruled out, no
    marker of a call stands in the text. A call that the model would never close is closed within `max_tokens`.

    Args:
        tools: as `read_tools` takes them.
        tool_choice: as `read_choice` takes it.
        parallel: several calls are allowed; a reply that has to call one named tool has one call in any case.
        stop: texts that end the free text, where they first stand; calls and constrained content are not cut.
        content: a constraint, type or schema whose texts are JSON, for the text of a reply that calls nothing.
        closed: as in `Tool`.
        format: how calls are written.

    Raises:
        InvalidConstraint, InvalidArgument: not tools, not a choice, an empty stop; see `read_tools`, `read_choice`.
        ConstraintError, ConstraintTooLarge: a schema cannot be enforced.
    """
    known = read_tools(tools, closed=closed)
    choice, able = read_choice(tool_choice, known)
    named = choice == "required" and tool_choice not in (True, "any", "required") and len(able) == 1
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    for text in stops:
        if not isinstance(text, str) or not text:
            raise InvalidArgument(f"{text!r} cannot be a stop sequence", action="use some text")
    wanted = None if content is None else as_constraint(content)
    if wanted is not None and not wanted.is_json:
        raise InvalidConstraint(
            f"the content of a reply cannot be {wanted.render()}",
            action="use JSON, or generate under that constraint directly",
        )
    if not able:
        choice = "none"
    return Replies(able, choice, parallel and not named, stops, wanted, format)
