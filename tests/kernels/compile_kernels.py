"""Compiles every kernel for a GPU that need not be there, and prints what each came to. Run by `test_compiles`."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from spec.kernels.gpu import compaction, masking, rows, walk

POINTERS = {
    "keys": "*i64", "best": "*i64", "addresses": "*i64", "like": "*i16", "logits": "*bf16",
    **dict.fromkeys(("temperature", "masses", "keys_out", "log_p_out", "lse_out", "log_z_out"), "*fp32"),
    **dict.fromkeys(("table", "places", "token", "first_child", "next_sibling", "offsets", "source", "start"), "*i32"),
    **dict.fromkeys(("ids_out", "count_out", "tokens_out", "rows_out"), "*i32"),
}  # fmt: skip
STATS = {"M": 16, "GROUP": rows.GROUP, "SPLIT": rows.SPLIT, "FAST": True}
KERNELS: list[tuple[Any, dict[str, Any], int]] = [
    (rows._split_stats, STATS | {"MASKED": False}, 8),
    (rows._split_stats, STATS | {"MASKED": True}, 8),
    (rows._merge, {"M": 16, "SPLITS": 16}, 4),
    (walk._merge_walk, {"M": 16, "SPLITS": 16}, 1),
    (compaction._compact_kv, {"ROWS": 32, "COLUMNS": 64}, 4),
    (masking._apply_rows, {"BLOCK": masking.BLOCK}, 4),
]


def main(capability: int) -> None:
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    for kernel, constants, warps in KERNELS:
        names = inspect.signature(kernel.fn).parameters
        signature = {name: "constexpr" if name in constants else POINTERS.get(name, "i32") for name in names}
        made = triton.compile(
            ASTSource(fn=kernel, signature=signature, constexprs=constants),
            target=GPUTarget("cuda", capability, 32),
            options={"num_warps": warps},
        )
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(made.asm["cubin"])
            file.flush()
            output = subprocess.run(
                [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
            )
        used = re.search(r"REG:(\d+) STACK:(\d+)", output.stdout)
        assert used is not None
        print(
            kernel.fn.__name__, f"registers={used[1]}", f"stack={used[2]}", f"shared={made.metadata.shared}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
