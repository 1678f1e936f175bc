"""`PromptQuestions`: what is asked when a prompt is read, and narrows the constraint of its completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.prompt_reader import PromptReader
from constrained.decoding.tree_scores import TreeScores
from constrained.sampling import Randomness
from constrained.sampling.token_tree import TokenTree
from constrained.spec.drafts import LazyDrafter

if TYPE_CHECKING:
    from constrained.automaton import Automaton


class PromptQuestions(Protocol):
    """Questions whose options the model reads in the pass over the prompt.

    Attributes:
        leads: what stands before some options, which `choose` takes from what the model would write there; None: all are known.
        tree: the tokens of the options.
        ends: what has to follow each of them, see `score_tree`.
    """

    @property
    def leads(self) -> TokenTree | None:
        """See above."""

    def choose(self, rows: Sequence[NDArray[Any]]) -> None:
        """Chooses options by the logits [V] behind each lead."""

    @property
    def tree(self) -> TokenTree:
        """See above."""

    @property
    def ends(self) -> Sequence[NDArray[np.intp] | None]:
        """See above."""

    def narrowed(
        self,
        scores: TreeScores,
        temperature: float,
        randomness: Randomness,
        limit: int,
        reader: PromptReader,
    ) -> Automaton:
        """The automaton of the completion, whose language is a part of that of the request's.

        Args:
            scores: of the options.
            temperature: of draws; 0: greedy.
            randomness: for draws.
            limit: token limit of the completion, within which it has to have a text.
            reader: reads behind the prompt what is asked by the answers.
        """

    def drafter(self, prompt: Sequence[int], automaton: Automaton, *, drawn: bool) -> LazyDrafter | None:
        """What drafts the completion of a prompt under that automaton, greedy or `drawn` at a temperature; None: nothing does."""
