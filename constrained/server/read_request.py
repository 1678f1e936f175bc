"""A request out of its body: understood, and checked as far as that needs no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from constrained.server import prepare
from constrained.server.bodies import parse
from constrained.server.errors import ApiError
from constrained.server.prepare import EncodedPrompts
from constrained.server.request_constraint import constraint_digest
from constrained.server.requests import ApiRequest, ChatRequest, CompletionRequest
from constrained.server.responses_api import ResponsesRequest, as_chat
from constrained.server.settings import ServerSettings
from constrained.server.tool_names import with_plain_names

Body = ChatRequest | CompletionRequest | ResponsesRequest
_Model = TypeVar("_Model")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What a body asks for.

    Attributes:
        asked: as its endpoint has it.
        wanted: as it is answered.
        tool_names: names of the client's tools by their plain ones.
        digest: of the constraint; None: free text.
        prompts: encoded already, and left out of the requests; None: they are not.
    """

    asked: Body
    wanted: ApiRequest
    tool_names: dict[str, str]
    digest: bytes | None
    prompts: EncodedPrompts | None = None


def read_request(
    kind: type[Body], body: bytes, models: Mapping[str, object], settings: ServerSettings
) -> ReadRequest:
    """Understands a body.

    Args:
        kind: of its endpoint.
        body: JSON.
        models: by the names that requests may give.
        settings: limits.

    Raises:
        ValidationError: it is no such request.
        ApiError: there is no such model; a field is invalid or not supported.
    """
    asked = parse(kind, body)
    wanted: ApiRequest = as_chat(asked) if isinstance(asked, ResponsesRequest) else asked
    named(models, wanted.model)
    prepare.check_request(wanted, settings)
    wanted, names = with_plain_names(wanted)
    return ReadRequest(asked, wanted, names, constraint_digest(wanted))


def named(models: Mapping[str, _Model], name: str | None) -> _Model:
    """The model of a request; without a name the first one.

    Raises:
        ApiError: 404, there is none of that name.
    """
    if name is None:
        return next(iter(models.values()))
    if name not in models:
        known = ", ".join(map(repr, models))
        what = f"the model {name!r:.200} does not exist; this server has {known}"
        raise ApiError(404, what, code="model_not_found", param="model")
    return models[name]
