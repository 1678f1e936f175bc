"""What `bench jsonschemabench` measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from constrained.bench.harness.settings import check_distinct, measured, names
from constrained.bench.masks.engines import check_engine
from constrained.errors import InvalidArgument
from constrained.options import check_ranges, documented, option

BUNDLED = "bundled"
"""The name of the bundled model."""
SCHEMA_BENCH_ENGINES = ("constrained", "xgrammar", "llguidance", "outlines", "unconstrained")
VLLM_ENGINES = ("constrained", "xgrammar", "guidance", "outlines", "lm-format-enforcer", "unconstrained")
"""Backends of structured outputs inside vLLM, and vLLM without any."""
IN_VLLM = ("vllm", "vllm-server")
BACKENDS = {
    "local": "constrained.bench.jsonschemabench.local:LocalBackend",
    "ray": "constrained.bench.jsonschemabench.cluster:RayBackend",
    "vllm": "constrained.bench.jsonschemabench.local:VllmBackend",
    "vllm-server": "constrained.bench.jsonschemabench.vllm_server:VllmServerBackend",
}
"""Name -> module and class, which is called with the settings and the folder of the run."""


@documented
@dataclass(frozen=True, slots=True)
class SchemaBenchSettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range, or an engine or backend unknown.
    """

    data: str | None = option(
        None,
        "A checkout of the benchmark, a file of JSON lines, or the name of a data set [default: the data of `bench masks`].",
        metavar="WHERE",
    )
    splits: tuple[str, ...] = names((), "Parts of the data [default: all].")
    sample: int = option(50, "Schemas to sample from each split; 0: all.", least=0)
    seed: int = option(0, "Same seed, same sample.", least=0)
    engines: tuple[str, ...] = names(
        SCHEMA_BENCH_ENGINES, "In this order; MODULE:CLASS for your own; inside vLLM its backends."
    )
    models: tuple[str, ...] = option(
        (BUNDLED,),
        "A name or folder, or MODULE:FUNCTION that makes a model; several times for several [default: bundled].",
        flag="--model -m",
        metavar="NAME",
    )
    device: str | None = option(None, "Device of the model.", metavar="NAME")
    max_tokens: int = option(256, "Token limit.", least=1)
    compile_limit: float = option(40.0, "For compiling a schema.", above=0, metavar="SECONDS")
    time_limit: float = option(40.0, "For a completion.", above=0, metavar="SECONDS")
    memory_limit: float = option(8.0, "For the process of an engine.", above=0, metavar="GIB")
    processes: int = option(
        1,
        "Parallel processes, each with its own model; with vllm-server: requests at a time.",
        least=1,
    )
    threads: int = option(1, "Threads of each process.", least=1)
    backend: str = option(
        "local",
        "Where the processes run: local, or ray; vllm: in vLLM; vllm-server: its HTTP server.",
        metavar="NAME",
    )
    address: str | None = option(
        None,
        "Address of a running Ray cluster [default: starts one on this machine for this run].",
        metavar="WHERE",
    )

    def __post_init__(self) -> None:
        check_distinct(self.engines, "engine")
        check_distinct(self.models, "model")
        for name in self.engines:
            if self.backend not in IN_VLLM:
                check_engine(name)
            elif name not in VLLM_ENGINES:
                raise InvalidArgument(
                    f"vLLM has no backend {name!r}", action=f"use some of: {', '.join(VLLM_ENGINES)}"
                )
        if self.backend not in BACKENDS:
            raise InvalidArgument(
                f"the backend {self.backend!r} is not known", action=f"use one of: {', '.join(BACKENDS)}"
            )
        if self.address is not None and self.backend != "ray":
            raise InvalidArgument("an address is for a Ray cluster", action="pass --backend ray with it")
        check_ranges(self)

    @property
    def gpus(self) -> int:
        """Of a process."""
        return int((self.device or "").startswith("cuda"))

    @property
    def measured(self) -> dict[str, Any]:
        """The settings that rows depend on; the others may change when a run is resumed."""
        others = ("engines", "models", "processes", "sample", "splits", "address")
        return measured(self, *others, *(() if self.backend in IN_VLLM else ("backend",)))
