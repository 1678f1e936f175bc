"""Parses requests of the harness: prompt, schema of the document, stop strings and sampling settings."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.utils import normalize_gen_kwargs

from constrained.errors import InvalidArgument

_TRUNCATIONS = ("top_k", "top_p", "min_p")
_READ = frozenset({"until", "max_gen_toks", "do_sample", "temperature", *_TRUNCATIONS})


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """A parsed `generate_until` request.

    Attributes:
        prompt: the rendered prompt.
        arguments: of the request; the harness caches completions by them.
        schema: of its document; None: the completion is unconstrained.
        stops: strings that end an unconstrained completion.
        limit: token limit.
        settings: temperature and truncations; empty: greedy, or the sampler's default.
        sequence: key of its randomness, independent of the batch.
    """

    prompt: str
    arguments: tuple[str, dict[str, Any]]
    schema: Any
    stops: tuple[str, ...]
    limit: int
    settings: dict[str, Any]
    sequence: int


def parse_requests(requests: Sequence[Instance], place: str, limit: int) -> list[EvalRequest]:
    """Parses the requests.

    Args:
        requests: of `generate_until`.
        place: path of the schema in a document, as in `document_schema`.
        limit: token limit of requests that set none.

    Raises:
        InvalidArgument: an unknown generation argument could change the completion; names it.
    """
    copies: Counter[str] = Counter()
    parsed = []
    for request in requests:
        prompt, arguments = request.args
        settings: dict[str, Any] = dict(normalize_gen_kwargs(arguments, limit))
        if more := [name for name in settings if name not in _READ and settings[name] is not None]:
            raise InvalidArgument(
                f"the generation argument {more[0]!r} is not honoured",
                action="use " + ", ".join(sorted(_READ)),
            )
        name = f"{request.task_name} {request.doc_id} {request.idx}"
        parsed.append(
            EvalRequest(
                prompt,
                (prompt, arguments),
                document_schema(request.doc, place),
                tuple(stop for stop in settings["until"] if stop),
                settings["max_gen_toks"],
                _settings(settings),
                zlib.crc32(f"{name} {copies[name]}".encode()),
            )
        )
        copies[name] += 1
    return parsed


def document_schema(document: Any, place: str) -> Any:
    """The schema of a document; None if it has none.

    Args:
        document: of a task.
        place: names of nested members, outermost first, separated by dots; empty: documents have no schemas.
    """
    for name in place.split(".") if place else ("",):
        if not isinstance(document, Mapping) or name not in document:
            return None
        document = document[name]
    return document


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    temperature = settings.get("temperature")
    if not settings["do_sample"] or temperature == 0.0:
        return {}
    named = {name: settings[name] for name in _TRUNCATIONS if settings.get(name)}
    return {"temperature": 1.0 if temperature is None else temperature, **named}
