"""Native core: vocabulary tables and the token automaton."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray


class TooLarge(RuntimeError):
    pass

IMAGE_VERSION: int = 1

class BadImage(ValueError):
    pass

class Rows:
    """The masks of a vocabulary by id; an id never names two masks."""

    @property
    def words(self) -> int:
        """int32 words in a row."""

    @property
    def first(self) -> int:
        """Rows with lower ids were dropped to save memory."""

    @property
    def end(self) -> int:
        """The id of the next row that is new."""

    def copy(self, ids: Sequence[int], rows: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')]) -> bool:
        """
        Writes the rows with these ids; False if one of them was dropped: its state has a row with a new id.
        """

class Vocabulary:
    """Token bytes as tables; shared by all automata over them."""

    def __init__(self, blob: bytes, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], eos_ids: Sequence[int], *, memory_limit: int = 268435456, lanes: int = 1, image: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        Token t is blob[offsets[t]:offsets[t + 1]]; offsets is int64 with one element more than there are tokens. The tables are built, or read from the image of another vocabulary of the same tokens.
        """

    @property
    def image(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]:
        """The tables as one block of memory, which can be kept in a file."""

    def open_lane(self) -> Lane:
        """A new lane: automata of different lanes never wait for each other."""

    @property
    def lanes(self) -> int:
        """How many lanes to have at a time."""

    @property
    def rows(self) -> Rows:
        """The masks of all automata."""

    @staticmethod
    def fill_masks(automata: Sequence[BaseAutomaton], states: Sequence[int], rows: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
        """One row for each state of an automaton, in one call."""

    @staticmethod
    def row_ids(automata: Sequence[BaseAutomaton], states: Sequence[int]) -> list[int]:
        """Id of the row of each state of an automaton."""

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

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of what is shared now: counts, and bytes."""

class Lane:
    """
    What automata learn about languages, shared by those that may wait for each other.
    """

    @property
    def full(self) -> bool:
        """Whether new automata had better go to a new lane."""

class BaseAutomaton:
    """
    Token automaton over numbered states: the interface of Automaton and LexedAutomaton.
    """

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""

    def fill_mask(self, state: int, row: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.
        """

    @property
    def start(self) -> int:
        """The state before any token; 0 when no text satisfies the grammar."""

    @property
    def left_recursive_rule(self) -> int:
        """Index of a left-recursive rule, or -1."""

    def walk(self, state: int, tokens: Sequence[int]) -> list[int]:
        """States after each token; stops at the first that is not allowed."""

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

    def row_ids(self, states: Sequence[int]) -> list[int]:
        """Id of the row of each state."""

    def accepts(self, state: int) -> bool:
        """Whether the text so far is complete."""

    def forced(self, state: int) -> bytes:
        """
        Longest byte string that every completion starts with, cut at 16,384 bytes.
        """

    @property
    def draft_table(self) -> Any:
        """
        Its transitions as C functions, in a capsule: see spec/_core/table.hpp.
        """

    def shortest_completion(self, state: int) -> int:
        """
        Tokens, EOS not counted, in which the text can be completed; 0 iff it is complete.
        """

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the automaton's own tables: counts, and bytes."""

class Automaton(BaseAutomaton):
    """Token automaton; see constrained.automaton.TokenAutomaton."""

    def __init__(self, lane: Lane, rules: dict[str, Any], start: str, known: dict[Any, int], fuel: int, memory_limit: int, later: Any = None) -> None:
        """
        From the rules of a grammars.ir.Grammar. `known` maps expressions that this lane has read before to their
        numbers; those that are read now are added. `later`: a grammars.transform.lazy_rules.Deferred that makes the bodies of
        other rules when a text first comes to them.
        """

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""

    def fill_mask(self, state: int, row: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.
        """

class LexedAutomaton(BaseAutomaton):
    """
    Token automaton of a grammar behind a lexer; see constrained.automaton.LexedAutomaton.
    """

    def __init__(self, lane: Lane, rules: dict[str, Any], start: str, known: dict[Any, int], tokens: list[Any], ranks: Sequence[int], hosts: Sequence[Sequence[int]], everywhere: bool, fuel: int) -> None:
        """
        As Automaton, with the regular expressions of the tokens of grammars.lexer.Lexed, their ranks and hosts.
        """

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""

    def fill_mask(self, state: int, row: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """
        Writes the allowed tokens: bit t % 32 of word t // 32; EOS bits iff complete.
        """

    @property
    def undecided(self) -> bool:
        """Whether some search for a completion was given up."""

    @property
    def colliding(self) -> list[tuple[int, int]]:
        """
        Without any text: pairs of tokens of which the second never stands right after the first.
        """
