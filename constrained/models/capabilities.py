"""How a transformers model can be read: by its configuration, and by a probe with a few tokens.

The configuration decides what a short probe cannot show (attention windows, positions counted in columns, recurrent
states). The probe decides the rest: a model reads draft trees if a small tree gives the logits of its branches.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constrained.errors import ModelError
from constrained.models.attention_masks import TREE_ATTENTION, AttentionLayout, AttentionWindow
from constrained.models.cache import ForwardFunction
from constrained.models.probe import (
    causality_error,
    chain_error,
    context_error,
    isolation_error,
    measured_error,
    probe_failure,
    rounding_error,
    step_error,
    tree_error,
)
from constrained.models.sequential_cache import ForwardMode

if TYPE_CHECKING:
    import torch

    from constrained.models.fixed_steps import FixedSteps

TOLERANCE = {"float64": 1e-3, "float32": 1e-3}
"""Greatest error of logits in a probe, in standard deviations over the vocabulary, by dtype."""
LOW_PRECISION_TOLERANCE = 0.1
"""The same for dtypes of 16 and 8 bits, whose rounding is that large in shallow models; see `_tree_tolerance`."""
CONTEXT_SHARE = 0.25
"""The greatest error of a draft tree, relative to what one other token in the context changes."""
FORGETTING_ERROR = 0.5
"""A step error of at least this means that the cache does not keep what the model has read."""

_MASKED = ("sdpa", "eager", TREE_ATTENTION)
"""Attention that takes a mask of any shape."""
_SIGHTS = ("full_attention", "sliding_attention", "chunked_attention")
_KNOWN_WINDOWS = ("sliding_window", "max_window_layers", "use_sliding_window", "sliding_window_pattern")


@dataclass(frozen=True)
class Capabilities:
    """How a model is read.

    Attributes:
        mode: of reading.
        layout: of its layers, where rows can be side by side.
        no_trees: why it reads no trees, None if it does.
        tree_error: the largest difference between logits of a draft tree and of its branches read in one piece, in
            standard deviations over the vocabulary; None if it was not measured.
        tree_tolerance: the greatest error that rounding explains.
    """

    mode: ForwardMode
    layout: AttentionLayout | None = None
    no_trees: str | None = None
    tree_error: float | None = None
    tree_tolerance: float | None = None


TESTED_TRANSFORMERS = "5.14 to 5.24"
"""Versions of transformers that the tests ran with."""
CACHE_NAMES = ("cache", "past_key_values", "cache_params")
"""Names of the argument of a forward pass that takes a cache: since transformers 5.24, before it, and before it of states."""


def cache_argument(model: Any) -> str | None:
    """The argument of a model's forward pass that takes a cache; None if it has none of `CACHE_NAMES`."""
    accepted = inspect.signature(model.forward).parameters
    return next((name for name in CACHE_NAMES if name in accepted), None)


