"""
Native speculation: tables of counts, sources, the best-first draft tree; and Gumbel sampling of scores.
"""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray
from typing_extensions import CapsuleType


def philox_words(seed: int, sequence: int, purpose: int, position: int, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], level: int, out: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Writes one word of noise of each of the ids; see constrained.spec.noise.
    """

def uniforms(seed: int, sequence: int, purpose: int, position: int, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Writes the numbers between 0 and 1 that the noise of the ids is made from; see constrained.spec.noise.
    """

def word_ends(text: bytes) -> list[int]:
    """The end of each word of a text, in bytes: tokens do not cross it."""

@overload
def gumbel_candidates(scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, seed: int, sequence: int, purpose: int, position: int, count: int) -> list[int]: ...

@overload
def gumbel_candidates(scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, seed: int, sequence: int, purpose: int, position: int, count: int) -> list[int]:
    """
    Indices of the scores that can have the largest keys; see constrained.spec.scores.gumbel_candidates.
    """

@overload
def top_indices(scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], count: int) -> list[int]: ...

@overload
def top_indices(scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], count: int) -> list[int]:
    """
    Indices of the largest scores, best first; see constrained.spec.scores.top_indices.
    """

@overload
def log_sum_exp(scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float) -> float: ...

@overload
def log_sum_exp(scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float) -> float:
    """See constrained.spec.scores.log_sum_exp."""

class Retokenizer:
    """Approximates how a tokenizer writes bytes."""

    def __init__(self, blob: bytes, offsets: Sequence[int]) -> None:
        """Token t is blob[offsets[t]:offsets[t + 1]]."""

    def next(self, before: bytes, after: bytes) -> object:
        """
        (first token of `after`, whether it cannot extend beyond `after`) or None.
        """

class AutomatonView:
    """The queries of an automaton for speculation, memoised by state."""

    def __init__(self, table: CapsuleType, retokenizer: Retokenizer) -> None:
        """From `automaton_table` of an automaton."""

class ConstraintMemory:
    """Tables learned under one constraint."""

    def __init__(self) -> None: ...

class Memory:
    """Tables learned over one vocabulary."""

    def __init__(self) -> None: ...

    def fork(self) -> Memory:
        """
        A memory that begins with these tables, which must not change any more.
        """

    def bytes_of(self, constraint: ConstraintMemory) -> int:
        """Bytes of memory of a constraint's tables, about."""

    def dump_tables(self) -> tuple[list[int], list[int]]:
        """N-grams and slots as numbers."""

    def dump_calibration(self) -> tuple[list[tuple[int, tuple[float, float]]], list[float]]:
        """(kind, (hits, trials)) of the calibration, and the mixer's numbers."""

    def restore_tables(self, ngrams: Sequence[int], slots: Sequence[int], tokens: int) -> None:
        """
        Restores the result of `dump_tables`, for a vocabulary of `tokens` tokens.
        """

    def restore_calibration(self, kinds: Sequence[tuple[int, tuple[float, float]]], weights: Sequence[float]) -> None:
        """Restores the result of `dump_calibration`."""

    def teach_slots(self, retokenizer: Retokenizer, order: int, opening: str, words: Sequence[tuple[str, int]]) -> None:
        """
        Words that follow a JSON text that ends in a slot, and how often; rarest first. See constrained.spec.prior.
        """

    def teach_ngrams(self, retokenizer: Retokenizer, text: str, first: int, words: Sequence[tuple[str, int]]) -> None:
        """
        Words that follow a text whose first word ends at byte `first`, and how often; rarest first. See constrained.spec.prior.
        """

class Tree:
    """
    Draft tokens as a tree. Node 0 is the end of the sequence; a parent comes before its children.
    """

    @property
    def token(self) -> list[int]:
        """Ids; -1 for the root."""

    @property
    def parent(self) -> list[int]:
        """Parent node; -1 for the root."""

    @property
    def depth(self) -> list[int]:
        """Tokens after the root."""

    @property
    def path_probability(self) -> list[float]:
        """Estimated probability that the node is accepted."""

    @property
    def state(self) -> list[int]:
        """State of the automaton after the node."""

    @property
    def sources(self) -> list[int]:
        """Bit i is set if source i proposed the node."""

    @property
    def asked(self) -> list[int]:
        """Nodes whose likeliest tokens the drafter wants to know."""

    def __len__(self) -> int: ...

    def child(self, node: int, token: int) -> int:
        """The child with a token, or -1."""

    def path(self, node: int) -> list[int]:
        """The nodes from the root, which is left out, to the node."""

class Drafter:
    """Proposes the draft tokens of one sequence."""

    def __init__(self, automaton: AutomatonView, memory: Memory, constraint_memory: ConstraintMemory, start: int, prompt: Sequence[int], sources: int, is_json: bool, eos_ids: Sequence[int], chain_drafts: bool = False) -> None:
        """
        `sources` has bit i for source i; `eos_ids` are never drafted; `chain_drafts`: one child per node.
        """

    def draft(self, nodes: int, depth: int = 1073741824, assisted: Sequence[tuple[int, float]] = []) -> Tree:
        """
        The best tree with up to `nodes` nodes; `assisted`: the tokens that an assistant would write next, with their probabilities.
        """

    def set_openings(self, openings: Sequence[Sequence[int]]) -> None:
        """Texts of the constraint up to the values of members, as tokens."""

    def probe(self, nodes: int) -> Tree:
        """
        The openings as branches of a tree with up to `nodes` nodes; see `asked`.
        """

    def observe_slot(self, node: int, top_tokens: Sequence[int], probed: bool) -> None:
        """
        The top tokens of the model behind a node of the last tree, or of the last probe, best first.
        """

    def mark_verified(self, nodes: int) -> None:
        """The model verified the first `nodes` nodes of the tree."""

    def commit(self, token: int) -> None:
        """Appends a token, which must not be EOS, to the text."""

    def prime(self, tokens: Sequence[int]) -> None:
        """
        Learns the member names and their order from a sample text of the constraint.
        """

    def copy(self) -> Drafter:
        """A drafter for another text with the same prefix."""

    @property
    def drafted_total(self) -> int:
        """Number of verified nodes so far."""

    @property
    def accepted_total(self) -> int:
        """Number of accepted nodes so far."""

    @property
    def drafted_by_source(self) -> list[int]:
        """Verified nodes by source."""

    @property
    def accepted_by_source(self) -> list[int]:
        """Accepted nodes by source."""
