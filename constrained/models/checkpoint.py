"""Weights and tokenizers out of files and repositories, by transformers; its errors as errors of this library."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from constrained.errors import ConstrainedError, ModelError
from constrained.models.hub import fetch_options

_WHERE = ("revision", "subfolder", "gguf_file")
"""Options of `from_pretrained` that say which files of a repository are meant."""
_HOW = (
    "token",
    "trust_remote_code",
    "code_revision",
    "cache_dir",
    "local_files_only",
    "force_download",
    "proxies",
)
"""Options that say how the files of any repository are fetched and run."""
_OPTIONS = (
    *_WHERE, *_HOW, "device", "dtype", "isolate", "force_trees", "tokenizer", "device_map", "max_memory", "offload_folder", "variant",
    "quantization_config", "attn_implementation", "use_safetensors", "config", "low_cpu_mem_usage", "tp_plan",
)  # fmt: skip
"""What a misspelt option may have meant."""
_DAMAGED = (
    "SafetensorError",
    "UnpicklingError",
    "BadZipFile",
    "EOFError",
    "JSONDecodeError",
    "UnicodeDecodeError",
)
"""Errors of readers about the bytes of a file."""


def load_tokenizer(name: str, options: Mapping[str, Any], *, own: bool = True) -> Any:
    """The tokenizer of a name or folder.

    Args:
        name: as for `from_pretrained`.
        options: those of the model.
        own: whether `name` is the model's repository, so that revision, folder and file are its tokenizer's too.

    Raises:
        ModelError: it cannot be loaded.
    """
    from transformers import AutoTokenizer

    taken = (*_WHERE, *_HOW) if own else _HOW
    with _explained("tokenizer", name):
        asked = {key: value for key, value in options.items() if key in taken}
        return AutoTokenizer.from_pretrained(name, **fetch_options(name, asked))


def load_processor(name: str, options: Mapping[str, Any]) -> Any:
    """What makes inputs of images, of a name or folder of a model that takes them.

    Args:
        name: as for `from_pretrained`.
        options: those of the model.

    Raises:
        ModelError: it cannot be loaded, or reads no images.
    """
    import transformers

    auto: Any = transformers.AutoProcessor
    with _explained("processor", name):
        asked = {key: value for key, value in options.items() if key in (*_WHERE, *_HOW)}
        made = auto.from_pretrained(name, **fetch_options(name, asked))
        if not hasattr(made, "image_processor"):
            raise ModelError(
                f"the processor of {name!r} reads no images: a {type(made).__name__}",
                action="save the model's processor beside it, or pass it: load(model, processor)",
            )
    return made


def load_weights(name: str, *, device: str | None, dtype: Any, **options: Any) -> Any:
    """The causal language model of a name or folder, on its device; of a model that also takes images or sound, all of it.

    Args:
        name: as for `from_pretrained`.
        device: where it goes; by default a GPU, if there is one. Left to transformers with ``device_map``, and for
            quantised models.
        dtype: by default float32 on CPU, and otherwise the one of the checkpoint.
        options: of `from_pretrained`.

    Raises:
        ModelError: it cannot be loaded, or weights are missing.
    """
    import torch

    mapped = options.get("device_map") is not None
    if mapped and device is not None:
        raise ModelError(
            f"device={device!r} and device_map={options['device_map']!r} both say where the model goes",
            action="pass one of them",
        )
    check_device(device)
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    kind = dtype or ("float32" if place == "cpu" and not mapped else "auto")
    found: Any
    with _explained("model", name):
        found = _auto_class(name, options).from_pretrained(
            name, dtype=kind, output_loading_info=True, **fetch_options(name, options)
        )
    model, report = found
    _check_complete(name, report)
    if mapped:
        return model
    method = getattr(model, "quantization_method", None)
    if method != "gguf" and (getattr(model, "is_quantized", False) or method is not None):
        if device is not None and torch.device(device).type != model.device.type:
            raise ModelError(
                f"the model {name!r} is quantised and stays on {model.device}: device={device!r} cannot be had",
                action=f"load(..., device_map={{'': {device!r}}})",
            )
        return model
    with _explained("model", name):
        return model.to(place)


def _auto_class(name: str, options: Mapping[str, Any]) -> Any:
    """The class of transformers that loads the text generator of a checkpoint.

    Raises:
        ModelError: none does.
    """
    import transformers

    causal = transformers.AutoModelForCausalLM
    if "gguf_file" in options:
        return causal
    config = options.get("config")
    if not isinstance(config, transformers.PretrainedConfig):
        asked = {key: value for key, value in options.items() if key in (*_WHERE, *_HOW)}
        config = transformers.AutoConfig.from_pretrained(name, **fetch_options(name, asked))
    if "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {}):  # code of its own
        return causal
    several = [
        causal,
        getattr(transformers, "AutoModelForMultimodalLM", None),
        transformers.AutoModelForImageTextToText,
    ]
    for one in several:
        if one is not None and type(config) in one._model_mapping:
            return one
    raise ModelError(
        f"the model {name!r} cannot be loaded: a {config.model_type} model generates no text, by transformers {transformers.__version__}",
        action="name a checkpoint of a causal language model",
    )


def check_device(device: Any) -> None:
    """Checks that tensors can be made on a device.

    Raises:
        ModelError: they cannot.
    """
    if device is None:
        return
    import torch

    try:
        place = torch.device(device)
        if place.type == "meta":
            raise RuntimeError("meta tensors hold no weights")
        torch.empty(1, device=place)
    except Exception as error:  # AssertionError, RuntimeError, NotImplementedError, ... by the kind of device
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        there = ["cpu", *(f"cuda:{index}" for index in range(count))]
        if getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available():
            there.append("mps")
        raise ModelError(
            f"the device {device!r} cannot be used: {_first_line(error)}",
            action=f"here are: {', '.join(there)}; leave device out for the best of them",
        ) from error


def _check_complete(name: str, report: Mapping[str, Any]) -> None:
    missing = sorted(report.get("missing_keys") or ())
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(
            f"the model {name!r} cannot be loaded: its files have no {missing[0]}{others}, which would be random",
            action="name a checkpoint of a causal language model, with its head",
        )


@contextlib.contextmanager
def _explained(what: str, name: str) -> Iterator[None]:
    """Turns every exception of the readers of files, of transformers and of a model's own code into a ModelError."""
    try:
        yield
    except ConstrainedError:
        raise
    except Exception as error:
        if name.startswith(("/", "./", "../", "~")) and not os.path.exists(name):
            raise ModelError(
                f"the {what} {name!r} cannot be loaded: there is no such file or folder",
                action="check the path; a ~ is not expanded here"
                if name.startswith("~")
                else "check the path",
            ) from error
        raise ModelError(
            f"the {what} {name!r} cannot be loaded: {_first_line(error)}", action=_next_step(name, error)
        ) from error


def _first_line(error: Exception) -> str:
    """The cause: messages of transformers are paragraphs, and their first line names it."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(" from one of:")[0]
    return f"{type(error).__name__}: {line}" if type(error).__name__ in _DAMAGED else line


def _next_step(name: str, error: Exception) -> str:
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if unknown and unknown[1] in ("load_in_4bit", "load_in_8bit"):
        return f"quantization_config=BitsAndBytesConfig({unknown[1]}=True), of transformers"
    if unknown:
        near = difflib.get_close_matches(unknown[1], _OPTIONS, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        return f"{meant}options are those of from_pretrained, and of the model's configuration"
    package = re.search(r"pip install (?:-[-\w]+ )*'?([\w\[\],.<>=-]+)", str(error))
    if package:
        return f"pip install '{package[1].rstrip('.')}'"
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(causes) < 8:
        causes.append(cause)  # type: ignore[arg-type]
    if any(type(cause).__name__ in _DAMAGED for cause in causes):
        again = "copy the folder again" if os.path.isdir(name) else "load(..., force_download=True)"
        return f"a file of it is damaged or not complete: {again}"
    return "check the name, the folder, the device and the network; load() alone gives the bundled model"
