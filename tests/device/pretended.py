"""A pretended CUDA device: tensors that say ``cuda:0`` or ``cuda:1`` and compute on the host.

`PretendedDevice` is a dispatch mode that records what a device would be asked to do: every launch, every copy with its
size and direction, and every wait of the host with the line of this library that caused it. Tensors of different devices
cannot meet, as on a real machine. A copy to the host that does not wait delivers its contents when something waits for
it, and a copy from pinned memory is checked: that memory must not change before the copy is done.

What counts as a launch is an operation of torch that makes or changes a device tensor; a fused kernel of CUDA (attention, a
linear layer) counts as one. There is no clock: what a launch costs cannot be learned here.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

ROOT = Path(__file__).parents[2]
LIBRARY = str(ROOT / "constrained") + os.sep

ATEN = torch.ops.aten
FUSED = {"linear", "matmul", "scaled_dot_product_attention", "rms_norm", "layer_norm", "repeat_interleave"}
"""Composite operations that CUDA runs as one kernel: not taken apart."""
READS_SIZE = {"nonzero", "masked_select", "unique_dim", "_unique2", "unique_consecutive", "equal"}
"""Operations whose result has a size or value that the host waits for."""


@dataclass(frozen=True)
class Copy:
    """A copy between host and device."""

    up: bool
    bytes: int
    pinned: bool
    line: str


@dataclass(frozen=True)
class Wait:
    """The host waits for the device.

    Attributes:
        why: the operation.
        queued: launches that were not known to be done.
        line: of the library.
        download: what it waits for are the contents of a copy to the host.
    """

    why: str
    queued: int
    line: str
    download: bool


@dataclass
class Record:
    """What a device was asked to do."""

    launches: Counter[str] = field(default_factory=Counter)
    copies: list[Copy] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)

    @property
    def uploads(self) -> list[Copy]:
        return [one for one in self.copies if one.up]

    @property
    def downloads(self) -> list[Copy]:
        return [one for one in self.copies if not one.up]

    @property
    def hidden(self) -> list[Wait]:
        """Waits with work queued that deliver no contents that were asked for as a copy."""
        return [one for one in self.waits if one.queued and not one.download]


class DeviceTensor(torch.Tensor):
    """A tensor of the pretended device; `host` has its contents."""

    host: torch.Tensor

    @staticmethod
    def __new__(cls, host: torch.Tensor, device: torch.device) -> DeviceTensor:
        with torch.inference_mode(False):  # views of a tensor made outside of that mode are not of that mode
            made = torch.Tensor._make_wrapper_subclass(
                cls,
                host.shape,
                strides=host.stride(),
                storage_offset=host.storage_offset(),
                dtype=host.dtype,
                device=device,
            )
        made.host = host
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} of a pretended device, outside of `with PretendedDevice()`")

    def tolist(self) -> Any:
        """As torch does it: a copy to the host."""
        return self.cpu().tolist()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"DeviceTensor({self.host}, device={self.device})"


class PretendedDevice(TorchDispatchMode):
    """While it is entered, tensors can be made on ``cuda:0`` and ``cuda:1``.

    Attributes:
        record: what was asked of the devices so far.
        done: launches of the pretended devices that the host knows to be done.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and skipping it imports the compiler

    def __init__(self) -> None:
        install_guard()
        super().__init__()
        self.record = Record()
        self.issued = self.done = 0
        self._pinned: set[int] = set()
        self._kept: list[torch.Tensor] = []  # pinned memory: its addresses must not be used again
        self._late: list[
            tuple[int, torch.Tensor, torch.Tensor]
        ] = []  # launches before, host memory, contents
        self._read: list[
            tuple[int, torch.Tensor, torch.Tensor]
        ] = []  # launches before, pinned memory, contents

    # ------------------------------------------------------------ what tests call

    def place(self, host: torch.Tensor, device: str = "cuda:0") -> DeviceTensor:
        """A tensor on the device, without a copy that counts."""
        return DeviceTensor(host.detach(), torch.device(device))

    def move(self, model: torch.nn.Module, device: str = "cuda:0") -> torch.nn.Module:
        """Puts a module's weights on a device, in place, without copies that count."""
        made: dict[int, DeviceTensor] = {}
        for module in model.modules():
            for table in (module._parameters, module._buffers):
                for name, tensor in table.items():
                    if tensor is not None:
                        host = tensor.host if isinstance(tensor, DeviceTensor) else tensor
                        made.setdefault(id(tensor), self.place(host, device))
                        table[name] = made[id(tensor)]  # type: ignore[assignment]
        return model

    @contextmanager
    def counted(self) -> Iterator[Record]:
        """What is asked of the devices inside the block."""
        before, self.record = self.record, Record()
        try:
            yield self.record
        finally:
            self.record = before

    def kernel(self, name: str, twin: Callable[..., Any]) -> Callable[..., Any]:
        """A stand-in for the launch of a kernel: its twin on the host, as one launch."""

        def launch(*args: Any, **kwargs: Any) -> Any:
            given = [one for one in _tensors((args, kwargs)) if isinstance(one, DeviceTensor)]
            if not given:
                return twin(*args, **kwargs)
            device = self._device(name, given)
            with _disable_current_modes():
                made = twin(*_map(_host, args), **_map(_host, kwargs))
            self._launch(name)
            hosts = {id(one.host): one for one in given}
            return _map(lambda one: hosts[id(one)] if id(one) in hosts else DeviceTensor(one, device), made)

        return launch

    def wait(self, why: str, upto: int | None = None, *, download: bool = False) -> None:
        """The host waits for the launches up to a number, or for all of them."""
        upto = self.issued if upto is None else upto
        self.record.waits.append(Wait(why, max(0, upto - self.done), _line(), download))
        self.done = max(self.done, upto)
        for _launches, host, contents in [one for one in self._late if one[0] <= upto]:
            host.copy_(contents)
        self._late = [one for one in self._late if one[0] > upto]
        for _launches, host, contents in [one for one in self._read if one[0] <= upto]:
            if not torch.equal(host, contents):
                raise RuntimeError("pinned memory was changed before the copy from it was done")
        self._read = [one for one in self._read if one[0] > upto]

    # ------------------------------------------------------------ dispatch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name, changed, composite = _traits(func)
        given = _tensors((args, kwargs))
        here = [one for one in given if isinstance(one, DeviceTensor)]
        wanted = kwargs.get("device")
        wanted = None if wanted is None else torch.device(wanted)
        if wanted is not None and wanted.type == "cuda" and wanted.index is None:
            wanted = torch.device("cuda", 0)
        if name in ("pin_memory", "_pin_memory"):
            return self._pin(args[0].clone())
        if name == "is_pinned":
            return self._is_pinned(args[0])
        if kwargs.get("pin_memory"):
            return self._pin(func(*args, **{**kwargs, "pin_memory": False}))
        if not here and (wanted is None or wanted.type != "cuda"):
            return func(*args, **kwargs)
        if composite:
            with self:
                return func.decompose(*args, **kwargs)
        if name == "_to_copy" and wanted is not None and wanted != args[0].device:
            return self._copy_to(args[0], wanted, kwargs)
        if name == "copy_" and args[0].device != args[1].device:
            return self._copy_into(
                args[0], args[1], bool(args[2] if len(args) > 2 else kwargs.get("non_blocking"))
            )
        if name == "_local_scalar_dense":
            self.wait("item")
            return func(args[0].host)
        device = wanted if wanted is not None else self._device(name, given)
        if name in READS_SIZE or (name == "repeat_interleave" and "Tensor" in func._overloadname):
            self.wait(name)
        if name in ("index", "index_put", "index_put_") and any(
            one is not None and one.dtype in (torch.bool, torch.uint8) for one in args[1]
        ):
            self.wait(f"{name} by bool")
        if name in ("index", "index_put", "index_put_"):
            for one in args[1]:
                if one is not None and not isinstance(one, DeviceTensor):
                    self._count_copy(one, True)
        if wanted is not None:
            kwargs["device"] = torch.device("cpu")
        made = func(*_map(_host, args), **_map(_host, kwargs))
        return self._wrap(name, changed, made, here, device)

    def _wrap(
        self, name: str, changed: bool, made: Any, here: list[DeviceTensor], device: torch.device
    ) -> Any:
        hosts = {id(one.host): one for one in here}
        if not name.startswith(("empty", "new_empty", "detach", "alias")):
            storages = {one.host.untyped_storage()._cdata for one in here}
            results = [made] if isinstance(made, torch.Tensor) else _tensors(made)
            if changed or not results or any(one.untyped_storage()._cdata not in storages for one in results):
                self._launch(name)

        def wrapped(one: torch.Tensor) -> torch.Tensor:
            known = hosts.get(id(one))
            return DeviceTensor(one, device) if known is None else known

        return _map(wrapped, made)

    def _device(self, name: str, given: list[torch.Tensor]) -> torch.device:
        """The device of arguments; numbers of the host may be among them, and indices."""
        devices = {one.device for one in given if isinstance(one, DeviceTensor)}
        strays = [one for one in given if not isinstance(one, DeviceTensor) and one.dim()]
        if name in ("index", "index_put", "index_put_"):
            strays = []
        if len(devices) > 1 or strays:
            names = sorted(
                {str(one.device) for one in [*given, *strays] if one.dim()} | set(map(str, devices))
            )
            raise RuntimeError(
                f"Expected all tensors to be on the same device, found {names} in {name} ({_line()})"
            )
        return devices.pop()

    def _launch(self, name: str) -> None:
        self.record.launches[name] += 1
        self.issued += 1

    # ------------------------------------------------------------ copies

    def _pin(self, host: torch.Tensor) -> torch.Tensor:
        self._pinned.add(host.untyped_storage().data_ptr())
        self._kept.append(host)
        return host

    def _is_pinned(self, tensor: torch.Tensor) -> bool:
        return not isinstance(tensor, DeviceTensor) and tensor.untyped_storage().data_ptr() in self._pinned

    def _count_copy(self, host: torch.Tensor, up: bool, *, free: bool = False) -> None:
        """Counts a copy; one that the host may go on beside (`free`) must be from or to pinned memory."""
        pinned = self._is_pinned(host)
        self.record.copies.append(Copy(up, host.nbytes, pinned, _line()))
        if up and pinned and free:
            self._read.append((self.issued + 1, host, host.clone()))
        if not up:
            self.issued += 1
        if not (pinned and free):
            self.wait("copy up" if up else "copy down", download=not up)
        if up:
            self.issued += 1

    def _copy_to(self, source: torch.Tensor, device: torch.device, kwargs: dict[str, Any]) -> torch.Tensor:
        free = bool(kwargs.get("non_blocking"))
        dtype = kwargs.get("dtype") or source.dtype
        contents = _host(source)
        if not isinstance(source, DeviceTensor):
            self._count_copy(source, True, free=free)
            return DeviceTensor(contents.to(dtype, copy=True), device)
        if dtype != source.dtype:  # converted on the device, then copied
            self._launch("_to_copy")
        made = contents.to(dtype, copy=True, memory_format=torch.contiguous_format)
        if device.type == "cuda":
            self._launch("copy between devices")
            return DeviceTensor(made, device)
        self._count_copy(made, False)  # into pageable memory: it waits whatever was asked for
        return made

    def _copy_into(self, target: torch.Tensor, source: torch.Tensor, free: bool) -> torch.Tensor:
        if isinstance(target, DeviceTensor) and isinstance(source, DeviceTensor):
            self._launch("copy between devices")
        elif isinstance(target, DeviceTensor):
            self._count_copy(source, True, free=free)
        else:
            contents = _host(source).to(target.dtype, copy=True).expand(target.shape).clone()
            late = free and self._is_pinned(target)
            if late:
                target.view(torch.uint8).fill_(0x7F) if target.dim() else None
                self._late.append((self.issued + 1, target, contents))
            self._count_copy(target, False, free=free)
            if late:
                return target
        _host(target).copy_(_host(source))
        return target


