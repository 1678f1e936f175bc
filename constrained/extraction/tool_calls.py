"""`CallReader`: the arguments of a tool's call, read from the user's message as a value is read from a document.

A small model that calls a tool leaves arguments out that the message states, makes others up, and copies descriptions of the schema. It
does better where it is asked for the value of a text (`constrained.extraction.closed_members`, `phrases`, `quantities`). It calls tools
that have nothing to do with the message, or none at all where it may answer, and says the right one where it is asked for a choice
(`constrained.extraction.decider`). So whether the message asks for a tool, and for which, is decided; the reply is written as ever; and an
`Extractor` reads the arguments of a call. Where the message states several calls of the tool, these are made of them
(`constrained.extraction.several_calls`). Else a reply with several calls stays as it is, unless what the other calls have of the message
stands in the first one, too, and the read arguments have most of what it states: then they are variations of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Generator as Coroutine
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from constrained.chat.reply import Reply, ToolCall
from constrained.chat.stated import StatedValues, leaves
from constrained.chat.tool_format import HERMES
from constrained.constraint import choice
from constrained.decoding.request_runner import BatchedRequest
from constrained.errors import ConstrainedError, RejectedValue
from constrained.extraction.decider import Decider
from constrained.extraction.extraction import Document
from constrained.extraction.extractor import Extractor
from constrained.extraction.read import document_steps
from constrained.extraction.several_calls import several_texts
from constrained.extraction.trial import passes_trial
from constrained.grammars.text.quantities import find_quantities
from constrained.lru_cache import LRUCache

if TYPE_CHECKING:
    from constrained.chat.tools import Tool
    from constrained.decoding import Output
    from constrained.decoding.shared_runner import RequestSteps
    from constrained.models import LanguageModel

_MOST_READERS = 64
"""Tools, with what the system says, and sets of tools, of which is kept what reads them."""
MOST_CHARACTERS = 2000
"""Of what is said about all tools, where one of them is decided: it is read several times."""
_LONGEST = 120
"""Characters of a description in an option."""
_WHICH, _NONE = "Which of these does what the text asks for?", "None of these"
MOST_NONE = math.exp(-6.0)
"""Probability of no tool up to which a message asks for one."""
_WORD, _GAPS = re.compile(r"[^\W\d_]+"), re.compile(r"[_\-.]+")
T = TypeVar("T")


class CallRequest(NamedTuple):
    """What the arguments of a call are read from.

    Attributes:
        text: the user's message; "": there is nothing to read, and the model writes the arguments.
        instructions: what the system says; "" for nothing.
        tools: that the reply may call.
        settings: of the call, as of an `Extractor`.
        may_answer: whether the reply may call none.
        several: whether it may call the tool several times.
        always: also by a model that writes what a text says right, see `passes_trial`.
    """

    text: str
    instructions: str
    tools: Sequence[Tool]
    settings: Mapping[str, Any]
    may_answer: bool = False
    always: bool = False
    several: bool = False


class CallReader:
    """Reads the arguments of calls by one model. Safe to share between threads.

    Args:
        model: reads the messages.
        speculation: as of `Extractor`.
    """

    def __init__(self, model: LanguageModel, speculation: Any = "auto") -> None:
        self._model, self._speculation = model, speculation
        self._made: LRUCache[tuple[str, ...], Any] = LRUCache(_MOST_READERS)
        self._lock = Lock()

    def steps(self, request: Callable[[bool], BatchedRequest], asked: CallRequest) -> RequestSteps:
        """Writes a reply, and reads the arguments of its call; see `read`.

        Args:
            request: makes the request of the reply, whose value is a `Reply`; told whether that has to call a tool, if it can.
            asked: see `CallRequest`.
        """
        wanted: Tool | None = (yield from self.wanted(asked)) if asked.may_answer else None
        reply = request(wanted is not None)
        yield [reply]
        output = reply.outcome
        if isinstance(output, Exception):
            raise output
        assert output is not None
        return (yield from self.read(output, asked, wanted))

    def wanted(self, asked: CallRequest) -> Coroutine[list[BatchedRequest], None, Tool | None]:
        """Decides which tool a message asks for; None: for none, or that is not decided.

        It is decided about few tools that are not described alike.
        """
        tools = {_said_of(tool): tool for tool in asked.tools}
        options = [*tools, *([_NONE] if asked.may_answer else [])]
        is_question = len(tools) == len(asked.tools) and len(options) > 1
        if not is_question or sum(map(len, tools)) > MOST_CHARACTERS or not self._reads(asked):
            return None
        yield []  # others get their steps
        try:
            decider: Decider[str] = self._known(
                ("", *options), lambda: Decider(self._model, choice(options), instructions=_WHICH)
            )
            shares = (yield from decider.steps(asked.text, decider.ids(asked.text))).probabilities
        except ConstrainedError:  # a text that is too long, or the like
            return None
        if asked.may_answer and shares[_NONE] > MOST_NONE:
            return None
        return tools[max(tools, key=lambda option: shares[option])]

    def _reads(self, asked: CallRequest) -> bool:
        """Whether the arguments of a call are read at all."""
        is_stated = bool(asked.text) and all(map(_is_stated, asked.tools))
        return is_stated and (asked.always or not passes_trial(self._model))

    def read(self, output: Output[Reply], asked: CallRequest, wanted: Tool | None = None) -> RequestSteps:
        """Reads the arguments of the call of a reply; the result is the output with them, or else the same output.

        An output whose arguments were read has no tokens of its own; `stats` counts the work for the reply and for them.
        A call stays as the model wrote it where its arguments cannot be read within the token limit, or repeat themselves: where its own do,
        too, those are read of which some are decided by the message.

        Args:
            output: of the reply.
            asked: see `CallRequest`.
            wanted: the tool that the message asks for, where it is decided already.
        """
        call = single_call(output.value.calls, asked.text)
        names = [one.name for one in output.value.calls]
        several = asked.several and len(set(names)) == 1
        if (call is None and not several) or not self._reads(asked):
            return output
        tool = wanted or (yield from self.wanted(asked._replace(may_answer=False)))
        tool = tool or next(one for one in asked.tools if one.name == names[0])
        try:
            extractor = self._extractor(tool, asked.instructions)
        except ConstrainedError:  # the arguments are no value alone
            return output
        yield []
        found = yield from document_steps(extractor, Document(None, asked.text), asked.settings)
        if found.output is None or found.output.cut is not None:
            return output
        if found.output.repairs and not (output.repairs and len(names) == 1 and found.decisions):
            return output
        if several:
            texts = yield from several_texts(extractor, found, asked.settings)
            limit = asked.settings.get("max_tokens")
            size = sum(len(self._model.vocabulary.encode(text)) for text in texts)
            if texts and (limit is None or size <= limit):
                return _with_calls(output, [ToolCall(tool.name, text) for text in texts], found.output)
        if call is None or (len(output.value.calls) > 1 and _has_at_most_half(found.text, asked.text)):
            return output
        return _with_calls(output, [ToolCall(tool.name, found.text)], found.output)

    def _extractor(self, tool: Tool, instructions: str) -> Extractor[Any]:
        said = "\n\n".join(filter(None, (instructions, tool.description)))
        key = (tool.name, tool.arguments.key, said)
        return self._known(
            key,
            lambda: Extractor(
                self._model, tool.arguments, instructions=said or None, speculation=self._speculation
            ),
        )

    def _known(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        with self._lock:
            found: T | None = self._made.get(key)
            if found is None:
                found = make()
                self._made.put(key, found)
        return found


def single_call(calls: Sequence[ToolCall], text: str) -> ToolCall | None:
    """The call of a reply that has a single one: no other call has a word or number of a text that this one lacks. None: it has none, or several."""
    if len(calls) < 2:
        return calls[0] if calls else None
    stated = _said(text)
    try:
        first, *others = (_said("; ".join(map(str, leaves(call.arguments)))) & stated for call in calls)
    except RejectedValue:  # a limit cut one
        return None
    return calls[0] if all(one <= first for one in others) else None


def _has_at_most_half(arguments: str, text: str) -> bool:
    """Whether the arguments of a call, a JSON text, have some numbers and names of a text, and lack at least as many."""
    stated = StatedValues(text)
    lacked = len(stated.without(arguments))
    return 0 < len(stated) - lacked <= lacked


def _said(text: str) -> set[Any]:
    """The numbers and words of a text."""
    return {*find_quantities(text).numbers, *_WORD.findall(text.casefold())}


def _said_of(tool: Tool) -> str:
    """A tool as an option: the first sentence about it, or else the words of its name."""
    about = tool.description.strip().split(". ")[0].split("\n")[0].rstrip(".")[:_LONGEST]
    return about or _GAPS.sub(" ", tool.name).strip()


def _is_stated(tool: Tool) -> bool:
    """Whether the arguments of a tool are such as a message states: no text of a grammar, and no values of other constraints."""
    return not tool.custom and not tool.embed


def _with_calls(output: Output[Reply], calls: Sequence[ToolCall], read: Output[Any]) -> Output[Reply]:
    """The output of a reply with calls whose arguments were read."""
    stats = replace(
        output.stats,
        prompt_tokens=output.stats.prompt_tokens + read.stats.prompt_tokens,
        tokens=output.stats.tokens + read.stats.tokens,
        forwards=output.stats.forwards + read.stats.forwards,
    )
    reply = replace(output.value, calls=tuple(calls))
    return replace(
        output,
        value=reply,
        text=reply_text(reply),
        tokens=(),
        logprob=read.logprob,
        log_weight=math.nan,
        finish=read.finish,
        stats=stats,
        cut=None,
        repairs=read.repairs,
        automaton=None,
    )


def reply_text(reply: Reply) -> str:
    """Content and calls as a text of `HERMES`, a format in which arguments are JSON."""
    calls = [(call.name, call.text) for call in reply.calls]
    return reply.content + (HERMES.format_calls(*calls) if calls else "")
