"""A model whose replies have given probabilities."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from constrained import Vocabulary
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary


class MixtureModel(ScriptedModel):
    """A law over replies: the probability of each, by its cities."""

    def __init__(
        self, format: Any, replies: dict[tuple[str, ...], float], vocabulary: Vocabulary | None = None
    ) -> None:
        super().__init__(vocabulary or byte_vocabulary(), "")
        self.law = {weather_calls(format, *cities).encode(): weight for cities, weight in replies.items()}

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        text = self.vocabulary.decode(completion)
        mass = np.full(self.vocabulary.size, 1e-30)
        for reply, weight in self.law.items():
            if reply == text:
                mass[list(self.vocabulary.eos_ids)] += weight
            elif reply.startswith(text):
                mass[self.vocabulary.ids_by_bytes[reply[len(text) : len(text) + 1]]] += weight
        return np.log(mass)


def weather_calls(format: Any, *cities: str) -> str:
    return str(format.format_calls(*(("weather", json.dumps({"city": city})) for city in cities)))