class PretendedEvent:
    """`torch.cuda.Event` of the entered device; its milliseconds are thousands of launches."""

    device: PretendedDevice

    def __init__(self, enable_timing: bool = False, **kwargs: Any) -> None:
        self.launches: int | None = None

    def record(self, stream: Any = None) -> None:
        self.launches = self.device.issued

    def query(self) -> bool:
        return self.launches is None or self.launches <= self.device.done

    def synchronize(self) -> None:
        if self.launches is not None:
            self.device.wait("event", self.launches, download=True)

    def elapsed_time(self, end: PretendedEvent) -> float:
        if self.launches is None or end.launches is None or not end.query():
            raise RuntimeError("not recorded, or not done yet")
        return (end.launches - self.launches) / 1000


@contextmanager
def pretended_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendedDevice]:
    """A device for the block, whose kernels are stand-ins for those of Triton."""
    from constrained.spec.kernels import attention, caches, checks, masking, rows

    device = PretendedDevice()
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch.cuda, "Event", type("Event", (PretendedEvent,), {"device": device}))
    monkeypatch.setattr(checks, "uses_triton", lambda tensor: False)
    for module, name in (
        (rows, "split_stats_torch"),
        (rows, "merge_splits_torch"),
        (masking, "apply_masks_torch"),
        (caches, "compact_kv_torch"),
        (caches, "copy_kv_torch"),
        (attention, "tree_attention_torch"),
    ):
        stand_in = device.kernel(name.removesuffix("_torch"), getattr(module, name))
        monkeypatch.setattr(module, name, stand_in)
    # torch.tensor(numbers, device=...) makes them on the host and copies them, where the mode sees it
    lifts = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with device:
            yield device
    finally:
        torch._C._set_only_lift_cpu_tensors(lifts)


