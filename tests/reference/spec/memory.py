"""What the reference drafter remembers beyond one sequence; compare `constrained.spec.memory`."""

from __future__ import annotations

from tests.reference.spec.calibration import AcceptanceCalibration
from tests.reference.spec.layout import USUAL, Layout
from tests.reference.spec.mixer import Mixer
from tests.reference.spec.sources.counts import ContextCounts
from tests.reference.spec.sources.names import DeclaredNames
from tests.reference.spec.sources.spans import ValueShapes
from tests.reference.spec.sources.suffix import OutputHistory
from tests.reference.spec.sources.token_recycling import RecycledTokens


class ReferenceConstraintMemory:
    """What was learned under one constraint.

    Attributes:
        ngrams: token n-grams.
        slots: n-grams by slot of a JSON value.
        output_history: completions.
        layout: of the last text.
        openings: texts up to the values of members, as tokens.
        names: that the schema declares.
    """

    def __init__(self) -> None:
        self.ngrams = ContextCounts(1 << 17)
        self.slots = ContextCounts(1 << 17)
        self.output_history = OutputHistory()
        self.layout: Layout = USUAL
        self.openings: list[list[int]] = []
        self.names: DeclaredNames = {}


class ReferenceMemory:
    """What was learned over one vocabulary.

    Attributes:
        calibration: how often proposals of each kind were accepted.
        mixer: makes one probability of what all sources say.
        ngrams: token n-grams of all constraints.
        slots: n-grams by slot of a JSON value, of all constraints.
        recycled_tokens: tokens that the model ranked high, by the token before.
        value_shapes: how values began, by name.
        constraint: what was learned under the constraint of the test.
    """

    def __init__(self) -> None:
        self.calibration = AcceptanceCalibration()
        self.mixer = Mixer()
        self.ngrams = ContextCounts()
        self.slots = ContextCounts()
        self.recycled_tokens: RecycledTokens = {}
        self.value_shapes: ValueShapes = {}
        self.constraint = ReferenceConstraintMemory()
