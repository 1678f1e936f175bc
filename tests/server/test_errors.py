"""Every error of the library has its form in HTTP: a status, a code, and all of its message."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from constrained import errors
from constrained.errors import ConstrainedError, Problem
from constrained.server.errors import to_api_error

KINDS = [getattr(errors, name) for name in errors.__all__ if name not in ("ConstrainedError", "Problem")]


def below(kind: type[ConstrainedError]) -> Iterator[type[ConstrainedError]]:
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_keeps_place_reason_and_next_step(kind: type[ConstrainedError]) -> None:
    problem = Problem("#/a", "is too blue", keyword="pattern")
    more = dict.fromkeys(kind.extra_fields)
    found = to_api_error(kind("it cannot be used", problem, action="paint it", **more), "response_format")
    assert found.code != "internal_error"
    assert 400 <= found.status < 600
    assert all(part in found.message for part in ("it cannot be used", "#/a", "is too blue", "paint it"))
    assert found.problems == [{"place": "#/a", "keyword": "pattern", "reason": "is too blue"}]


def test_no_error_of_the_library_is_left_out() -> None:
    """Of all modules that are loaded."""
    assert set(below(ConstrainedError)) >= set(KINDS)
    for kind in below(ConstrainedError):
        ConstrainedError.__init__(error := kind.__new__(kind), "it cannot be used")
        assert to_api_error(error).code != "internal_error", kind


def test_what_nobody_expected_shows_its_class_alone() -> None:
    found = to_api_error(KeyError("a secret"))
    assert (found.status, found.code) == (500, "internal_error")
    assert "secret" not in found.message
