"""Options are fields of a dataclass: their ranges, their documentation and the command line are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from constrained import InvalidArgument
from constrained.cli.options import with_option_groups
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True)
class Limits:
    """Limits of something."""

    most: int = option(4, "Things at once.", least=1)
    size: int = option(8 << 20, "Size of a thing.", least=1, unit=1 << 20, flag="--mib", metavar="MIB")
    digits: int | None = option(24, "Digits of a number.", least=1, most=100, none=0)
    on_end: Literal["close"] | None = option("close", "What happens at the end.", none="off")
    seconds: float = option(1.5, "Time for a thing.", above=0, flag=None)
    names: tuple[str, ...] = option((), "Names of things.", flag="--name -n")
    sizes: tuple[int, ...] = option((1, 4), "Sizes of things.", least=1, between=",")

    def __post_init__(self) -> None:
        check_ranges(self)


def read(*arguments: str) -> tuple[Any, str]:
    """What a command gets, and what it prints."""
    got: list[Any] = []
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command()
    @with_option_groups
    def command(*, limits: Limits) -> None:
        got.append(limits)

    output = CliRunner().invoke(app, arguments).output
    return (got or [None])[0], output


@pytest.mark.parametrize(
    ("wrong", "action"),
    [
        ({"most": 0}, "at least 1"),
        ({"digits": 101}, "1 to 100, or None"),
        ({"seconds": 0}, "more than 0"),
        ({"sizes": (3, 0)}, "at least 1"),
        ({"seconds": float("nan")}, "more than 0"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(wrong: dict[str, Any], action: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{next(iter(wrong))} is .*\n.*give {action}"):
        Limits(**wrong)
    assert Limits(digits=None).digits is None


def test_the_docstring_has_the_help_of_each_field() -> None:
    assert Limits.__doc__ is not None
    assert "\n        most: Things at once.\n" in Limits.__doc__
    assert "seconds: Time for a thing." in Limits.__doc__


def test_the_command_line_has_units_and_words_of_its_own() -> None:
    assert read()[0] == Limits()
    given = read(
        "--mib",
        "0.5",
        "--digits",
        "0",
        "--on-end",
        "off",
        "--name",
        "a",
        "-n",
        "b",
        "--most",
        "7",
        "--sizes",
        "2, 8",
    )
    assert given[0] == Limits(7, 1 << 19, None, None, names=("a", "b"), sizes=(2, 8))


def test_the_command_line_refuses_what_the_fields_refuse() -> None:
    for arguments in (
        ("--most", "0"),
        ("--on-end", "error"),
        ("--seconds", "2"),
        ("--digits", "x"),
        ("--sizes", "1,x"),
    ):
        got, output = read(*arguments)
        assert got is None
        assert arguments[0] in output
