"""Compiles the constraint of a request in a `Sandbox`, and says in the terms of the API what went wrong there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from constrained.automaton import compile
from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.protocol import NO_LIMIT
from constrained.constraint.json import MAX_DIGITS
from constrained.decoding import limits
from constrained.sandbox import Sandbox, SandboxFailed, SandboxTimeout
from constrained.server.errors import ApiError, stopping_error
from constrained.server.request_constraint import compile_constraint, first_constraints

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.chat.detect import ReplyFormats
    from constrained.server.requests import ApiRequest
    from constrained.vocabulary import Vocabulary

_TRIAL_TOKENS = 8
"""Tokens of the text along which masks are tried."""


class CompileSandbox(Sandbox):
    """A sandbox for the constraints of requests; used by one thread at a time.

    Args:
        vocabulary: vocabulary of the model.
        seconds: time limit of a compile.
        memory: bytes of address space that a compile may allocate.
    """

    def __init__(self, vocabulary: Vocabulary, seconds: float, memory: int) -> None:
        super().__init__(vocabulary.without_tokenizer(), seconds, memory, _warm)
        self._seconds = seconds

    def __call__(
        self,
        request: ApiRequest,
        formats: ReplyFormats,
        param: str | None,
        max_tokens: int | None = None,
        max_digits: int | None = MAX_DIGITS,
    ) -> float:
        """Compiles the constraint of a request in the sandbox, and computes masks there.

        Args:
            request: the request; its prompt is not needed.
            formats: how replies are written.
            param: name of the request field with the constraint.
            max_tokens: token limit of the completion.
            max_digits: as in `ServerSettings`.

        Returns:
            Processor seconds of the slowest mask.

        Raises:
            ApiError: it cannot be compiled, or exceeds the limit of time or memory.
        """
        try:
            found = self.run(_try, request, formats, max_tokens, max_digits)
        except SandboxTimeout:
            raise compile_timeout_error(self._seconds, param) from None
        except SandboxFailed as failed:
            if failed.code is None:
                raise stopping_error() from None
            what = f"the process that compiled the constraint ended with {failed.code}"
            raise ApiError(400, what, code="compile_failed", param=param) from None
        if isinstance(found, dict):
            raise ApiError(**found)
        seconds: float = found
        return seconds


def compile_timeout_error(seconds: float, param: str | None) -> ApiError:
    """Error 400 for a constraint that was not compiled within the time limit."""
    what = f"the constraint was not compiled within {seconds:g} seconds"
    return ApiError(400, what, code="compile_timeout", param=param)


def _warm(vocabulary: Vocabulary) -> None:
    for constraint in first_constraints():
        compile(constraint, vocabulary)


def _try(
    vocabulary: Vocabulary,
    request: ApiRequest,
    formats: ReplyFormats,
    max_tokens: int | None,
    max_digits: int | None,
) -> dict[str, Any] | float:
    """Compiles the constraint of a request: the arguments of an `ApiError`, or seconds of the slowest mask."""
    try:
        _, automaton = compile_constraint(request, vocabulary, formats, max_digits)
        return _slowest_mask(automaton, max_tokens)
    except MemoryError:
        return vars(
            ApiError(400, "compiling the constraint exceeds the memory limit", code="constraint_too_large")
        )
    except ApiError as refusal:
        return vars(refusal)


def _slowest_mask(automaton: Automaton, max_tokens: int | None) -> float:
    """Processor seconds of the slowest of some masks: the first ones of a text, without a limit, far from it and near it."""
    mask = automaton.new_mask()
    state = automaton.start
    slowest = 0.0
    for position in range(_TRIAL_TOKENS):
        needed = automaton.shortest_completion(state)
        far = limits.DEFAULT_TOKENS if max_tokens is None else max(max_tokens - position, needed)
        for budget in (NO_LIMIT, needed + 8, needed + 1, far):
            began = time.thread_time()
            automaton.fill_mask_within(state, mask, min(budget, NO_LIMIT))
            slowest = max(slowest, time.thread_time() - began)
        ids = [token for token in unpack_ids(mask) if int(token) not in automaton.vocabulary.eos_ids]
        if not ids:
            break
        state = automaton.next(state, int(ids[position * 7919 % len(ids)]))  # some way, always the same
    return slowest
