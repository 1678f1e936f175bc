"""Worker processes with limits of time and memory: for new constraints, large requests and captures.

A hostile constraint or request costs its process, which is killed at a limit, and not the server. What a large
request costs is Python (checking, rendering and encoding its messages), so in a thread it would compete with the
batch for the GIL.
"""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from queue import LifoQueue
from typing import Any, NamedTuple

from constrained.automaton import compile
from constrained.chat.detect import ReplyFormats
from constrained.chat.tools import ToolFormat
from constrained.constraint import Constraint
from constrained.models import LanguageModel
from constrained.sandbox import FORKS, Sandbox, SandboxFailed, SandboxTimeout
from constrained.server import prepare
from constrained.server.captures import Piece, answer_captures
from constrained.server.errors import ApiError, stopping_error, to_api_error
from constrained.server.extractions import check_compile_time, is_extraction
from constrained.server.prepare import EncodedPrompts
from constrained.server.read_request import Body, ReadRequest, joined, named, read_request
from constrained.server.request_constraint import callable_tools, compile_constraint, first_constraints
from constrained.server.requests import ApiRequest
from constrained.server.responses_api import ResponsesRequest
from constrained.server.round_robin import ClientThreads
from constrained.server.settings import ServerSettings
from constrained.server.tokenization import Answer, TokensRequest, as_json
from constrained.vocabulary import Vocabulary

_log = logging.getLogger(__name__)


class _Served(NamedTuple):
    """What a worker process knows of the server.

    Attributes:
        vocabularies: of the models, by name.
        readers: what encodes prompts, see `LanguageModel.prompt_model`; empty: the processes encode none.
        settings: limits.
        format: format of tool calls; None: detected.
    """

    vocabularies: Mapping[str, Vocabulary]
    readers: Mapping[str, LanguageModel]
    settings: ServerSettings
    format: ToolFormat | None


class Task(NamedTuple):
    """Something that workers do, and the errors of it.

    Attributes:
        function: called in the process with `_Served` first; a function of a module.
        late: what is said if it takes too long.
        late_code: code of that error.
        large: what is said if it needs too much memory; None: the server has not enough.
        failed_code: code of the error if its process ends: 400 if what it does crashed it, 503 otherwise.
    """

    function: Callable[..., Any]
    late: str
    late_code: str
    failed_code: str
    large: str | None = None


class Workers:
    """The worker processes of a server; none where processes do not fork, or clients are trusted.

    Attributes:
        count: how many there are.
        prepares: they prepare large requests. Not every tokenizer can be sent to another process.
        threads: one for each process; without processes they compile constraints themselves.
        prepare_threads: for what takes little: known constraints, prompts, bodies of medium size.

    Args:
        models: by name.
        settings: limits.
        format: format of tool calls; None: detected from the chat templates.
    """

    def __init__(
        self, models: Mapping[str, LanguageModel], settings: ServerSettings, format: ToolFormat | None
    ) -> None:
        self.count = settings.compile_threads if FORKS and settings.sandbox else 0
        self.prepares = False
        self.threads = ClientThreads(settings.compile_threads, "compile")
        self.prepare_threads = ClientThreads(settings.compile_threads + 1, "prepare")
        self._settings = settings
        self._models = models
        self._format = format
        self._make(_readers(models) if self.count else {})

    def start(self) -> None:
        """Starts a process and waits until it answers; the others start when they are needed."""
        if not self.count:
            return
        try:
            self.prepares = self._sandboxes[-1].run(_has_readers)
        except Exception as error:
            self._close_processes()
            if isinstance(error, SandboxFailed) and error.code is None:
                return  # the server has ended meanwhile
            _log.warning("large requests are prepared in threads: %s", type(error).__name__)
            self._make({})
            self._sandboxes[-1].start()

    async def run(self, client: str, task: Task, *arguments: Any) -> Any:
        """`call` in a thread, in turns of clients."""
        return await self.threads.run(client, self.call, task, *arguments)

    def call(self, task: Task, *arguments: Any, param: str | None = None) -> Any:
        """What a task returns. Only in `threads`: there are as many processes as threads.

        Args:
            task: what is to be done.
            arguments: of its function.
            param: field of the request that errors name.

        Raises:
            ApiError: of the function; it took too long or too much memory; the process ended.
        """
        sandbox = self._free.get()
        try:
            result = sandbox.run(_outcome, task.function, *arguments)
        except SandboxTimeout:
            what = f"{task.late} within {self._settings.compile_seconds:g} seconds"
            raise ApiError(400, what, code=task.late_code, param=param) from None
        except MemoryError as error:
            if task.large is None:
                raise to_api_error(error) from None
            raise ApiError(400, task.large, code="constraint_too_large", param=param) from None
        except SandboxFailed as failed:
            if failed.code is None:
                raise stopping_error() from None
            what = f"the process that had the request ended with {failed.code}"
            if failed.crashed:
                raise ApiError(400, what, code=task.failed_code, param=param) from None
            again = {"Retry-After": "1"}
            raise ApiError(503, what, code=task.failed_code, headers=again) from None
        finally:
            self._free.put(sandbox)
        if isinstance(result, _Refusal):
            raise ApiError(**result.arguments)
        return result

    def close(self) -> None:
        """Refuses new work and kills the processes, without waiting for running jobs."""
        self.threads.close()
        self.prepare_threads.close()
        self._close_processes()

    def _close_processes(self) -> None:
        for sandbox in self._sandboxes:
            sandbox.close()

    def _make(self, readers: Mapping[str, LanguageModel]) -> None:
        """Makes the processes, which start when they are needed."""
        twins = {id(one): one.vocabulary.without_tokenizer() for one in self._models.values()}
        vocabularies = {name: twins[id(one)] for name, one in self._models.items()}
        served = _Served(vocabularies, readers, self._settings, self._format)
        limits = self._settings.compile_seconds, self._settings.compile_memory
        self._sandboxes = [Sandbox(served, *limits, _warm) for _ in range(self.count)]
        self._free: LifoQueue[Sandbox] = LifoQueue()  # started processes are used first
        for sandbox in self._sandboxes:
            self._free.put(sandbox)


