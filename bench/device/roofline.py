"""What a decoding step must move and compute, from the sizes of a model, and how fast that lets a device be.

A step reads every weight once (of the input embeddings a row for each token), reads the keys and values of the text, writes
those of its tokens, and multiplies each weight with each token. It takes at least the time of its bytes, and at least that of
its products. Nothing here is measured.

    python -m constrained.bench.device.roofline

prints the tables of `docs/roofline.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from constrained.bench.harness.tables import ReportTable
from constrained.bench.speed.shapes import SHAPES, ModelShape
from constrained.cli.intervals import NO_VALUE

LLAMA_VOCABULARY = 128_256


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """What the maker of a device states.

    Attributes:
        bytes_per_second: of its memory.
        operations_per_second: in bfloat16 with sums in float32, without sparsity; a product and a sum are two.
        memory: bytes.
    """

    bytes_per_second: float
    operations_per_second: float
    memory: float


DEVICES = {
    "H100 SXM": DeviceRates(3.35e12, 989e12, 80e9),
    "2 x H100 SXM, without what they tell each other": DeviceRates(6.7e12, 1978e12, 160e9),
    "RTX 4090": DeviceRates(1.008e12, 165e12, 24e9),
}
"""NVIDIA's data sheets."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step moves and computes.

    Attributes:
        weights: bytes of all weights that it reads.
        cache: bytes of keys and values that it reads and writes.
        operations: products and sums.
    """

    weights: int
    cache: int
    operations: int

    @property
    def bytes_moved(self) -> int:
        """Weights and cache."""
        return self.weights + self.cache

    def seconds(self, rates: DeviceRates) -> float:
        """The least time on a device."""
        return max(self.bytes_moved / rates.bytes_per_second, self.operations / rates.operations_per_second)


def step_cost(
    sizes: ModelShape, vocabulary: int, *, nodes: int, context: int, rows: int = 1, width: int = 2
) -> StepCost:
    """A step of a Llama-like model.

    Args:
        sizes: of the model.
        vocabulary: tokens.
        nodes: tokens that are read for each row.
        context: tokens of each row before.
        rows: sequences.
        width: bytes of a number.
    """
    head = sizes.hidden // sizes.heads
    layer = sizes.hidden * (2 * sizes.hidden + 2 * sizes.groups * head + 3 * sizes.inner)
    weights = sizes.layers * layer + sizes.hidden * vocabulary
    tokens = rows * nodes
    entries = 2 * sizes.layers * sizes.groups * head
    scores = 2 * sizes.layers * sizes.hidden * tokens * (context + nodes)
    return StepCost(
        weights=width * weights,
        cache=width * entries * rows * (context + 2 * nodes),
        operations=2 * (weights * tokens + scores),
    )


def tables() -> Iterator[ReportTable]:
    """A table for each device: milliseconds of a step, and tokens per second."""
    columns = ("GB a step", "1 node, ms", "64 nodes, ms", "tokens/s, 1 a step", "tokens/s, 4.7 a step")
    for device, rates in DEVICES.items():
        lines = []
        for name in ("1b", "8b", "70b"):
            for context in (2048, 8192):
                one, many = (
                    step_cost(SHAPES[name], LLAMA_VOCABULARY, nodes=nodes, context=context)
                    for nodes in (1, 64)
                )
                cells = [f"{one.bytes_moved / 1e9:.2f}"]
                if one.bytes_moved > rates.memory:
                    cells += ["does not fit", *[NO_VALUE] * 3]
                else:
                    cells += [f"{1e3 * cost.seconds(rates):.2f}" for cost in (one, many)]
                    cells += [f"{1 / one.seconds(rates):.0f}", f"{4.7 / many.seconds(rates):.0f}"]
                lines.append((f"{name}, {context} tokens", cells))
        yield ReportTable(f"{device}, computed", columns, lines)


def main() -> None:
    """Prints the tables."""
    for table in tables():
        print("\n".join(table.markdown()))


if __name__ == "__main__":
    main()
