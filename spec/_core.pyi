"""
Native drafting: tables of counts, sources, the best-first tree; and what a draw reads of a row of scores.
"""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray
from typing_extensions import CapsuleType


def words(seed: int, sequence: int, purpose: int, position: int, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Words of noise; see spec.noise."""

@overload
def leading(scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, seed: int, sequence: int, purpose: int, position: int, count: int) -> list[int]: ...

@overload
def leading(scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, seed: int, sequence: int, purpose: int, position: int, count: int) -> list[int]:
    """Indices that can be among the largest keys; see spec.scores.leading."""

@overload
def largest(scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], count: int) -> list[int]: ...

@overload
def largest(scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], count: int) -> list[int]:
    """Indices of the largest scores, best first; see spec.scores.largest."""

@overload
def log_sum_exp(scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float) -> float: ...

@overload
def log_sum_exp(scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float) -> float:
    """See spec.scores.log_sum_exp."""

class Pieces:
    """How a vocabulary writes bytes; see spec.pieces."""

    def __init__(self, blob: bytes, offsets: Sequence[int]) -> None:
        """Token t is blob[offsets[t]:offsets[t + 1]]."""

    def next(self, before: bytes, after: bytes) -> object:
        """(token, whether it is certain not to run on) or None."""

class Grammar:
    """An automaton, as drafts ask it."""

    def __init__(self, table: CapsuleType, pieces: Pieces) -> None:
        """From the table of an automaton."""

class Scope:
    """What was learned under one constraint."""

    def __init__(self) -> None: ...

class Memory:
    """What was learned over one vocabulary."""

    def __init__(self) -> None: ...

    def dump(self) -> tuple[list[int], list[int], list[tuple[int, tuple[float, float]]]]:
        """
        Everything that does not belong to one constraint: two tables as numbers, and (kind, (hits, tries)).
        """

    def restore(self, ngrams: Sequence[int], slots: Sequence[int], kinds: Sequence[tuple[int, tuple[float, float]]], tokens: int) -> None:
        """What `dump` gave, for a vocabulary of so many tokens."""

class Tree:
    """A draft tree; see spec.tree.DraftTree."""

    @property
    def token(self) -> list[int]:
        """Ids; -1 for the root."""

    @property
    def parent(self) -> list[int]:
        """Node before it; -1 for the root."""

    @property
    def first_child(self) -> list[int]:
        """-1 where there is none."""

    @property
    def next_sibling(self) -> list[int]:
        """-1 where there is none."""

    @property
    def depth(self) -> list[int]:
        """Tokens after the root."""

    @property
    def path_probability(self) -> list[float]:
        """Probability of the way to the node."""

    @property
    def state(self) -> list[int]:
        """Of the automaton, after the node."""

    @property
    def sources(self) -> list[int]:
        """Bit i is set if source i guessed the node."""

    def __len__(self) -> int: ...

    def child(self, node: int, token: int) -> int:
        """The child with a token, or -1."""

    def path(self, node: int) -> list[int]:
        """The nodes from the root to a node, the root left out."""

class Drafter:
    """Drafts for one text; see spec.drafter.Drafter."""

    def __init__(self, grammar: Grammar, memory: Memory, scope: Scope, start: int, prompt: Sequence[int], sources: int, is_json: bool, ends: Sequence[int], chain_drafts: bool = False) -> None:
        """
        `sources` has bit i for source i; `ends` are ids that are never guessed; `chains`: drafts are no trees.
        """

    def draft(self, nodes: int, depth: int = 1073741824) -> Tree:
        """The best tree of so many nodes."""

    def mark_verified(self, nodes: int) -> None:
        """So many nodes of the tree were read by the model."""

    def commit(self, token: int) -> None:
        """The text went on with a token, which is no end of it."""

    def prime(self, tokens: Sequence[int]) -> None:
        """Learns the names of a made-up text of the constraint, and their order."""

    def observe_top_tokens(self, top_tokens: Sequence[int]) -> None:
        """What the model finds likely after the last token, best first."""

    def copy(self) -> Drafter:
        """Drafts for a text that begins as this one."""

    @property
    def drafted_total(self) -> int:
        """Nodes that were read so far."""

    @property
    def accepted_total(self) -> int:
        """Of these, how many became tokens of the text."""

    @property
    def drafted_by_source(self) -> list[int]:
        """Nodes that were read, by source."""

    @property
    def accepted_by_source(self) -> list[int]:
        """Of these, how many became tokens of the text, by source."""
