"""LoRA adapters: several models over the weights of one (peft)."""

from __future__ import annotations

import contextlib
import json
import threading
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from constrained.errors import ModelError
from constrained.extras import require_extra
from constrained.models.hub import fetch_options


class SharedWeights:
    """A transformers model with LoRA adapters, of which each forward pass uses one or none.

    Passes under different adapters take turns: which one is used is a setting of the model's layers.
    """

    def __init__(self, model: Any) -> None:
        """Without adapters yet.

        Args:
            model: a `PreTrainedModel`; its linear layers get adapters beside them.
        """
        from constrained.models.packed_linear import unpack

        unpack(model)  # peft puts its layers around those of torch
        self.model = model
        self._count = 0
        self._peft: Any = None
        self._layers: list[Any] = []
        self._used: str | None = None
        self._turn = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._turn = threading.Lock()

    def add(self, source: str, device: str) -> str:
        """Loads an adapter.

        Args:
            source: a folder, or a name on the Hub.
            device: where its weights go.

        Returns:
            The name it has here.

        Raises:
            ModelError: it cannot be loaded, was made for a model of other shapes, or changes more than linear layers.
            MissingExtra: peft is not installed.
        """
        with require_extra("lora"):
            peft: Any = import_module("peft")
            layers: Any = import_module("peft.tuners.tuners_utils")
        with self._turn:
            self._count += 1  # also of one that fails: peft may keep what it made under the name
            name = f"adapter{self._count}"
            try:
                how = fetch_options(source, {})
                config = peft.PeftConfig.from_pretrained(source, **how)
                _check(source, config)
                with (
                    warnings.catch_warnings()
                ):  # peft uses names that transformers is to drop, and counts its wrappers
                    warnings.simplefilter("ignore", FutureWarning)
                    warnings.simplefilter("ignore", UserWarning)
                    if self._peft is None:
                        self._peft = peft.PeftModel.from_pretrained(
                            self.model, source, adapter_name=name, config=config, torch_device=device, **how
                        )
                    else:
                        self._peft.load_adapter(source, name, torch_device=device, **how)
            except ModelError:
                raise
            except Exception as error:  # readers of files, of the Hub, and of weights have each their own
                line = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise ModelError(
                    f"the adapter {source!r} cannot be loaded: {line}",
                    action="name a LoRA adapter of this model: a folder with adapter_config.json, or one on the Hub",
                ) from error
            finally:  # layers are made before their weights are read: those of an adapter that fails are not used either
                self.model.eval()
                self._layers = [one for one in self.model.modules() if isinstance(one, layers.BaseTunerLayer)]
                self._use(None)
        return name

    @contextlib.contextmanager
    def using(self, name: str | None) -> Iterator[None]:
        """A forward pass under an adapter, or without one; waits for that of another thread."""
        with self._turn:
            if name != self._used:
                self._use(name)
            yield

    def _use(self, name: str | None) -> None:
        used = [] if name is None else [name]
        for layer in self._layers:
            # Its set_adapter also goes through the weights that could be trained: a hundred times slower.
            object.__setattr__(layer, "_active_adapter", used)
        self._used = name

    def weights(self, name: str) -> dict[str, Any]:
        """The tensors of an adapter by their names in its file."""
        peft: Any = import_module("peft")
        found: dict[str, Any] = peft.get_peft_model_state_dict(self._peft, adapter_name=name)
        return found


def without_wrapper(model: Any) -> Any:
    """The transformers model in a model of peft, whose layers hold the adapters; other models as they are.

    Raises:
        ModelError: its adapters are no part of the layers (prompts that are learned).
    """
    if type(model).__module__.partition(".")[0] != "peft" or not hasattr(model, "get_base_model"):
        return model
    if any(config.is_prompt_learning for config in model.peft_config.values()):
        raise ModelError(
            f"{type(model).__name__} learned a prompt, which is no part of the model's layers",
            action="pass a model with LoRA adapters, or its base model",
        )
    return model.get_base_model()


def base_of(folder: str) -> str | None:
    """The model that the adapter of a folder was made for; None: the folder holds no adapter, or a whole model.

    Raises:
        ModelError: its configuration cannot be read, or names no model.
    """
    path = Path(folder) / "adapter_config.json"
    if not path.is_file() or (Path(folder) / "config.json").is_file():
        return None
    try:
        base = json.loads(path.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"{path} cannot be read: {error}", action="copy the folder again") from error
    if not isinstance(base, str) or not base:
        raise ModelError(
            f"the adapter in {folder!r} does not name its model",
            action="load the model and call its with_adapter(folder)",
        )
    return base


def _check(source: str, config: Any) -> None:
    """Refuses what is more than LoRA beside linear layers: it would change the model without the adapter, too."""
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    if kind != "LORA":
        raise ModelError(f"the adapter {source!r} is {kind}, not LORA", action=_MERGE)
    for name, harmless in (("bias", "none"), ("modules_to_save", None), ("alora_invocation_tokens", None)):
        value = getattr(config, name, harmless)
        if value != harmless and value:
            raise ModelError(f"the adapter {source!r} has {name}={value!r}", action=_MERGE)
    if getattr(config, "trainable_token_indices", None):
        raise ModelError(f"the adapter {source!r} has new embeddings of tokens", action=_MERGE)


_MERGE = "merge it into its model (peft's merge_and_unload), and load the result"