def probe_capabilities(
    model: Any,
    run: ForwardFunction,
    device: torch.device,
    size: int,
    *,
    force_trees: bool = False,
    allow_slow: bool = False,
) -> Capabilities:
    """Inspects a model's configuration, then probes the model.

    Args:
        model: of transformers.
        run: its forward pass.
        device: where token ids go.
        size: of its vocabulary.
        force_trees: read draft trees whatever their error, where the configuration allows it.
        allow_slow: read the whole sequence for each token where a cache that the model has cannot be used.

    Raises:
        ModelError: it is not a causal language model; or it has a cache that cannot be used.
    """
    import torch

    name = type(model).__name__
    tolerance = TOLERANCE.get(str(model.dtype).removeprefix("torch."), LOW_PRECISION_TOLERANCE)
    found = attention_layout(model)
    with torch.inference_mode():
        if isinstance(found, AttentionLayout):
            layers = found

            def read() -> Any:
                return tree_error(run, layers, device, size)

            packs = device.type == "cpu" and model.dtype == torch.float32
            packed = _packed_error(model, read, tolerance) if packs else None
            error = measured_error(read) if packed is None else packed
            if not isinstance(error, str):
                if error > tolerance == LOW_PRECISION_TOLERANCE:
                    tolerance = _tree_tolerance(model, run, device, size)
                if error <= tolerance or force_trees:
                    return Capabilities(ForwardMode.TREES, layers, tree_error=error, tree_tolerance=tolerance)
                error = (
                    f"they are off by {error:.2g} standard deviations, of which rounding explains {tolerance:.2g}; "
                    "force_trees=True of load reads trees all the same"
                )
            found = f"a small tree did not have the logits of its branches ({error})"
            warnings.warn(f"{name} is read without trees, one text at a time: {found}", stacklevel=4)
        reason = f"{name} reads no trees: {found}"
        make = cache_factory(model)
        lost: str | None = "it has none"
        if cache_argument(model) is not None:
            lost = probe_failure(lambda: step_error(run, make, device, size), FORGETTING_ERROR)
            lost = lost or probe_failure(lambda: isolation_error(run, make, device, size), tolerance / 10)
        if lost is not None:
            wrong = probe_failure(lambda: causality_error(run, device, size), tolerance)
            if wrong is not None:
                raise ModelError(
                    f"{name} cannot be read as a causal language model: its logits depend on later tokens: {wrong}",
                    action="pass a causal language model (some need is_decoder=True in their configuration)",
                )
            if not allow_slow and returned_cache(model, device) is not None:
                raise unused_cache(model, lost)
            warnings.warn(
                f"{name} is read without a cache, the whole sequence for each token: {lost}", stacklevel=4
            )
            return Capabilities(ForwardMode.WHOLE, no_trees=reason)
        if _scales(model) or _clamps(model):
            return Capabilities(ForwardMode.STEPS, no_trees=reason)
        wrong = probe_failure(lambda: chain_error(run, make, device, size), tolerance)
    return Capabilities(ForwardMode.CHAINS if wrong is None else ForwardMode.STEPS, no_trees=reason)


def returned_cache(model: Any, device: torch.device) -> str | None:
    """The name under which a pass over two tokens returns a cache of transformers; None if it returns none."""
    import torch
    from transformers import Cache

    with torch.inference_mode():
        outputs = model(input_ids=torch.ones(1, 2, dtype=torch.long, device=device), use_cache=True)
    return next((name for name, value in dict(outputs).items() if isinstance(value, Cache)), None)


def unused_cache(model: Any, reason: str) -> ModelError:
    """The error of a model that has a cache which cannot be used: read without, each token would cost the whole sequence.

    Args:
        model: of transformers.
        reason: why its cache cannot be used.
    """
    import transformers

    return ModelError(
        f"the cache of {type(model).__name__} cannot be used: {reason} (transformers {transformers.__version__}; "
        f"the tests of this library ran with {TESTED_TRANSFORMERS})",
        action="install a version that it has run with, or let the whole sequence be read for each token: "
        "load(..., allow_slow=True)",
    )


def _packed_error(model: Any, read: Callable[[], Any], tolerance: float) -> float | None:
    """The error of trees with attention that copies no keys for the heads that share them (`packed_attention`).

    Returns:
        None where the model has no such heads, or not this attention: then it is as it was.
    """
    from constrained.models.tree_attention import choose

    config = decoder_config(model)
    shared = (getattr(config, "num_key_value_heads", None) or 0) < (
        getattr(config, "num_attention_heads", None) or 0
    )
    if config._attn_implementation not in ("sdpa", TREE_ATTENTION) or not shared:
        return None
    choose(config, TREE_ATTENTION)
    error = measured_error(read)
    if not isinstance(error, str) and error <= tolerance:
        return error
    choose(config, "sdpa")
    return None


def _tree_tolerance(model: Any, run: ForwardFunction, device: torch.device, size: int) -> float:
    """The error of a draft tree that rounding in 16 bits explains.

    A pass with a mask runs other kernels than one without, so their roundings differ, and deep models carry a rounding
    far. At most what the model makes of its embeddings moved by one rounding, and always well below what a token
    wrongly in or out of sight would do.
    """
    own = measured_error(lambda: rounding_error(run, model.get_input_embeddings(), device, size))
    context = measured_error(lambda: context_error(run, device, size))
    if isinstance(own, str) or isinstance(context, str):
        return LOW_PRECISION_TOLERANCE
    return max(LOW_PRECISION_TOLERANCE, min(own, CONTEXT_SHARE * context))


