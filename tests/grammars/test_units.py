"""Units of measure: which one a name or a description asks for."""

from __future__ import annotations

import pytest

from constrained.grammars.text.units import wanted_unit


@pytest.mark.parametrize(
    ("name", "description", "dimension"),
    [
        ("duration_minutes", "", "time"),
        ("minutes", "", "time"),
        ("weightKg", "", "mass"),
        ("length_m", "", "length"),
        ("duration", "How long it takes, in hours.", "time"),
        ("distance", "Distance (km)", "length"),
        ("dauer_stunden", "", "time"),
        ("times_per_day", "", None),
        ("salary_min", "", None),
        ("day", "", None),
        ("year", "The year in which it began.", None),
        ("m", "", None),
        ("area_m2", "", None),
    ],
)
def test_a_name_or_a_description_says_in_which_unit_a_number_is(
    name: str, description: str, dimension: str | None
) -> None:
    unit = wanted_unit(name, description)
    assert (None if unit is None else unit.dimension) == dimension
