"""Decoding: a prompt in, a completion that satisfies the constraint out, with its value.

Must not know: how an automaton is built, which model it is, command lines or servers.
"""

from __future__ import annotations

from constrained.decoding.cut import Cut
from constrained.decoding.generator import Generator
from constrained.decoding.output import Chunk, Output
from constrained.decoding.samples import Samples
from constrained.decoding.speculation import Speculation
from constrained.decoding.stats import Stats

__all__ = ["Chunk", "Cut", "Generator", "Output", "Samples", "Speculation", "Stats"]
