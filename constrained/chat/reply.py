"""The replies of a chat model: free text, or calls of tools with arguments that satisfy their schemas.

Must not know: LangChain, servers, models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from constrained.chat.reply_parser import Reply, ReplyDelta, ReplyParser, ToolCall
from constrained.chat.tools import (
    HERMES,
    Tool,
    ToolChoice,
    ToolFormat,
    common_prefix,
    parse_tool_choice,
    parse_tools,
)
from constrained.constraint import Constraint, as_constraint
from constrained.constraint.base import digest
from constrained.errors import InvalidArgument, InvalidConstraint
from constrained.vocabulary import encode_with_special

if TYPE_CHECKING:
    from grammars import ir

__all__ = ["Reply", "ReplyConstraint", "ReplyDelta", "ReplyParser", "ToolCall", "reply_constraint"]

_JSON_BEGINS = frozenset(' \t\n\r{["-0123456789tfn')


@dataclass(frozen=True, eq=False)
class ReplyConstraint(Constraint):
    """The constraint that `reply_constraint` makes; its value is a `Reply`.

    Attributes:
        tools: those that may be called.
        tool_choice: whether they may, must, or must not be.
        parallel: whether there may be several calls.
        stop: texts that end the free text.
        content: what the text is, if it is not free.
        format: how calls are written.
    """

    tools: tuple[Tool, ...]
    tool_choice: ToolChoice
    parallel: bool
    stop: tuple[str, ...]
    content: Constraint | None
    format: ToolFormat

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that a reply may call."""
        return () if self.tool_choice == "none" else self.tools

    @cached_property
    def key(self) -> str:
        """See `Constraint`."""
        tools = [part for tool in self.callable_tools for part in (tool.name, tool.arguments.key)]
        content = "free" if self.content is None else self.content.key
        return digest(
            "reply",
            repr((self.tool_choice, bool(self.tools), self.parallel, self.stop)),
            repr(astuple(self.format)),
            content,
            *tools,
        )

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The special tokens with which calls are written."""
        return self.format.special if self.callable_tools else ()

    @cached_property
    def grammar(self) -> ir.Grammar:
        """See `Constraint`."""
        from grammars import ir
        from grammars.text.free_text import text_up_to, text_without
        from grammars.transform.imports import fresh_name, import_rules

        rules: dict[str, ir.Expr] = {}
        form = self.format
        begin = encode_with_special(form.begin, form.special)
        calls = self._called(rules) if self.callable_tools else ir.EMPTY_LANGUAGE
        body: ir.Expr
        if self.tool_choice == "required":
            body = ir.sequence(ir.terminal(begin), calls)
        elif self.content is not None:
            body = ir.choice(
                import_rules(self.content.grammar, rules), ir.sequence(ir.terminal(begin), calls)
            )
        else:
            # Also where calls are ruled out, none may stand in the text; nor may the name of a special token.
            markers = [*([form.begin] if self.tools else []), *self.stop]
            ends = [ir.terminal(text_up_to(stop, markers)) for stop in self.stop]
            plain = text_without(markers) if markers else ir.TEXT
            # A special token is not text: the text before it cannot be split in another way.
            marked = begin != form.begin.encode()
            opened = ir.concat(plain, ir.literal(begin)) if marked else text_up_to(form.begin, markers)
            called = [ir.sequence(ir.terminal(opened), calls)] if self.callable_tools else []
            body = ir.choice(ir.terminal(plain), *ends, *called)
        name = fresh_name("reply", rules)
        rules[name] = body
        return ir.Grammar(rules, name)

    def _called(self, rules: dict[str, ir.Expr]) -> ir.Expr:
        """Calls, from behind the marker that opens the first one."""
        from grammars import ir
        from grammars.transform.imports import fresh_name, import_rules

        form = self.format
        parts = (form.before_name, form.call_separator, form.tail)
        first, following, tail = (encode_with_special(part, form.special) for part in parts)
        # The end of the last call and the separator before another one share a prefix, which is written once.
        shared = common_prefix(following, tail) if self.allows_more_calls else tail
        each = [
            ir.sequence(
                ir.terminal(encode_with_special(form.call_head(tool.name), form.special)),
                import_rules(tool.arguments.grammar, rules),
                ir.terminal(shared),
            )
            for tool in self.callable_tools
        ]
        call = fresh_name("tool call", rules)
        rules[call] = ir.choice(*each)
        another = ir.sequence(ir.terminal(following[len(shared) :]), ir.call(call))
        more = ir.loop(another, 0, None if self.allows_more_calls else 0)
        return ir.sequence(ir.terminal(first), ir.call(call), more, ir.terminal(tail[len(shared) :]))

    @property
    def allows_more_calls(self) -> bool:
        """Whether a call may be followed by another one."""
        return self.parallel and not self.format.single

    def parse(self, text: str) -> Reply:
        """The reply that a text is, also of a text that is not finished."""
        reader = self.parser()
        reader.feed(text)
        reader.finish()
        return reader.reply

    def has_whole_calls(self, text: str, offset: int) -> bool:
        """Whether a completion has calls, and all of them are closed within its first `offset` characters.

        So a token limit that cut the completion there has not touched them: it only kept others from following.
        """
        calls = self.parse(text).calls
        return bool(calls) and calls == self.parse(text[:offset]).calls

    def parser(self) -> ReplyParser:
        """Reads a text of this constraint while it is written."""
        return ReplyParser(self)

    def render(self) -> str:
        """See `Constraint`."""
        names = ", ".join(tool.name for tool in self.callable_tools)
        text = "free text" if self.content is None else self.content.render()
        if not names:
            return text
        return f"a call of {names}" if self.tool_choice == "required" else f"{text}, or a call of {names}"


def reply_constraint(
    tools: Sequence[Any] = (),
    *,
    tool_choice: Any = None,
    parallel: bool = True,
    stop: Sequence[str] = (),
    content: Any = None,
    closed: bool = True,
    format: ToolFormat = HERMES,
) -> ReplyConstraint:
    """The constraint of a reply in a chat: free text and then calls, if there are tools; the value is a `Reply`.

    A call is exact from its opening marker on: one of the names, and arguments of its schema. Free text comes before
    the calls only, and not at all if calls are required; if they are ruled out, the text contains no marker of a call.
    A call that the model would never close is closed within `max_tokens`.

    Args:
        tools: as `parse_tools` takes them.
        tool_choice: as `parse_tool_choice` takes it.
        parallel: several calls are allowed; a reply that has to call one named tool has one call in any case.
        stop: texts that end the free text, where they first stand; calls and constrained content are not cut.
        content: a constraint, type or schema whose texts are JSON, for the text of a reply that calls nothing.
        closed: as in `Tool`.
        format: how calls are written.

    Raises:
        InvalidConstraint, InvalidArgument: not tools, not a choice, an empty stop; see `parse_tools`, `parse_tool_choice`.
        ConstraintError, ConstraintTooLarge: a schema cannot be enforced.
    """
    known = parse_tools(tools, closed=closed)
    choice, able = parse_tool_choice(tool_choice, known)
    named = choice == "required" and tool_choice not in (True, "any", "required") and len(able) == 1
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    for text in stops:
        if not isinstance(text, str) or not text:
            raise InvalidArgument(f"a stop sequence is empty: {text!r}", action="use at least one character")
    wanted = None if content is None else as_constraint(content)
    if wanted is not None and not wanted.is_json:
        raise InvalidConstraint(
            f"the content of a reply cannot be {wanted.render()}",
            action="use JSON, or generate under that constraint directly",
        )
    if wanted is not None and able and choice == "auto" and format.begin[0] in _JSON_BEGINS:
        raise InvalidArgument(
            f"a call that begins with {format.begin!r} cannot be distinguished from a JSON reply",
            action="use tool_choice='required' or 'none', or remove the constraint on the reply",
        )
    if not able:
        choice = "none"
    return ReplyConstraint(able, choice, parallel and not named, stops, wanted, format)
