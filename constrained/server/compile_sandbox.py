"""Compiles the constraint of a request in a `Sandbox`, and says in the terms of the API what went wrong there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.automaton import compile
from constrained.chat.reply import reply_constraint
from constrained.constraint import gbnf, json_schema
from constrained.sandbox import Sandbox, SandboxFailed, SandboxTimeout
from constrained.server import prepare
from constrained.server.errors import ApiError

if TYPE_CHECKING:
    from constrained.chat.tools import ToolFormat
    from constrained.server.requests import ApiRequest
    from constrained.vocabulary import Vocabulary


class CompileSandbox(Sandbox):
    """A sandbox for the constraints of requests; used by one thread at a time.

    Args:
        vocabulary: vocabulary of the model.
        seconds: time limit of a compile.
        memory: bytes of address space that a compile may allocate.
    """

    def __init__(self, vocabulary: Vocabulary, seconds: float, memory: int) -> None:
        super().__init__(vocabulary, seconds, memory, _warm)
        self._seconds = seconds

    def __call__(self, request: ApiRequest, format: ToolFormat, param: str | None) -> None:
        """Compiles the constraint of a request in the sandbox.

        Args:
            request: the request; its prompt is not needed.
            format: format of tool calls.
            param: name of the request field with the constraint.

        Raises:
            ApiError: it cannot be compiled, or exceeds the limit of time or memory.
        """
        try:
            refusal = self.run(_refusal, request, format)
        except SandboxTimeout:
            raise compile_timeout_error(self._seconds, param) from None
        except SandboxFailed as failed:
            if failed.code is None:
                raise ApiError(503, "the server is stopping", code="stopping") from None
            what = f"the process that compiled the constraint ended with {failed.code}"
            raise ApiError(400, what, code="compile_failed", param=param) from None
        if refusal is not None:
            raise ApiError(**refusal)


def compile_timeout_error(seconds: float, param: str | None) -> ApiError:
    """Error 400 for a constraint that was not compiled within the time limit."""
    what = f"the constraint was not compiled within {seconds:g} seconds"
    return ApiError(400, what, code="compile_timeout", param=param)


def _warm(vocabulary: Vocabulary) -> None:
    for constraint in (
        json_schema({"properties": {"a": {"pattern": "a"}}}),
        gbnf('root ::= "a"'),
        reply_constraint(),
    ):
        compile(constraint, vocabulary)


def _refusal(vocabulary: Vocabulary, request: ApiRequest, format: ToolFormat) -> dict[str, Any] | None:
    """Compiles the constraint of a request; returns the arguments of an `ApiError`, or None."""
    try:
        _, automaton = prepare.compile_constraint(request, vocabulary, format)
        # Decoding needs these before the first token.
        automaton.shortest_completion(automaton.start)
        automaton.fill_mask(automaton.start, automaton.new_mask())
    except MemoryError:
        return vars(
            ApiError(400, "compiling the constraint exceeds the memory limit", code="constraint_too_large")
        )
    except ApiError as refusal:
        return vars(refusal)
    return None
