"""The replies of a chat model: free text, or calls of tools with arguments that satisfy their schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from constrained.chat.reply_form import PLAIN, ReplyForm, ReplyFrame
from constrained.chat.reply_parser import Reply, ReplyDelta, ReplyParser, ToolCall
from constrained.chat.tool_format import ID, INDEX, MAX_ID, common_prefix
from constrained.chat.tools import (
    HERMES,
    ToolFormat,
    parse_tool_choice,
    parse_tools,
    tool_errors,
)
from constrained.constraint import Constraint, as_constraint
from constrained.constraint.base import digest
from constrained.constraint.json import MAX_DIGITS
from constrained.constraint.shared_rules import import_shared
from constrained.errors import InvalidArgument, InvalidConstraint
from constrained.vocabulary import encode_with_special

if TYPE_CHECKING:
    from constrained.decoding.repetition import Guard
    from constrained.grammars import ir
    from constrained.vocabulary import Vocabulary

__all__ = ["Reply", "ReplyConstraint", "ReplyDelta", "ReplyParser", "ToolCall", "reply_constraint"]

_JSON_BEGINS = frozenset(' \t\n\r{["-0123456789tfn')


@dataclass(frozen=True, eq=False)
class ReplyConstraint(ReplyForm, Constraint):
    """The constraint that `reply_constraint` makes; its value is a `Reply`."""

    @property
    def reasoning_end(self) -> str | None:  # type: ignore[override]
        """See `Constraint`."""
        return None if self.frame.reasoning is None else self.frame.reasoning[1]

    @cached_property
    def key(self) -> str:
        """See `Constraint`."""
        tools = [part for tool in self.callable_tools for part in (tool.name, tool.arguments.key)]
        content = "free" if self.content is None else self.content.key
        return digest(
            "reply",
            repr((self.tool_choice, bool(self.tools), self.parallel, self.stop)),
            repr((astuple(self.format), astuple(self.frame))),
            content,
            *tools,
        )

    @property
    def _inside(self) -> tuple[Constraint, ...]:
        content = () if self.content is None else (self.content,)
        return (*content, *(tool.arguments for tool in self.callable_tools))

    @cached_property
    def special_tokens(self) -> tuple[str, ...]:
        """The special tokens with which calls are written, those around reasoning and content, and those of the content."""
        called = self.format.special if self.callable_tools else ()
        inside = () if self.content is None else self.content.special_tokens
        return tuple(dict.fromkeys((*self.frame.special, *called, *inside)))

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        """Those of the content."""
        return () if self.content is None else self.content.fixed_texts

    @cached_property
    def grammar(self) -> ir.Grammar:
        """See `Constraint`."""
        from constrained.grammars import ir
        from constrained.grammars.transform.imports import fresh_name

        rules: dict[str, ir.Expr] = {}
        body = ir.sequence(*self._before(), self._body(rules))
        name = fresh_name("reply", rules)
        rules[name] = body
        return ir.Grammar(rules, name)

    def _before(self) -> list[ir.Expr]:
        """The reasoning, and what stands before content and calls."""
        from constrained.grammars import ir
        from constrained.grammars.text.free_text import text_up_to

        before: list[ir.Expr] = []
        if self.frame.reasoning is not None:
            begin, end = self.frame.reasoning
            # A special token is not text. White space behind another end follows it: models leave it out, and would go on reasoning.
            special, mark = self._encoded(end) != end.encode(), end.rstrip() or end
            ended = ir.concat(text_up_to(mark, [mark]), self._marked(end[len(mark) :]))
            thought = ir.concat(ir.TEXT, self._marked(end)) if special else ended
            before.append(ir.terminal(ir.concat(self._marked(begin), thought)))
        if self.frame.lead:
            before.append(ir.terminal(self._marked(self.frame.lead)))
        return before

    def _body(self, rules: dict[str, ir.Expr]) -> ir.Expr:
        """Content, calls, or content and then calls."""
        from constrained.grammars import ir
        from constrained.grammars.lexer import reject_lexer_grammar
        from constrained.grammars.text.free_text import text_up_to, text_without
        from constrained.grammars.transform.imports import import_rules

        frame, able = self.frame, self.callable_tools
        begins = {begin: self._marked(begin) for begin in self.format.begins} if self.tools or able else {}
        calls = {begin: self._called(begin, rules) for begin in begins} if able else {}
        alone = [ir.sequence(ir.terminal(begins[begin]), call) for begin, call in calls.items()]
        if self.tool_choice == "required":
            return ir.choice(*alone)
        begin, close = self._marked(frame.content), self._marked(frame.close)
        if self.content is not None:
            grammar = self.content.among_special_tokens(self.special_tokens).grammar
            reject_lexer_grammar(grammar, "in a reply with calls or reasoning")
            content = import_rules(grammar, rules)
            return ir.choice(ir.sequence(ir.terminal(begin), content, ir.terminal(close)), *alone)
        # Also where calls are ruled out, none may stand in the text; nor may the name of a special token.
        ending = [frame.close] if frame.close else []
        markers = [*begins, *ending, *self.stop]
        ends = [ir.concat(begin, text_up_to(stop, markers), close) for stop in self.stop]
        plain = ir.concat(begin, text_without(markers) if markers else ir.TEXT, close)
        if frame.calls_alone:
            return ir.choice(ir.terminal(plain), *map(ir.terminal, ends), *alone)
        called = []
        for text, call in calls.items():
            # A special token is not text: the text before it cannot be split in another way.
            marked = self._encoded(text) != text.encode()
            opened = ir.concat(text_without(markers), begins[text]) if marked else text_up_to(text, markers)
            called.append(ir.sequence(ir.terminal(opened), call))
        return ir.choice(ir.terminal(plain), *map(ir.terminal, ends), *called)

    def _called(self, begin: str, rules: dict[str, ir.Expr]) -> ir.Expr:
        """Calls, from behind the marker that opens the first one."""
        from constrained.grammars import ir
        from constrained.grammars.transform.imports import fresh_name

        form = self.format
        following, tail = self._encoded(form.call_separator), self._encoded(form.tail)
        # The end of the last call and the separator before another one share a prefix, which is written once.
        shared = common_prefix(following, tail) if self.allows_more_calls else tail
        arguments = {}
        for tool in self.callable_tools:
            with tool_errors(tool):
                constraint = tool.arguments_in(form, self.special_tokens)
                arguments[tool.name] = ir.sequence(
                    import_shared(constraint, rules, f"tool {tool.name}"), ir.terminal(self._numbers(shared))
                )
        calls = []
        for head in form.heads(begin):
            before, _, after = head.partition("{name}")
            each = [
                ir.sequence(ir.terminal(self._marked(name + after)), rest) for name, rest in arguments.items()
            ]
            call = fresh_name("tool call", rules)
            rules[call] = ir.choice(*each)
            another = ir.sequence(ir.terminal(self._numbers(following[len(shared) :])), ir.call(call))
            more = ir.loop(another, 0, None if self.allows_more_calls else 0)
            calls.append(ir.sequence(ir.terminal(self._marked(before)), ir.call(call), more))
        return ir.sequence(ir.choice(*calls), ir.terminal(self._numbers(tail[len(shared) :])))

    def _marked(self, text: str) -> ir.Regex:
        """A text of the format: special tokens are one byte each, the number of a call is any number, its id any id."""
        return self._numbers(self._encoded(text))

    def _numbers(self, data: bytes) -> ir.Regex:
        return _numbered(data, self.format.id_length)

    def _encoded(self, text: str) -> bytes:
        """A text of the format in bytes; the number of a call is a zero byte, its id is a byte of one."""
        encoded = encode_with_special(text, self.special_tokens)
        return encoded.replace(INDEX.encode(), b"\0").replace(ID.encode(), b"\1")

    def parse(self, text: str) -> Reply:
        """The reply that a text is, also of a text that is not finished."""
        reader = self.parser()
        reader.feed(text)
        reader.finish()
        return reader.reply

    def repetition_guard(self, vocabulary: Vocabulary) -> Callable[[Sequence[int]], Guard] | None:
        """See `Constraint`."""
        from constrained.chat.reply_guard import ReplyGuard
        from constrained.decoding.repetition import repetition_guard

        if self.callable_tools:
            return partial(ReplyGuard, self, self.special_tokens, vocabulary)
        bare = self.content is not None and self.frame.reasoning is None
        return repetition_guard(self.content, vocabulary) if bare and self.content is not None else None

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


def _numbered(data: bytes, id_length: int | None) -> ir.Regex:
    """Bytes in which a zero byte stands for any number, and a byte of one for any id."""
    from constrained.grammars import ir

    digits, letters = [(0x30, 0x39)], [(0x41, 0x5A), (0x61, 0x7A)]
    if id_length is None:
        call_id = ir.repeat(ir.chars([(0x2D, 0x2D), *digits, (0x5F, 0x5F), *letters]), 1, MAX_ID)
    else:
        call_id = ir.repeat(ir.chars([*digits, *letters]), id_length, id_length)
    choices = {b"\0": ir.repeat(ir.chars(digits), 1, 4), b"\1": call_id}
    return ir.concat(*(choices.get(part) or ir.literal(part) for part in re.split(rb"([\0\1])", data)))


def reply_constraint(
    tools: Sequence[Any] = (),
    *,
    tool_choice: Any = None,
    parallel: bool = True,
    stop: Sequence[str] = (),
    content: Any = None,
    closed: bool = True,
    max_digits: int | None = MAX_DIGITS,
    format: ToolFormat = HERMES,
    frame: ReplyFrame = PLAIN,
    asked: str = "",
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
        content: a constraint, type or schema for the text of a reply that calls nothing; its texts are JSON where a call
            could stand in their place.
        closed: as in `Tool`.
        max_digits: as in `Tool`.
        format: how calls are written.
        frame: what stands around reasoning and content.
        asked: what the user's last message says, if it is the last one: where calls lack numbers or names of it, a greedy reply makes
            another call rather than none.

    Raises:
        InvalidConstraint, InvalidArgument: not tools, not a choice, an empty stop; see `parse_tools`, `parse_tool_choice`.
        ConstraintError, ConstraintTooLarge: a schema cannot be enforced.
    """
    known = parse_tools(tools, closed=closed, max_digits=max_digits)
    choice, able = parse_tool_choice(tool_choice, known)
    several = (True, "any", "required")
    listed = isinstance(tool_choice, Mapping) and tool_choice.get("type") in ("allowed_tools", *several)
    named = choice == "required" and tool_choice not in several and not listed and len(able) == 1
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    for text in stops:
        if not isinstance(text, str) or not text:
            raise InvalidArgument(f"a stop sequence is empty: {text!r}", action="use at least one character")
    wanted = None if content is None else as_constraint(content)
    calls_alone = frame.calls_alone or choice != "auto" or not able
    if wanted is not None and not wanted.is_json and not calls_alone:
        raise InvalidConstraint(
            f"the content of a reply cannot be {wanted.render()}",
            action="use JSON, or generate under that constraint directly",
        )
    if wanted is not None and not calls_alone and format.begin[0] in _JSON_BEGINS:
        raise InvalidArgument(
            f"a call that begins with {format.begin!r} cannot be distinguished from a JSON reply",
            action="use tool_choice='required' or 'none', or remove the constraint on the reply",
        )
    if not able:
        choice = "none"
    return ReplyConstraint(able, choice, parallel and not named, stops, wanted, format, frame, asked)
