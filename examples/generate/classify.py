"""Classify a text: the completion is one of the values, and its probability under the model is printed."""

import enum
import math

import constrained


class Mood(enum.Enum):
    GOOD = "positive"
    BAD = "negative"


generator = constrained.Generator(constrained.load(), constrained.choice(Mood))
output = generator("The parcel came late and broken. Is that positive or negative?")
print(output.value, f"probability {math.exp(output.logprob):.3g}")
assert output.value in Mood
