"""Large requests, prepared in a process of their own; and captures that take long to find.

What a request of many values costs is Python: checking, writing and rendering its messages. A thread that does it has the GIL in
turns with all others, and a step of the batch waits for it again and again. So that is done elsewhere: a body goes there, and token
ids come back. The same holds for the captures of a long completion.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pickle import PickleBuffer
from typing import Any, NamedTuple

from constrained.chat.tools import ToolFormat
from constrained.constraint import Constraint
from constrained.lru_cache import LRUCache
from constrained.models import LanguageModel
from constrained.sandbox import FORKS, Sandbox, SandboxFailed, SandboxTimeout
from constrained.server import prepare
from constrained.server.bodies import check_values, parse
from constrained.server.captured import Piece, answer_captures
from constrained.server.errors import ApiError, stopping_error, to_api_error
from constrained.server.prepare import EncodedPrompts
from constrained.server.read_request import Body, ReadRequest, named, read_request
from constrained.server.request_constraint import callable_tools
from constrained.server.responses_api import ResponsesRequest
from constrained.server.settings import ServerSettings
from constrained.server.tokenization import Asked, Tell, told

_log = logging.getLogger(__name__)

_LATE = "the request was not prepared", "prepare_timeout"
_CAPTURES_LATE = "the captures were not found", "constraint_too_large"
"""What is said of what took too long, and the code of the error."""


class _Served(NamedTuple):
    """What the process knows of the server."""

    models: Mapping[str, LanguageModel]
    settings: ServerSettings
    format: ToolFormat | None


class LargeRequests(Sandbox):
    """A process that prepares requests, one at a time; used by one thread at a time.

    Its limits are those of compiling a constraint: processor time, by the clock `sandbox.WALL` times as long, and memory.

    Attributes:
        ready: it has started, see `try_out`.

    Args:
        models: what encodes prompts for each model, see `LanguageModel.prompt_model`.
        settings: limits.
        format: format of tool calls; None: detected from the chat templates.
    """

    def __init__(
        self, models: Mapping[str, LanguageModel], settings: ServerSettings, format: ToolFormat | None
    ) -> None:
        served = _Served(models, settings, format)
        super().__init__(served, settings.compile_seconds, settings.compile_memory, _warm)
        self._seconds = settings.compile_seconds
        self.ready = False

    @classmethod
    def of(
        cls, models: Mapping[str, LanguageModel], settings: ServerSettings, format: ToolFormat | None
    ) -> LargeRequests | None:
        """The process for these models; None where there is no sandbox, or one of them encodes prompts only by itself."""
        if not (FORKS and settings.sandbox):
            return None
        twins = {id(model): model.prompt_model() for model in models.values()}
        readers = {name: twins[id(model)] for name, model in models.items()}
        found = {name: reader for name, reader in readers.items() if reader is not None}
        return cls(found, settings, format) if len(found) == len(models) else None

    def try_out(self) -> None:
        """Waits until the process has started; `ready` says whether it did. Not every tokenizer can be sent to another process."""
        try:
            self.ready = self.run(_answer)
        except Exception as error:
            self.close()
            if isinstance(error, SandboxFailed) and error.code is None:
                return  # the server has ended meanwhile
            _log.warning("large requests are prepared in threads: %s", type(error).__name__)

    def read(self, kind: type[Body], parts: Sequence[bytes]) -> ReadRequest:
        """Understands a body, which is sent in its parts, and encodes its prompts.

        Raises:
            ApiError: what is wrong with it; 503 if the process ended.
        """
        read: ReadRequest = self._call(_read, kind, _sent(parts))
        return read

    def tell(self, kind: type[Asked], tell: Tell[Asked], parts: Sequence[bytes]) -> bytes:
        """The answer to a body that needs no forward pass, as JSON.

        Raises:
            ApiError: as above.
        """
        answer: bytes = self._call(_tell, kind, tell, _sent(parts))
        return answer

    def captures(self, constraint: Constraint, pieces: Sequence[Piece]) -> dict[str, Any]:
        """The captures of a finished completion, as `answer_captures` finds them.

        Raises:
            ApiError: finding them takes too long; 503 if the process ended.
        """
        found: dict[str, Any] = self._call(_captures, constraint, pieces, late=_CAPTURES_LATE)
        return found

    def _call(self, function: Callable[..., Any], *arguments: Any, late: tuple[str, str] = _LATE) -> Any:
        try:
            found = self.run(function, *arguments)
        except SandboxTimeout:
            what, code = late
            raise ApiError(400, f"{what} within {self._seconds:g} seconds", code=code) from None
        except SandboxFailed as failed:
            if failed.code is None:
                raise stopping_error() from None
            what = f"the process that had the request ended with {failed.code}"
            raise ApiError(503, what, code="prepare_failed", headers={"Retry-After": "1"}) from None
        if isinstance(found, _Refusal):
            raise ApiError(**found.arguments)
        return found


def _sent(parts: Sequence[bytes]) -> list[PickleBuffer]:
    return [PickleBuffer(part) for part in parts]


# ---------------------------------------------------------------- inside the process

_constraints: LRUCache[str, Constraint] = LRUCache(8)
"""By key, those whose captures were found last, with the grammars in which they are."""


class _Refusal(NamedTuple):
    """Arguments of an `ApiError`, which is not pickled as a whole."""

    arguments: dict[str, Any]


def _warm(served: _Served) -> None:
    for model in {id(one): one for one in served.models.values()}.values():
        try:
            model.encode([{"role": "user", "content": "x"}])
        except Exception:  # a template of its own mind: requests will say
            continue


def _answer(served: _Served) -> bool:
    return True


def _refused(error: Exception) -> _Refusal:
    return _Refusal(vars(to_api_error(error)))


def _joined(parts: Sequence[bytes], settings: ServerSettings) -> bytes:
    body = b"".join(parts)
    check_values(body, settings.max_values)
    return body


def _read(served: _Served, kind: type[Body], parts: Sequence[bytes]) -> ReadRequest | _Refusal:
    try:
        body = _joined(parts, served.settings)
        read = read_request(kind, body, served.models, served.settings)
        model = named(served.models, read.wanted.model)
        formats = prepare.formats_for(read.wanted, model, served.format)
        tools = callable_tools(read.wanted, formats, served.settings.max_digits)
        prompts = prepare.encode_prompts(read.wanted, model, served.settings, formats, tools)
    except Exception as error:
        return _refused(error)
    ids = [array("I", one) for one in prompts]
    asked, wanted = read.asked, prepare.without_prompt(read.wanted)
    # What the answer repeats of a request of the Responses API, its input is no part of.
    asked = asked.model_copy(update={"input": ""}) if isinstance(asked, ResponsesRequest) else wanted  # type: ignore[assignment]
    return replace(read, asked=asked, wanted=wanted, prompts=EncodedPrompts(ids, formats))


def _tell(served: _Served, kind: type[Asked], tell: Tell[Asked], parts: Sequence[bytes]) -> bytes | _Refusal:
    try:
        asked = parse(kind, _joined(parts, served.settings))
        return told(tell(asked, named(served.models, asked.model)))
    except Exception as error:
        return _refused(error)


def _captures(served: _Served, constraint: Constraint, pieces: Sequence[Piece]) -> dict[str, Any] | _Refusal:
    try:
        known = _constraints.setdefault(constraint.key, constraint)
        return answer_captures(known, pieces)
    except Exception as error:
        return _refused(error)