def probe_steps(
    model: Any,
    run: ForwardFunction,
    capabilities: Capabilities,
    device: torch.device,
    size: int,
    *,
    compiles: bool,
    tree_attention: bool,
) -> FixedSteps | str:
    """Passes of fixed sizes for a model; or why there are none.

    Args:
        model: of transformers. Its attention is set to `constrained.models.tree_attention` where that gives its logits.
        run: the model.
        capabilities: how it is read otherwise.
        device: where token ids go.
        size: of its vocabulary.
        compiles: see `FixedSteps`.
        tree_attention: try the attention of draft trees: for models that use torch's, without chunks.
    """
    import torch

    from constrained.models.fixed_steps import FixedSteps
    from constrained.models.tree_attention import choose

    layout, config = capabilities.layout, decoder_config(model)
    if layout is None or capabilities.no_trees is not None:
        return capabilities.no_trees or "it reads no trees"
    most = max(capabilities.tree_tolerance or 0.0, capabilities.tree_error or 0.0)

    def failure(steps: FixedSteps) -> str | None:
        with torch.inference_mode():
            return probe_failure(lambda: tree_error(run, layout, device, size, steps), most)

    plain = config._attn_implementation in ("sdpa", TREE_ATTENTION)
    if tree_attention and plain and layout.layer_windows is not None:
        choose(config, TREE_ATTENTION)
        for masked in (False, True):
            if (
                failure(FixedSteps(run, layout, compiles=False, supports_tree_attention=True, masked=masked))
                is None
            ):
                return FixedSteps(run, layout, compiles=compiles, supports_tree_attention=True, masked=masked)
        choose(config, "sdpa")
    wrong = failure(FixedSteps(run, layout, compiles=False))
    if wrong is not None:
        return f"a small tree could not be read in place: {wrong}"
    return FixedSteps(run, layout, compiles=compiles)


def cache_factory(model: Any) -> Any:
    """A function that creates empty caches of the model's own kind."""
    from transformers import DynamicCache

    return lambda: DynamicCache(config=model.config)


def attention_layout(model: Any) -> AttentionLayout | str:
    """The attention layers of a model; or why it cannot be given arbitrary masks."""
    config = decoder_config(model)
    attention = getattr(config, "_attn_implementation", None)
    if attention not in _MASKED:
        return f"its attention, {attention}, takes no mask of any shape"
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return "it takes no positions"
    if cache_argument(model) not in ("cache", "past_key_values"):
        return "it keeps no keys and values of each token"
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
    kinds: list[str | None] = []
    sights: dict[str, AttentionWindow] = {}
    for kind, reach in _layer_kinds(config):
        if kind == "dummy":
            kinds.append(None)
            continue
        if kind not in _SIGHTS:
            return f"it has layers of another kind ({kind})"
        sight = AttentionWindow(chunk=reach) if kind == "chunked_attention" else AttentionWindow(window=reach)
        if sights.setdefault(kind, sight) != sight:
            return f"its layers of one kind differ ({kind})"
        kinds.append(kind)
    return AttentionLayout(tuple(kinds), sights)


def _layer_kinds(config: Any) -> list[tuple[str, int | None]]:
    """The kind of each layer of a model's cache, and how many tokens it sees at most; None: all."""
    from transformers import cache_utils

    kinds, settings = cache_utils.get_layer_types_and_kwargs(config)
    # Before transformers 5.20 all layers have their settings in common.
    each = [settings] * len(kinds) if isinstance(settings, dict) else settings
    bounded = ("sliding_attention", "chunked_attention")
    return [
        (kind, one.get("sliding_window") if kind in bounded else None)
        for kind, one in zip(kinds, each, strict=True)
    ]


def decoder_config(model: Any) -> Any:
    """The configuration of the language part (a model that also sees or hears nests it)."""
    config = model.config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def _scales(model: Any) -> bool:
    """Whether positions are embedded by the greatest position of a pass, so that a token depends on its neighbours."""
    rope = getattr(decoder_config(model), "rope_parameters", None) or {}
    each = rope.values() if rope and all(isinstance(one, dict) for one in rope.values()) else [rope]
    return any(one.get("rope_type") in ("dynamic", "longrope") for one in each if one)


def _clamps(model: Any) -> bool:
    """Whether its states move on by bounded steps: transformers bounds those of several tokens, not that of a single one."""
    limits = (getattr(module, "time_step_limit", None) for module in model.modules())
    return any(limit is not None and (limit[0] > 0 or limit[1] < float("inf")) for limit in limits)
