"""Constrained generation inside SGLang: a grammar backend with the masks and refusals of this library.

    names.py     compares SGLang with what is used of it
    grammar.py   the state of a request as SGLang's grammar object
    backend.py   compiles constraints, as SGLang's grammar backend
    requests.py  token limits and stop ids of requests, which SGLang does not tell its backends

SGLang loads `register` from the entry point ``sglang.srt.plugins`` in each of its processes. It adds a choice to
``--grammar-backend``; a server that is started with another choice is not changed. `constrained.integrations.engines` has the
rest: settings, automata, masks, states of requests. All files but this one import SGLang.
"""

from __future__ import annotations

from typing import Any

NAME = "constrained"
"""The choice: ``--grammar-backend constrained``."""


def register() -> None:
    """Called by SGLang in each process. Idempotent.

    Raises:
        IncompatibleEngine: this version of SGLang takes no grammar backends from plug-ins.
    """
    from constrained.integrations.engines.compatibility import ApiCheck

    names = ApiCheck()
    add = names.find("sglang.srt.server_args:add_grammar_backend_choices")
    choices = names.find("sglang.srt.arg_groups.choices:GRAMMAR_BACKEND_CHOICES")
    register_backend = names.find("sglang.srt.constrained.base_grammar_backend:register_grammar_backend")
    names.finish("SGLang", "sglang", "install another version of either")
    if NAME not in choices:
        add([NAME])
    register_backend(NAME, _create)


def _create(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any) -> Any:
    """SGLang calls this in its scheduler if it was started with our choice."""
    from constrained.integrations.sglang.names import check

    check()
    from constrained.integrations.sglang.backend import create

    return create(server_args, tokenizer, vocab_size, eos_token_ids)
