"""Options that are declared once: a field of a frozen dataclass says default, help and range.

Docstrings, the checks of ranges and the options of the command line are made of these fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from constrained.errors import InvalidArgument

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a field says beside its default.

    Attributes:
        help: what the option does, in a sentence.
        least: smallest value.
        most: greatest value.
        above: values are greater.
        flag: its name on the command line; "": that of the field; None: it is not there.
        metavar: what stands for the value in the help of the command line.
        none: what the command line takes for None.
        variable: of the environment, which the command line reads where the option is not given.
        panel: its section in the help of the command line; None: that of its dataclass.
        unit: how many times the value of the command line the field is, such as 2**20 for MiB.
        between: what stands between the values of a tuple on the command line; None: the option is given once for each.
    """

    help: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    flag: str | None = ""
    metavar: str | None = None
    none: Any = None
    variable: str | None = None
    panel: str | None = None
    unit: int | None = None
    between: str | None = None

    @property
    def range(self) -> str:
        """The values of a number."""
        if self.above is not None:
            return f"more than {self.above:,}"
        return f"at least {self.least:,}" if self.most is None else f"{self.least:,} to {self.most:,}"

    def allows(self, value: float) -> bool:
        """Whether a number is in the range."""
        return not (
            (self.least is not None and value < self.least)
            or (self.most is not None and value > self.most)
            or (self.above is not None and not value > self.above)
        )


def option(default: Any, help: str, **more: Any) -> Any:
    """A field of a dataclass with its `Option`; the further arguments are those of `Option`."""
    return field(default=default, metadata={"option": Option(help=help, **more)})


def options_of(settings: Any) -> Iterator[tuple[Field[Any], Option]]:
    """The fields of a dataclass, or of an instance of one, that are options."""
    return ((one, one.metadata["option"]) for one in fields(settings) if "option" in one.metadata)


def check_ranges(settings: Any) -> None:
    """Checks all numbers of an instance.

    Raises:
        InvalidArgument: one of them is out of its range.
    """
    for one, about in options_of(settings):
        value = getattr(settings, one.name)
        optional = "None" in str(one.type)
        values = value if isinstance(value, tuple) else (value,)
        if not (value is None and optional) and not all(map(about.allows, values)):
            action = f"give {about.range}{', or None' if optional else ''}"
            raise InvalidArgument(f"{one.name} is {value}", action=action)


def documented(settings: type[T]) -> type[T]:
    """Adds the help of the fields of a dataclass to its docstring."""
    lines = (f"        {one.name}: {about.help}" for one, about in options_of(settings))
    settings.__doc__ = "\n".join((settings.__doc__ or "", "    Attributes:", *lines))
    return settings
