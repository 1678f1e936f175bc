"""A call of the chat model: its completions, and how they are decoded."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from constrained.chat.reply import ReplyConstraint
from constrained.chat.tools import Tool
from constrained.decoding import Chunk, Generator, Output
from constrained.decoding.limits import make_noise
from constrained.decoding.request_runner import BatchedRequest
from constrained.decoding.shared_runner import MAX_ROWS, BackgroundRunner, RequestSteps
from constrained.errors import DoesNotFit, InvalidArgument
from constrained.extraction.tool_calls import CallReader, CallRequest
from constrained.integrations.langchain.token_logprobs import MOST, RecordingSampler
from constrained.sampling import TokenSampler


def completions_of(generator: Generator, count: int | None, top: int | None) -> list[ChatCompletion]:
    """The completions of a call.

    Args:
        generator: for one of them.
        count: their number; None: one.
        top: most likely tokens of each position; None: no log-probabilities.

    Raises:
        InvalidArgument: a number is out of its range, or the sampler draws whole texts.
    """
    for name, value, least, most in (("n", count, 1, MAX_ROWS), ("top_logprobs", top, 0, MOST)):
        if value is not None and (isinstance(value, bool) or not least <= value <= most):
            raise InvalidArgument(f"{name} is {value!r}", action=f"pass {least} to {most}")
    if top is None:
        return [ChatCompletion(generator, i, None) for i in range(count or 1)]
    if not isinstance(generator.sampler, TokenSampler):
        raise InvalidArgument(
            "this sampler draws whole texts, without log-probabilities", action="leave logprobs out"
        )
    completions = []
    for i in range(count or 1):
        recorder = RecordingSampler(generator.sampler, generator.model.vocabulary, top)
        own_generator = copy.copy(generator)
        own_generator.sampler = recorder
        completions.append(ChatCompletion(own_generator, i, recorder))
    return completions


class ChatCompletion(NamedTuple):
    """One completion of a call.

    Attributes:
        generator: generates it.
        sequence: its number.
        recorder: keeps log-probabilities; None: they are not asked for.
    """

    generator: Generator
    sequence: int
    recorder: RecordingSampler | None

    def logprobs(self, output: Output) -> dict[str, Any]:
        """The log-probabilities of the output, for `response_metadata`."""
        return {} if self.recorder is None else {"logprobs": self.recorder.content(output.stats.tokens)}


class ChatInvocation(NamedTuple):
    """A call of the chat model as arguments of `Generator`.

    Attributes:
        completions: at least one.
        replies: what they satisfy.
        prompt: for all of them.
        settings: of `Generator`.
        deadline: as `time.monotonic` has it; None: no limit.
        names: of the tools, where they are not those that the model writes.
        reading: what reads the arguments of a call, and from what; None: the model writes them.
        calling: makes the generator of a reply that has to call a tool.
    """

    completions: list[ChatCompletion]
    replies: ReplyConstraint
    prompt: Any
    settings: dict[str, Any]
    deadline: float | None
    names: dict[str, str]
    reading: tuple[CallReader, CallRequest] | None = None
    calling: Callable[[], Generator] | None = None

    def outputs(self) -> list[Output]:
        """Generates the completions in one piece, in the batch of all calls at the model where that is possible.

        Raises:
            TimeoutError: the deadline has passed.
        """
        generator = self.completions[0].generator
        if isinstance(generator.sampler, TokenSampler):
            settings: dict[str, Any] = {**self.settings}
            if settings["seed"] is None:  # one for all, so that their numbers tell the completions apart
                settings["seed"] = make_noise(None, 0, greedy=not settings["temperature"]).seed
            runner = BackgroundRunner.of(generator)
            if self.reading is not None:
                reader, asked = self.reading

                def request(calls: bool) -> BatchedRequest:
                    writer = self._writer(calls)
                    return BatchedRequest(writer, writer._request(self.prompt, **settings))

                return [runner.run_steps(generator, reader.steps(request, asked), self.deadline)]
            requests = [
                (c.generator, c.generator._request(self.prompt, sequence=c.sequence, **settings))
                for c in self.completions
            ]
            return runner.run(requests, self.deadline)
        outputs = []
        for completion in self.completions:
            *_, last = self.chunks(completion)
            assert last.output is not None, "a stream ended without its output"
            outputs.append(last.output)
        return outputs

    def _writer(self, calls: bool) -> Generator:
        """The generator of the only reply; `calls`: it has to call a tool, if the token limit has room for one."""
        if calls and self.calling is not None:
            with contextlib.suppress(DoesNotFit):
                writer = self.calling()
                writer._request(self.prompt, **self.settings)
                return writer
        return self.completions[0].generator

    def wanted(self) -> Tool | None:
        """The tool that the message of a stream asks for; None: for none, or that is not decided before the reply.

        Raises:
            TimeoutError: the deadline has passed.
        """
        if self.reading is None or not self.reading[1].may_answer:
            return None
        found: Tool | None = self._run(self.reading[0].wanted(self.reading[1]))
        return found

    def read(self, output: Output, wanted: Tool | None) -> Output:
        """The output of a stream, with the arguments of its call read if they are; `wanted`: the tool that is called.

        Raises:
            TimeoutError: the deadline has passed.
        """
        assert self.reading is not None
        found: Output = self._run(self.reading[0].read(output, self.reading[1], wanted))
        return found

    def _run(self, steps: RequestSteps) -> Any:
        generator = self.completions[0].generator
        return BackgroundRunner.of(generator).run_steps(generator, steps, self.deadline)

    def streamed(self, calls: bool) -> ChatCompletion:
        """The only completion, for a stream; `calls`: it has to call a tool."""
        (completion,) = self.completions
        return completion._replace(generator=self._writer(calls))

    def chunks(self, completion: ChatCompletion) -> Iterator[Chunk]:
        """Generates a completion.

        Raises:
            TimeoutError: the deadline has passed.
        """
        for chunk in completion.generator.stream(self.prompt, sequence=completion.sequence, **self.settings):
            yield chunk
            if chunk.output is None and self.deadline is not None and time.monotonic() > self.deadline:
                raise TimeoutError("the model took longer than the timeout of this chat model")