def _readers(models: Mapping[str, LanguageModel]) -> dict[str, LanguageModel]:
    """What encodes prompts, by name; empty if one of the models encodes them only by itself."""
    twins = {id(model): model.prompt_model() for model in models.values()}
    readers = {name: twins[id(model)] for name, model in models.items()}
    found = {name: reader for name, reader in readers.items() if reader is not None}
    return found if len(found) == len(models) else {}


# ---------------------------------------------------------------- inside the processes


class _Refusal(NamedTuple):
    """Arguments of an `ApiError`, which is not pickled as a whole."""

    arguments: dict[str, Any]


def _warm(served: _Served) -> None:
    for vocabulary in {id(one): one for one in served.vocabularies.values()}.values():
        for constraint in first_constraints():
            compile(constraint, vocabulary)
    for model in {id(one): one for one in served.readers.values()}.values():
        try:
            model.encode([{"role": "user", "content": "x"}])
        except Exception:  # the template wants other messages: requests will say
            continue


def _has_readers(served: _Served) -> bool:
    return bool(served.readers)


def _outcome(served: _Served, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(served, *arguments)
    except MemoryError:
        raise
    except Exception as error:
        return _Refusal(vars(to_api_error(error)))


def _compile(served: _Served, name: str, request: ApiRequest, formats: ReplyFormats) -> None:
    vocabulary = served.vocabularies[name]
    began = time.thread_time()
    _, automaton = compile_constraint(request, vocabulary, formats, served.settings)
    if is_extraction(request):
        check_compile_time(time.thread_time() - began)
    automaton.fill_mask(automaton.start, automaton.new_mask())
    automaton.shortest_completion(automaton.start)


def _read(served: _Served, kind: type[Body], parts: Sequence[bytes]) -> ReadRequest:
    settings = served.settings
    read = read_request(kind, joined(parts, settings.max_values), served.readers, settings)
    request, model = read.request, named(served.readers, read.request.model)
    if is_extraction(request):
        return read  # its messages are read where the extractor is
    formats = prepare.formats_for(request, model, served.format)
    tools = callable_tools(request, formats, settings)
    prompts = prepare.encode_prompts(request, model, settings, formats, tools)
    ids = [array("I", one) for one in prompts]
    body, short = read.body, prepare.without_prompt(request)
    # The answer of the Responses API repeats the request without its input.
    body = body.model_copy(update={"input": ""}) if isinstance(body, ResponsesRequest) else short  # type: ignore[assignment]
    return replace(read, body=body, request=short, prompts=EncodedPrompts(ids, formats))


def _tokens(
    served: _Served, kind: type[TokensRequest], answer: Answer[TokensRequest], parts: Sequence[bytes]
) -> bytes:
    request = kind.model_validate_json(joined(parts, served.settings.max_values))
    return as_json(answer(request, named(served.readers, request.model)))


def _captures(served: _Served, constraint: Constraint, pieces: Sequence[Piece]) -> dict[str, Any]:
    return answer_captures(constraint, pieces)


COMPILE = Task(
    _compile,
    "the constraint was not compiled",
    "compile_timeout",
    "compile_failed",
    large="compiling the constraint exceeds the memory limit",
)
"""Compiles the constraint of a request without prompts: (name of the model, request, its formats)."""
READ = Task(_read, "the request was not prepared", "prepare_timeout", "prepare_failed")
"""The `ReadRequest` of a body, with encoded prompts: (kind of request, parts of the body)."""
TOKENS = READ._replace(function=_tokens)
"""The answer to a request that needs no forward pass, as JSON: (kind of request, what answers it, parts of the body)."""
CAPTURES = READ._replace(
    function=_captures, late="the captures were not found", late_code="constraint_too_large"
)
"""The captures of a finished completion, see `answer_captures`: (constraint, pieces)."""
