"""Extract an instance of a dataclass from a text: the example of the README."""

from dataclasses import dataclass
from datetime import date

import constrained


@dataclass
class Person:
    name: str
    born: date
    languages: list[str]


model = constrained.load()  # the bundled model; or load("Qwen/Qwen3-0.6B"), or load(model, tokenizer)
print(constrained.extract(model, "Ana Novák, born 1987-03-14, speaks Czech and Spanish.", Person))
