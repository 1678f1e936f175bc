"""Free memory goes back to the system when the process has grown, and not more often."""

from __future__ import annotations

from constrained.decoding.malloc_trim import MallocTrimmer

MIB = 1 << 20


def test_it_trims_whenever_the_process_has_grown() -> None:
    """A heap of which 100 MiB live and the rest is free, and grows by 8 MiB a step: never more than 40 MiB are free."""
    size, trims, peak = 100, 0, 0

    def trim(kept: int) -> None:
        nonlocal size, trims
        assert kept == 0
        size, trims = 100, trims + 1

    trimmer = MallocTrimmer(trim, lambda: size * MIB)
    for _ in range(100):
        size += 8
        trimmer()
        peak = max(peak, size)
    assert peak <= 100 + 32
    assert trims == 20, "once in five steps"


def test_memory_that_is_in_use_is_asked_for_once() -> None:
    sizes = iter([100, *[500] * 2, *[520] * 5, *[300] * 2, *[340] * 5, 330])
    trims = 0

    def trim(_: int) -> None:
        nonlocal trims
        trims += 1

    trimmer = MallocTrimmer(trim, lambda: next(sizes) * MIB)
    for _ in range(13):
        trimmer()
    assert trims == 2, "at 500, and at 340 after it had become smaller"


def test_it_looks_once_in_a_pause() -> None:
    now, looks = 0.0, 0

    def size() -> int:
        nonlocal looks
        looks += 1
        return MIB

    trimmer = MallocTrimmer(lambda _: None, size, pause=0.05, clock=lambda: now)
    looks = 0
    for _ in range(100):
        trimmer()
        now += 0.01
    assert looks == 20


def test_other_systems_do_without() -> None:
    MallocTrimmer(lambda _: 1 / 0, lambda: None)()
