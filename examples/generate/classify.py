"""Classify a text: the value is one of the members, and its probability under the model is printed."""

import enum
import math
from dataclasses import dataclass

import constrained
from constrained.extraction.prompt import extraction_prompt


class Priority(enum.Enum):
    LOW = "low"
    HIGH = "high"
    URGENT = "urgent"


@dataclass
class Ticket:
    priority: Priority


generator = constrained.Generator(constrained.load(), Ticket)
for text in (
    "The ticket has the priority urgent. The component is printer.",
    "Reporter: Ana Silva\nPriority: low",
):
    output = generator(extraction_prompt(text, generator.constraint))
    print(output.value.priority, f"probability {math.exp(output.logprob):.2f}")
