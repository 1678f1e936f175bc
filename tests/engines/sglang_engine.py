"""SGLang's plug-ins, grammar manager and requests without its engine, which needs a GPU. Imported before SGLang."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from array import array
from collections.abc import Iterable
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import constrained
from tests.support.sglang_requests import UniformServer


class _Anything(type):
    """A class that has every attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _Torchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for torchvision, whose build must match torch's: SGLang imports it for images."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return type(
            "Module", (ModuleType,), {"__getattr__": lambda self, name: getattr(_Anything("a", (), {}), name)}
        )(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@cache
def load() -> None:
    """Loads SGLang's plug-ins by its own loader."""
    from transformers.utils import import_utils

    if not import_utils.is_torchvision_available():  # answered for good, before there seems to be one
        sys.meta_path.append(_Torchvision())
    from sglang.srt.plugins import load_plugins

    load_plugins()


def manager(
    model: constrained.LanguageModel, *, ends: Iterable[int] = (0,), rank: Any = None, **options: Any
) -> Any:
    """SGLang's `GrammarManager` of a server that was started with these options.

    Args:
        model: whose tokenizer it reads.
        ends: stop ids of the model.
        rank: attributes of a scheduler of several ranks.
        options: of the server.
    """
    load()
    from sglang.srt.runtime_context import SpawnRanks, publish, reset_context
    from sglang.srt.server_args import ServerArgs

    reset_context()
    arguments = ServerArgs(model_path="dummy", device="cpu", **{"grammar_backend": "constrained", **options})
    publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=0))
    from sglang.srt.constrained.grammar_manager import GrammarManager

    tokenizer = model.tokenizer
    tokenizer.additional_stop_token_ids = None  # SGLang sets it when it loads a tokenizer
    config = SimpleNamespace(vocab_size=model.vocabulary.size, hf_eos_token_id=set(ends), think_end_ids=None)
    group = SimpleNamespace(world_size=1, first_rank=0, is_first_rank=True)
    scheduler = SimpleNamespace(
        server_args=arguments,
        tokenizer=tokenizer,
        model_config=config,
        dp_tp_cpu_group=None,
        dp_tp_group=group,
        pp_group=None,
    )
    for name, value in (rank or {}).items():
        setattr(scheduler, name, value)
    return GrammarManager(scheduler)


def request(
    model: constrained.LanguageModel, name: str = "r", *, reasons: bool = False, **params: Any
) -> Any:
    """SGLang's `Req` with sampling parameters."""
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_params import SamplingParams

    sampling = SamplingParams(**{"max_new_tokens": 60, **params})
    sampling.normalize(model.tokenizer)
    made = Req(
        name,
        "",
        array("q", [5]),
        sampling,
        eos_token_ids={0},
        vocab_size=model.vocabulary.size,
        require_reasoning=reasons,
    )
    made.tokenizer = model.tokenizer
    return made


def server(model: constrained.LanguageModel, **options: Any) -> UniformServer:
    """A scheduler over `manager`."""
    return UniformServer(manager(model, **options), model.vocabulary.size)


def text(model: constrained.LanguageModel, request: Any) -> str:
    """What a request wrote, without its end."""
    tokens = [
        token
        for token in request.output_ids
        if token not in (0, *(request.sampling_params.stop_token_ids or ()))
    ]
    return model.vocabulary.decode(tokens).decode()
