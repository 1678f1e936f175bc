"""How a transformers model can be read: what its configuration says, and what a trial of a few tokens shows.

The configuration settles what a short trial cannot show (how far layers see, positions that are counted in columns, states).
The trial settles the rest: a model that nobody has tested reads trees if a small one gives the logits of its branches.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constrained.errors import ModelError
from constrained.models.attention_masks import Layout, Sight
from constrained.models.batched_cache import JoinedCache
from constrained.models.cache import HuggingFaceCache, Run, SeparateCache
from constrained.models.probe import (
    chain_error,
    future_error,
    memory_error,
    step_error,
    tree_error,
    tried,
)
from constrained.models.sequential_cache import SingleCache, Way

if TYPE_CHECKING:
    import torch

TOLERANCE = {"float64": 1e-3, "float32": 1e-3}
"""Greatest error of logits in a trial, in their standard deviations over the vocabulary, by dtype."""
COARSE = 0.1
"""The same for dtypes of 16 and 8 bits, whose rounding is that large."""
LOST = 0.5
"""From this error on a model is taken to have forgotten what it read."""

_MASKED = ("sdpa", "eager")
"""Attention that takes a mask of any shape."""
_SIGHTS = ("full_attention", "sliding_attention", "chunked_attention")
_KNOWN_WINDOWS = ("sliding_window", "max_window_layers", "use_sliding_window", "sliding_window_pattern")


@dataclass(frozen=True)
class Ability:
    """How a model is read.

    Attributes:
        way: of reading.
        layout: of its layers, where rows can be side by side.
        no_trees: why it reads no trees, None if it does.
    """

    way: Way
    layout: Layout | None = None
    no_trees: str | None = None


def cache_name(model: Any) -> str | None:
    """The argument of a model's forward pass that takes a cache; None if there is none of the common kind."""
    accepted = inspect.signature(model.forward).parameters
    return next((name for name in ("past_key_values", "cache_params") if name in accepted), None)


def ability(model: Any, run: Run, device: torch.device, size: int) -> Ability:
    """Looks at a model, and tries it.

    Args:
        model: of transformers.
        run: its forward pass.
        device: where token ids go.
        size: of its vocabulary.

    Raises:
        ModelError: it is no causal language model.
    """
    import torch

    name = type(model).__name__
    tolerance = TOLERANCE.get(str(model.dtype).removeprefix("torch."), COARSE)
    found = layout(model)
    with torch.inference_mode():
        if isinstance(found, Layout):
            layers = found
            wrong = tried(lambda: tree_error(run, layers, device, size), tolerance)
            if wrong is None:
                return Ability(Way.TREES, layers)
            found = f"a small tree did not have the logits of its branches ({wrong})"
            warnings.warn(f"{name} is read without trees, one text at a time: {found}", stacklevel=4)
        reason = f"{name} reads no trees: {found}"
        make = maker(model)
        lost: str | None = "it takes none"
        if cache_name(model) is not None:
            lost = tried(lambda: step_error(run, make, device, size), LOST)
            lost = lost or tried(lambda: memory_error(run, make, device, size), tolerance / 10)
        if lost is not None:
            wrong = tried(lambda: future_error(run, device, size), tolerance)
            if wrong is not None:
                raise ModelError(
                    f"{name} cannot be read as a causal language model: a text with two ends, before them: {wrong}",
                    action="pass a causal language model (some need is_decoder=True in their configuration)",
                )
            warnings.warn(
                f"{name} is read from the beginning for each token, without a cache: {lost}", stacklevel=4
            )
            return Ability(Way.WHOLE, no_trees=reason)
        if _scales(model) or _clamps(model):
            return Ability(Way.STEPS, no_trees=reason)
        wrong = tried(lambda: chain_error(run, make, device, size), tolerance)
    return Ability(Way.CHAINS if wrong is None else Way.STEPS, no_trees=reason)


def make_cache(model: Any, found: Ability, rows: int, isolate: bool) -> HuggingFaceCache:
    """An empty cache for a model.

    Args:
        model: of transformers.
        found: its ability.
        rows: how many texts.
        isolate: one forward pass a row.
    """
    layout = found.layout
    if layout is None:
        make = maker(model)
        return SeparateCache(rows, lambda: SingleCache(make, found.way))
    if isolate:
        return SeparateCache(rows, lambda: JoinedCache(1, layout))
    return JoinedCache(rows, layout)


def maker(model: Any) -> Any:
    """What makes empty caches of the model's own kind."""
    from transformers import DynamicCache

    return lambda: DynamicCache(config=model.config)


def layout(model: Any) -> Layout | str:
    """The layers of a model as masks need them; or why none of any shape can be made for it."""
    from transformers.cache_utils import get_layer_types_and_kwargs

    config = text_config(model)
    attention = getattr(config, "_attn_implementation", None)
    if cache_name(model) != "past_key_values":
        return "it keeps no keys and values of each token"
    if attention not in _MASKED:
        return f"its attention, {attention}, takes no mask of any shape"
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return "it takes no positions"
    if getattr(config, "alibi", False):
        return "its attention is biased by the distance of columns"
    if getattr(config, "attn_temperature_tuning", False):
        return "its attention is scaled by the number of columns"
    if _scales(model):
        return "its position embeddings change with the length of what is read"
    hidden = [
        key
        for key, value in config.to_dict().items()
        if value and ("window" in key or "local_attention" in key) and key.lstrip("_") not in _KNOWN_WINDOWS
    ]
    if hidden:
        return f"it has windows of its own ({hidden[0]})"
    types, settings = get_layer_types_and_kwargs(config)
    kinds: list[str | None] = []
    sights: dict[str, Sight] = {}
    for kind, setting in zip(types, settings, strict=True):
        if kind == "dummy":
            kinds.append(None)
            continue
        if kind not in _SIGHTS:
            return f"it has layers of another kind ({kind})"
        reach = setting.get("sliding_window")
        sight = Sight(chunk=reach) if kind == "chunked_attention" else Sight(window=reach)
        if sights.setdefault(kind, sight) != sight:
            return f"its layers of one kind differ ({kind})"
        kinds.append(kind)
    return Layout(tuple(kinds), sights)


def text_config(model: Any) -> Any:
    """The configuration of the language part (a model that also sees or hears nests it)."""
    config = model.config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def _scales(model: Any) -> bool:
    """Whether positions are embedded by the greatest position of a pass, so that a token depends on its neighbours."""
    rope = getattr(text_config(model), "rope_parameters", None) or {}
    each = rope.values() if rope and all(isinstance(one, dict) for one in rope.values()) else [rope]
    return any(one.get("rope_type") in ("dynamic", "longrope") for one in each if one)


def _clamps(model: Any) -> bool:
    """Whether its states move on by bounded steps: transformers bounds those of several tokens, not that of a single one."""
    limits = (getattr(module, "time_step_limit", None) for module in model.modules())
    return any(limit is not None and (limit[0] > 0 or limit[1] < float("inf")) for limit in limits)
