"""The arguments of a tool call in the markup of a model family; the value is the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from constrained.constraint.json import _JsonConstraint

if TYPE_CHECKING:
    from constrained.constraint.base import Constraint
    from constrained.errors import Problem
    from constrained.grammars.json_schema.options import PropertyOrder


@dataclass(frozen=True, eq=False, repr=False)
class ParametersConstraint(_JsonConstraint):
    """Parameters of a schema, written as its option ``style`` says."""

    is_json = False

    def parse(self, text: str) -> Any:
        """The text itself."""
        return text

    def problems(self, text: str) -> list[Problem]:
        """None are named: the text is not JSON."""
        return []

    def optional_members(self, names: Sequence[str] | None = None) -> Constraint:
        """This constraint: it is not JSON."""
        return self


def parameters(
    arguments: Constraint, style: str | Mapping[str, Any], *, ordered: bool = True
) -> ParametersConstraint:
    """The arguments of a JSON constraint in markup, with the white space of the markup only.

    Args:
        arguments: made by `json_schema`.
        style: as `constrained.grammars.json_schema.parameter_style` takes it.
        ordered: in the order of the schema; otherwise in any order.
    """
    assert isinstance(arguments, _JsonConstraint)
    order: PropertyOrder = arguments.options.property_order if ordered else "any"
    options = replace(arguments.options, whitespace="none", style=style, property_order=order)
    return ParametersConstraint(arguments._text, options, None)
