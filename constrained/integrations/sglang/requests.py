"""What SGLang does not tell its grammar backends about a request: its token limits and stop ids.

Two methods of `GrammarManager` are wrapped by SGLang's registry of hooks, when the backend is created and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject
from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarObject
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from constrained.errors import ConstrainedError
from constrained.integrations.sglang.grammar import SglangGrammar

FIELDS = ("json_schema", "regex", "ebnf", "structural_tag")
"""Fields of SGLang's `SamplingParams` with a constraint."""

_MANAGER = "sglang.srt.constrained.grammar_manager.GrammarManager"


class ConstraintText(str):
    """The text of a constraint with the stop ids of its request.

    SGLang caches grammars by their texts: those of requests with other stop ids are others.
    """

    stop_ids: frozenset[int]

    def __new__(cls, text: str, stop_ids: Iterable[int] = ()) -> ConstraintText:
        """A text that differs from the same text with other stop ids."""
        key = super().__new__(cls, text)
        key.stop_ids = frozenset(stop_ids)
        return key

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.stop_ids == stop_ids_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def stop_ids_of(text: object) -> frozenset[int]:
    """The stop ids of a request by the text of its constraint, those of the server not included."""
    return text.stop_ids if isinstance(text, ConstraintText) else frozenset()


@cache
def install() -> None:
    """Wraps both methods, once in a process."""
    HookRegistry.register(f"{_MANAGER}.process_req_with_grammar", _process, HookType.AROUND)
    HookRegistry.register(f"{_MANAGER}.get_ready_grammar_requests", _ready, HookType.AFTER)
    HookRegistry.apply_hooks()


def _process(original: Callable[..., bool], manager: Any, request: Any) -> bool:
    """Around the method that looks a request's grammar up; False if it need not wait for it."""
    params = request.sampling_params
    given = [field for field in FIELDS if getattr(params, field) is not None]
    if len(given) > 1:
        request.set_finish_with_abort(
            f"the request has {len(given)} constraints\n  -> give one of {', '.join(FIELDS)}"
        )
        return False
    if given and params.stop_token_ids:
        text = getattr(params, given[0])
        setattr(params, given[0], ConstraintText(text, params.stop_token_ids))
    waits = original(manager, request)
    if not waits:
        _begin(request)
    return waits


def _ready(requests: list[Any], manager: Any) -> None:
    """After the method that returns requests whose grammars are compiled."""
    if manager.grammar_sync_size > 1 and requests:
        _agree(manager, requests)
    for request in requests:
        _begin(request)


def _agree(manager: Any, requests: list[Any]) -> None:
    """What one rank refuses, all refuse: one may reach its time limit where another one does not."""
    own_messages = {
        request.rid: request.to_finish.message
        for request in requests
        if request.grammar is None and request.to_finish is not None
    }
    all_ranks: list[dict[str, str]] = [{}] * manager.grammar_sync_size
    torch.distributed.all_gather_object(all_ranks, own_messages, group=manager.grammar_sync_group)
    refused = {rid: message for messages in all_ranks for rid, message in messages.items()}
    for request in requests:
        if request.rid in refused and request.rid not in own_messages:
            message = refused[request.rid]
            manager.grammar_backend.set_cache(request.grammar_key, InvalidGrammarObject(message))
            request.set_finish_with_abort(message)


def _begin(request: Any) -> None:
    """Tells a compiled grammar the limits of its request, or refuses the request."""
    reasoner = request.grammar if isinstance(request.grammar, ReasonerGrammarObject) else None
    grammar = reasoner.grammar if reasoner is not None else request.grammar
    params = request.sampling_params
    # There is none, or it was refused; or the request only fills the cache with a prompt that has several completions.
    if not isinstance(grammar, SglangGrammar) or params.max_new_tokens == 0:
        return
    try:
        grammar.begin(params.max_new_tokens, params.min_new_tokens, reasoner)
    except ConstrainedError as error:
        request.set_finish_with_abort(str(error))
