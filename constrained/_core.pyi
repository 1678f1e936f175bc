"""Native core: vocabulary tables and the token automaton."""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


class TooLarge(RuntimeError):
    pass

class BadGrammar(ValueError):
    pass

class Vocabulary:
    """Token bytes as tables; shared by all automata over them."""

    def __init__(self, blob: bytes, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], eos_ids: Sequence[int]) -> None:
        """
        Token t is blob[offsets[t]:offsets[t + 1]]; offsets is int64 with one element more than there are tokens.
        """

    @property
    def size(self) -> int:
        """Number of token ids."""

    @property
    def words(self) -> int:
        """int32 words in a row."""

    @property
    def missing_bytes(self) -> list[int]:
        """
        Bytes that no single token spells: no text of any automaton over this vocabulary holds them.
        """

    def add_regexes(self, nodes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], args: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], data: bytes) -> list[int]:
        """Ids of the rows of grammars.flat.FlatRegexes."""

    def copy_row(self, id: int, row: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Writes the row with this id."""

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the shared tables: counts, and bytes."""

class Automaton:
    """Token automaton; see constrained.automaton.TokenAutomaton."""

    def __init__(self, vocabulary: Vocabulary, nodes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], args: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], terminals: Sequence[int], rules: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int, fuel: int) -> None:
        """
        From the arrays of grammars.flat.FlatGrammar, its terminals as ids from Vocabulary.add_regexes.
        """

    @property
    def start(self) -> int:
        """The state before any token; 0 when no text satisfies the grammar."""

    @property
    def left_recursive_rule(self) -> int:
        """Index of a left-recursive rule, or -1."""

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""

    def walk(self, state: int, tokens: Sequence[int]) -> list[int]:
        """States after each token; stops at the first that is not allowed."""

    def fill_mask(self, state: int, row: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.
        """

    def fill_masks(self, states: Sequence[int], rows: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
        """One row for each state, in one call."""

    def fill_mask_within(self, state: int, row: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], budget: int) -> None:
        """
        Writes the tokens after which the text can be completed with at most budget - 1 more; EOS bits iff complete.
        """

    def has_row(self, state: int) -> bool:
        """Whether the state's row was made before."""

    def row_id(self, state: int) -> int:
        """Id of the state's row in the vocabulary's row store."""

    def accepts(self, state: int) -> bool:
        """Whether the text so far is complete."""

    def forced(self, state: int) -> bytes:
        """Longest byte string that every completion starts with."""

    def shortest_completion(self, state: int) -> int:
        """
        Tokens, EOS not counted, in which the text can be completed; 0 iff it is complete.
        """

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the automaton's own tables: counts, and bytes."""
