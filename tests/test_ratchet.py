"""The product does not grow unnoticed: lines by room, numeric constants, virtual functions, questions that constraints are asked by name."""

from __future__ import annotations

from tests.tools.ratchet import counts, grown, recorded

MORE = "write it smaller, or record it with `python -m tests.tools.ratchet --write` and say why in the commit"


def test_nothing_has_grown() -> None:
    found = grown(counts(), recorded())
    assert not found, f"{found}: {MORE}"


def test_what_was_won_is_recorded() -> None:
    """Otherwise the next change could take it back unnoticed."""
    before, now = recorded()["lines"]["all"], counts()["lines"]["all"]
    assert before - now < 500, (
        f"{before - now} lines fewer than recorded: run `python -m tests.tools.ratchet --write`"
    )


def test_more_is_found() -> None:
    before = {"lines": {"a": 3, "all": 3}, "counts": {"numeric constants": 1}}
    assert grown(before, before) == []
    now = {"lines": {"a": 2, "b": 1, "all": 3}, "counts": {"numeric constants": 2}}
    assert len(grown(now, before)) == 2, "a room of its own, and a constant"