@cache
def install_guard() -> None:
    """Compiles and loads the guard, once for each version of torch; skips the test where that cannot be.

    The guard takes the place of torch's own, which a real device needs.
    """
    if torch.cuda.is_available():
        pytest.skip("there is a real device: the pretended one would take its place")
    compiler = next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("the pretended device needs a C++ compiler")
    source = Path(__file__).with_name("guard.cpp")
    home = Path(torch.__file__).parent
    key = hashlib.sha256(f"{torch.__version__} {home} {source.read_text()}".encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"constrained-pretended-device-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    built = folder / f"{key}.so"
    if not built.exists():
        fresh = folder / f"{key}.{os.getpid()}.so"
        subprocess.run(
            [compiler, "-std=c++20", "-O0", "-shared", "-fPIC", str(source), "-o", str(fresh),
             f"-I{home / 'include'}", f"-L{home / 'lib'}", "-lc10"],
            check=True, capture_output=True,
        )  # fmt: skip
        fresh.replace(built)
    ctypes.CDLL(str(built))


@cache
def _traits(func: Any) -> tuple[str, bool, bool]:
    """The name of an operation, whether it changes an argument, and whether it is made of others and to be taken apart."""
    name = func._schema.name.removeprefix("aten::")
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    composite = func._can_decompose() and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
    return name, bool(func._schema.is_mutable), bool(composite) and name not in FUSED


def _host(one: Any) -> Any:
    return one.host if isinstance(one, DeviceTensor) else one


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a value."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, one.name) for one in fields(value)]
    elif not isinstance(value, (tuple, list)):
        return []
    return [found for one in value for found in _tensors(one)]


def _map(change: Callable[[Any], Any], value: Any) -> Any:
    """A value with its tensors changed, in tuples, lists, dictionaries and dataclasses."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        made = [_map(change, one) for one in value]
        return made if type(value) is list else tuple(made)
    if isinstance(value, dict):
        return {key: _map(change, one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{one.name: _map(change, getattr(value, one.name)) for one in fields(value)})
    return value


def _line() -> str:
    """The innermost line of the library that is running."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(LIBRARY):
            return f"{os.path.relpath(name, ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return "outside of the library"
