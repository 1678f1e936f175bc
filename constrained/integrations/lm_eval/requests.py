"""A request of the harness taken apart: the schema of its document, its prompt, and how its text is to be written."""

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
    """What one request wants.

    Attributes:
        prompt: as the harness wrote it.
        arguments: of the request, by which the harness remembers answers.
        schema: of its document; None: the text is free.
        stops: texts that end a free text.
        limit: greatest number of tokens.
        settings: temperature and truncations; none of them: greedy, or what the sampler draws at by itself.
        sequence: tells its randomness from that of others, whatever they are written beside.
    """

    prompt: str
    arguments: tuple[str, dict[str, Any]]
    schema: Any
    stops: tuple[str, ...]
    limit: int
    settings: dict[str, Any]
    sequence: int


def parse_requests(requests: Sequence[Instance], place: str, limit: int) -> list[EvalRequest]:
    """What each request wants.

    Args:
        requests: those of `generate_until`.
        place: where documents have their schema, as in `document_schema`.
        limit: of tokens, where a request names none.

    Raises:
        InvalidArgument: a generation argument would change the text and is not known here; names it.
    """
    copies: Counter[str] = Counter()
    found = []
    for request in requests:
        prompt, given = request.args
        told: dict[str, Any] = dict(normalize_gen_kwargs(given, limit))
        if more := [name for name in told if name not in _READ and told[name] is not None]:
            raise InvalidArgument(
                f"the generation argument {more[0]!r} is not honoured",
                action="use " + ", ".join(sorted(_READ)),
            )
        name = f"{request.task_name} {request.doc_id} {request.idx}"
        found.append(
            EvalRequest(
                prompt,
                (prompt, given),
                document_schema(request.doc, place),
                tuple(stop for stop in told["until"] if stop),
                told["max_gen_toks"],
                _settings(told),
                zlib.crc32(f"{name} {copies[name]}".encode()),
            )
        )
        copies[name] += 1
    return found


def document_schema(document: Any, place: str) -> Any:
    """The schema of a document; None if it has none.

    Args:
        document: of a task.
        place: names of members, from the outside in, with dots between them; empty: there are no schemas.
    """
    for name in place.split(".") if place else ("",):
        if not isinstance(document, Mapping) or name not in document:
            return None
        document = document[name]
    return document


def _settings(told: Mapping[str, Any]) -> dict[str, Any]:
    temperature = told.get("temperature")
    if not told["do_sample"] or temperature == 0.0:
        return {}
    named = {name: told[name] for name in _TRUNCATIONS if told.get(name)}
    return {"temperature": 1.0 if temperature is None else temperature, **named}
