"""Compiles every kernel for GPUs that need not be there, and prints what each came to, as rows of `compiled.md`.

    python -m tests.kernels.compile_kernels [TARGET ...]
    python -m tests.kernels.compile_kernels --write

Arguments are specialised as at a real launch: pointers, strides and sizes are multiples of 16.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "0"

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from constrained.spec.kernels.gpu import attention, caches, masking, rows

TARGETS = {
    **{f"cuda {capability}": GPUTarget("cuda", capability, 32) for capability in (80, 90, 100, 120)},
    **{f"hip {name}": GPUTarget("hip", name, 64) for name in ("gfx942", "gfx950")},
}
POINTERS = {
    **dict.fromkeys(("queries", "key_store", "value_store", "result"), "*bf16"), "parts": "*fp32", "scale": "fp32",
    **dict.fromkeys(("lengths", "ancestors", "depths"), "*i64"), "keys": "*i64", "best": "*i64", "addresses": "*i64", "other_addresses": "*i64", "like": "*i16", "logits": "*bf16",
    **dict.fromkeys(("temperature", "masses", "keys_out", "log_p_out", "lse_out", "log_z_out"), "*fp32"),
    **dict.fromkeys(("table", "places", "source", "start", "ids_out"), "*i32"),
}  # fmt: skip
ALIGNED = (
    "row_stride", "size", "table_stride", "words", "request_stride", "head_stride", "length_stride",
    "other_request", "other_head", "other_length",
    *(f"{what}_{stride}" for what in ("key", "value") for stride in ("slot", "head", "column")),
    "query_slot", "query_head", "query_node",
)  # fmt: skip
"""Numbers that are multiples of 16 in vocabularies and caches of usual sizes."""
STATS = {"M": 16, "GROUP": rows.GROUP, "SPLIT": rows.SPLIT}


def trees(size: int, rows: int, *, window: bool = False) -> dict[str, Any]:
    return {
        "WINDOW": window, "ROWS": rows, "SIZE": size, "SPLIT": attention.SPLIT, "BLOCK": attention.BLOCK, "PRECISION": "ieee",
        "size": size, "nodes": 32, "shared": 4,
    }  # fmt: skip


KERNELS: list[tuple[str, Any, dict[str, Any], int]] = [
    ("split_stats", rows._split_stats, STATS | {"MASKED": False}, 8),
    ("split_stats, masked", rows._split_stats, STATS | {"MASKED": True}, 8),
    ("merge", rows._merge, {"M": 16, "SPLITS": 16}, 4),
    ("compact_kv", caches._compact_kv, {"ROWS": 32, "COLUMNS": 64}, 4),
    ("copy_kv", caches._copy_kv, {"ROWS": caches._COPIED, "COLUMNS": 128}, 4),
    ("apply_masks", masking._apply_masks, {"BLOCK": masking.BLOCK}, 4),
    ("tree_attention, 64", attention._tree_attention, trees(64, 32), 4),
    ("tree_attention, 128", attention._tree_attention, trees(128, 32), 4),
    ("tree_attention, 128, window", attention._tree_attention, trees(128, 32, window=True), 4),
    ("tree_attention, 256", attention._tree_attention, trees(256, 16), 4),
    ("merge_attention", attention._merge_attention, {"SPLITS": 32, "SIZE": 128}, 4),
]
TABLE = Path(__file__).with_name("compiled.md")
HEAD = """# What the kernels come to on each target

Compiled ahead of time, without a GPU, by Triton {version}: registers of a thread (vector registers on AMD), bytes of stack,
registers that are spilled, bytes of shared memory of a program.

| target | kernel | registers | stack | spills | shared |
|---|---|---:|---:|---:|---:|
"""


def compiled(target: GPUTarget, kernel: Any, constants: dict[str, Any], warps: int) -> list[int]:
    """Registers, stack, spills and shared memory of a kernel."""
    names = inspect.signature(kernel.fn).parameters
    constants = dict(constants)
    if "FAST" in names:
        constants["FAST"] = target.backend == "cuda"
    if "PRECISION" in names and target.backend == "hip":
        constants["ROWS"] = attention.AMD_ROWS
    signature = {name: "constexpr" if name in constants else POINTERS.get(name, "i32") for name in names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if name not in constants and name != "scale" and (name in POINTERS or name in ALIGNED)
    }
    made = triton.compile(
        ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned),
        target=target,
        options={"num_warps": warps, **rows.FUSED},
    )
    if target.backend == "hip":
        text = made.asm["amdgcn"]

        def field(name: str) -> int:
            found = re.search(rf"\.{name}:\s+(\d+)", text)
            assert found is not None, name
            return int(found[1])

        spills = field("vgpr_spill_count") + field("sgpr_spill_count")
        return [field("vgpr_count"), field("private_segment_fixed_size"), spills, made.metadata.shared]
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        output = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    used = re.search(r"REG:(\d+) STACK:(\d+)", output.stdout)
    assert used is not None
    # Registers are spilled to the stack, so there are none where there is no stack.
    return [int(used[1]), int(used[2]), int(used[2]), made.metadata.shared]


def lines(target: str) -> list[str]:
    """The rows of a target."""
    return [
        f"| {target} | {name} | {' | '.join(map(str, compiled(TARGETS[target], *rest)))} |"
        for name, *rest in KERNELS
    ]


def main(arguments: list[str]) -> None:
    write = arguments == ["--write"]
    made = []
    for target in TARGETS if write else arguments or TARGETS:
        for line in lines(target):
            print(line, flush=True)
            made.append(line)
    if write:
        TABLE.write_text(HEAD.format(version=triton.__version__) + "\n".join(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
