"""Extract a nested pydantic model from a text; its descriptions are shown to the model, its bounds are enforced."""

from typing import Literal

from pydantic import BaseModel, Field

import constrained


class Room(BaseModel):
    kind: Literal["single", "double", "family"]
    nights: int = Field(ge=1, le=30, description="how many nights")


class Booking(BaseModel):
    """A hotel booking."""

    guest: str
    hotel: str
    breakfast: bool = False
    room: Room


TEXT = """\
The guest is Tomáš Silva. The hotel is Blue Harbour. Breakfast: yes. The room has the kind double and the nights 3.
"""

booking = constrained.extract(constrained.load(), TEXT, Booking)
print(repr(booking))
assert isinstance(booking, Booking)
