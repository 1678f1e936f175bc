"""Generated documents of one kind, for runs over many: short notes about a shipment, and the value of each.

python -m tests.support.shipments 5000 docs.jsonl
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Shipment:
    """A parcel on its way."""

    recipient: str
    city: str
    pieces: int
    fragile: bool


_FIRST = (
    "Ana",
    "Tomáš",
    "Ingrid",
    "Omar",
    "Lucía",
    "Pavel",
    "Mei",
    "Amara",
    "Jonas",
    "Élodie",
    "Ravi",
    "Zofia",
)
_LAST = ("Silva", "Novák", "Larsen", "Haddad", "Moreau", "Kowalska", "Okafor", "Schmidt", "Rossi", "Tanaka")
_CITIES = (
    "Porto",
    "Brno",
    "Göteborg",
    "Lyon",
    "Turin",
    "Kraków",
    "Bergen",
    "Utrecht",
    "Graz",
    "Málaga",
    "Gent",
)
_OPENINGS = ("", "Good morning. ", "Note from the depot: ", "For your records. ", "As agreed by phone: ")
_TEXTS = (
    "{opening}The parcel for {name} goes to {city}. It has {n} pieces and {fragile}.",
    "{opening}{name} in {city} gets a delivery of {n} pieces. The delivery {fragile}.",
    "{opening}Recipient: {name}. City: {city}. Pieces: {n}. The load {fragile}.",
    "{opening}We send {n} pieces to {name}, {city}. The shipment {fragile}.",
)


def shipments(count: int, seed: int = 0) -> Iterator[tuple[str, Shipment]]:
    """Draws texts with their values; the texts follow from the seed.

    Args:
        count: how many.
        seed: of the random numbers.
    """
    rng = random.Random(seed)
    for _ in range(count):
        value = Shipment(
            f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
            rng.choice(_CITIES),
            rng.randint(1, 60),
            rng.random() < 0.5,
        )
        yield (
            rng.choice(_TEXTS).format(
                opening=rng.choice(_OPENINGS),
                name=value.recipient,
                city=value.city,
                n=value.pieces,
                fragile="is fragile" if value.fragile else "is not fragile",
            ),
            value,
        )


def write_jsonl(name: str, count: int, seed: int = 0) -> None:
    """Writes documents with the ids ``s0``, ``s1``, ... as JSON Lines."""
    with open(name, "w", encoding="utf-8") as file:
        for number, (text, _) in enumerate(shipments(count, seed)):
            file.write(json.dumps({"id": f"s{number}", "text": text}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_jsonl(sys.argv[2], int(sys.argv[1]))
