"""`bench device`: whether a device computes what the CPU does, and how far its steps are from what its memory allows.

    kernels     each against float64, and its bytes against the rate of a copy (`constrained.bench.device.kernels`)
    attention   of draft trees, beside torch's with a mask, by length of the text (`constrained.bench.device.attention`)
    texts       of a small model with float32 weights, against those of the CPU, by engine, with and without draft tokens
    steps       seconds of a pass by engine and number of nodes, beside the least time of its bytes at the copy's rate
    tokens      per second of transformers' `generate`, and of this library by engine

Weights are random: passes take as long as with real ones, but few draft tokens are accepted. On a CPU it runs to its end
with small shapes, to show that it does; its times say nothing there.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from constrained.bench.device import attention, kernels
from constrained.bench.device.roofline import step_cost
from constrained.bench.device.settings import DeviceBenchSettings
from constrained.bench.harness.results import make_folder
from constrained.bench.harness.settings import Progress, check_names
from constrained.bench.harness.tables import ReportTable
from constrained.bench.speed.shapes import SHAPES, load_vocabulary_pair, random_model, shape
from constrained.cli.intervals import NO_VALUE
from constrained.constraint import regex
from constrained.decoding.generator import Generator
from constrained.decoding.speculation import Speculation
from constrained.errors import InvalidArgument
from constrained.models.hugging_face import ENGINES, HuggingFaceModel
from constrained.sampling import Local
from constrained.spec.kernels import tree_attention
from constrained.spec.kernels.attention import tree_attention_torch

RESULTS = "device.json"
FAR = 2.0
"""A step that takes this many times what its bytes need at the rate of a copy is listed as short of it."""
CONSTRAINT = r"[a-z0-9 ,.]{8,}"
"""A text of any length: what random weights write is of no meaning."""


@dataclass(frozen=True, slots=True)
class StepTiming:
    """A pass.

    Attributes:
        model: its shape.
        engine: that was used: ``eager`` where another one could not be, with the reason.
        nodes: tokens.
        seconds: median.
        least: seconds that its bytes take at the rate of a copy.
    """

    model: str
    engine: str
    nodes: int
    seconds: float
    least: float

    @property
    def times(self) -> float:
        """How many times the least time it takes."""
        return self.seconds / self.least


@dataclass(frozen=True, slots=True)
class TextRate:
    """Completions.

    Attributes:
        model: its shape.
        way: what made them.
        tokens_per_second: of the faster of two completions.
        tokens_per_pass: of the library; None for others.
        failure: why there is no figure.
    """

    model: str
    way: str
    tokens_per_second: float | None
    tokens_per_pass: float | None = None
    failure: str | None = None


def falling_short(timings: Sequence[kernels.KernelTiming], steps: Sequence[StepTiming]) -> list[str]:
    """What takes more than `FAR` times what its bytes need."""
    found = [
        f"{one.kernel}, {one.rows} rows: {1 / one.share:.1f} times" for one in timings if one.share * FAR < 1
    ]
    return found + [
        f"{one.model}, {one.engine}, {one.nodes} nodes: {one.times:.1f} times"
        for one in steps
        if one.times > FAR
    ]


def run(settings: DeviceBenchSettings, out: Path, progress: Progress) -> list[ReportTable]:
    """Measures all, and writes one JSON file.

    Raises:
        InvalidArgument: there is no such device, shape or engine, or the folder cannot be written.
    """
    check_names(settings.engines, ENGINES)
    check_names(settings.shapes, SHAPES)
    device = torch.device(settings.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidArgument(
            "there is no CUDA device", action="pass --device cpu, which shows that all of it runs"
        )
    make_folder(out)
    clock = kernels.time_on_device if device.type == "cuda" else time_on_host
    progress("kernels", 0, 4)
    seed = settings.seed
    of_kernels, of_attention = (
        kernels.KernelBenchSettings(seed=seed),
        attention.AttentionBenchSettings(seed=seed),
    )
    if settings.small:
        of_kernels = kernels.KernelBenchSettings((1, 5), 320, 1, 2, 16, 70, 1 << 16, seed)
        of_attention = attention.AttentionBenchSettings((30, 300), (1, 5), 4, 2, 16, 1 << 16, seed)
    timings = kernels.measure(of_kernels, settings.device, clock, progress)
    errors = attention_errors(device)
    attentions = attention.measure(of_attention, device, timings[0].copy, clock, progress)
    progress("texts", 1, 4)
    texts = {name: equal_texts(settings, name) for name in settings.engines}
    steps: list[StepTiming] = []
    rates: list[TextRate] = []
    for number, name in enumerate(settings.shapes, 2):
        progress(f"steps and tokens of {name}", min(number, 3), 4)
        for step_or_rate in measure_model(settings, name, timings[0].copy):
            (steps if isinstance(step_or_rate, StepTiming) else rates).append(step_or_rate)  # type: ignore[arg-type]
    found = {
        "about": {
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
            "torch": torch.__version__,
            "settings": settings,
        },
        "kernels": timings,
        "attention_error": errors,
        "attention": attentions,
        "texts": texts,
        "steps": steps,
        "rates": rates,
        "short": falling_short(timings, steps),
    }
    (out / RESULTS).write_text(json.dumps(found, indent=1, default=asdict) + "\n", encoding="utf-8")
    return sections(found)


def time_on_host(calls: Sequence[Callable[[], object]]) -> tuple[float, float]:
    """A `Timer` of a CPU, where launches and computing are one."""
    times = []
    for number in range(3 * len(calls)):
        began = time.perf_counter()
        calls[number % len(calls)]()
        times.append(time.perf_counter() - began)
    return (max(median(times), 1e-9),) * 2


def attention_errors(device: torch.device) -> dict[str, float]:
    """The largest difference of `tree_attention` on a device from its twin in float32 on the CPU, by dtype."""
    found = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        draw = torch.Generator().manual_seed(0)
        queries = torch.randn((2, 8, 16, 128), generator=draw).to(dtype)
        keys, values = (torch.randn((2, 2, 700, 128), generator=draw).to(dtype) for _ in range(2))
        lengths, depths = torch.tensor([513, 64]), torch.arange(16).expand(2, 16)
        words = ((1 << (depths + 1)) - 1).contiguous()
        trees = lengths, words, depths.contiguous()
        given = [one.to(device) for one in (queries, keys, values, *trees)]
        actual = tree_attention(*given, scale=0.09)
        floats = queries.float(), keys.float(), values.float()
        wanted = tree_attention_torch(*floats, *trees, scale=0.09, window=0)
        found[str(dtype).removeprefix("torch.")] = float((actual.cpu().float() - wanted).abs().max())
    return found


def equal_texts(settings: DeviceBenchSettings, engine: str) -> tuple[int, int]:
    """Completions of a small model on the device that are those of the CPU, of all."""
    vocabulary, _ = load_vocabulary_pair("bundled")
    # Devices draw other weights for a seed: the CPU draws them for both.
    drawn = random_model(shape("1m"), vocabulary, device="cpu", dtype="float32", seed=settings.seed)
    moved = HuggingFaceModel(copy.deepcopy(drawn.model).to(settings.device), vocabulary)
    models = [_with_engine(drawn, "eager"), _with_engine(moved, engine)]
    equal, texts = 0, 4 if settings.small else 8
    for number in range(texts):
        drafts = Speculation(nodes=8, adapts=False) if number % 2 else None
        expected, found = (
            Generator(model, regex("[ab]{3,9}(true|name)"), sampler=Local(weights=False), speculation=drafts)(
                [5 + number, 6, 7], seed=number, temperature=1.0 if number % 4 else 0.0, max_tokens=24
            ).tokens
            for model in models
        )
        equal += found == expected
    return equal, texts


def measure_model(settings: DeviceBenchSettings, name: str, copy: float) -> Iterator[StepTiming | TextRate]:
    """Passes and completions of a model of random weights."""
    sizes = shape(name)
    vocabulary, _ = load_vocabulary_pair(settings.vocabulary or sizes.vocabulary)
    model = random_model(sizes, vocabulary, device=settings.device, seed=settings.seed)
    prompt = [1 + i % (vocabulary.size - 2) for i in range(settings.context)]
    yield from _transformers(settings, name, model, prompt)
    width = model.model.dtype.itemsize
    for engine in settings.engines:
        using = _with_engine(model, engine)
        label = engine if using.no_engine is None else f"eager ({engine}: {using.no_engine})"
        for nodes in settings.nodes:
            cost = step_cost(sizes, vocabulary.size, nodes=nodes, context=settings.context, width=width)
            seconds = time_steps(using, prompt, nodes, 2 if settings.small else 20)
            yield StepTiming(name, label, nodes, seconds, cost.bytes_moved / copy)
        for drafts in (None, Speculation()):
            make = Generator(using, regex(CONSTRAINT), sampler=Local(weights=False), speculation=drafts)
            best, passes = 0.0, 0.0
            for seed in range(2):
                began = time.perf_counter()
                out = make(prompt, seed=seed, temperature=1.0, max_tokens=settings.tokens)
                best = max(best, len(out.tokens) / (time.perf_counter() - began))
                passes = len(out.tokens) / max(1, out.stats.forwards)
            yield TextRate(name, f"{label}{', drafts' if drafts else ''}", best, passes)


def time_steps(model: HuggingFaceModel, prompt: Sequence[int], nodes: int, repeats: int) -> float:
    """Median seconds of a pass over a chain of nodes, of which one token is kept."""
    cache = model.cache(1)
    model.forward_logits([list(prompt)], None, cache)
    times = []
    for _ in range(repeats + 2):  # the first ones compile and capture
        began = time.perf_counter()
        logits = model.forward_logits([[7] * nodes], ([list(range(-1, nodes - 1))], [0]), cache)
        logits.top_tokens(0, 1)
        times.append(time.perf_counter() - began)
        cache.keep_paths([0], [[0]])
    return median(times[2:])


def _transformers(
    settings: DeviceBenchSettings, name: str, model: HuggingFaceModel, prompt: Sequence[int]
) -> Iterator[TextRate]:
    """Completions of transformers, without a constraint."""
    ids = torch.tensor([list(prompt)], device=model.device)
    for way, options in (("generate", {}), ("generate, static cache", {"cache_implementation": "static"})):
        try:
            best = 0.0
            for _ in range(2):
                began = time.perf_counter()
                model.model.generate(
                    input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False,
                    min_new_tokens=settings.tokens, max_new_tokens=settings.tokens, **options,
                )  # fmt: skip
                best = max(best, settings.tokens / (time.perf_counter() - began))
            yield TextRate(name, f"transformers, {way}", best)
        except Exception as failure:  # whatever the installed version cannot do
            yield TextRate(
                name, f"transformers, {way}", None, failure=f"{type(failure).__name__}: {failure}"[:120]
            )


def _with_engine(model: HuggingFaceModel, engine: str) -> HuggingFaceModel:
    return HuggingFaceModel(model.model, model.vocabulary, engine=engine)


def sections(found: dict[str, Any]) -> list[ReportTable]:
    """The tables; the last one lists what fell short."""
    tables = [
        kernels.section(found["kernels"], found["about"]["device"]),
        attention.section(found["attention"]),
    ]
    tables.append(
        ReportTable(
            "equality with the CPU",
            ["result"],
            [
                *((f"tree_attention, {dtype}: largest difference", [f"{error:.1e}"]) for dtype, error in found["attention_error"].items()),
                *((f"texts, {engine}", [f"{equal} of {count}"]) for engine, (equal, count) in found["texts"].items()),
            ],
        )
    )  # fmt: skip
    tables.append(
        ReportTable(
            "steps",
            ["ms", "least ms", "times"],
            [
                (f"{one.model}, {one.engine}, {one.nodes} nodes", [f"{1e3 * one.seconds:.2f}", f"{1e3 * one.least:.2f}", f"{one.times:.1f}"])
                for one in found["steps"]
            ],
        )
    )  # fmt: skip
    tables.append(
        ReportTable(
            "tokens per second",
            ["tokens/s", "tokens a pass"],
            [
                (
                    f"{one.model}, {one.way}" + (f": {one.failure}" if one.failure else ""),
                    [
                        NO_VALUE if one.tokens_per_second is None else f"{one.tokens_per_second:.1f}",
                        NO_VALUE if one.tokens_per_pass is None else f"{one.tokens_per_pass:.2f}",
                    ],
                )
                for one in found["rates"]
            ],
        )
    )
    short = found["short"] or ["nothing"]
    tables.append(
        ReportTable(f"more than {FAR:.0f} times what its bytes need", [], [(one, []) for one in short])
    )
    return tables
