"""Constrained generation inside vLLM: masks, drafts and refusals of this library, in vLLM's engine and server.

    patch.py           the two names of vLLM that are replaced, after all that is used has been checked
    request_fields.py  what a request says about its constraint
    front_end.py       refuses requests before the engine sees them
    backend.py         grammar and automata as vLLM's abstract classes
    drafts.py          draft tokens for requests with a constraint
    manager.py         vLLM's manager of structured outputs with our backend

`constrained.integrations.engines` has the rest: settings, automata, masks, states of requests.
vLLM loads `register` from the entry point ``vllm.general_plugins`` in each of its processes. It does nothing unless
the operator switches it on. Only `patch`, `backend`, `manager` and `front_end` import vLLM.
"""

from __future__ import annotations


def register() -> None:
    """Called by vLLM in each process. Idempotent; without effect unless the operator asks for this library.

    Raises:
        InvalidArgument: `CONSTRAINED_VLLM` cannot be read.
        IncompatibleEngine: this version of vLLM lacks a name that is needed.
    """
    from constrained.integrations.engines.settings import VllmSettings

    settings = VllmSettings.from_environment()
    if settings is not None:
        from constrained.integrations.vllm import patch

        patch.install(settings)
