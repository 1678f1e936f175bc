"""What is wrong with a request, as status and body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from pydantic import ValidationError

from constrained.errors import (
    BudgetExhausted,
    ConstrainedError,
    ConstraintError,
    ConstraintTooLarge,
    DocumentError,
    DoesNotFit,
    InvalidArgument,
    InvalidConstraint,
    ModelError,
    ModelMismatch,
    PromptError,
    PromptTooLong,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
    VocabularyError,
    WorkerError,
)
from constrained.server.logs import frames_of

_CODES: tuple[tuple[type[ConstrainedError], int, str], ...] = (
    (ModelMismatch, 500, "model_error"),
    (VocabularyError, 400, "invalid_constraint"),  # a token that the constraint names
    (InvalidConstraint, 400, "invalid_constraint"),
    (UnsupportedConstraint, 400, "unsupported_constraint"),
    (UnsatisfiableConstraint, 400, "unsatisfiable_constraint"),
    (ConstraintError, 400, "invalid_constraint"),
    (ConstraintTooLarge, 400, "constraint_too_large"),
    (DoesNotFit, 400, "max_tokens_too_small"),
    (PromptTooLong, 400, "context_length_exceeded"),
    (PromptError, 400, "invalid_prompt"),
    (InvalidArgument, 400, "invalid_value"),
    (DocumentError, 400, "invalid_value"),
    (BudgetExhausted, 500, "budget_exhausted"),
    (ModelError, 500, "model_error"),
    (WorkerError, 503, "worker_failed"),
    (ConstrainedError, 500, "server_error"),
)
"""Exception classes with status and code; the first match is used."""


@dataclass(eq=False)
class ApiError(Exception):
    """An error response.

    Attributes:
        status: HTTP status code.
        message: what is wrong, and what to do.
        code: short name of the error.
        param: field of the request, such as ``tools[0].function.parameters``.
        problems: for constraints, each place with its reason.
        headers: additional response headers.
        frames: for the log, where an unexpected error was raised.
    """

    status: int
    message: str
    _: KW_ONLY
    code: str
    param: str | None = None
    problems: list[dict[str, Any]] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    frames: Sequence[str] = ()

    def __str__(self) -> str:
        return self.message

    @property
    def body(self) -> dict[str, Any]:
        """The body, in the format of OpenAI's API."""
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        error: dict[str, Any] = {
            "message": self.message,
            "type": kinds.get(self.status, fallback),
            "param": self.param,
            "code": self.code,
        }
        if self.problems:
            error["problems"] = self.problems
        return {"error": error}


def to_api_error(error: Exception, param: str | None = None) -> ApiError:
    """Converts an exception to an error response; an unexpected one shows only the name of its class.

    Args:
        error: the exception.
        param: field of the request, if the error has none.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValidationError):
        return _malformed(error)
    if isinstance(error, MemoryError) or _is_torch_without_memory(error):
        return ApiError(503, "there is not enough memory for this request", code="out_of_memory")
    for kind, status, code in _CODES:
        if isinstance(error, kind):
            assert isinstance(error, ConstrainedError)
            return ApiError(
                status,
                str(error),
                code=code,
                param="max_tokens" if kind is DoesNotFit else param,
                problems=[
                    {"place": one.place, "keyword": one.keyword, "reason": one.reason}
                    for one in error.problems
                ],
            )
    what = f"the server failed: {type(error).__name__}"
    return ApiError(500, what, code="internal_error", frames=frames_of(error.__traceback__))


def with_field_names(error: ApiError, names: Mapping[str, str]) -> ApiError:
    """An error of a chat request with the field's name in another API; `names`: its fields by those of chat requests."""
    if error.param is not None:
        for chat, name in names.items():
            if error.param == chat or error.param.startswith(f"{chat}."):
                param = name + error.param[len(chat) :]
                error.message = error.message.replace(error.param, param)
                error.param = param
                break
    return error


def _is_torch_without_memory(error: Exception) -> bool:
    """Whether an allocation of torch failed: on a device it has a class of its own, in main memory only its words."""
    return type(error).__name__ == "OutOfMemoryError" or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def unsupported_field_error(param: str, what: str) -> ApiError:
    """Error 400 for a field that is not supported."""
    return ApiError(400, f"{param}: {what}", code="unsupported_value", param=param)


def invalid_field_error(param: str, what: str) -> ApiError:
    """Error 400 for an invalid value."""
    return ApiError(400, f"{param}: {what}", code="invalid_value", param=param)


def stopping_error() -> ApiError:
    """Error 503 for a request that the server does not answer any more, because it ends."""
    return ApiError(503, "the server is stopping", code="stopping", headers={"Retry-After": "1"})


_BRANCH = re.compile(r"(str|bool|int|float|none)$|(list|dict|function-\w+|constrained-\w+)\[")
"""How pydantic names a branch of a union in the location of an error."""


def _malformed(error: ValidationError) -> ApiError:
    """Error 400 for the first validation error of a body, with its location.

    Of a union it is that of the branch that got furthest; where none got anywhere, what each of them wants.
    """
    errors = error.errors(include_url=False, include_context=False)
    first = errors[0]
    branch = next((i for i, part in enumerate(first["loc"]) if i and _BRANCH.match(str(part))), None)
    message = first["msg"]
    if branch is not None:
        siblings = [one for one in errors if one["loc"][:branch] == first["loc"][:branch]]
        deepest = max(siblings, key=lambda one: len(one["loc"]))
        if len(deepest["loc"]) > branch + 1:
            first, message = deepest, deepest["msg"]
        else:
            message = ", or ".join(dict.fromkeys(one["msg"] for one in siblings))
    place = ""
    for i, part in enumerate(first["loc"]):
        if isinstance(part, int):
            place += f"[{part}]"
        elif not (i and _BRANCH.match(part)):
            place += f".{part:.200}" if place else f"{part:.200}"
    if first["type"] == "extra_forbidden":
        return ApiError(400, f"{place}: is unknown", code="unknown_parameter", param=place)
    code = "invalid_json" if first["type"] == "json_invalid" else "invalid_value"
    return ApiError(400, f"{place or 'body'}: {message}", code=code, param=place or None)
