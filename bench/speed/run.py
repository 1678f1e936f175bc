"""All ways on all cases: they take turns on every text, so that what else the machine does hits all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from constrained.bench.harness.settings import Progress, check_names, no_progress
from constrained.bench.masks.workload import VocabularyData
from constrained.bench.speed.cases import SpeedCase, cases, public_cases
from constrained.bench.speed.recorded import ForcedOutput
from constrained.bench.speed.settings import SpeedSettings
from constrained.bench.speed.shapes import load_vocabulary_pair, random_model, shape, vocabulary_data
from constrained.bench.speed.ways import DecodeCall, DecodedTokens, DecodingMethod, decoding_methods
from constrained.errors import InvalidArgument
from constrained.models import load
from constrained.models.hugging_face import HuggingFaceModel
from constrained.models.packed_linear import PackedLinear


@dataclass(slots=True)
class MethodTimes:
    """What one way took.

    Attributes:
        tokens: written.
        forwards: passes of the model.
        cut: texts that the limit changed or ended.
        seconds: of the clock.
        processor: seconds of processor time.
        forward: seconds in passes, see `DecodedTokens`.
        drafting: seconds of drafting, where they are known.
        drafted: draft tokens that were verified, likewise.
    """

    tokens: int = 0
    forwards: int = 0
    cut: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    forward: float = 0.0
    drafting: float = 0.0
    drafted: int = 0


@dataclass(slots=True)
class SpeedResults:
    """What was measured.

    Attributes:
        settings: of the run.
        by_method: by way.
        by_case: for each text its kind and, by way, tokens, passes and seconds of processor time.
        texts: that all ways wrote.
        skipped: texts that a way could not write, or wrote otherwise than recorded: its name -> how many.
        about: the model and its device.
    """

    settings: SpeedSettings
    by_method: dict[str, MethodTimes] = field(default_factory=dict)
    by_case: list[dict[str, Any]] = field(default_factory=list)
    texts: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The results as JSON values, without the settings."""
        return {name: value for name, value in asdict(self).items() if name != "settings"}


def run(settings: SpeedSettings, progress: Progress = no_progress) -> SpeedResults:
    """Measures everything.

    The first text also imports and warms up: it is written and not counted. On a GPU all are written before they are measured,
    because kernels are compiled and passes captured at the first use of a size. Compiling constraints is not counted, masks are.

    Raises:
        InvalidArgument: a way is not known, or no text could be written by all.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    try:
        model, tokens = build_model(settings)
        results = SpeedResults(settings, about=run_info(model, settings))
        known = decoding_methods(
            model, _in_rows(model, settings), tokens, settings.max_tokens, settings.threads,
            exact=settings.exact, temperature=settings.temperature,
        )  # fmt: skip
        measured = _chosen(known, settings)
        recorded = settings.random is not None
        with ExitStack() as stack:
            end = model.vocabulary.eos_ids[0]
            forced = stack.enter_context(ForcedOutput(model.model, 0, [], end)) if recorded else None
            count = settings.sample + 1
            first, *rest = (
                cases(model, count, settings.seed, recorded=recorded)
                if settings.data is None
                else public_cases(model, count, settings.seed, settings.data)
            )
            before = [first, *(rest if model.device.type == "cuda" else ())]
            for done, case in enumerate([*before, *rest], 1 - len(before)):
                if forced is not None and case.recorded is not None:
                    forced.say(len(case.prompt), case.recorded, end)
                _measure(case, measured, results, counts=done > 0, turn=done)
                progress("warming up" if done <= 0 else "measuring", max(done, 0), settings.sample)
    finally:
        torch.set_num_threads(threads)
    if not results.texts:
        raise InvalidArgument(
            f"no text was written by all ways: {results.skipped}",
            action="raise --sample, or name ways by --only",
        )
    return results


def build_model(settings: SpeedSettings) -> tuple[HuggingFaceModel, VocabularyData]:
    """The model of the settings, and its vocabulary as data for other engines."""
    if settings.random is None:
        loaded = load(settings.model, device=settings.device, dtype=settings.dtype, engine=settings.engine)
        assert isinstance(loaded, HuggingFaceModel)
        return loaded, vocabulary_data(loaded)
    sizes = shape(settings.random)
    vocabulary, tokens = load_vocabulary_pair(settings.vocabulary or sizes.vocabulary)
    model = random_model(sizes, vocabulary, device=settings.device, dtype=settings.dtype, seed=settings.seed)
    return HuggingFaceModel(model.model, vocabulary, engine=settings.engine), tokens


def _in_rows(model: HuggingFaceModel, settings: SpeedSettings) -> HuggingFaceModel:
    """The model as transformers loads it, for its own `generate`: the same one where no weights are packed."""
    if all(type(layer) is not PackedLinear for layer in model.model.modules()):
        return model
    loaded = load(settings.model, device=settings.device, dtype=settings.dtype, packed=False)
    assert isinstance(loaded, HuggingFaceModel)
    return loaded


def _chosen(known: Mapping[str, DecodingMethod], settings: SpeedSettings) -> dict[str, DecodingMethod]:
    first = next(iter(known))
    check_names(settings.only, known)
    return {name: way for name, way in known.items() if not settings.only or name in (first, *settings.only)}


def _measure(
    case: SpeedCase,
    measured: Mapping[str, DecodingMethod],
    results: SpeedResults,
    *,
    counts: bool,
    turn: int,
) -> None:
    """One text, by all ways; the one that begins is another one each time."""
    names = list(measured)
    at = turn % len(names)
    found: dict[str, MethodTimes] = {}
    failed: list[str] = []
    for name in (*names[at:], *names[:at]):
        try:
            found[name], written = _timed(measured[name](case))
        except Exception:  # an engine refuses in whatever way it likes
            failed.append(name)
            continue
        if case.recorded is not None and written.tokens != case.recorded:
            failed.append(name)
    if not counts:
        return
    for name in failed:
        results.skipped[name] = results.skipped.get(name, 0) + 1
    if failed:
        return
    results.texts += 1
    facts = {
        name: {"tokens": one.tokens, "passes": one.forwards, "processor": one.processor}
        for name, one in found.items()
    }
    results.by_case.append({"kind": case.kind, **facts})
    for name in names:
        total = results.by_method.setdefault(name, MethodTimes())
        for part, value in asdict(found[name]).items():
            setattr(total, part, getattr(total, part) + value)


def _timed(write: DecodeCall) -> tuple[MethodTimes, DecodedTokens]:
    began, processor = time.perf_counter(), time.process_time()
    written = write()
    processor, seconds = time.process_time() - processor, time.perf_counter() - began
    speed = MethodTimes(
        len(written.tokens),
        written.forwards,
        int(written.is_cut()),
        seconds,
        processor,
        written.forward,
        written.drafting,
        written.drafted,
    )
    return speed, written


def run_info(model: HuggingFaceModel, settings: SpeedSettings) -> dict[str, Any]:
    """Model, device and version of torch, as JSON values."""
    import torch

    device = str(model.device)
    return {
        "model": f"random weights, {settings.random}" if settings.random else settings.model,
        "weights": sum(weight.numel() for weight in model.model.parameters()),
        "vocabulary": model.vocabulary.size,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "dtype": str(model.model.dtype).removeprefix("torch."),
        "torch": torch.__version__,
    }
