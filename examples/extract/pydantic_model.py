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
    room: Room
    breakfast: bool = False


TEXT = "Tomáš Silva stays at the hotel Blue Harbour, in a double room, for 3 nights. Breakfast is included."

booking = constrained.extract(constrained.load(), TEXT, Booking)
print(repr(booking))
assert isinstance(booking, Booking)
